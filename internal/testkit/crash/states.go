package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// state is the state after a power cut, and the writer's record at that moment.
type state struct {
	fs     *vfs.Mem
	lo, hi int // batches that must be there, that may be
	drops  drops
	copies []copied

	backups  []backedUp
	restores []restored
	extra    any // see progress

	label string
	depth int    // how many recoveries were cut before
	pick  uint64 // draws what else is tried
}

// explorer takes crash states while a workload runs and checks each.
type explorer struct {
	ledger *testkit.Ledger
	trees  *trees
	seed   int64
	queue  *queue
	points atomic.Int64
	count  atomic.Int64
	nested atomic.Int64
	also   func(s state) error // another check of each state, beside recovery
	// upgrades says that some states are upgraded instead of opened.
	upgrades bool
	every    int64 // of the points of a crash, only each so-manieth is taken
	keep     int64 // the retention of the workload

	mu  sync.Mutex
	err error
}

// queue holds the states that wait for their check. Its length has no bound:
// calls that a database makes while it closes must not wait for checks, which
// close databases themselves and then wait for everything that is closing.
type queue struct {
	mu      sync.Mutex
	cond    sync.Cond
	states  []state
	working int  // checks under way, which may add more
	closed  bool // the workload is over
}

func newQueue() *queue {
	q := &queue{}
	q.cond.L = &q.mu
	return q
}

func (q *queue) put(s state) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.states = append(q.states, s)
	q.cond.Broadcast()
}

// throttle waits until few states are waiting.
func (q *queue) throttle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.states) > 200 {
		q.cond.Wait()
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}

// each runs f on the states, newest first, until the queue is closed, empty,
// and nobody is at work.
func (q *queue) each(f func(state)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.states) == 0 {
			if q.closed && q.working == 0 {
				return
			}
			q.cond.Wait()
		}
		s := q.states[len(q.states)-1]
		q.states = q.states[:len(q.states)-1]
		q.working++
		q.mu.Unlock()
		f(s)
		q.mu.Lock()
		q.working--
		q.cond.Broadcast()
	}
}

func (x *explorer) fail(err error) {
	if err == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *explorer) failed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// changes reports whether a call can change what a crash leaves.
func changes(k vfs.OpKind) bool {
	switch k {
	case vfs.OpCreate, vfs.OpCreateLog, vfs.OpWrite, vfs.OpAppend, vfs.OpSync, vfs.OpSyncDir,
		vfs.OpRename, vfs.OpLink, vfs.OpReuseLog, vfs.OpRemove, vfs.OpMkdir, vfs.OpLock,
		vfs.OpClose:
		return true
	}
	return false
}

// unsynced counts the directory operations that a crash may drop.
func unsynced(m *vfs.Mem) int {
	n := 0
	m.CrashClone(vfs.CrashOptions{KeepEntry: func(vfs.DirOp) bool { n++; return false }})
	return n
}

// tornSizes are the byte classes at which an append of n bytes is cut: within
// the checksum, the length and the type of a record's header, behind it, in
// the middle, and one byte short.
func tornSizes(n int) []int { return []int{0, 1, 5, 6, 7, 8, n / 2, n - 1} }

// variants are the states that a crash now could leave.
func variants(m *vfs.Mem, rng *rand.Rand) map[string]*vfs.Mem {
	out := map[string]*vfs.Mem{
		"nothing unsynced kept": m.CrashClone(vfs.DropAll()),
		"all kept":              m.CrashClone(vfs.KeepAll()),
		"random blocks":         m.CrashClone(vfs.RandomBlocks(rng)),
	}
	n := unsynced(m)
	for i := range n {
		seen := 0
		only := func(vfs.DirOp) bool { seen++; return seen == i+1 }
		out[fmt.Sprintf("entry %d of %d alone", i+1, n)] =
			m.CrashClone(vfs.CrashOptions{KeepEntry: only})
		if n > 1 {
			seen = 0
			all := vfs.KeepAll()
			all.KeepEntry = func(vfs.DirOp) bool { seen++; return seen != i+1 }
			out[fmt.Sprintf("all but entry %d of %d", i+1, n)] = m.CrashClone(all)
		}
	}
	for _, class := range rng.Perm(8)[:2] {
		torn, did := vfs.KeepAll(), false
		torn.Torn = func(_ string, n int) int {
			did = true
			return max(0, min(n, tornSizes(n)[class]))
		}
		if clone := m.CrashClone(torn); did {
			out[fmt.Sprintf("torn, class %d", class)] = clone
		}
	}
	return out
}

