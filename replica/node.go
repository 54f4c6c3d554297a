package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/raftlog"
	"github.com/loamdb/loam/replica/internal/logsize"
	"github.com/loamdb/loam/replica/internal/messages"
	"github.com/loamdb/loam/replica/internal/records"
	"github.com/loamdb/loam/replica/internal/waits"
)

// Node is a member of a cluster, with a copy of the database. Open makes one. All methods are safe
// for concurrent use.
type Node struct {
	dir    string
	cfg    Config
	closed atomic.Bool
	run    atomic.Pointer[session]
	end    context.CancelFunc // ends the goroutines of the node
	ctx    context.Context

	mu     sync.Mutex // serializes Close, Rejoin and what halts
	events sync.Mutex // one event at a time
}

// Event is something that happened to a node.
type Event struct {
	Kind   EventKind
	Leader string // of LeaderChanged: the leader's ID; "": none
	Index  uint64 // of Restored: the snapshot's index
	Err    error  // of Halted: the cause; of Refused: why
}

// EventKind is the kind of an Event.
type EventKind int

const (
	// LeaderChanged: the node knows another leader, or none.
	LeaderChanged EventKind = iota + 1
	// Restored: a snapshot of the leader took the place of the state.
	Restored
	// Halted: an error of the disk ended the node's part in the cluster.
	Halted
	// Rejoined: the node takes part again.
	Rejoined
	// Refused: a node of Config.Join does not add this one, or a member knows another directory of
	// it. It is asked again.
	Refused
)

// Status is what a node knows about itself and the cluster.
type Status struct {
	ID, Addr string
	// State is "Leader", "Follower", "Candidate" or "Shutdown".
	State        string
	Leader       string // the ID of the leader; "": unknown
	LeaderAddr   string
	Term         uint64
	Commit       uint64 // index of the last entry that is known to be committed
	Applied      uint64 // index of the last entry in the database
	Members      []Member
	LastSnapshot uint64 // index of the last snapshot, 0: none
	Halted       error  // what halted the node; nil: nothing
}

// Member is a node of the cluster.
type Member struct {
	ID, Addr string
	Voter    bool
}

// session is a node while it takes part: from Open or Rejoin until it halts or is closed.
type session struct {
	node      *Node
	cfg       *Config
	ctx       context.Context // its cause is ErrHalted or ErrClosed when the session has ended
	cancel    context.CancelCauseFunc
	log       *guard
	disk      *disk
	fsm       *fsm
	net       *layer
	peers     *peers
	transport *transport
	raft      *raft.Raft
	confirmed waits.Rounds  // of confirm, on the leader
	asked     waits.Rounds  // of calls to the leader
	missing   atomic.Uint64 // an index that the log does not have yet, see askAgain; 0: none
	group     group         // of changes, on the leader
	halting   sync.Once
	halted    atomic.Pointer[error]
	begun     chan struct{} // closed when raft is set
	stopped   chan struct{} // closed when Raft has ended after halt, or start has failed

	marking sync.Mutex
	marked  uint64 // the term of which an own entry is applied; guarded by marking

	freshMu sync.Mutex
	freshAt time.Time // the state has what had returned then; guarded by freshMu
}

// Open opens the node in dir, and creates it where there is none. It returns when the node takes
// part; a leader may have to be elected first, for which calls wait.
//
// It fails with lsm.ErrInvalidArgument for the configuration, with ErrForeign for the directory of
// another node, with lsm.ErrNewerFormat, and as lsm.Open and net.Listen do.
func Open(dir string, c Config) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	n := &Node{dir: dir, cfg: c.withDefaults()}
	n.ctx, n.end = context.WithCancel(context.Background())
	s, err := n.start()
	if err != nil {
		n.end()
		return nil, err
	}
	n.run.Store(s)
	if len(n.cfg.Join) > 0 && len(s.members()) == 0 {
		go n.enter()
	}
	return n, nil
}

