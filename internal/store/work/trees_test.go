package work

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/tree"
)

// TestTreesAtRestAreNotLookedAt: of many trees, the list has only changed ones, and every tree with
// work.
func TestTreesAtRestAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDatabase(t, vfs.NewMem())
		lists := func() (sealed, due, watched int) {
			d.jobs.mu.Lock()
			defer d.jobs.mu.Unlock()
			return len(d.jobs.trees.sealed), len(d.jobs.trees.due), len(d.jobs.trees.watched)
		}
		tables := func() (n int) {
			state := d.tree.Acquire()
			defer state.Unref()
			v := state.Version
			for l := range v.Levels {
				n += len(v.Levels[l].Files)
			}
			return n
		}
		for i := range 1000 {
			other := &Keyspace{Tree: tree.New(tree.Options{ID: base.KeyspaceID(i + 1),
				Name: fmt.Sprint(i), Comparer: base.Bytewise, MemTableSize: 64 << 10}, d.shared)}
			other.Start(d.wal.Num(), nil, d.jobs.opts.Manifest.Current(base.DefaultKeyspace))
			d.others = append(d.others, other)
			d.jobs.Add(other)
		}
		defer func() {
			for _, other := range d.others {
				other.Close()
			}
		}()
		if sealed, due, _ := lists(); sealed != 1000 || due != 1000 {
			t.Fatalf("of 1000 new trees %d may have sealed memtables, %d work", sealed, due)
		}
		d.jobs.Forget(d.others[0]) // which nothing else may hold
		if sealed, due, _ := lists(); sealed != 999 || due != 999 {
			t.Errorf("of 1000 trees, one of them dropped, %d are sealed, %d due", sealed, due)
		}
		d.jobs.Wake()
		if sealed, due, watched := lists(); sealed != 0 || due != 0 || watched != 0 {
			t.Errorf("at rest: %d sealed, %d due, %d watched", sealed, due, watched)
		}

		// Two runs: nothing to do before the tree is idle, when they become one.
		for range 2 {
			d.mustPut("k")
			d.seal()
			if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if sealed, due, watched := lists(); sealed != 0 || due != 0 || watched != 1 {
			t.Errorf("%d sealed, %d due, %d watched, want one tree that is watched", sealed, due,
				watched)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if sealed, due, watched := lists(); tables() != 1 || sealed != 0 || due != 0 ||
			watched != 0 {
			t.Errorf("%d tables, %d sealed, %d due, %d watched, want one table and nothing to do",
				tables(), sealed, due, watched)
		}
	})
}

// TestSoonerLook: a tree that is to be looked at soon does not wait for the look at another one.
func TestSoonerLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDatabase(t, vfs.NewMem())
		other := &Keyspace{Tree: d.tree.Tree}
		d.jobs.mu.Lock()
		d.jobs.trees.watch(other, time.Now().Add(maxExpiryWatch))
		d.jobs.watchLocked()
		d.jobs.trees.watch(d.tree, time.Now().Add(time.Second))
		d.jobs.watchLocked()
		d.jobs.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		d.jobs.mu.Lock()
		defer d.jobs.mu.Unlock()
		if d.tree.isWatched || !other.isWatched || len(d.jobs.trees.watched) != 1 {
			t.Errorf("after two seconds: %v, %v, %d", d.tree.isWatched, other.isWatched,
				len(d.jobs.trees.watched))
		}
		other.dropped = true
	})
}
