package lifetimes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// follow opens a Follower of the world's database, on a disk of its own.
func (w *world) follow() (*lsm.Follower, *disk, error) {
	d := diskOver(w.disk)
	f, err := lsm.OpenFollower("/db", &lsm.Options{FS: d, Cache: w.cache, CacheSize: 1 << 20,
		MergeOperator: lsm.MergeOperatorNamed("append")})
	return f, d, err
}

// TestFollowerCalls calls all methods of a Follower that is open, and of one that was closed, once
// and twice, before its writer and after it.
func TestFollowerCalls(t *testing.T) {
	caches(t, func(t *testing.T, shared bool, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w, err := newWorld(shared)
		if err != nil {
			t.Fatal(err)
		}
		f, _, e1 := w.follow()
		late, _, e2 := w.follow()
		if err := errors.Join(e1, e2); err != nil {
			t.Fatal(err)
		}
		calls, err := w.calls(f, rng, "DB.Close")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			o := run(c)
			allowed := append([]error{lsm.ErrReadOnly}, usual...)
			if wrongArgument(c) || ofDurable(c) {
				allowed = append(allowed, lsm.ErrInvalidArgument, lsm.ErrClosed)
			}
			if over(c) {
				allowed = append(allowed, o.err)
			}
			if wrong := judge(c, o, allowed...); wrong != "" {
				t.Error("a follower: " + wrong)
			}
		}
		if err := readings(f.DB); err != nil {
			t.Error(err)
		}
		none := &lsm.Follower{DB: w.db}
		if _, err := none.Lag(context.Background()); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("Lag of a database that follows nobody: %v", err)
		}
		if err := none.CatchUp(context.Background()); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("CatchUp of a database that follows nobody: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(w.closed(f, rng, "DB.Snapshot"), readings(w.db),
			w.whole()); err != nil {
			t.Error(err)
		}
		if err := f.Close(); !errors.Is(err, lsm.ErrClosed) {
			t.Errorf("Close twice: %v", err)
		}
		if err := w.db.Close(); err != nil { // its writer is first
			t.Error(err)
		}
		if err := errors.Join(late.CatchUp(context.Background()), readings(late.DB), late.Close(),
			w.closed(late, rng, "DB.Snapshot"), w.end()); err != nil {
			t.Error(err)
		}
	})
}

// ofDurable reports whether a feed is asked for durable changes only, which a follower does not
// know.
func ofDurable(c call) bool {
	for _, a := range c.args {
		if o, ok := a.Interface().(*lsm.ChangesOptions); ok && o != nil && o.Durable {
			return true
		}
	}
	return false
}

// TestFollowerDuringClose stops a CatchUp at each call of the file system, calls all methods beside
// Close, and lets it go on.
func TestFollowerDuringClose(t *testing.T) {
	caches(t, func(t *testing.T, shared bool, seed uint64) {
		n := 1
		for reached := true; reached && !t.Failed(); n += testkit.Scale(testkit.Brief(9, 5), 4, 1) {
			var err error
			if reached, err = followerDuringClose(shared, seed, n); err != nil {
				t.Errorf("stopped at call %d: %v", n, err)
			}
		}
		if n < 5 {
			t.Errorf("a CatchUp was stopped at %d calls: it is not stopped where it should be", n-1)
		}
	})
}

func followerDuringClose(shared bool, seed uint64, n int) (reached bool, err error) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	w, err := newWorld(shared)
	if err != nil {
		return false, err
	}
	f, d, err := w.follow()
	if err != nil {
		return false, err
	}
	calls, e := w.calls(f, rng)
	if err := errors.Join(e, w.db.Put(w.key(1), nil, lsm.NoSync), w.db.Flush()); err != nil {
		return false, err
	}
	d.stop(n)
	work, closed := make(chan error, 1), make(chan error, 1)
	go func() { work <- f.CatchUp(context.Background()) }()
	select {
	case <-d.stopped:
		reached = true
	case e := <-work:
		work <- e
	case <-hang.After():
		return false, errors.New("CatchUp hangs")
	}
	go func() { closed <- f.Close() }()
	allowed := slices.Concat([]error{lsm.ErrClosed, lsm.ErrInvalidArgument, lsm.ErrReadOnly}, usual)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range calls {
		if over(c) {
			continue
		}
		wg.Go(func() {
			if wrong := judge(c, run(c), allowed...); wrong != "" {
				mu.Lock()
				err = errors.Join(err, errors.New("during Close of a follower: "+wrong))
				mu.Unlock()
			}
		})
	}
	d.resume()
	done := make(chan error, 1)
	go func() {
		wg.Wait()
		e1, e2 := <-closed, <-work
		for _, e := range []error{e1, e2} {
			if e != nil && !errors.Is(e, lsm.ErrClosed) { // another Close may have been first
				done <- fmt.Errorf("Close or CatchUp: %w", e)
				return
			}
		}
		done <- nil
	}()
	select {
	case e := <-done:
		err = errors.Join(err, e)
	case <-hang.After():
		return reached, fmt.Errorf("calls beside Close, CatchUp stopped at its call %d, hang", n)
	}
	return reached, errors.Join(err, w.closed(f, rng, "DB.Snapshot"), readings(w.db), w.end())
}
