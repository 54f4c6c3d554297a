package lsm

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// withoutMemory runs f while the system has no memory off the heap.
func withoutMemory(f func()) {
	offheap.SetFault(func(int) error { return errors.New("the test refuses") })
	defer offheap.SetFault(nil)
	f()
}

// TestNewDatabaseHasMemory: Open takes what the first write of a new database needs, and that
// write takes nothing. A database that is opened again waits for a write.
func TestNewDatabaseHasMemory(t *testing.T) {
	fsys := vfs.NewMem()
	refuse := func(int) error { return errors.New("the test refuses") }
	for again, want := range []error{nil, ErrNoMemory} {
		db := mustOpen(t, "/db", &Options{FS: fsys})
		offheap.SetFault(refuse)
		err := db.Put(key(1), value(1), NoSync)
		offheap.SetFault(nil)
		if !errors.Is(err, want) {
			t.Errorf("opening %d: %v, want %v", again, err, want)
		}
		mustFlush(t, db)
		wantValue(t, db, 1)
		mustClose(t, db)
	}
}

// TestNewDatabaseWithoutMemory: a refusal of the memory that Open takes ahead is no error.
func TestNewDatabaseWithoutMemory(t *testing.T) {
	refused := 0
	offheap.SetFault(func(n int) error {
		if n == 64<<10 || n == 1 { // a memtable's first, a byte with the race detector
			refused++
			return errors.New("the test refuses")
		}
		return nil
	})
	db, err := Open("/db", &Options{FS: vfs.NewMem()})
	offheap.SetFault(nil)
	if err != nil || refused == 0 {
		t.Fatalf("%v, %d refusals", err, refused)
	}
	mustPut(t, db, 1)
	wantValue(t, db, 1)
	mustClose(t, db)
}

// TestFirstWriteWithoutMemory wants the shortage by its name, and the next write to
// work.
func TestFirstWriteWithoutMemory(t *testing.T) {
	fsys := vfs.NewMem()
	mustClose(t, mustOpen(t, "/db", &Options{FS: fsys}))
	db := mustOpen(t, "/db", &Options{FS: fsys}) // a new one has memory for it
	withoutMemory(func() {
		if err := db.Put(key(1), value(1), Sync); !errors.Is(err, ErrNoMemory) ||
			errors.Is(err, ErrTooLarge) {
			t.Errorf("put: %v", err)
		}
	})
	wantMissing(t, db, 1)
	mustPut(t, db, 2)
	wantValue(t, db, 2)
	mustClose(t, db)
}

// TestFlushWithoutMemory has no memory for the sort of a memtable: its log stays, and
// the next flush writes all of it.
func TestFlushWithoutMemory(t *testing.T) {
	const n = 5000
	fsys := vfs.NewMem()
	db := mustOpen(t, "/db", &Options{FS: fsys})
	for i := range n {
		mustPut(t, db, i*7919%n)
	}
	withoutMemory(func() {
		if err := db.Flush(); !errors.Is(err, ErrNoMemory) {
			t.Errorf("flush: %v", err)
		}
	})
	killed := fsys.CrashClone(vfs.KeepAll())
	if err := db.Flush(); err != nil {
		t.Errorf("flush when there is memory: %v", err)
	}
	if got := countKeys(t, db); got != n {
		t.Errorf("%d of %d keys", got, n)
	}
	mustClose(t, db)
	for _, fsys := range []vfs.FS{fsys, killed} {
		db := mustOpen(t, "/db", &Options{FS: fsys})
		if got := countKeys(t, db); got != n {
			t.Errorf("%d of %d keys after reopening", got, n)
		}
		mustClose(t, db)
	}
}

// TestReadWithoutMemory reads blocks for which the cache has no frame.
func TestReadWithoutMemory(t *testing.T) {
	db := mustOpen(t, "/db", &Options{FS: vfs.NewMem()})
	putKeys(t, db, 2000)
	mustFlush(t, db)
	wantValue(t, db, 0) // the table is open, and a scratch for a block is there
	for range 3 {
		offheap.SetFault(func(n int) error {
			if n >= 64<<10 { // the cache's memory
				return errors.New("the test refuses")
			}
			return nil
		})
		wantValues(t, db, 2000)
		offheap.SetFault(nil)
	}
	mustClose(t, db)
}
