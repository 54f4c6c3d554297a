package work

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// emptied has rows in tables and a large memtable. The database notes each change of its files.
type emptied struct {
	*database
	changes atomic.Int64 // calls of the file system that are no reads
}

func openEmptied(t *testing.T, format base.Format, rows int) *emptied {
	t.Helper()
	e := &emptied{}
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		switch op.Kind {
		case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpRemove:
			e.changes.Add(1)
		}
		return vfs.Outcome{}
	})
	e.database = openFormat(t, fsys, format, nil)
	limits := *e.jobs.limits.Load()
	limits.WriteBuffer = 4 << 20
	e.jobs.SetLimits(limits)
	e.tree.SetMemTableSize(limits.WriteBuffer)
	e.mustPut("k")
	e.seal() // the next memtable is large
	for i := range rows {
		e.set(i)
	}
	e.seal()
	e.waitFlushed()
	return e
}

// openLargeRows has a table of 100 rows of 64 KiB.
func openLargeRows(t *testing.T) *emptied {
	t.Helper()
	e := openEmptied(t, base.Native, 0)
	for i := range 100 {
		if err := e.write(base.KindSet, row(i), make([]byte, 64<<10), 0); err != nil {
			t.Fatal(err)
		}
	}
	e.seal()
	e.waitFlushed()
	return e
}

func row(i int) string { return fmt.Sprintf("row%06d", i) }

func (e *emptied) set(i int) {
	e.t.Helper()
	if err := e.write(base.KindSet, row(i), []byte("value"), 0); err != nil {
		e.t.Fatal(err)
	}
}

func (e *emptied) remove(from, to int) {
	e.t.Helper()
	for i := from; i < to; i++ {
		e.mustDelete(row(i))
	}
}

// inMemTable is how many entries the memtable has that takes writes.
func (e *emptied) inMemTable() int {
	state := e.tree.Acquire()
	defer state.Unref()
	return state.Mem.Len()
}

// rows is how many entries the tables have.
func (e *emptied) rows() (n uint64) {
	state := e.tree.Acquire()
	defer state.Unref()
	for i := range state.Version.Levels {
		for _, m := range state.Version.Levels[i].Files {
			n += m.Entries
		}
	}
	return n
}

// sleep lets time pass in the bubble.
func (e *emptied) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// isQuiet fails the test if anything is written in an hour, or a timer runs.
func (e *emptied) isQuiet() {
	e.t.Helper()
	before := e.changes.Load()
	e.sleep(time.Hour)
	if n := e.changes.Load() - before; n > 0 {
		e.t.Errorf("%d changes of files in an hour without work", n)
	}
	e.jobs.mu.Lock()
	defer e.jobs.mu.Unlock()
	if e.jobs.deletes.timer != nil || len(e.jobs.deletes.waiting) > 0 ||
		!e.jobs.calmAt.IsZero() {
		e.t.Errorf("a timer runs: %+v, %v", e.jobs.deletes, e.jobs.calmAt)
	}
	if err := e.failed(); err != nil {
		e.t.Error(err)
	}
}

func (e *emptied) compactions(reason string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reasons[reason]
}

// perFormat runs a test in a bubble for each format.
func perFormat(t *testing.T, test func(t *testing.T, format base.Format)) {
	for _, format := range []base.Format{base.LevelDB, base.Native} {
		t.Run(format.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, format) })
		})
	}
}

// TestEmptiedTableLeaves: a table whose rows were all deleted leaves when nobody writes, and then
// nothing happens any more.
func TestEmptiedTableLeaves(t *testing.T) {
	perFormat(t, func(t *testing.T, format base.Format) {
		e := openEmptied(t, format, 6000)
		e.remove(0, 6000)
		e.mustDelete("k")
		e.sleep(quietFor / 2)
		if n := e.inMemTable(); n != 6001 {
			t.Errorf("after half of the time the memtable has %d entries", n)
		}
		e.sleep(10 * time.Second)
		if n, tables := e.inMemTable(), e.tables(); n != 0 || tables != 0 {
			t.Errorf("%d entries in the memtable, %d tables, want none", n, tables)
		}
		e.isQuiet()
		e.set(1) // looks begin anew
		e.seal()
		e.waitFlushed()
		e.remove(0, 6000)
		e.sleep(10 * time.Second)
		if tables := e.tables(); tables != 0 {
			t.Errorf("emptied again: %d tables, want none", tables)
		}
		e.isQuiet()
	})
}

