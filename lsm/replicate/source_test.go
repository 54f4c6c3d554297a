package replicate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestSourceReplaced: another database that gets the place of a followed one in its directory
// begins a generation, if its logs show it. The same database goes on after a failure.
func TestSourceReplaced(t *testing.T) {
	for _, same := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "db")
		fill := func(name string, n int) {
			db, err := lsm.Open(dir, &lsm.Options{WALRetentionBytes: 1 << 20})
			must(t, err)
			for i := range n {
				must(t, db.Put(fmt.Appendf(nil, "%s%d", name, i), nil, lsm.NoSync))
			}
			must(t, db.Close())
		}
		fill("old", 100)
		f, err := lsm.OpenFollower(dir, nil)
		must(t, err)
		clock, target := newClock(), newMem()
		r := runnerOf(t, f.DB, target, Options{Clock: clock.time})
		must(t, settle(r))
		aside := filepath.Join(t.TempDir(), "aside")
		must(t, os.Mkdir(aside, 0o700))
		move(t, dir, aside)
		if err := settle(r); err == nil {
			t.Error("nothing tells that the database is away")
		}
		if same {
			move(t, aside, dir)
		}
		fill("new", 200)
		clock.add(time.Second)
		must(t, settle(r))
		db, err := lsm.Open(dir, &lsm.Options{ReadOnly: true})
		must(t, err)
		got, _ := restoredAt(t, target, time.Time{}, clock.time())
		if diff := got.diff(contentsOf(t, db)); diff != "" {
			t.Errorf("same database %t: %s", same, diff)
		}
		if n := len(target.names(beginName)); (n == 1) != same {
			t.Errorf("same database %t: %d generations", same, n)
		}
		must(t, db.Close())
		r.close()
		must(t, f.Close())
	}
}

// TestSourceIngests: a replica contains an ingest, whether its source is a database or a follower.
// The ingest may be the last write, and the database may be closed or opened again afterwards.
func TestSourceIngests(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		for _, state := range []string{"open", "closed", "reopened", "reopened twice"} {
			for _, followed := range []bool{true, false} {
				t.Run(fmt.Sprint(format, " ", state, " ", followed), func(t *testing.T) {
					sourceIngests(t, format, state, followed)
				})
			}
		}
	}
}

func sourceIngests(t *testing.T, format lsm.Format, state string, followed bool) {
	o := &lsm.Options{FS: vfs.NewMem(), Format: format, WALRetentionBytes: 1 << 20}
	open := func() *lsm.DB {
		db, err := lsm.Open("db", o)
		must(t, err)
		return db
	}
	db := open()
	must(t, db.Put([]byte("a"), nil, lsm.NoSync))
	clock, target := newClock(), newMem()
	source := func() (*lsm.DB, func()) {
		clock.add(time.Second)
		if !followed {
			return db, func() {}
		}
		f, err := lsm.OpenFollower("db", o)
		must(t, err)
		return f.DB, func() { must(t, f.Close()) }
	}
	from, release := source()
	r := runnerOf(t, from, target, Options{Clock: clock.time})
	must(t, settle(r))
	w, err := lsm.NewTableWriter("table", o)
	must(t, err)
	must(t, errors.Join(w.Put([]byte("b"), nil), w.Finish()))
	must(t, db.Ingest(ctx, nil, "table"))
	if state != "open" {
		r.close()
		release()
		must(t, db.Close())
		for i := 0; state == "reopened twice" && i < 1; i++ {
			db = open()
			must(t, db.Close())
		}
		if state != "closed" || !followed {
			db = open()
		}
		from, release = source()
		r = runnerOf(t, from, target, Options{Clock: clock.time})
	}
	must(t, settle(r))
	clock.add(time.Second)
	got, _ := restoredAt(t, target, time.Time{}, clock.time())
	if diff := got.diff(contentsOf(t, from)); diff != "" {
		t.Error(diff)
	}
	r.close()
	release()
	if state != "closed" || !followed {
		must(t, db.Close())
	}
}

// move moves the files of a directory into another one.
func move(t *testing.T, from, to string) {
	names, err := os.ReadDir(from)
	must(t, err)
	for _, n := range names {
		must(t, os.Rename(filepath.Join(from, n.Name()), filepath.Join(to, n.Name())))
	}
}
