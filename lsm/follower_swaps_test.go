package lsm

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// killedWithLogs is the file system of a database that was killed with logs of so many batches
// each, of which only those in flushed are in tables.
func killedWithLogs(t *testing.T, format Format, batches []int, flushed int) *vfs.Mem {
	t.Helper()
	mem, full := vfs.NewMem(), false
	o := &Options{Format: format, DisableCompaction: true}
	o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if full && op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable {
			return vfs.Outcome{Err: syscall.ENOSPC}
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", o)
	n := 0
	for i, count := range batches {
		if full = i >= flushed; i > 0 {
			if err := db.Flush(); err != nil && !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
		}
		for range count {
			n++
			must(t, db.Put(fmt.Appendf(nil, "k%d", n%5), fmt.Append(nil, n), NoSync))
		}
	}
	killed := mem.CrashClone(vfs.KeepAll())
	full = false
	must(t, db.Close())
	return killed
}

// TestReadersAgreeOnSwappedLogs: whatever two logs have swapped their names, Open, Open for reading
// and a follower judge alike, and show the same.
func TestReadersAgreeOnSwappedLogs(t *testing.T) {
	for format, step := range map[Format]int{FormatLevelDB: 1, FormatNative: 5} {
		for code := 0; code < 27; code += step {
			batches := []int{code % 3, code / 3 % 3, code / 9 % 3, 0}
			killed := killedWithLogs(t, format, batches, code%2)
			logs, err := fstest.Find(killed, "db", base.FileLog)
			must(t, err)
			for i := range logs {
				for j := range i {
					readersAgree(t, fmt.Sprintf("%v %v, %s and %s", format, batches, logs[j],
						logs[i]), killed, logs[j], logs[i])
				}
			}
		}
	}
}

// readersAgree swaps two files of a copy of the database.
func readersAgree(t *testing.T, name string, killed *vfs.Mem, a, b string) {
	t.Helper()
	swapped := killed.CrashClone(vfs.KeepAll())
	must(t, swapped.Rename(a, "db/swap"))
	must(t, swapped.Rename(b, a))
	must(t, swapped.Rename("db/swap", b))
	views := make(map[string]string)
	for how, open := range map[string]func(o *Options) (*DB, error){
		"Open": func(o *Options) (*DB, error) { return Open("db", o) },
		"read-only": func(o *Options) (*DB, error) {
			o.ReadOnly = true
			return Open("db", o)
		},
		"follower": func(o *Options) (*DB, error) {
			f, err := OpenFollower("db", o)
			if err != nil {
				return nil, err
			}
			return f.DB, nil
		},
	} {
		db, err := open(&Options{FS: swapped.CrashClone(vfs.KeepAll()), ErrorIfMissing: true})
		if err != nil {
			views[how] = "refused"
			if !errors.Is(err, ErrCorruption) {
				t.Errorf("%s: %s: %v", name, how, err)
			}
			continue
		}
		var shown strings.Builder
		it := db.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			fmt.Fprintf(&shown, "%s=%s ", it.Key(), it.Value())
		}
		must(t, it.Close())
		report := db.RecoveryReport()
		fmt.Fprintf(&shown, "clean %v", report.WasClean)
		views[how] = shown.String()
		must(t, db.Close())
	}
	if views["Open"] != views["follower"] || views["Open"] != views["read-only"] {
		t.Errorf("%s: %q", name, views)
	}
}