// TestQuietFlush: a memtable is flushed for its deletions if half of its entries are some, there
// are many of them or they delete much, and nobody writes to it.
func TestQuietFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEmptied(t, base.Native, 20000)
		e.remove(0, manyDeletes)
		n := manyDeletes
		for range 20 {
			e.sleep(quietFor * 9 / 10)
			e.remove(n, n+1)
			n++
		}
		if got := e.inMemTable(); got != n {
			t.Errorf("a memtable that is written has %d entries, want %d", got, n)
		}
		e.sleep(3 * quietFor)
		if got := e.inMemTable(); got != 0 {
			t.Errorf("a memtable of %d deletions waits for its flush", got)
		}

		for i := range manyDeletes + 100 { // fewer deletions than other entries
			e.set(100000 + i)
		}
		e.remove(n, n+manyDeletes)
		e.sleep(10 * quietFor)
		if got := e.inMemTable(); got != 2*manyDeletes+100 {
			t.Errorf("%d entries, want all of a memtable that is mostly sets", got)
		}
		e.isQuiet()
		e.remove(n+manyDeletes, n+manyDeletes+100)
		e.sleep(3 * quietFor)
		if got := e.inMemTable(); got != 0 {
			t.Errorf("%d entries, half of them deletions, wait for their flush", got)
		}

		e.remove(0, manyDeletes-1) // too few, and what they delete is little
		e.sleep(10 * quietFor)
		if got := e.inMemTable(); got != manyDeletes-1 {
			t.Errorf("%d entries, want all of a memtable of few deletions", got)
		}
		e.isQuiet()
	})
}

// TestFewDeletionsOfLargeRows: a few hundred deletions are flushed if rows are large.
func TestFewDeletionsOfLargeRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openLargeRows(t)
		e.remove(0, 100)
		e.sleep(10 * time.Second)
		if n := e.rows(); n > 1 || e.inMemTable() != 0 {
			t.Errorf("%d entries in tables, %d in the memtable", n, e.inMemTable())
		}
		e.isQuiet()
	})
}

// TestQuietRangeDelete: a range tombstone is flushed if tables or parts of tables lie in it that
// take more than the memtable, and nobody writes to it; then what it deletes leaves.
func TestQuietRangeDelete(t *testing.T) {
	for _, c := range []struct {
		name         string
		start, limit string
		inMemTable   int // afterwards
		rows         uint64
	}{
		{"little", row(10), row(70), 1, 101},
		{"much of a table", row(10), row(90), 0, 21},
		{"all of it", row(0), row(100), 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := openLargeRows(t)
				if err := e.write(base.KindRangeDelete, c.start, []byte(c.limit), 0); err != nil {
					t.Fatal(err)
				}
				e.sleep(quietFor / 2)
				if n := e.inMemTable(); n != 1 {
					t.Errorf("after half of the time the memtable has %d entries", n)
				}
				e.sleep(10 * time.Second)
				if n, rows := e.inMemTable(), e.rows(); n != c.inMemTable || rows != c.rows {
					t.Errorf("%d entries in the memtable, %d in tables, want %d and %d", n, rows,
						c.inMemTable, c.rows)
				}
				e.isQuiet()
			})
		})
	}
}

// TestDenseUnderSnapshot: while a snapshot sees what was deleted, the deletions are not compacted
// again and again; when it is closed they leave, though nobody writes. A snapshot that sees the
// deletions holds nothing.
func TestDenseUnderSnapshot(t *testing.T) {
	perFormat(t, func(t *testing.T, format base.Format) {
		e := openEmptied(t, format, 6000)
		var snap tree.Snapshot
		e.shared.Seqs.Open(&snap)
		e.remove(0, 6000)
		e.sleep(time.Hour) // it becomes one run
		e.isQuiet()
		if n := e.compactions(fullOfDeletions); n != 0 || e.inMemTable() != 0 {
			t.Errorf("%d compactions for deletions that a snapshot holds", n)
		}
		if !e.has(row(5), &snap) || e.has(row(5), nil) {
			t.Errorf("a snapshot sees the row: %v; the present: %v", e.has(row(5), &snap),
				e.has(row(5), nil))
		}
		var later tree.Snapshot
		e.shared.Seqs.Open(&later)
		snap.Close()
		e.sleep(10 * time.Second)
		if n := e.rows(); n != 1 {
			t.Errorf("%d entries in tables that no snapshot holds, want 1", n)
		}
		later.Close()
		e.isQuiet()
	})
}

