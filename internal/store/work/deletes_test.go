package work

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/tree"
)

// waitFlushed waits for the flush of all sealed memtables.
func (d *database) waitFlushed() {
	d.t.Helper()
	hang.Within(d.t, "the flushes", func() {
		if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
			d.t.Error(err)
		}
	})
}

// tables is how many tables each level has.
func (d *database) tables() (n int) {
	state := d.tree.Acquire()
	defer state.Unref()
	for i := range state.Version.Levels {
		n += len(state.Version.Levels[i].Files)
	}
	return n
}

// TestFlushDropsDeletions: a flush writes no deletion of a key that no older table has, by the
// tables' ranges and filters. A deletion stays that an older table, a memtable queued before its
// own, or a snapshot needs; so do those of keys in a table whose filter is not in memory.
func TestFlushDropsDeletions(t *testing.T) {
	for _, format := range []base.Format{base.LevelDB, base.Native} {
		t.Run(format.String(), func(t *testing.T) {
			d := openFormat(t, vfs.NewMem(), format, nil)
			d.jobs.Pause()
			o := d.tree.Tables()
			o.BloomBits = 20
			d.tree.SetTables(o)
			d.mustPut("a")
			d.mustPut("z")
			d.seal()
			d.waitFlushed()

			d.mustDelete("a") // a table whose filter is not in memory has it
			d.seal()
			d.waitFlushed()
			if d.tables() != 2 || d.has("a", nil) || !d.has("z", nil) {
				t.Fatalf("a deletion of an older key: %d tables; a is there: %v", d.tables(),
					d.has("a", nil))
			}

			for i := range 20 {
				d.mustPut(fmt.Sprintf("k%d", i))
				d.mustDelete(fmt.Sprintf("k%d", i))
			}
			d.seal()
			d.waitFlushed()
			if d.tables() != 2 {
				t.Errorf("puts and their deletions: %d tables, want no third one", d.tables())
			}

			d.mustPut("s")
			var snap tree.Snapshot
			d.shared.Seqs.Open(&snap)
			d.mustDelete("s")
			d.seal()
			d.waitFlushed()
			if !d.has("s", &snap) || d.has("s", nil) {
				t.Errorf("a snapshot sees the key: %v; the present: %v", d.has("s", &snap),
					d.has("s", nil))
			}
			snap.Close()
		})
	}
}

// TestFlushKeepsDeletionsForQueued: of two memtables that wait, the newer one deletes what the
// older one has.
func TestFlushKeepsDeletionsForQueued(t *testing.T) {
	open := make(chan struct{})
	d := openDatabase(t, gated(open))
	d.jobs.Pause()
	limits := *d.jobs.limits.Load()
	limits.MaxMemTables = 4
	d.jobs.SetLimits(limits)
	d.mustPut("a flush that waits")
	d.seal()
	d.mustPut("k")
	d.seal()
	d.mustDelete("k")
	d.seal()
	close(open)
	d.waitFlushed()
	if d.has("k", nil) {
		t.Error("a deleted key is back")
	}
}
