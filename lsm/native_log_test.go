package lsm

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestClosedLogCannotBeCut cuts the log of a database in the native format that was
// closed: the MANIFEST knows what was durable, so Open fails and names the log.
func TestClosedLogCannotBeCut(t *testing.T) {
	fs := vfs.NewMem()
	db, err := Open("db", &Options{FS: fs, Format: FormatNative, WALPreallocate: -1})
	must(t, err)
	for i := range 5 {
		must(t, db.Put(fmt.Appendf(nil, "key %d", i), []byte("value"), NoSync))
	}
	must(t, db.Close())
	logs, err := fstest.Find(fs, "db", base.FileLog)
	must(t, err)
	if len(logs) != 1 {
		t.Fatal(logs)
	}
	whole, err := fstest.ReadFile(fs, logs[0])
	must(t, err)
	for at := 0; at < len(whole); at += seed.Scale(9, 3, 1) {
		cut := fs.Clone()
		must(t, cut.Remove(logs[0]))
		f, err := cut.Create(logs[0])
		must(t, err)
		_, err = f.Write(whole[:at])
		must(t, errors.Join(err, f.Close()))
		_, err = Open("db", &Options{FS: cut})
		var c *CorruptionError
		if !errors.As(err, &c) || !strings.HasSuffix(logs[0], c.File) {
			t.Fatalf("cut to %d of %d bytes: %v", at, len(whole), err)
		}
		checkLogRepair(t, cut, c.File)
	}
	gone := fs.Clone()
	must(t, gone.Remove(logs[0]))
	if _, err := Open("db", &Options{FS: gone}); !errors.Is(err, ErrCorruption) {
		t.Errorf("removed: %v", err)
	}
	checkLogRepair(t, gone, filepath.Base(logs[0]))
	again, err := Open("db", &Options{FS: fs})
	must(t, err)
	if r := again.RecoveryReport(); r.Entries != 5 || !r.WasClean {
		t.Errorf("%+v", r)
	}
	must(t, again.Close())
}

// TestOldestLogIsDurableAfterFlush changes and cuts the oldest log, which one of two keyspaces
// needs, after the other one was flushed and the process was killed. The flush made that log
// durable, and its edit says so: Open fails and names the log.
func TestOldestLogIsDurableAfterFlush(t *testing.T) {
	needsNative(t)
	fs := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: fs, WALPreallocate: -1})
	other := mustSpace(t, db, "other")
	must(t, other.Put([]byte("a"), nil, NoSync))
	must(t, db.Put([]byte("b"), nil, NoSync))
	mustFlush(t, db)
	must(t, other.Put([]byte("c"), nil, NoSync))
	left := fs.CrashClone(vfs.KeepAll())
	mustClose(t, db)
	logs, err := fstest.Find(left, "db", base.FileLog)
	must(t, err)
	if len(logs) < 2 {
		t.Fatal(logs)
	}
	whole, err := fstest.ReadFile(left, logs[0])
	must(t, err)
	for at := range whole {
		changed := slices.Clone(whole)
		changed[at] ^= 1
		for i, b := range [][]byte{whole[:at:at], changed,
			append(whole[:at:at], make([]byte, len(whole)-at)...)} {
			if slices.Equal(b, whole) {
				continue // zeros
			}
			must(t, left.Remove(logs[0]))
			f, err := left.Create(logs[0])
			must(t, err)
			_, err = f.Write(b)
			must(t, errors.Join(err, f.Close()))
			_, err = Open("db", &Options{FS: left, ReadOnly: true})
			var c *CorruptionError
			if !errors.As(err, &c) || !strings.HasSuffix(logs[0], c.File) {
				t.Fatalf("change %d at %d of %d: %v", i, at, len(whole), err)
			}
		}
	}
}

// checkLogRepair repairs a database of which Open refuses the log.
func checkLogRepair(t *testing.T, fs vfs.FS, log string) {
	t.Helper()
	report, err := Repair("db", &Options{FS: fs})
	must(t, err)
	if !report.Changed() || len(report.Dropped) != 1 || report.Dropped[0].File != log {
		t.Fatalf("the repair reports %+v, want %s", report, log)
	}
	db, err := Open("db", &Options{FS: fs})
	must(t, err)
	n := 0
	for key, value := range db.All(nil, nil, &err) {
		if want := fmt.Sprintf("key %d", n); string(key) != want || string(value) != "value" {
			t.Fatalf("after the repair: %q, want %q", key, want)
		}
		n++
	}
	must(t, errors.Join(err, db.Close()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
