// Package tables is the one suite that every table format must pass: what
// is written comes back by every way of reading, under every option and
// comparer; damage and failures to read are reported and told apart; nothing
// leaks.
//
// Run is called from a format's own test.
package tables

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/model"
)

// Env is what a reader is opened with.
type Env struct {
	Name       string
	Cache      *cache.Cache
	Comparer   *base.Comparer
	MaxDecoded int64
}

// Format is a table format under test.
type Format struct {
	New  func(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer
	Open func(f vfs.ReadFile, e Env) (sstable.Reader, error)
	// Salvage reads a damaged table.
	Salvage func(f vfs.ReadFile, e Env, out sstable.Salvage) error
}

// Run runs the whole suite, with tables that are read by calls and with mapped ones.
func Run(t *testing.T, f Format) {
	RunRead(t, f)
	t.Run("Mapped", func(t *testing.T) {
		s := &suite{Format: f, mapped: new(atomic.Int64)}
		run(t, s)
		if n := s.mapped.Load(); n < 1000 {
			t.Errorf("%d reads in place", n)
		}
	})
}

// RunRead is Run without tables that are read in place.
func RunRead(t *testing.T, f Format) {
	t.Run("Read", func(t *testing.T) { run(t, &suite{Format: f}) })
}

func run(t *testing.T, s *suite) {
	for _, tc := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"Contents", s.contents},
		{"Shapes", s.shapes},
		{"Copies", s.copies},
		{"Staged", s.staged},
		{"Prefixes", s.prefixes},
		{"OlderVersions", s.olderVersions},
		{"MemoryOnly", s.memoryOnly},
		{"Warm", s.warm},
		{"Cacheless", s.cacheless},
		{"NoMemory", s.noMemory},
		{"WriterRefuses", s.writerRefuses},
		{"WriteFailures", s.writeFailures},
		{"ReadFailures", s.readFailures},
		{"Flips", s.flips},
		{"Truncations", s.truncations},
		{"Garbage", s.garbage},
		{"Salvage", s.salvage},
		{"Concurrent", s.concurrent},
		{"Allocations", s.allocations},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := offheap.InUse()
			tc.run(t)
			if after := offheap.InUse(); after != before && !t.Failed() {
				t.Errorf("%d bytes off the heap before, %d after", before, after)
			}
		})
	}
}

type suite struct {
	Format
	mapped *atomic.Int64 // blocks read in place; nil: files are not mapped
}

// file makes b a file that can be mapped if the suite says so.
func (s *suite) file(t testing.TB, f *memFile) vfs.ReadFile {
	if s.mapped == nil {
		return f
	}
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpTouch {
			s.mapped.Add(1)
		}
		return vfs.Outcome{}
	})
	w, err := fsys.Create("t")
	if err == nil {
		_, err = w.Write(f.b)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := fsys.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	return mappedFile{f, m}
}

// mappedFile is a memFile that can be mapped.
type mappedFile struct {
	*memFile
	m vfs.ReadFile
}

func (f mappedFile) Map(n int64) (*vfs.Mapping, error) { return vfs.Map(f.m, n) }

var comparers = []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.LengthFirst, model.Fold}

// Random makes n or fewer entries with long and short keys, several versions
// of some, and deletions.
func Random(rng *rand.Rand, c *base.Comparer, n int) []model.Entry {
	es := make([]model.Entry, 0, n)
	prefix := []string{"", "user", "a/rather/long/prefix/of/all/keys/"}[rng.IntN(3)]
	for len(es) < n {
		tail := make([]byte, rng.IntN(12))
		for i := range tail {
			tail[i] = "\x00\x01aAbBzZ\x7f\x80\xfe\xff"[rng.IntN(12)]
		}
		key := append([]byte(prefix), tail...)
		for range 1 + rng.IntN(3)*rng.IntN(3) {
			e := model.Entry{Key: key, Trailer: base.MakeTrailer(base.SeqNum(rng.IntN(1000)),
				base.KindSet)}
			if rng.IntN(5) == 0 {
				e.Trailer = base.MakeTrailer(e.Trailer.Seq(), base.KindDelete)
			} else {
				e.Value = bytes.Repeat([]byte{byte(rng.Uint32()), byte(rng.Uint32()), 'v'},
					rng.IntN(40))
			}
			es = append(es, e)
		}
	}
	return model.SortUnique(c, es[:n])
}