// point takes the states of a crash before op and hands them to take.
func (x *explorer) point(m *vfs.Mem, p *progress, op vfs.Op, depth int, path string,
	take func(state)) {
	n := x.points.Add(1)
	if (n+x.seed)%x.every != 0 {
		return
	}
	rng := rand.New(rand.NewPCG(uint64(x.seed), uint64(n)))
	lo, d := int(p.synced.Load()), drops{ended: int(p.dropsEnded.Load())}
	before := p.copies.all()
	var extra any
	if p.extra != nil {
		extra = p.extra()
	}
	backupsBefore, restoresBefore := p.backups.all()
	all := variants(m, rng)
	hi := int(p.begun.Load())
	d.begun = int(p.dropsBegun.Load())
	copies := p.copiesAt(before)
	backups, restores := p.backupsAt(backupsBefore, restoresBefore)
	for name, fs := range all {
		take(state{fs: fs, lo: lo, hi: hi, drops: d, copies: copies, backups: backups,
			restores: restores, extra: extra, depth: depth, pick: rng.Uint64(),
			label: fmt.Sprintf("%s, crash %d before %v, %s", path, n, op, name)})
	}
}

// check recovers a state and wants the promise kept, twice, and sometimes that
// the recovered database can be written to.
func (x *explorer) check(s state) error {
	n := x.count.Add(1)
	fs := vfs.FS(s.fs)
	// the hundredth, so that there is one
	if s.depth < 2 && (s.pick%(120<<(4*s.depth)) == 0 || n == 100) {
		fs = x.cutRecovery(s)
	}
	twice := s.pick%8 == 0
	var again *vfs.Mem
	if twice || x.also != nil {
		again = s.fs.Clone()
	}
	if err := errors.Join(x.checkCopies(s), x.checkBackups(s)); err != nil {
		return fmt.Errorf("seed %d: %s: %w", x.seed, s.label, err)
	}
	i, err := x.recover(fs, s.lo, s.hi, s.drops, s.pick%4 == 0)
	if err != nil {
		return fmt.Errorf("seed %d: %s: %w", x.seed, s.label, err)
	}
	if twice {
		// A recovery of the same state gives the same.
		if _, err := x.recover(again, i, i, s.drops, false); err != nil {
			return fmt.Errorf("seed %d: %s: recovered again: %w", x.seed, s.label, err)
		}
	}
	if x.also != nil {
		if err := x.also(state{fs: again, lo: s.lo, hi: s.hi, extra: s.extra, label: s.label,
			pick: s.pick}); err != nil {
			return fmt.Errorf("seed %d: %s: %w", x.seed, s.label, err)
		}
	}
	return nil
}

// recover opens, checks, closes, and opens again; with on it writes as well.
func (x *explorer) recover(fs vfs.FS, lo, hi int, d drops, on bool) (int, error) {
	o := options()
	o.WALRetentionBytes = x.keep
	x.trees.enable(&o)
	o.FS = fs
	if x.upgrades && on {
		if err := lsm.Upgrade(dir, &o); err != nil &&
			!(lo == 0 && errors.Is(err, lsm.ErrDoesNotExist)) {
			return 0, fmt.Errorf("upgrade: %w", err)
		}
	}
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	i, err := x.ledger.Check(db, lo, hi)
	if err == nil {
		err = x.trees.check(db, i, nil, d)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return i, err
	}
	if db, err = lsm.Open(dir, &o); err != nil {
		return i, fmt.Errorf("second open: %w", err)
	}
	defer db.Close()
	_, err = x.ledger.Check(db, i, i)
	if err == nil {
		err = x.trees.check(db, i, nil, d)
	}
	if err != nil {
		return i, fmt.Errorf("second open: %w", err)
	}
	if mem, ok := fs.(*vfs.Mem); ok && on {
		return i, x.goOn(db, mem, i+1)
	}
	return i, db.Close()
}