const fullOfDeletions = "full of deletions"

// TestDenseWaitsForCompactions: while automatic compactions are paused the memtable is flushed, and
// no table changes; afterwards they leave.
func TestDenseWaitsForCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEmptied(t, base.Native, 6000)
		e.jobs.Pause()
		e.remove(0, 6000)
		e.sleep(time.Minute)
		if n := e.rows(); n != 12001 || e.inMemTable() != 0 {
			t.Errorf("%d entries in tables, want 12001; %d in the memtable", n, e.inMemTable())
		}
		e.isQuiet()
		e.jobs.Unpause()
		e.sleep(10 * time.Second)
		if n := e.rows(); n != 1 {
			t.Errorf("%d entries in tables, want 1", n)
		}
		e.isQuiet()
	})
}

// TestNoQuietFlushAfterEnd: a read-only database, and a closed one, flush nothing.
func TestNoQuietFlushAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEmptied(t, base.Native, 6000)
		e.remove(0, 6000)
		synctest.Wait() // compactions of the rows end
		failure := fmt.Errorf("%w: by the test", base.ErrReadOnly)
		e.failure.Store(&failure)
		before := e.changes.Load()
		e.sleep(time.Minute)
		if n := e.inMemTable(); n != 6000 || e.changes.Load() != before {
			t.Errorf("%d entries in the memtable of a read-only database, want 6000", n)
		}
		e.failure.Store(nil)
		e.remove(0, 1)
		e.sleep(quietFor / 2)
		e.jobs.mu.Lock()
		waiting := len(e.jobs.deletes.waiting)
		e.jobs.mu.Unlock()
		e.jobs.Close()
		if e.sleep(time.Minute); e.inMemTable() != 6001 || e.jobs.deletes.timer != nil {
			t.Errorf("%d entries after Close, want 6001; %d waited", e.inMemTable(), waiting)
		}
	})
}

// TestQuietFlushWaitsForRoom: while as many memtables wait as there may be, none is sealed.
func TestQuietFlushWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEmptied(t, base.Native, 6000)
		limits := *e.jobs.limits.Load()
		limits.MaxMemTables = 1 // none may be sealed
		e.jobs.SetLimits(limits)
		e.remove(0, 6000)
		e.sleep(time.Minute)
		if n := e.inMemTable(); n != 6000 {
			t.Errorf("%d entries, want 6000: there is no room for another memtable", n)
		}
		limits.MaxMemTables = 3
		e.jobs.SetLimits(limits)
		e.sleep(10 * time.Second)
		if n := e.inMemTable(); n != 0 || e.rows() != 1 {
			t.Errorf("%d entries in the memtable, %d in tables", n, e.rows())
		}
		e.isQuiet()
	})
}

// TestQuietLookPanics: where the comparer panics, a look at several memtables holds none of their
// states afterwards.
func TestQuietLookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openEmptied(t, base.Native, 100)
		var armed atomic.Bool
		cmp := *base.Bytewise
		cmp.Compare = func(a, b []byte) int {
			if armed.Load() {
				panic("by the test")
			}
			return base.Bytewise.Compare(a, b)
		}
		for i := range 2 {
			other := &Keyspace{Tree: tree.New(tree.Options{ID: base.KeyspaceID(i + 1),
				Name: fmt.Sprint(i), Comparer: &cmp, MemTableSize: 64 << 10}, e.shared)}
			other.Start(e.wal.Num(), nil, e.jobs.opts.Manifest.Current(base.DefaultKeyspace))
			e.others = append(e.others, other)
			if err := other.Add(1, base.KindRangeDelete, []byte(row(0)),
				[]byte(row(50))); err != nil {
				t.Fatal(err)
			}
			e.jobs.ManyDeletes(other)
		}
		armed.Store(true)
		e.sleep(2 * quietFor)
		armed.Store(false)
		if e.failed() == nil {
			t.Error("there was no panic")
		}
		for _, other := range e.others {
			other.Close()
			if synctest.Wait(); !other.Unused() {
				t.Error("a state is held")
			}
		}
		e.failure.Store(nil) // the end of the test looks at it
	})
}