// RandomOptions picks writer options.
func RandomOptions(rng *rand.Rand, c *base.Comparer) sstable.WriterOptions {
	return sstable.WriterOptions{
		Comparer:        c,
		BlockSize:       []int{1, 64, 512, 4096, 1 << 16}[rng.IntN(5)],
		RestartInterval: []int{1, 2, 16, 1000}[rng.IntN(4)],
		Compression:     sstable.Compression(rng.IntN(3)),
		ZstdLevel:       rng.IntN(4),
		BloomBits:       []int{0, 5, 10, 20}[rng.IntN(4)],
		LevelDBFilter:   rng.IntN(2) == 0,
		PrefixLength:    []int{0, 1, 5, 40}[rng.IntN(4)],
	}
}

func usual(c *base.Comparer) sstable.WriterOptions {
	return sstable.WriterOptions{Comparer: c, BlockSize: 256, RestartInterval: 4,
		Compression: sstable.Snappy, BloomBits: 10}
}

// write makes a table and returns its bytes.
func (s *suite) write(t testing.TB, o sstable.WriterOptions,
	es []model.Entry) ([]byte, sstable.Meta) {
	t.Helper()
	f := new(memFile)
	w := s.New(f, o)
	for _, e := range es {
		if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
			t.Fatal(err)
		}
	}
	if w.Entries() != uint64(len(es)) {
		t.Errorf("Entries is %d of %d", w.Entries(), len(es))
	}
	estimate := w.EstimatedSize()
	meta, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Sync(); err != nil || !f.synced {
		t.Error("Sync did not sync", err)
	}
	if err := w.Close(); err != nil || !f.closed {
		t.Error("Close did not close the file", err)
	}
	if meta.Size != uint64(len(f.b)) {
		t.Errorf("Meta says %d bytes, file has %d", meta.Size, len(f.b))
	}
	// The estimate leaves out what does not grow with the table: properties, the sample of keys.
	if estimate > 1024+uint64(o.BlockSize)+meta.Size*3/2 || estimate+4096 < meta.Size*7/8 {
		t.Errorf("size was estimated as %d, is %d", estimate, meta.Size)
	}
	return f.b, meta
}

func (s *suite) open(t testing.TB, b []byte, e Env) sstable.Reader {
	t.Helper()
	r, err := s.Open(s.file(t, &memFile{b: b}), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// withCache runs f with a cache that must be empty of pins afterwards.
func withCache(capacity int64, f func(c *cache.Cache)) {
	c := cache.New(capacity)
	defer c.Unref()
	f(c)
}

// memFile is a file in memory, with failures on demand.
type memFile struct {
	b              []byte
	synced, closed bool
	failAt         int // this operation from now fails, if > 0
	fail           error
	reads          int
}

func (f *memFile) op() error {
	if f.failAt > 0 {
		if f.failAt--; f.failAt == 0 {
			return f.fail
		}
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if f.fail != nil {
		f.reads++
		if err := f.op(); err != nil {
			return 0, err
		}
	}
	return bytes.NewReader(f.b).ReadAt(p, off)
}

func (f *memFile) Write(p []byte) (int, error) {
	if err := f.op(); err != nil {
		return 0, err
	}
	f.b = append(f.b, p...)
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.synced = true
	return f.op()
}

func (f *memFile) Close() error {
	f.closed = true
	return f.op()
}

func (f *memFile) Size() int64           { return int64(len(f.b)) }
func (f *memFile) Prefetch(off, n int64) {}

var _ io.ReaderAt = (*memFile)(nil)
