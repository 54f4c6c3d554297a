package lsm

import (
	"encoding/binary"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// repairWithout repairs a database that has lost its MANIFEST, and opens it.
func repairWithout(t *testing.T, mem *vfs.Mem, o *Options) (*DB, *RepairReport) {
	t.Helper()
	manifests, err := fstest.Find(mem, "db", base.FileManifest)
	must(t, err)
	for _, name := range manifests {
		must(t, mem.Remove(name))
	}
	o.FS = mem
	rep, err := Repair("db", o)
	must(t, err)
	db, err := Open("db", o)
	must(t, err)
	return db, rep
}

// TestRepairAppliesOperandsOnce repairs databases without a MANIFEST whose logs have entries that
// tables have, too, because another keyspace needs the logs.
func TestRepairAppliesOperandsOnce(t *testing.T) {
	one := u64(1)
	steps := map[string]func(db *DB) error{
		"put":     func(db *DB) error { return db.Put([]byte("counter"), u64(10), Sync) },
		"merge":   func(db *DB) error { return db.Merge([]byte("counter"), one, Sync) },
		"delete":  func(db *DB) error { return db.Delete([]byte("counter"), Sync) },
		"flush":   func(db *DB) error { return db.Flush() },
		"compact": func(db *DB) error { return db.CompactRange(nil, nil) },
	}
	for _, c := range []struct {
		steps string
		want  uint64
		old   uint64 // the same where the tables say nothing of logs
	}{
		{"merge flush merge compact", 2, 2},
		{"merge flush merge compact merge", 3, 2},
		{"merge merge merge", 3, 3},
		{"put flush merge compact", 11, 11},
		{"put flush merge compact merge merge", 13, 13},
		{"merge compact put merge", 11, 11},
		{"merge compact delete merge", 1, 1},
		{"merge compact merge compact merge flush merge", 4, 3},
	} {
		for _, old := range []bool{false, true} {
			mem := vfs.NewMem()
			o := mergeOptions(mem, "uint64add")
			db, err := Open("db", o)
			must(t, err)
			other, err := db.Keyspace("other", nil)
			must(t, errors.Join(err, other.Put([]byte("x"), []byte("1"), Sync))) // keeps the log
			for step := range strings.FieldsSeq(c.steps) {
				must(t, steps[step](db))
			}
			must(t, db.Close())
			want := c.want
			if old {
				forgetLogs(t, mem)
				want = c.old
			}
			db, rep := repairWithout(t, mem, o)
			got, err := db.Get([]byte("counter"), nil)
			if err != nil || binary.LittleEndian.Uint64(got) != want {
				t.Errorf("%q, old tables %v: %v, %v, want %d; %+v", c.steps, old, got, err, want,
					rep)
			}
			left := 0
			for _, d := range rep.Dropped {
				if strings.Contains(d.Reason, "an operand") && string(d.Smallest) == "counter" {
					left++
				}
			}
			if told := left > 0; want != c.want && !told {
				t.Errorf("%q: the report does not say that an operand is left out: %+v", c.steps,
					rep)
			}
			must(t, db.Close())
		}
	}
}

// forgetLogs rewrites tables as they were before they recorded the first log that the keyspace
// needs.
func forgetLogs(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	tables, err := fstest.Find(mem, "db", base.FileTable)
	must(t, err)
	for _, name := range tables {
		_, num := base.Native.ParseFileName(path.Base(name))
		f, err := mem.Open(name)
		must(t, err)
		r, err := files.OpenTable(f, files.TableOptions{Name: name, Comparer: base.Bytewise,
			FileNum: num})
		must(t, err)
		o := sstable.WriterOptions{Format: base.Native, Comparer: base.Bytewise, BlockSize: 4096,
			RestartInterval: 16, BloomBits: 10,
			FileNum: num, Keyspace: r.Props().Keyspace, KeyspaceName: r.Props().KeyspaceName}
		out, err := mem.Create("db/rewritten")
		must(t, err)
		w := files.NewTableWriter(out, o)
		src := r.NewSource(sstable.Private | sstable.Scan)
		must(t, base.Scan(src, func(e *base.Chunk) error {
			for i := range e.Len() {
				must(t, w.Add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i)))
			}
			return nil
		}))
		src.Close()
		_, err = w.Finish()
		must(t, errors.Join(err, w.Sync(), w.Close(), r.Close(), f.Close(),
			mem.Rename("db/rewritten", name)))
	}
}

