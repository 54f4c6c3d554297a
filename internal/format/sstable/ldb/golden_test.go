package ldb

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// golden are the tables that a real LevelDB made: testdata/make.py.
var golden = []struct {
	name string
	o    sstable.WriterOptions
}{
	{"snappy-filter", sstable.WriterOptions{BlockSize: 1024, RestartInterval: 16, BloomBits: 10,
		LevelDBFilter: true, Compression: sstable.Snappy}},
	{"raw-filter", sstable.WriterOptions{BlockSize: 1024, RestartInterval: 3, BloomBits: 7,
		LevelDBFilter: true}},
	{"raw-plain", sstable.WriterOptions{BlockSize: 1024, RestartInterval: 16}},
	{"reverse", sstable.WriterOptions{BlockSize: 1024, RestartInterval: 16,
		Comparer: base.ReverseBytewise}},
}

func openGolden(t testing.TB, path string, c *base.Comparer) *Reader {
	t.Helper()
	f, err := vfs.Default.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(f, Env{Name: filepath.Base(path), Comparer: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		f.Close()
	})
	return r
}

// TestGolden reads LevelDB's tables and writes them again: data blocks, index
// keys, and the filter block are LevelDB's byte for byte.
func TestGolden(t *testing.T) {
	for _, tc := range golden {
		t.Run(tc.name, func(t *testing.T) {
			o := tc.o
			if o.Comparer == nil {
				o.Comparer = base.Bytewise
			}
			theirs := openGolden(t, "testdata/"+tc.name+".ldb", o.Comparer)
			checkGoldenContents(t, theirs, "testdata/"+tc.name+".txt")

			path := filepath.Join(t.TempDir(), "000001.ldb")
			f, err := vfs.Default.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			w := NewWriter(f, o)
			src := theirs.NewSource(sstable.Private)
			err = base.Scan(src, func(e *base.Chunk) error {
				for i := range e.Len() {
					if err := w.Add(e.Key(i), e.Trailers[i], base.CodecRaw,
						e.Value(i)); err != nil {
						return err
					}
				}
				return nil
			})
			src.Close()
			_, err2 := w.Finish()
			if err := errors.Join(err, err2, w.Close()); err != nil {
				t.Fatal(err)
			}
			compareTables(t, theirs, openGolden(t, path, o.Comparer),
				o.Compression == sstable.NoCompression)
		})
	}
}

// checkGoldenContents compares Get and a scan with what LevelDB answered.
func checkGoldenContents(t *testing.T, r *Reader, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	present := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		k, v, _ := strings.Cut(lines.Text(), " ")
		key, _ := hex.DecodeString(k)
		value, _ := hex.DecodeString(v)
		present[string(key)] = string(value)
	}
	found := 0
	src := r.NewSource(0)
	defer src.Close()
	err = base.Scan(src, func(e *base.Chunk) error {
		for i := range e.Len() {
			k := e.Key(i)
			got, hit, ok, err := r.Get(base.MakeLookup(base.Bytewise, k, base.MaxSeqNum), 0, nil)
			if err != nil || !ok ||
				!r.MayContain(base.MakeLookup(base.Bytewise, k, base.MaxSeqNum)) {
				t.Fatalf("%q: found %v, %v", k, ok, err)
			}
			want, live := present[string(k)]
			if live != (hit.Trailer.Kind() == base.KindSet) || string(got) != want {
				t.Fatalf("%q is %q, LevelDB says %q", k, got, want)
			}
			if hit.Trailer == e.Trailers[i] && live {
				found++
			}
			at := e.Trailers[i]
			got, hit, ok, err = r.Get(base.MakeLookup(base.Bytewise, k, at.Seq()), 0, nil)
			if err != nil || !ok || hit.Trailer != at || string(got) != string(e.Value(i)) {
				t.Fatalf("%q@%d: %q %v %v", k, at.Seq(), got, ok, err)
			}
		}
		return nil
	})
	if err != nil || found != len(present) {
		t.Fatalf("%d of %d keys: %v", found, len(present), err)
	}
}

// compareTables compares what must be equal; files without compression must be
// equal up to the metaindex.
func compareTables(t *testing.T, theirs, ours *Reader, whole bool) {
	t.Helper()
	if n, m := theirs.Index.Len(), ours.Index.Len(); n != m {
		t.Fatalf("%d blocks, LevelDB has %d", m, n)
	}
	s := pool.Get()
	defer pool.Put(s)
	rowsOf := func(r *Reader, i int) ([]byte, int64, error) {
		h := r.Index.Handle(i)
		return r.contents(block.Handle{Offset: h.Offset, Size: h.Length - block.TrailerLen}, s)
	}
	for i := range theirs.Index.Len() {
		a, _, err := rowsOf(theirs, i)
		if err != nil {
			t.Fatal(err)
		}
		a = bytes.Clone(a)
		b, _, err := rowsOf(ours, i)
		if err != nil || !bytes.Equal(a, b) {
			t.Fatalf("block %d differs (%v)", i, err)
		}
		if !bytes.Equal(theirs.Index.View.Key(i), ours.Index.View.Key(i)) ||
			theirs.Index.View.Trailer(i) != ours.Index.View.Trailer(i) {
			t.Fatalf("block %d has key %q in the index, LevelDB has %q", i, ours.Index.View.Key(i),
				theirs.Index.View.Key(i))
		}
	}
	if !whole {
		return
	}
	a := fileBytes(t, theirs)[:theirs.Tail]
	b := fileBytes(t, ours)[:len(a)]
	if !bytes.Equal(a, b) {
		t.Error("data or filter blocks differ")
	}
}

func fileBytes(t *testing.T, r *Reader) []byte {
	t.Helper()
	var buf block.Buffer
	defer buf.Free()
	b, err := r.Read(&buf, 0, r.Props().Size)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b)
}
