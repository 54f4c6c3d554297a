package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
)

// Consistency says which states a View may show: Linearizable, or Local.
type Consistency struct {
	local  bool
	maxLag time.Duration
}

// Linearizable shows every change that returned before the view began. It needs a leader.
var Linearizable = Consistency{}

// Local shows the state of this node, which has everything that had returned maxLag before the view
// began, without a message to another node where that is known. It fails with ErrTooOld where the
// state may be older. A maxLag of 0 allows any age, so that it needs no other node.
func Local(maxLag time.Duration) Consistency { return Consistency{true, maxLag} }

// View is a state of the node, the same for all its reads.
type View struct {
	kv.Reader
	// Index is that of the last entry of the Raft log in the state.
	Index uint64
	// Age bounds how old the state is: what returned so long before the view began is in it. 0 for
	// a linearizable view, negative if nothing is known.
	Age time.Duration

	snap *snapshot
	kept bool
}

// Keep returns the state as a snapshot, which stays when View has returned. The caller closes it.
// Further calls return the same one.
func (v *View) Keep() kv.Snapshot {
	v.kept = true
	return v.snap
}

// end ends the snapshot of the view unless Keep returned it.
func (v *View) end() {
	if !v.kept {
		v.snap.end()
	}
}

// View calls f with a state to read, which is linearizable unless how says otherwise, and returns
// what f returns. The state is valid until then. It fails with ErrUnavailable where no leader
// answers in time.
func (n *Node) View(ctx context.Context, f func(*View) error, how ...Consistency) error {
	v, err := n.view(ctx, append(how, Linearizable)[0])
	if err != nil {
		return err
	}
	defer v.end()
	return f(v)
}

// view returns a View, which the caller ends.
func (n *Node) view(ctx context.Context, how Consistency) (*View, error) {
	began := time.Now()
	s, err := n.ready(ctx, how)
	if err != nil {
		return nil, err
	}
	// It is the age of the state that is there now: another read may find a later one fresh.
	age := s.age(began)
	snap, err := s.snapshot()
	if err != nil {
		return nil, err
	}
	index, err := appliedIndex(snap.at.In(snap.of.system))
	if err != nil {
		snap.end()
		return nil, err
	}
	v := &View{Reader: snap, Index: index, snap: snap}
	if how.local {
		v.Age = age
	}
	return v, nil
}

// ready returns when the state of this node suffices for how. It is the one place that knows the
// rule of reads.
//
// A linearizable read asks the leader for its index (session.confirm) and waits until this node has
// applied as much. Raft.AppliedIndex does not serve: it is the index handed to the state machine,
// which may not have applied it yet.
func (n *Node) ready(ctx context.Context, how Consistency) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if how.local {
		return n.readyLocal(ctx, how.maxLag)
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	var pause pause
	for {
		s, err := n.running()
		if err != nil {
			return nil, err
		}
		began := time.Now()
		index, err := s.readIndex(ctx)
		if err == nil {
			err = s.fsm.wait(ctx, index)
		}
		switch {
		case err == nil:
			s.fresh(began)
			return s, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, ctx.Err()))
		case !errors.Is(err, errNotLeader) && !errors.Is(err, ErrUnavailable):
			return nil, err
		}
		if pause.wait(ctx) != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, ctx.Err()))
		}
	}
}

func (n *Node) readyLocal(ctx context.Context, maxLag time.Duration) (*session, error) {
	s := n.run.Load()
	if s == nil || n.closed.Load() {
		return nil, fmt.Errorf("replica: %w", ErrClosed)
	}
	if age := s.age(time.Now()); maxLag == 0 || age >= 0 && age <= maxLag {
		return s, nil
	}
	s, err := n.ready(ctx, Linearizable)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooOld, err)
	}
	return s, nil
}

// fresh notes that the state has everything that had returned at a moment.
func (s *session) fresh(at time.Time) {
	s.freshMu.Lock()
	defer s.freshMu.Unlock()
	if at.After(s.freshAt) {
		s.freshAt = at
	}
}

