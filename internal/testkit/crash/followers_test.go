package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// followed is a follower that reads beside a workload.
type followed struct {
	fs     vfs.FS
	ledger *testkit.Ledger
	trees  *trees

	mu    sync.Mutex
	f     *lsm.Follower
	last  int // batch
	count int64
}

func openFollower(fs vfs.FS, t *trees) (*lsm.Follower, error) {
	o := options()
	t.enable(&o)
	o.FS = fs
	return lsm.OpenFollower(dir, &o)
}

// check catches up, and wants a state between batches lo and hi, and none before the last one.
func (x *followed) check(lo, hi func() int, d func() drops) error {
	from := drops{ended: d().ended}
	least := lo()
	if x.f == nil {
		f, err := openFollower(x.fs, x.trees)
		if errors.Is(err, lsm.ErrDoesNotExist) && least == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("opening a follower: %w", err)
		}
		x.f = f
	}
	if err := x.f.CatchUp(context.Background()); err != nil {
		return fmt.Errorf("catching up: %w", err)
	}
	from.begun = d().begun
	x.count++
	i, err := x.ledger.Check(x.f.DB, max(least, x.last), hi())
	if err == nil {
		err = x.trees.check(x.f.DB, i, nil, from)
	}
	x.last = i
	return err
}

// Followers runs a workload. Before each every-th call of its writer that changes something, a
// follower catches up, and sometimes another one is opened: both have all that was acknowledged, in
// a state that the writer had.
func Followers(name string, seed int64, every int) (Result, error) {
	w := find(name)
	switch name {
	case upgradeWorkload.name:
		w = &upgradeWorkload
	case treeWorkload.name:
		w = &treeWorkload
	}
	if w == nil {
		return Result{}, fmt.Errorf("no workload %q", name)
	}
	mem := vfs.NewMem()
	x := &followed{fs: mem}
	var s *session
	var acked, calls atomic.Int64
	var failed atomic.Pointer[error]
	progress := func() drops {
		return drops{begun: int(s.dropsBegun.Load()), ended: int(s.dropsEnded.Load())}
	}
	fs := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		n := calls.Add(1)
		if !changes(op.Kind) || failed.Load() != nil || (n+seed)%int64(every) != 0 {
			return vfs.Outcome{}
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		lo, hi := func() int { return int(acked.Load()) }, func() int { return int(s.begun.Load()) }
		err := x.check(lo, hi, progress)
		if err == nil && n%16 == 0 {
			other := &followed{fs: mem, ledger: x.ledger, trees: x.trees}
			if err = other.check(lo, hi, progress); other.f != nil {
				err = errors.Join(err, other.f.Close())
			}
		}
		if err != nil {
			err = fmt.Errorf("seed %d: before call %d, %v: %w", seed, n, op, err)
			failed.Store(&err)
		}
		return vfs.Outcome{}
	})
	s = newSession(w, seed, fs, false)
	s.acked = func(batch int, _ bool) { acked.Store(int64(batch)) }
	x.ledger, x.trees = s.ledger, s.trees
	err := w.run(s)
	if p := failed.Load(); p != nil {
		err = errors.Join(*p, err)
	}
	if x.f != nil {
		err = errors.Join(err, x.f.Close())
	}
	return Result{Points: calls.Load(), States: x.count}, err
}

// FollowerStates opens a follower in each crash state. It shows a state that a recovery may find,
// and refuses none, as Open refuses none. When another writer has opened the database, the
// follower has the entries of that writer, and still all that it showed before.
func FollowerStates(name string, seed int64, every int) (Result, error) {
	w := find(name)
	if w == nil {
		return Result{}, fmt.Errorf("no workload %q", name)
	}
	l := newSession(w, seed, nil, false)
	return explore(w, seed, int64(every), func(st state) error {
		x := &followed{fs: st.fs, ledger: l.ledger, trees: l.trees}
		at := func(n int) func() int { return func() int { return n } }
		d := func() drops { return st.drops }
		if err := x.check(at(st.lo), at(st.hi), d); err != nil {
			return err
		}
		o := options()
		l.trees.enable(&o)
		o.FS = st.fs
		db, err := lsm.Open(dir, &o)
		if err != nil {
			return err
		}
		defer db.Close()
		i, err := l.ledger.Check(db, st.lo, st.hi)
		if err != nil {
			return err
		}
		if err := x.check(at(i), at(i), d); err != nil {
			return fmt.Errorf("after a recovery: %w", err)
		}
		if x.f == nil {
			return nil
		}
		return x.f.Close()
	})
}