// start opens everything and begins to take part.
func (n *Node) start() (_ *session, err error) {
	s := &session{node: n, cfg: &n.cfg, begun: make(chan struct{}),
		stopped: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(n.ctx)
	var undo []func()
	defer func() {
		if err != nil {
			s.cancel(err)
			close(s.stopped)
			for i := len(undo) - 1; i >= 0; i-- {
				undo[i]()
			}
		}
	}()
	logs, err := raftlog.Open(filepath.Join(n.dir, "raft"), n.cfg.raftLog())
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() { _ = logs.Close() }) // the first error counts
	s.log = &guard{Store: logs, node: s, size: logsize.New(n.cfg.LogBytes)}
	last, err := logs.LastIndex()
	if err != nil {
		return nil, err
	}
	s.log.stored.Set(last)
	if s.disk, err = openDisk(&n.cfg, n.dir, logs); err != nil {
		return nil, err
	}
	undo = append(undo, s.disk.close)
	d, err := s.disk.openState()
	if err != nil {
		return nil, err
	}
	if s.fsm, err = newFSM(s, d); err != nil {
		return nil, err
	}
	if s.net, err = listen(&n.cfg, s.serve); err != nil {
		return nil, err
	}
	s.net.self, s.net.meet = s.self(), s.meet
	undo = append(undo, func() { _ = s.net.Close() }) // the first error counts
	s.peers = newPeers(s.net)
	s.transport = newTransport(&n.cfg, s.net)
	s.transport.rpcs = messages.Late(s.transport.NetworkTransport.Consumer(), s.ctx.Done(),
		messages.Node{Term: s.settledTerm, Has: s.log.has})
	undo = append(undo, func() { _ = s.transport.Close() }) // never fails
	if err := s.begin(); err != nil {
		return nil, err
	}
	close(s.begun)
	go s.net.run()
	go s.watch()
	go s.acquaint()
	go s.log.size.Keep(s.ctx, s.raft, s.cfg.TrailingEntries, s.size, func(err error) {
		s.cfg.log("shortening the log failed", "error", err)
	})
	return s, nil
}

// begin begins Raft, on a goroutine of its own, as guard ends the goroutine where the log fails.
func (s *session) begin() error {
	over := make(chan struct{})
	var r *raft.Raft
	var err error
	go func() {
		defer close(over)
		if err = s.bootstrap(); err == nil {
			r, err = raft.NewRaft(s.cfg.raft(), s.fsm, s.log, s.log, s.disk, s.transport)
		}
	}()
	<-over
	if halted := s.halted.Load(); halted != nil && r == nil && err == nil {
		err = *halted
	}
	s.raft = r
	return err
}

// bootstrap makes a new node one of Config.Peers.
func (s *session) bootstrap() error {
	if len(s.cfg.Peers) == 0 {
		return nil
	}
	var all raft.Configuration
	for id, addr := range s.cfg.Peers {
		all.Servers = append(all.Servers, raft.Server{ID: raft.ServerID(id),
			Address: raft.ServerAddress(addr)})
	}
	sortServers(all.Servers)
	err := raft.BootstrapCluster(s.cfg.raft(), s.log, s.log, s.disk, s.transport, all)
	if errors.Is(err, raft.ErrCantBootstrap) {
		return nil // the directory has a node
	}
	return err
}

