package repair

import (
	"bytes"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
)

// TestOperandBehindEqualKey: a put in a log hides a value that may have the operand after it, also
// where put and operand spell the key differently.
func TestOperandBehindEqualKey(t *testing.T) {
	fold := &base.Comparer{Name: "test.Fold", Compare: func(a, b []byte) int {
		return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b))
	}}
	mem := vfs.NewMem()
	f, err := mem.Create("000009.loam")
	if err != nil {
		t.Fatal(err)
	}
	w := files.NewTableWriter(f, sstable.WriterOptions{Comparer: fold, Format: base.Native,
		FileNum: 9})
	if err := w.Add([]byte("key"), base.MakeTrailer(0, base.KindSet), base.CodecRaw,
		nil); err != nil {
		t.Fatal(err)
	}
	meta, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := &keyspace{cmp: fold}
	one := &table{space: s, native: true, entries: 1, meta: &manifest.FileMeta{Num: 9,
		Naming: base.NamedLoam, Size: meta.Size, Smallest: meta.Smallest, Largest: meta.Largest}}
	o := operands{r: &repair{o: Options{FS: mem}, format: base.Native},
		tables: make(map[*keyspace][]*table), sets: make(map[*keyspace]*files.Set),
		hidden: make(map[*keyspace]*keySet)}
	defer func() {
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}()
	o.of(s, []*table{one})
	l := &logFile{name: "000003.wal", num: 3}
	check := func(kind base.Kind, seq base.SeqNum, key string, want bool) {
		t.Helper()
		if got, err := o.twice(s, l, kind, seq, []byte(key)); got != want || err != nil {
			t.Errorf("%v %s: %v, %v", kind, key, got, err)
		}
	}
	check(base.KindMerge, 4, "key", true)
	check(base.KindSet, 5, "KEY", false)
	check(base.KindMerge, 6, "key", false)
}
