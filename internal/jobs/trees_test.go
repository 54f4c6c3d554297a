package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/vfs"
)

// TestTreesAtRestAreNotLookedAt: of many trees, only those in which something changed are
// on a list, and none is forgotten that has work.
func TestTreesAtRestAreNotLookedAt(t *testing.T) {
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
	var trees []*tree.Tree
	for i := range 1000 {
		other := tree.New(tree.Options{ID: base.KeyspaceID(i + 1), Name: fmt.Sprint(i), Comparer: base.Bytewise, MemTableSize: 64 << 10}, d.shared)
		other.Start(d.wal.Num(), nil, d.jobs.opts.Manifest.Current(base.DefaultKeyspace))
		d.jobs.Add(other)
		trees = append(trees, other)
	}
	defer func() {
		for _, other := range trees {
			other.Close()
		}
	}()
	if sealed, due, _ := lists(); sealed != 1000 || due != 1000 {
		t.Fatalf("of 1000 new trees %d may have sealed memtables, %d work", sealed, due)
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
	idle := false // all lists were empty, but for the tree that is watched
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		n := tables() // first: a list may be empty while a tree becomes one run
		sealed, due, watched := lists()
		idle = idle || sealed == 0 && due == 0 && watched == 1
		if n == 1 && sealed == 0 && due == 0 && watched == 0 {
			break
		}
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("%d tables, %d sealed, %d due, %d watched, want one table and nothing to do", n, sealed, due, watched)
		}
	}
	if !idle {
		t.Log("the tree was merged before anybody saw it wait")
	}
}
