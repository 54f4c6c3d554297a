package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/memory/offheap"
	testseed "github.com/loamdb/loam/internal/testkit/seed"
)

// FuzzTable opens, reads and salvages tables as they are and with corrected checksums, so that
// mutations reach the parts after them. Memory is bounded.
func FuzzTable(f *testing.F) {
	for _, b := range fuzzTables(f) {
		f.Add(b, []byte("0000000000000007"))
	}
	f.Fuzz(func(t *testing.T, b, key []byte) {
		if len(b) > 1<<16 {
			return
		}
		for _, b := range [][]byte{b, reseal(b)} {
			for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise} {
				fuzzOne(t, b, key, c)
			}
		}
	})
}

// fuzzTables are small tables with all that a table can have.
func fuzzTables(t testing.TB) (tables [][]byte) {
	for _, maxIndex := range []int{1 << 20, 0} {
		for _, z := range []sstable.Compression{sstable.NoCompression, sstable.Snappy,
			sstable.Zstd} {
			o := options()
			o.BlockSize, o.Compression = 300, z
			out := new(memory)
			w := NewPartitioned(out, o, maxIndex, 60)
			for i := range 40 {
				e := benchEntry(i)
				if err := w.Add([]byte(e.key), e.t, base.CodecRaw, e.value[:i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Add([]byte("x"), base.MakeTrailer(1, base.KindRangeDelete), base.CodecRaw,
				[]byte("y")); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Finish(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			tables = append(tables, out.Bytes())
		}
	}
	for _, z := range []sstable.Compression{sstable.Snappy, sstable.Zstd} {
		o := options()
		o.BlockSize, o.Compression = 600, z
		b, _ := write(t, o, 150, recordEntry)
		dictFrame(t, b)
		tables = append(tables, b)
	}
	return tables
}

// TestMutations changes bytes at random, with the checksums made right again.
func TestMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	opened := 0
	tables := fuzzTables(t)
	rounds := testseed.Scale(2000, 2000, 20000)
	for i := range rounds {
		b := bytes.Clone(tables[i%len(tables)])
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(b))
			b[at] = []byte{b[at] ^ 1<<rng.IntN(8), 0, 0xff, byte(rng.Uint32())}[rng.IntN(4)]
		}
		if fuzzOne(t, reseal(b), []byte("0000000000000007"), base.Bytewise) {
			opened++
		}
	}
	if opened < rounds/4 {
		t.Errorf("%d of %d could be opened", opened, rounds)
	}
}

const fuzzMemory = 1 << 20

// fuzzOne reports whether the table could be opened.
func fuzzOne(t *testing.T, b, key []byte, c *base.Comparer) bool {
	before := offheap.InUse()
	env := blocktable.Env{Name: "f.loam", Comparer: c, MaxDecoded: fuzzMemory}
	check := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, base.ErrCorruption) &&
			!errors.Is(err, base.ErrNewerFormat) {
			t.Fatal(err)
		}
		if n := offheap.InUse() - before; n > 8*fuzzMemory {
			t.Fatalf("%d bytes of memory", n)
		}
	}
	check(Salvage(fileOf(b), env, sstable.Salvage{
		Add:  func([]byte, base.Trailer, base.Codec, []byte) error { return nil },
		Lost: func(sstable.Lost) {},
	}))
	r, err := Open(fileOf(b), env)
	if err != nil {
		check(err)
		return false
	}
	defer r.Close()
	var e base.Chunk
	for _, flags := range []sstable.ReadFlags{sstable.Private, sstable.Scan} {
		src := r.NewSource(flags)
		check(base.Scan(src, func(*base.Chunk) error { return nil }))
		i, err := src.SeekLT(key, base.MaxTrailer, &e)
		for ok := i >= 0; ok; ok, err = src.Prev(&e) {
		}
		check(err)
		src.Close()
	}
	l := base.MakeLookup(c, key, base.MaxSeqNum)
	_, hit, found, err := r.Get(l, 0, nil)
	for ; found && err == nil; _, hit, found, err = r.GetNext(hit, l, 0, nil) {
	}
	check(err)
	if dels := r.RangeDels(); dels.Newest(key, base.MaxSeqNum) != dels.SpanAt(key,
		base.MaxSeqNum).Seq {
		t.Errorf("two answers for %q", key)
	}
	r.OffsetOf(key, base.MaxTrailer)
	r.SplitKeys(3)
	return true
}

// reseal makes the checksums right of all that looks like a frame or a footer.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < FooterLen {
		return b
	}
	end := b[len(b)-FooterLen:]
	binary.LittleEndian.PutUint64(end[footMagic:], Magic)
	binary.LittleEndian.PutUint64(end[16:], uint64(len(b)))
	fileNum := binary.LittleEndian.Uint64(end[8:])
	for off := 0; off+headerLen <= len(b)-FooterLen; {
		n := uint64(binary.LittleEndian.Uint32(b[off+frameLength:]))
		if string(b[off+frameMarker:off+frameKind]) != marker ||
			n > uint64(len(b)-FooterLen-off-headerLen) {
			off++
			continue
		}
		frame := b[off : off+headerLen+int(n)]
		sealFrame(frame, frame[frameKind], fileNum, uint64(off))
		off += len(frame)
	}
	binary.LittleEndian.PutUint32(end[footChecksum:], footerChecksum(end))
	return b
}

// A part of gigabytes that are a hole is refused before memory is asked for.
func TestSparseTable(t *testing.T) {
	b, _ := write(t, options(), 100, benchEntry)
	const hole = 4 << 30
	foot, err := parseFooter(b[len(b)-FooterLen:], uint64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"index", "filter"} {
		p, err := parseProps(b[foot.props+headerLen : len(b)-FooterLen])
		if err != nil {
			t.Fatal(err)
		}
		p.Comparer = base.Bytewise.Name
		if tag == "index" {
			p.index, p.filter = block.Handle{Offset: 100, Size: hole - 100}, block.Handle{}
		} else {
			p.filter.Size = hole
		}
		props := append(make([]byte, headerLen), p.append(nil)...)
		sealFrame(props, kindProps, 7, hole)
		f := footer{props: hole, fileNum: 7, size: uint64(hole + len(props) + FooterLen)}
		tail := f.append(props)
		_, err = Open(&sparseFile{hole: hole, tail: tail}, testEnv)
		if !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

// sparseFile is a file whose bytes before tail are a hole.
type sparseFile struct {
	hole int64
	tail []byte
}

func (f *sparseFile) Size() int64              { return f.hole + int64(len(f.tail)) }
func (f *sparseFile) Stored() int64            { return f.hole / 31 }
func (f *sparseFile) NextData(off int64) int64 { return max(off, f.hole) }
func (f *sparseFile) Prefetch(off, n int64)    {}
func (f *sparseFile) Close() error             { return nil }

func (f *sparseFile) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > 1<<30 {
		return 0, errors.New("a read of gigabytes")
	}
	for i := range p {
		if p[i] = 0; off+int64(i) >= f.hole {
			p[i] = f.tail[off+int64(i)-f.hole]
		}
	}
	return len(p), nil
}
