package lsm

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// killedWithLogs is the file system of a database that was killed with logs of so many batches
// each, of which only those in flushed are in tables. The logs of these are kept.
func killedWithLogs(t *testing.T, format Format, batches []int, flushed int) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	var full atomic.Bool
	o := &Options{Format: format, DisableCompaction: true, WALRetentionBytes: 1 << 40,
		WALPreallocate: -1}
	o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if full.Load() && op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable {
			return vfs.Outcome{Err: syscall.ENOSPC}
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", o)
	n := 0
	for i, count := range batches {
		if full.Store(i >= flushed); i > 0 {
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
	full.Store(false)
	must(t, db.Close())
	return killed
}

// TestReadersAgreeOnSwappedLogs: whatever two logs have swapped their names, Open, Open for reading
// and a follower judge alike, and show the same: in the native format all that was there, or that
// something is missing.
func TestReadersAgreeOnSwappedLogs(t *testing.T) {
	for format, step := range map[Format]int{FormatLevelDB: 1, FormatNative: 5} {
		for code := 0; code < 27; code += step {
			batches := []int{code % 3, code / 3 % 3, code / 9 % 3, code / 5 % 2}
			killed := killedWithLogs(t, format, batches, code%4)
			logs, err := fstest.Find(killed, "db", base.FileLog)
			must(t, err)
			whole := readersAgree(t, "before", killed)
			for i := range logs {
				for j := range i {
					name := fmt.Sprintf("%v %v, %s and %s", format, batches, logs[j], logs[i])
					swapped := killed.CrashClone(vfs.KeepAll())
					must(t, swapped.Rename(logs[j], "db/swap"))
					must(t, swapped.Rename(logs[i], logs[j]))
					must(t, swapped.Rename("db/swap", logs[i]))
					got := readersAgree(t, name, swapped)
					if format == FormatNative && got != whole && strings.HasSuffix(got, "true") {
						t.Errorf("%s: %q, before: %q", name, got, whole)
					}
				}
			}
		}
	}
}

// readersAgree returns what copies of the database show: "refused", or the entries and, at the end,
// whether the recovery was clean.
func readersAgree(t *testing.T, name string, mem *vfs.Mem) string {
	t.Helper()
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
		db, err := open(&Options{FS: mem.CrashClone(vfs.KeepAll()), ErrorIfMissing: true})
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
	return views["Open"]
}

// TestRepairOfSwappedLogs: whatever two logs have swapped their names, point reads and iterators
// agree after a repair. In LevelDB's format a log does not record its number.
func TestRepairOfSwappedLogs(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		killed := killedWithLogs(t, format, []int{2, 3, 2, 1}, 4)
		logs, err := fstest.Find(killed, "db", base.FileLog)
		must(t, err)
		for i := range logs {
			for j := range i {
				mem := killed.CrashClone(vfs.KeepAll())
				must(t, mem.Rename(logs[j], "db/swap"))
				must(t, mem.Rename(logs[i], logs[j]))
				must(t, mem.Rename("db/swap", logs[i]))
				_, err := Repair("db", &Options{FS: mem})
				must(t, err)
				db := mustOpen(t, "db", &Options{FS: mem})
				it := db.Iter(nil)
				for ok := it.First(); ok; ok = it.Next() {
					v, err := db.Get(it.Key(), nil)
					if err != nil || string(v) != string(it.Value()) {
						t.Errorf("%v, %s and %s: Get(%s) is %q, %v; the iterator has %q", format,
							logs[j], logs[i], it.Key(), v, err, it.Value())
					}
				}
				must(t, it.Close())
				mustClose(t, db)
			}
		}
	}
}