// age bounds the age of the state at a moment; negative: unknown.
func (s *session) age(now time.Time) time.Duration {
	s.freshMu.Lock()
	defer s.freshMu.Unlock()
	if s.freshAt.IsZero() {
		return -1
	}
	return max(now.Sub(s.freshAt), 0)
}

// snapshot is a kv.Snapshot that holds its database. It is counted as one reference, and each of
// its iterators as another.
type snapshot struct {
	kv.Reader
	at   *lsm.Snapshot
	of   *database
	once sync.Once
}

var _ kv.Snapshot = (*snapshot)(nil)

func (s *session) snapshot() (*snapshot, error) {
	d, err := s.fsm.acquire()
	if err != nil {
		return nil, err
	}
	at := d.db.Snapshot()
	return &snapshot{Reader: kv.ReaderOf(at), at: at, of: d}, nil
}

func (s *snapshot) Iter(ctx context.Context, o *kv.IterOptions) (kv.Iterator, error) {
	return iterOf(ctx, s.Reader, s.of, o)
}

func (s *snapshot) Close() error {
	s.end()
	return nil
}

func (s *snapshot) end() {
	s.once.Do(func() {
		_ = s.at.Close() // always nil
		s.of.release()
	})
}

// iterator holds the database that it walks over.
type iterator struct {
	kv.Iterator
	of   *database
	once sync.Once
}

// iterOf opens an iterator of r, which reads from d.
// REQUIRES: the caller has a reference to d, or r is closed.
func iterOf(ctx context.Context, r kv.Reader, d *database, o *kv.IterOptions) (kv.Iterator, error) {
	it, err := r.Iter(ctx, o)
	if err != nil {
		return nil, err
	}
	d.refs.Add(1)
	return &iterator{Iterator: it, of: d}, nil
}

func (i *iterator) Close() error {
	err := i.Iterator.Close()
	i.once.Do(i.of.release)
	return err
}

// The reads of a Node are linearizable.
var _ kv.Store = (*Node)(nil)

// read calls f with the database when its state suffices.
func (n *Node) read(ctx context.Context, f func(*database) error) error {
	s, err := n.ready(ctx, Linearizable)
	if err != nil {
		return err
	}
	d, err := s.fsm.acquire()
	if err != nil {
		return err
	}
	defer d.release()
	return f(d)
}

// Get returns the value of a key, linearizably.
func (n *Node) Get(ctx context.Context, key []byte) (v []byte, err error) {
	err = n.read(ctx, func(d *database) error {
		v, err = kv.ReaderOf(d.db).Get(ctx, key)
		return err
	})
	return v, err
}

// Has reports whether a key has a value, linearizably.
func (n *Node) Has(ctx context.Context, key []byte) (has bool, err error) {
	err = n.read(ctx, func(d *database) error {
		has, err = kv.ReaderOf(d.db).Has(ctx, key)
		return err
	})
	return has, err
}

// MultiGet looks up many keys in one state, linearizably.
func (n *Node) MultiGet(ctx context.Context, keys [][]byte) (values [][]byte, err error) {
	err = n.read(ctx, func(d *database) error {
		values, err = kv.ReaderOf(d.db).MultiGet(ctx, keys)
		return err
	})
	return values, err
}

// Iter opens an iterator over a linearizable state.
func (n *Node) Iter(ctx context.Context, o *kv.IterOptions) (it kv.Iterator, err error) {
	err = n.read(ctx, func(d *database) error {
		it, err = iterOf(ctx, kv.ReaderOf(d.db), d, o)
		return err
	})
	return it, err
}

// Snapshot fixes a linearizable state.
func (n *Node) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := n.ready(ctx, Linearizable)
	if err != nil {
		return nil, err
	}
	snap, err := s.snapshot()
	if err != nil {
		return nil, err
	}
	return snap, nil
}

// Database calls f with the database of this node, whatever its state, for metrics and the like: f
// must not write. It fails with ErrClosed, or as f does.
func (n *Node) Database(f func(db *lsm.DB) error) error {
	d, err := n.run.Load().fsm.acquire()
	if err != nil {
		return err
	}
	defer d.release()
	return f(d.db)
}
