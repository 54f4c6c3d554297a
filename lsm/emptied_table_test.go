package lsm

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// emptyTable is a whole table without entries, of LevelDB's format with size bytes.
func emptyTable(t *testing.T, format Format, num uint64, size int) []byte {
	t.Helper()
	mem := vfs.NewMem()
	f, err := mem.Create("empty")
	must(t, err)
	o := sstable.WriterOptions{Comparer: base.Bytewise, FileNum: num}
	if format == FormatNative {
		o.Format = base.Native
	}
	w := files.NewTableWriter(f, o)
	_, err = w.Finish()
	must(t, errors.Join(err, w.Close()))
	b, err := fstest.ReadFile(mem, "empty")
	must(t, err)
	if format == FormatNative {
		return b
	}
	const footer = 48
	end := len(b) - footer
	if len(b) > size {
		t.Fatalf("an empty table has %d bytes, more than %d", len(b), size)
	}
	return slices.Concat(b[:end], make([]byte, size-len(b)), b[end:])
}

// TestEmptiedTable: a whole table without entries in the place of one that the MANIFEST has, in
// LevelDB's format of the same size, is damage to every reader. A checkpoint and a backup do not
// look into tables of LevelDB's format; LevelDB itself finds no entries. A repair reports it.
func TestEmptiedTable(t *testing.T) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		mem := vfs.NewMem()
		o := &Options{FS: mem, Format: format, ErrorIfMissing: true}
		db := mustOpen(t, "db", &Options{FS: mem, Format: format})
		must(t, db.Put([]byte("a"), bytes.Repeat([]byte("1"), 300), NoSync))
		must(t, db.Put([]byte("c"), bytes.Repeat([]byte("2"), 300), NoSync))
		must(t, db.Flush())
		must(t, db.Close())
		tables, err := fstest.Find(mem, "db", base.FileTable)
		must(t, err)
		name := filepath.Base(tables[0])
		_, num, _ := base.ParseTableName(name)
		whole, err := fstest.ReadFile(mem, tables[0])
		must(t, err)
		must(t, mem.Remove(tables[0]))
		must(t, fstest.WriteFile(mem, tables[0], emptyTable(t, format, num, len(whole))))

		tells := func(who string, err error) {
			t.Helper()
			var c *CorruptionError
			if !errors.As(err, &c) || c.File != name {
				t.Errorf("%v: %s: %v", format, who, err)
			}
		}
		reads := func(who string, db *DB) {
			t.Helper()
			for _, key := range []string{"a", "b", "c"} {
				_, err := db.Get([]byte(key), nil)
				tells(who+" of "+key, err)
			}
			it := db.Iter(nil)
			if it.First() {
				t.Errorf("%v: %s shows %q", format, who, it.Key())
			}
			tells(who+": iterator", errors.Join(it.Err(), it.Close()))
			tells(who+": Verify", db.Verify(context.Background(), nil))
			must(t, db.Close())
		}
		reads("Open", mustOpen(t, "db", o))
		readOnly := *o
		readOnly.ReadOnly = true
		reads("read-only", mustOpen(t, "db", &readOnly))
		if f, err := OpenFollower("db", o); err == nil {
			reads("follower", f.DB)
		} else { // a follower may open tables at once
			tells("follower", err)
		}
		tells("Export", Export(context.Background(), "db", "out", FormatNative, o, nil))
		report, err := Repair("db", o)
		must(t, err)
		said := false
		for _, d := range report.Dropped {
			said = said || d.File == name && strings.Contains(d.Reason, "entries")
		}
		for _, r := range report.Rewritten {
			said = said || r.File == name
		}
		if !said {
			t.Errorf("%v: repair: %+v", format, report)
		}
	}
}