// goOn writes one more synced batch and cuts the power.
func (x *explorer) goOn(db *lsm.DB, mem *vfs.Mem, next int) error {
	b := lsm.NewBatch()
	x.ledger.Fill(b, next)
	if err := db.Write(b, lsm.Sync); err != nil {
		return fmt.Errorf("writing after recovery: %w", err)
	}
	after := mem.CrashClone(vfs.DropAll())
	if err := db.Close(); err != nil {
		return err
	}
	o := options()
	x.trees.enable(&o)
	o.FS = after
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("open after a write after recovery: %w", err)
	}
	defer db.Close()
	if _, err := x.ledger.Check(db, next, next); err != nil {
		return fmt.Errorf("a write after recovery: %w", err)
	}
	return db.Close()
}

// cutRecovery wraps a state's file system so that crashes during its recovery
// are taken and checked too, a few of those at each call.
func (x *explorer) cutRecovery(s state) vfs.FS {
	p := &progress{}
	p.begun.Store(int64(s.hi))
	p.synced.Store(int64(s.lo))
	p.dropsBegun.Store(int64(s.drops.begun))
	p.dropsEnded.Store(int64(s.drops.ended))
	var calls atomic.Uint64
	return vfs.NewFault(s.fs, func(op vfs.Op) vfs.Outcome {
		if changes(op.Kind) && x.failed() == nil {
			skip := calls.Add(1)
			x.point(s.fs, p, op, s.depth+1, s.label+", recovery", func(n state) {
				if skip++; skip%7 == 0 {
					x.nested.Add(1)
					x.queue.put(n)
				}
			})
		}
		return vfs.Outcome{}
	})
}

// Result says how much was tried.
type Result struct{ Points, States, Nested int64 }

// explore runs one workload and checks the crash states of it, at each
// every-th call.
func explore(w *workload, seed, every int64, also func(state) error) (Result, error) {
	mem := vfs.NewMem()
	x := &explorer{seed: seed, queue: newQueue(), also: also, every: every,
		upgrades: w == &upgradeWorkload}
	if w == &changesWorkload {
		x.keep = keepAll
	}
	var s *session
	fs := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if changes(op.Kind) && x.failed() == nil {
			x.point(mem, &s.progress, op, 0, w.name, x.queue.put)
			if op.Kind == vfs.OpAppend {
				x.queue.throttle()
			}
		}
		return vfs.Outcome{}
	})
	s = newSession(w, seed, fs, false)
	x.ledger, x.trees = s.ledger, s.trees
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) { // some checks wait, those of followers for a writer
		wg.Go(func() {
			x.queue.each(func(st state) {
				if x.failed() == nil {
					x.fail(x.check(st))
				}
			})
		})
	}
	err := w.run(s)
	if err == nil {
		x.point(mem, &s.progress, vfs.Op{}, 0, w.name, x.queue.put)
	}
	x.queue.close()
	wg.Wait()
	if err != nil {
		err = fmt.Errorf("seed %d: workload %s: %w", seed, w.name, err)
	}
	return Result{x.points.Load(), x.count.Load(), x.nested.Load()}, errors.Join(err, x.failed())
}

// States runs one workload and checks what a power cut leaves at each every-th
// call that changes something.
func States(name string, seed int64, every int) (Result, error) {
	if w := find(name); w != nil {
		return explore(w, seed, int64(every), nil)
	}
	return Result{}, fmt.Errorf("no workload %q", name)
}

// UpgradeStates is States for a workload that upgrades a database.
func UpgradeStates(seed int64, every int) (Result, error) {
	return explore(&upgradeWorkload, seed, int64(every), nil)
}
