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
	settle := func(sealed, due, watched int) {
		t.Helper()
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			s, d, w := lists()
			if s == sealed && d == due && w == watched {
				return
			}
			if time.Since(start) > 2*time.Minute {
				t.Fatalf("%d sealed, %d due, %d watched, want %d, %d, %d", s, d, w, sealed, due, watched)
			}
		}
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
	settle(0, 0, 1)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		v := d.tree.Current().Version
		tables := 0
		for l := range v.Levels {
			tables += len(v.Levels[l].Files)
		}
		if tables == 1 {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("%d tables after a minute without writes", tables)
		}
	}
	settle(0, 0, 0)
}