// watch tells of leaders, and writes the first entry of a term that this node leads.
func (s *session) watch() {
	seen := make(chan raft.Observation, 16)
	o := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	s.raft.RegisterObserver(o)
	defer s.raft.DeregisterObserver(o)
	for {
		select {
		case x := <-seen:
			id := x.Data.(raft.LeaderObservation).LeaderID
			s.event(Event{Kind: LeaderChanged, Leader: string(id)})
		case leads := <-s.raft.LeaderCh():
			if leads {
				go func() {
					// an error means another term, or a later try by a read
					_ = s.mark(s.ctx, s.raft.CurrentTerm())
				}()
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// size is that of the database on disk, 0 if it cannot be told.
func (s *session) size() (n uint64) {
	d, err := s.fsm.acquire()
	if err != nil {
		return 0
	}
	defer d.release()
	if sizes, err := d.db.ApproximateSizes([]lsm.Range{{}}); err == nil {
		n = sizes[0]
	}
	return n
}

// settledTerm returns the term when Raft has dealt with the messages that it has taken.
func (s *session) settledTerm() uint64 {
	select {
	case <-s.begun:
	case <-s.ctx.Done():
		return math.MaxUint64
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.ElectionTimeout)
	defer cancel()
	// Raft says between two messages whether it leads; the answer is of no interest
	_ = s.await(ctx, func() error { return s.raft.VerifyLeader().Error() })
	return s.raft.CurrentTerm()
}

func (s *session) id() raft.ServerID { return raft.ServerID(s.cfg.ID) }

// leader returns the address of the leader, "" if it is unknown; here says that it is this node.
func (s *session) leader() (addr string, here bool) {
	if s.raft.State() == raft.Leader {
		return s.cfg.Addr, true
	}
	a, id := s.raft.LeaderWithID()
	if id == s.id() {
		return "", false // not any more
	}
	return string(a), false
}

// halt ends the node's part in the cluster. abrupt: no message may leave the node any more,
// as it might depend on entries that are not stored.
func (s *session) halt(cause error, abrupt bool) {
	s.halting.Do(func() {
		err := fmt.Errorf("%w: %w", ErrHalted, cause)
		s.halted.Store(&err)
		s.cfg.log("the node halts", "error", cause)
		if abrupt {
			_ = s.net.Close() // the cause counts
		}
		go s.stop(err, abrupt)
	})
}

// stop ends Raft after halt, and has the node tried again later.
func (s *session) stop(err error, abrupt bool) {
	select {
	case <-s.begun:
	case <-s.stopped:
		return // start failed
	}
	if !abrupt && s.raft.State() == raft.Leader {
		ctx, cancel := context.WithTimeout(s.ctx, 2*s.cfg.ElectionTimeout)
		// where it fails the others elect a leader by themselves
		_ = s.await(ctx, func() error { return s.raft.LeadershipTransfer().Error() })
		cancel()
	}
	s.cancel(err)
	_ = s.net.Close()             // the cause counts
	_ = s.raft.Shutdown().Error() // always nil
	close(s.stopped)
	s.event(Event{Kind: Halted, Err: err})
	s.node.rejoinLater(s)
}

func (n *Node) rejoinLater(halted *session) {
	for n.cfg.RejoinInterval > 0 {
		select {
		case <-time.After(n.cfg.RejoinInterval):
		case <-n.ctx.Done():
			return
		}
		if n.run.Load() != halted {
			return // somebody called Rejoin
		}
		if err := n.Rejoin(); err != nil {
			n.cfg.log("the node stays halted", "error", err)
			continue
		}
		return
	}
}

// Rejoin makes a halted node take part again: it closes its directory and opens it again. Views and
// iterators of before fail with ErrClosed. On a node that takes part it does nothing. It fails as
// Open does, with the node halted as before.
func (n *Node) Rejoin() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed.Load() {
		return fmt.Errorf("replica: %w", ErrClosed)
	}
	old := n.run.Load()
	if old.halted.Load() == nil {
		return nil
	}
	<-old.stopped
	if err := old.close(); err != nil {
		n.cfg.log("closing the halted node failed", "error", err)
	}
	s, err := n.start()
	if err != nil {
		return err
	}
	n.run.Store(s)
	s.event(Event{Kind: Rejoined})
	return nil
}

// close closes the directory. Raft has ended.
func (s *session) close() error {
	s.fsm.close()
	s.disk.close()
	err := s.log.Close()
	if errors.Is(err, raftlog.ErrClosed) {
		return nil // an earlier Rejoin closed it
	}
	return err
}

// Close ends the node's part and closes its directory. Calls fail with ErrClosed then; those that
// run end, changes with ErrUnknown. The cluster goes on if a majority is left: a leader hands over
// first with TransferLeader.
func (n *Node) Close() error {
	if n.closed.Swap(true) {
		return fmt.Errorf("replica: %w", ErrClosed)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.run.Load()
	s.cancel(fmt.Errorf("replica: %w", ErrClosed))
	n.end()
	err := s.net.Close()
	if s.halted.Load() != nil {
		<-s.stopped
	}
	_ = s.raft.Shutdown().Error() // always nil
	return errors.Join(err, s.close())
}

// running returns the session, unless the node is closed or halted.
func (n *Node) running() (*session, error) {
	if n.closed.Load() {
		return nil, fmt.Errorf("replica: %w", ErrClosed)
	}
	s := n.run.Load()
	if err := s.halted.Load(); err != nil {
		return nil, *err
	}
	return s, nil
}

// bounded gives a context a deadline if it has none.
func (n *Node) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, n.cfg.Timeout)
}

func (s *session) event(e Event) {
	if s.cfg.Events == nil {
		return
	}
	s.node.events.Lock()
	defer s.node.events.Unlock()
	records.Call(s.cfg.Logger, "Events", func() { s.cfg.Events(e) })
}

// Status returns what the node knows now.
func (n *Node) Status() Status {
	s := n.run.Load()
	addr, id := s.raft.LeaderWithID()
	s.fsm.mu.Lock()
	applied := s.fsm.applied
	s.fsm.mu.Unlock()
	t := Status{ID: n.cfg.ID, Addr: n.cfg.Addr, State: s.raft.State().String(), Leader: string(id),
		LeaderAddr: string(addr), Term: s.raft.CurrentTerm(), Commit: s.raft.CommitIndex(),
		Applied: applied, Members: s.members()}
	if all, _ := s.disk.List(); len(all) > 0 { // it cannot fail
		t.LastSnapshot = all[0].Index
	}
	if err := s.halted.Load(); err != nil {
		t.Halted = *err
	}
	return t
}

// Checkpoint makes dir a database of its own, as lsm.DB.Checkpoint does, with the state of this
// node: a backup.
func (n *Node) Checkpoint(ctx context.Context, dir string) error {
	return n.read(ctx, func(d *database) error { return d.db.Checkpoint(ctx, dir) })
}
