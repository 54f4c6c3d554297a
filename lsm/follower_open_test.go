package lsm_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestFailedFollowerClosesFiles: OpenFollower leaves no file open when it fails, whatever it has
// read by then. It runs by the bubble's clock: failed openings wait for the goroutine that closes
// tables.
func TestFailedFollowerClosesFiles(t *testing.T) { synctest.Test(t, failFollowers) }

func failFollowers(t *testing.T) {
	mem := vfs.NewMem()
	db, err := lsm.Open("db", &lsm.Options{FS: mem, WALPreallocate: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Put([]byte("k"), []byte("v"), lsm.Sync), db.Flush(),
		db.Put([]byte("l"), []byte("w"), lsm.Sync)); err != nil {
		t.Fatal(err)
	}
	for failing := int64(1); ; failing++ {
		var calls, open atomic.Int64
		fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			switch n := calls.Add(1); {
			case op.Kind == vfs.OpClose:
				open.Add(-1)
			case n == failing:
				out.Err = errors.New("unreadable")
			case op.Kind == vfs.OpOpen:
				open.Add(1)
			}
			return out
		})
		f, err := lsm.OpenFollower("db", &lsm.Options{FS: fsys})
		if err == nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := open.Load(); n != 0 {
			t.Errorf("call %d failed: %v; %d files are open", failing, err, n)
		}
		if calls.Load() < failing {
			break
		}
	}
	closed := lsm.NewResources(lsm.ResourcesOptions{})
	closed.Close()
	var open atomic.Int64
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		switch op.Kind {
		case vfs.OpClose:
			open.Add(-1)
		case vfs.OpOpen:
			open.Add(1)
		}
		return vfs.Outcome{}
	})
	if _, err := lsm.OpenFollower("db", &lsm.Options{FS: fsys, Resources: closed}); !errors.Is(err,
		lsm.ErrClosed) || open.Load() != 0 {
		t.Errorf("with closed Resources: %v; %d files are open", err, open.Load())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpenFollowerWhileALogIsClosed closes the writer, and so cuts what its log has allocated
// ahead, at each call of OpenFollower in turn.
func TestOpenFollowerWhileALogIsClosed(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		for at, more := int64(1), true; more; at++ {
			mem := vfs.NewMem()
			db, err := lsm.Open("db",
				&lsm.Options{FS: mem, Format: format, WALPreallocate: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Put([]byte("k"), []byte("v"), lsm.NoSync); err != nil {
				t.Fatal(err)
			}
			var calls atomic.Int64
			fsys := vfs.NewFault(mem, func(vfs.Op) vfs.Outcome {
				if calls.Add(1) == at {
					if err := db.Close(); err != nil {
						t.Error(err)
					}
				}
				return vfs.Outcome{}
			})
			f, err := lsm.OpenFollower("db", &lsm.Options{FS: fsys})
			if err != nil {
				t.Fatalf("%v, closed at call %d: %v", format, at, err)
			}
			more = calls.Load() >= at
			if got, err := f.Get([]byte("k"), nil); err != nil || string(got) != "v" {
				t.Errorf("%v, closed at call %d: %q, %v", format, at, got, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			_ = db.Close() // it may be closed
		}
	}
}

// TestOpenFollowerWhileCurrentComes creates a database, or upgrades one, at each call of
// OpenFollower in turn. The follower shows it, or there is no database yet.
func TestOpenFollowerWhileCurrentComes(t *testing.T) {
	for _, upgraded := range []bool{false, true} {
		for at, more := int64(1), true; more; at++ {
			mem := vfs.NewMem()
			write := func(o lsm.Options) {
				o.FS = mem
				db, err := lsm.Open("db", &o)
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Put([]byte("k"), []byte("v"), lsm.Sync); err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := mem.MkdirAll("db"); err != nil {
				t.Fatal(err)
			}
			if upgraded {
				write(lsm.Options{Format: lsm.FormatLevelDB})
			}
			var calls atomic.Int64
			fsys := vfs.NewFault(mem, func(vfs.Op) vfs.Outcome {
				if calls.Add(1) == at && upgraded {
					if err := lsm.Upgrade("db", &lsm.Options{FS: mem}); err != nil {
						t.Error(err)
					}
				} else if calls.Load() == at {
					write(lsm.Options{})
				}
				return vfs.Outcome{}
			})
			f, err := lsm.OpenFollower("db", &lsm.Options{FS: fsys})
			more = calls.Load() >= at
			if !upgraded && errors.Is(err, lsm.ErrDoesNotExist) {
				continue
			}
			if err != nil {
				t.Errorf("upgraded %v, at call %d of %d: %v", upgraded, at, calls.Load(), err)
				continue
			}
			if got, err := f.Get([]byte("k"), nil); err != nil || string(got) != "v" {
				t.Errorf("upgraded %v, at call %d: %q, %v", upgraded, at, got, err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCatchUpWhileUpgraded upgrades the database at each call of CatchUp in turn.
func TestCatchUpWhileUpgraded(t *testing.T) {
	for at, more := int64(1), true; more; at++ {
		mem := vfs.NewMem()
		write := func(key string) {
			db, err := lsm.Open("db", &lsm.Options{FS: mem, Format: lsm.FormatLevelDB})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Put([]byte(key), []byte("v"), lsm.Sync); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		write("k")
		var calls atomic.Int64
		calls.Store(-1 << 32)
		fsys := vfs.NewFault(mem, func(vfs.Op) vfs.Outcome {
			if calls.Add(1) == at {
				if err := lsm.Upgrade("db", &lsm.Options{FS: mem}); err != nil {
					t.Error(err)
				}
			}
			return vfs.Outcome{}
		})
		f, err := lsm.OpenFollower("db", &lsm.Options{FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		write("l")
		calls.Store(0)
		if err := f.CatchUp(t.Context()); err != nil {
			t.Errorf("upgraded at call %d: %v", at, err)
		}
		more = calls.Load() >= at
		for _, key := range []string{"k", "l"} {
			if got, err := f.Get([]byte(key), nil); err != nil || string(got) != "v" {
				t.Errorf("upgraded at call %d: %s is %q, %v", at, key, got, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
