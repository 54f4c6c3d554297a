//go:build unix

package ingests

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/lsm"
)

// TestNoRegularFile: pipes, devices and links that lead nowhere, or into the database, are refused,
// and nothing waits for a pipe.
func TestNoRegularFile(t *testing.T) {
	top := t.TempDir()
	dir, o := filepath.Join(top, "db"), options(lsm.FormatNative)
	db := open(t, dir, o)
	defer db.Close()
	put(t, db, "a=1")
	at := func(name string) string { return filepath.Join(top, name) }
	must(t, unix.Mkfifo(at("fifo"), 0o600), os.Symlink("nowhere", at("nowhere")),
		os.Symlink("/dev/zero", at("device")), os.Symlink("fifo", at("to-fifo")),
		os.Symlink("loop", at("loop")))
	before := names(t, dir)
	for _, name := range []string{"fifo", "nowhere", "device", "to-fifo", "loop", "db"} {
		if err := ingest(db, at(name)); err == nil {
			t.Errorf("%s was ingested", name)
		}
	}
	if err := ingest(db, "/dev/zero"); err == nil {
		t.Error("a device was ingested")
	}
	if now := names(t, dir); now != before {
		t.Errorf("the folder has %s; before %s", now, before)
	}
	good := write(t, at("good"), o, "b=2")
	must(t, os.Symlink("good", at("link")))
	// A link to a table is the table, or no table, but never an entry of the folder that leads
	// elsewhere.
	if err := ingest(db, at("link")); err == nil {
		must(t, os.Remove(good))
		is(t, "by a link", db, "a=1 b=2")
	}
	must(t, db.Close())
	db = open(t, dir, o)
	must(t, db.Verify(ctx, nil), db.Close())
}