// TestRepairTakesRangeDeleteOnce has one range tombstone in two logs: the opening carries it into
// the next log, and the old one is kept for feeds.
func TestRepairTakesRangeDeleteOnce(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	o := &Options{FS: mem, WALRetentionBytes: 1 << 20}
	db, err := Open("db", o)
	must(t, err)
	must(t, errors.Join(db.Put([]byte("b"), []byte("1"), Sync),
		db.Put([]byte("d"), []byte("1"), Sync), db.DeleteRange([]byte("a"), []byte("c"), Sync),
		db.Close()))
	db, err = Open("db", o)
	must(t, errors.Join(err, db.Close()))
	db, _ = repairWithout(t, mem, o)
	holds(t, db, map[string]string{"d": "1"})
	must(t, db.Close())
}

// TestRepairKeepsRangeDeletes loses the MANIFEST of a database whose only table has entries and a
// range tombstone that hides some of them: the table stays as it is, and they stay hidden.
func TestRepairKeepsRangeDeletes(t *testing.T) {
	mem := vfs.NewMem()
	o := &Options{FS: mem, Format: FormatNative}
	db, err := Open("db", o)
	must(t, err)
	must(t, errors.Join(db.Put([]byte("a"), []byte("1"), NoSync),
		db.Put([]byte("b"), []byte("1"), NoSync)))
	snap := db.Snapshot() // the flush keeps what the tombstone hides
	must(t, errors.Join(db.DeleteRange([]byte("a"), []byte("c"), NoSync),
		db.Put([]byte("b"), []byte("2"), NoSync), db.Put([]byte("d"), []byte("1"), NoSync)))
	mustFlush(t, db)
	snap.Close()
	must(t, db.Close())
	for range 2 {
		db, _ = repairWithout(t, mem, o)
		holds(t, db, map[string]string{"b": "2", "d": "1"})
		must(t, db.Close())
	}
}

// TestRepairOfLogsKeptForValues deletes a key of one keyspace in a log that goes, while the log
// with its put stays for large values of another one: the tables tell a repair without a MANIFEST
// that this log's entries are obsolete, though no table has the key.
func TestRepairOfLogsKeptForValues(t *testing.T) {
	needsNative(t)
	for name, then := range map[string]func(*Keyspace) error{
		"recovered": func(*Keyspace) error { return nil },
		"flushed":   func(k *Keyspace) error { return k.Flush() },
		"compacted": func(*Keyspace) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := &Options{FS: mem, LargeValue: 1000, WriteBufferSize: 64 << 10, WALPreallocate: -1}
			db := mustOpen(t, "db", o)
			k := mustSpace(t, db, "s")
			must(t, errors.Join(k.Put([]byte("kept"), nil, NoSync), k.Flush(),
				k.Put([]byte("gone"), []byte("1"), NoSync),
				k.Put([]byte("kept"), []byte("1"), NoSync)))
			large := make([]byte, 4000)
			for i := range 10 {
				must(t, db.Put(key(i), large, NoSync))
			}
			mustFlush(t, db) // the next log begins
			must(t, errors.Join(k.Delete([]byte("gone"), NoSync), then(k), db.Close()))
			db = mustOpen(t, "db", o)
			if name == "compacted" {
				must(t, mustSpace(t, db, "s").CompactRange(nil, nil))
			}
			mustClose(t, db)
			logs, err := fstest.Find(mem, "db", base.FileLog)
			must(t, err)
			if len(logs) != 2 {
				t.Fatalf("not that with the values and an empty one: %q", logs)
			}
			db, _ = repairWithout(t, mem, o)
			defer mustClose(t, db)
			k = mustSpace(t, db, "s")
			if v, err := k.Get([]byte("gone"), nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("a deleted key is %q, %v", v, err)
			}
			if v, err := k.Get([]byte("kept"), nil); err != nil || string(v) != "1" {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
}

// TestRepairOfValuesInADirectory: a directory in the place of a log with large values is what a
// missing log is.
func TestRepairOfValuesInADirectory(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	o := &Options{FS: mem, LargeValue: 1000}
	db := mustOpen(t, "db", o)
	must(t, errors.Join(db.Put([]byte("a"), []byte("1"), NoSync),
		db.Put([]byte("large"), make([]byte, 4000), NoSync), db.Flush(), db.Close()))
	logs, err := fstest.Find(mem, "db", base.FileLog)
	must(t, err)
	for _, log := range logs {
		must(t, errors.Join(mem.Remove(log), mem.MkdirAll(log)))
	}
	report, err := Repair("db", o)
	must(t, err)
	if len(report.Dropped) == 0 || !strings.Contains(report.Dropped[0].Reason, "no regular file") {
		t.Errorf("%+v", report)
	}
	db = mustOpen(t, "db", o)
	holds(t, db, map[string]string{"a": "1"})
	mustClose(t, db)
}
