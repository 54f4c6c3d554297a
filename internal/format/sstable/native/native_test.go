package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// memory is a file that is written, then read.
type memory struct{ bytes.Buffer }

func (*memory) Sync() error  { return nil }
func (*memory) Close() error { return nil }

// bytesFile is a file of these bytes.
type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error          { return nil }
func (f bytesFile) Size() int64         { return f.Reader.Size() }
func (bytesFile) Prefetch(off, n int64) {}

func fileOf(b []byte) bytesFile { return bytesFile{bytes.NewReader(b)} }

// entry is an entry of a table under test.
type entry struct {
	key   string
	t     base.Trailer
	value []byte
}

func set(key string, seq base.SeqNum, value []byte) entry {
	return entry{key, base.MakeTrailer(seq, base.KindSet), value}
}

func options() sstable.WriterOptions {
	return sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 4096,
		Compression: sstable.Snappy, BloomBits: 10, FileNum: 7}
}

var testEnv = blocktable.Env{Name: "000007.loam", Comparer: base.Bytewise, FileNum: 7}

// write makes a table of n entries.
func write(t testing.TB, o sstable.WriterOptions, n int,
	at func(i int) entry) ([]byte, sstable.Meta) {
	t.Helper()
	f := new(memory)
	w := NewWriter(f, o)
	defer w.Close()
	for i := range n {
		e := at(i)
		if err := w.Add([]byte(e.key), e.t, base.CodecRaw, e.value); err != nil {
			t.Fatal(err)
		}
	}
	meta, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return f.Bytes(), meta
}

func open(t testing.TB, b []byte) *Reader {
	t.Helper()
	r, err := Open(fileOf(b), testEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// benchEntry is an entry of db_bench: 16 + 100 bytes, the value compresses to half.
func benchEntry(i int) entry {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	half := make([]byte, 50)
	for j := range half {
		half[j] = byte(rng.Uint32())
	}
	return set(fmt.Sprintf("%016d", i), base.SeqNum(i+1), append(half, half...))
}

func TestChecksumIsOfTheFile(t *testing.T) {
	b, meta := write(t, options(), 60000, benchEntry) // more than one write
	if len(b) <= 2<<20 || meta.Checksum != base.CRC(b) || meta.Checksum == 0 {
		t.Errorf("%d bytes, checksum %08x, want %08x", len(b), meta.Checksum, base.CRC(b))
	}
}

// A table under the number of another one is found when it is opened, whole or not.
func TestSwappedTable(t *testing.T) {
	b, _ := write(t, options(), 100, benchEntry)
	env := testEnv
	env.FileNum = 8
	_, err := Open(fileOf(b), env)
	if !errors.Is(err, base.ErrCorruption) ||
		!strings.Contains(err.Error(), "this is table 000007, not 000008") {
		t.Errorf("opened as another table: %v", err)
	}
	env.FileNum = 0
	r, err := Open(fileOf(b), env)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	// A block of another table, of the same length at the same place.
	o := options()
	o.FileNum = 8
	other, _ := write(t, o, 100, func(i int) entry { e := benchEntry(i); e.t++; return e })
	h := open(t, b).Index.Handle(0)
	copy(b[h.Offset:h.End()], other[h.Offset:h.End()])
	if err := scan(open(t, b), func(*base.Chunk) {}); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("a block of another table: %v", err)
	}
}

func scan(r *Reader, f func(*base.Chunk)) error {
	src := r.NewSource(sstable.Private)
	defer src.Close()
	return base.Scan(src, func(e *base.Chunk) error {
		f(e)
		return nil
	})
}

func TestWrongLength(t *testing.T) {
	b, _ := write(t, options(), 100, benchEntry)
	twice := append(bytes.Clone(b), b...)
	for name, b := range map[string][]byte{"one byte more": append(bytes.Clone(b), 0),
		"twice": twice, "one byte less": b[1:], "cut": b[:len(b)-1]} {
		if _, err := Open(fileOf(b), testEnv); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// remake writes the properties of the table b anew, after change, and its footer.
func remake(t *testing.T, b []byte, change func(p []byte) []byte, v uint16) []byte {
	t.Helper()
	foot, err := parseFooter(b[len(b)-FooterLen:], uint64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	props := bytes.Clone(b[foot.props+headerLen : len(b)-FooterLen])
	props = append(make([]byte, headerLen), change(props)...)
	sealFrame(props, kindProps, foot.fileNum, foot.props)
	out := append(bytes.Clone(b[:foot.props]), props...)
	foot.size = uint64(len(out) + FooterLen)
	out = foot.append(out)
	end := out[len(out)-FooterLen:]
	binary.LittleEndian.PutUint16(end[footVersion:], v)
	binary.LittleEndian.PutUint16(end[footVersion+2:], ^v)
	binary.LittleEndian.PutUint32(end[footChecksum:], footerChecksum(end))
	return out
}

// A newer version is refused in one sentence that is no damage; properties that are not
// known are skipped unless they are needed.
func TestVersions(t *testing.T) {
	b, meta := write(t, options(), 100, benchEntry)
	same := func(p []byte) []byte { return p }
	with := func(tag uint64) func(p []byte) []byte {
		return func(p []byte) []byte {
			return base.AppendBytes(binary.AppendUvarint(p, tag), []byte("later"))
		}
	}
	const later = 100<<3 | typeBytes<<1
	for _, tc := range []struct {
		name    string
		b       []byte
		refusal string
	}{
		{"as it is", remake(t, b, same, version), ""},
		{"newer", remake(t, b, same, version+1), "version 2 of the native format, this Loam " +
			"reads up to 1"},
		{"field", remake(t, b, with(later), version), ""},
		{"field that is needed", remake(t, b, with(later|needed), version),
			"field 100 of a table's properties is not known"},
	} {
		r, err := Open(fileOf(tc.b), testEnv)
		if tc.refusal != "" {
			if !errors.Is(err, base.ErrNewerFormat) || errors.Is(err, base.ErrCorruption) ||
				!strings.Contains(err.Error(), tc.refusal) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if p := r.Props(); p.Entries != meta.Entries || p.Keyspace != meta.Keyspace {
			t.Errorf("%s: %+v", tc.name, p)
		}
		r.Close()
	}
	// A version that does not match its complement is damage.
	damaged := bytes.Clone(b)
	damaged[len(b)-FooterLen+footVersion]++
	if _, err := Open(fileOf(damaged), testEnv); !errors.Is(err, base.ErrCorruption) ||
		errors.Is(err, base.ErrNewerFormat) {
		t.Errorf("damaged version: %v", err)
	}
	other := testEnv
	other.Comparer = base.ReverseBytewise
	if _, err := Open(fileOf(b), other); !errors.Is(err, base.ErrCorruption) ||
		!strings.Contains(err.Error(), "ordered by") {
		t.Errorf("another comparer: %v", err)
	}
}

// TestFileOfAFooter: a file that is too short for properties is damage, wherever its footer, which
// has the right checksum, says that they lie.
func TestFileOfAFooter(t *testing.T) {
	for size := range FooterLen + headerLen {
		for _, props := range []uint64{0, 1, uint64(size), 100, 1 << 40, 1<<64 - 1} {
			f := footer{props: props, fileNum: testEnv.FileNum, size: uint64(size)}
			b := f.append(make([]byte, max(size-FooterLen, 0)))
			b = b[len(b)-size:]
			if _, err := Open(fileOf(b), testEnv); !errors.Is(err, base.ErrCorruption) {
				t.Errorf("%d bytes, properties at %d: %v", size, props, err)
			}
			if err := Salvage(fileOf(b), testEnv, sstable.Salvage{
				Lost: func(sstable.Lost) {},
			}); err != nil {
				t.Errorf("salvage of %d bytes, properties at %d: %v", size, props, err)
			}
		}
	}
}

// TestPartsOfTooManyBlocks: an index of parts that says of each part that it leads to more blocks
// than its bytes can have is damage: memory is taken for each block of a table.
func TestPartsOfTooManyBlocks(t *testing.T) {
	f := new(memory)
	w := NewPartitioned(f, options(), 0, 60)
	defer w.Close()
	for i := range 500 {
		e := benchEntry(i)
		if err := w.Add([]byte(e.key), e.t, base.CodecRaw, e.value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	b := f.Bytes()
	blocks := open(t, b).Index.Len()
	for _, n := range []int{0, 1000, maxPartBlocks} {
		err := error(nil)
		if r, e := Open(fileOf(withPartsOf(t, b, n)), testEnv); e != nil {
			err = e
		} else {
			t.Errorf("%d blocks a part: a table of %d blocks, not %d", n, r.Index.Len(), blocks)
			r.Close()
		}
		if !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%d blocks a part: %v", n, err)
		}
	}
}

// withPartsOf is the table b, whose index is cut into parts, with n blocks in each of them.
func withPartsOf(t *testing.T, b []byte, n int) []byte {
	t.Helper()
	foot, err := parseFooter(b[len(b)-FooterLen:], uint64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := parseProps(b[foot.props+headerLen : len(b)-FooterLen])
	if err != nil {
		t.Fatal(err)
	}
	at := p.parts.Offset
	c, err := colblk.Open(b[at+headerLen:at+p.parts.Size], base.Bytewise)
	if err != nil {
		t.Fatal(err)
	}
	var e base.Chunk
	var mem, raw block.Buffer
	defer mem.Free()
	defer raw.Free()
	if err := c.Chunk(&e, nil, 1<<20, &mem, &raw); err != nil {
		t.Fatal(err)
	}
	var w colblk.Writer
	defer w.Free()
	if err := w.Reset(colblk.Options{Comparer: base.Bytewise}); err != nil {
		t.Fatal(err)
	}
	for i := range e.Len() {
		part, filter, _ := decodePart(e.Value(i))
		h := block.Handle{Offset: part.Offset, Size: part.Length}
		if err := w.Add(e.Key(i), e.Trailers[i], base.CodecRaw,
			appendPart(nil, h, n, part.DataEnd, filter)); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := w.Finish(make([]byte, headerLen, headerLen+w.Bound()+block.Slack), w.Len())
	if err != nil {
		t.Fatal(err)
	}
	sealFrame(parts, kindParts, foot.fileNum, at)
	out := append(bytes.Clone(b[:at]), parts...)
	p.parts.Size, foot.props = uint64(len(parts)), uint64(len(out))
	props := append(make([]byte, headerLen), p.append(nil)...)
	sealFrame(props, kindProps, foot.fileNum, foot.props)
	out = append(out, props...)
	foot.size = uint64(len(out) + FooterLen)
	return foot.append(out)
}

// Blocks of up to a page lie in one page, as far as padding stays below one byte in fifty.
func TestPlacement(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, tc := range []struct {
		name      string
		value     func(i int) []byte
		straddles float64 // at most, as a part of all blocks
	}{
		{"db_bench", nil, 0},
		{"small", func(i int) []byte { return fmt.Appendf(nil, "%d", i) }, 0.2}, // heaps, partly
		{"noise", func(i int) []byte { b := make([]byte, 60+i%40); fill(rng, b); return b }, 0.02},
		{"zeros", func(int) []byte { return make([]byte, 200) }, 0.03},
		{"changing", func(i int) []byte {
			if i/1000%2 == 0 {
				return make([]byte, 300)
			}
			b := make([]byte, 100)
			fill(rng, b)
			return b
		}, 0.1},
		{"large", func(int) []byte { b := make([]byte, 1500); fill(rng, b); return b }, 1},
	} {
		b, meta := write(t, options(), 20000, func(i int) entry {
			e := benchEntry(i)
			if tc.value != nil {
				e.value = tc.value(i)
			}
			return e
		})
		r := open(t, b)
		straddles, padding, long := 0, uint64(0), 0
		for i := range r.Index.Len() {
			h := r.Index.Handle(i)
			n := headerLen + uint64(binary.LittleEndian.Uint32(b[h.Offset+frameLength:]))
			padding += h.Length - n
			if n > pageLen {
				long++
			} else if h.Offset/pageLen != (h.Offset+n-1)/pageLen {
				straddles++
			}
		}
		t.Logf("%s: %d blocks, %d straddle, %d long, %.2f %% padding, %.1f bytes an entry", tc.name,
			meta.Blocks, straddles, long,
			100*float64(padding)/float64(len(b)), float64(len(b))/20000)
		if float64(straddles) > tc.straddles*float64(meta.Blocks) ||
			padding > uint64(len(b))/maxPadded+credit {
			t.Errorf("%s: %d of %d blocks straddle, %d of %d bytes are padding", tc.name, straddles,
				meta.Blocks, padding, len(b))
		}
	}
}

// What long keys of a block share is stored once, as long as that pays: keys between others that
// share less begin a block. Whole keys of a block stay within bounds.
func TestBlocksOfKeysWithOnePrefix(t *testing.T) {
	long := strings.Repeat("directory/", 200)
	plain := *base.Bytewise
	plain.Name, plain.Compare = "plain", bytes.Compare
	for _, tc := range []struct {
		name     string
		comparer *base.Comparer
		key      func(i int) string
		share    float64 // of all keys' bytes that the table has, at most
	}{
		{"one prefix", base.Bytewise, func(i int) string { return fmt.Sprintf("%s%06d", long, i) },
			0.05},
		{"groups of ten", base.Bytewise,
			func(i int) string { return fmt.Sprintf("%06d%s%d", i/10, long, i%10) }, 0.13},
		{"each its own", base.Bytewise,
			func(i int) string { return fmt.Sprintf("%06d%s", i, long) }, 1.05},
		{"a comparer of the program", &plain,
			func(i int) string { return fmt.Sprintf("%s%06d", long, i) }, 1.55}, // and in the index
	} {
		o, env := options(), testEnv
		o.Comparer, env.Comparer = tc.comparer, tc.comparer
		const n = 2000
		at := func(i int) entry { return set(tc.key(i), 1, []byte("value")) }
		b, meta := write(t, o, n, at)
		if size := float64(len(b)); size > tc.share*float64(meta.RawKeys) {
			t.Errorf("%s: %.0f bytes of %d of keys", tc.name, size, meta.RawKeys)
		}
		r, err := Open(fileOf(b), env)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		i := 0
		if err := scan(r, func(c *base.Chunk) {
			if len(c.Data) > (maxExpansion+1)*o.BlockSize {
				t.Errorf("%s: a block of %d bytes", tc.name, len(c.Data))
			}
			for j := range c.Trailers {
				if want := at(i); string(c.Data[c.KeyOff[j]:c.ValOff[j]]) != want.key {
					t.Fatalf("%s: key %d is another one", tc.name, i)
				}
				i++
			}
		}); err != nil || i != n {
			t.Errorf("%s: %d entries, %v", tc.name, i, err)
		}
	}
}

// A part of the filter that is not in memory is read before the index and the block are, and is in
// memory then; so is a part of the index.
func TestFilterInParts(t *testing.T) {
	out := new(memory)
	w := NewPartitioned(out, options(), 4000, 4000)
	defer w.Close()
	const n = 20000
	for i := range n {
		e := benchEntry(2 * i)
		if err := w.Add([]byte(e.key), e.t, base.CodecRaw, e.value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	c := cache.New(4 << 20)
	defer c.Unref()
	env := testEnv
	env.Cache = c
	r, err := Open(fileOf(out.Bytes()), env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if len(r.parted.handles) < 3 {
		t.Fatalf("%d parts", len(r.parted.handles))
	}
	blocked, searched := 0, 0
	for i := range 2000 {
		l := base.MakeLookup(base.Bytewise, []byte(benchEntry(2*(i*7919%n)+1).key), base.MaxSeqNum)
		_, hit, found, err := r.Get(l, sstable.MemoryOnly, nil)
		if errors.Is(err, base.ErrWouldBlock) {
			blocked++
			r.Prefetch(hit.Position)
			_, hit, found, err = r.GetAt(hit.Position, l, 0, nil)
		}
		if found || err != nil {
			t.Fatal(found, err)
		}
		if hit.Searched != 0 {
			searched++
		}
	}
	if parts := len(r.parted.handles); blocked < parts || blocked > 100 || searched > 60 {
		t.Errorf("of 2000 absent keys %d were not known from memory and %d were searched in "+
			"blocks; %d parts", blocked, searched, parts)
	}
	for i := range n {
		if _, _, found, err := r.Get(base.MakeLookup(base.Bytewise, []byte(benchEntry(2*i).key),
			base.MaxSeqNum), 0, nil); !found || err != nil {
			t.Fatal(i, found, err)
		}
	}
}

// VerifyMeta reads all parts of a filter, whichever are in memory.
func TestVerifyMetaReadsEveryPart(t *testing.T) {
	out := new(memory)
	w := NewPartitioned(out, options(), 4000, 4000)
	defer w.Close()
	for i := range 10000 {
		e := benchEntry(i)
		if err := w.Add([]byte(e.key), e.t, base.CodecRaw, e.value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	r := open(t, b)
	if err := r.VerifyMeta(); err != nil || len(r.parted.handles) < 2 {
		t.Errorf("%d parts: %v", len(r.parted.handles), err)
	}
	for i, h := range r.parted.handles {
		b[h.Offset+h.Size/2] ^= 1
		var damage *base.Corruption
		if err := r.VerifyMeta(); !errors.As(err, &damage) || damage.Offset != int64(h.Offset) {
			t.Errorf("part %d at %d: %v", i, h.Offset, err)
		}
		b[h.Offset+h.Size/2] ^= 1
	}
}

// Each byte of padding is checked, by a scan and by a Get.
func TestPaddingIsChecked(t *testing.T) {
	b, _ := write(t, options(), 3000, benchEntry)
	r := open(t, b)
	checked := 0
	for i := range r.Index.Len() {
		h := r.Index.Handle(i)
		n := headerLen + uint64(binary.LittleEndian.Uint32(b[h.Offset+frameLength:]))
		for at := h.Offset + n; at < h.End(); at++ {
			checked++
			b[at] ^= 1 << (at % 8)
			_, _, _, err := r.Get(base.MakeLookup(base.Bytewise, bytes.Clone(r.Index.View.Key(i)),
				base.MaxSeqNum), 0, nil)
			if scanned := scan(r, func(*base.Chunk) {}); !errors.Is(scanned, base.ErrCorruption) ||
				!errors.Is(err, base.ErrCorruption) &&
					r.MayContain(base.MakeLookup(base.Bytewise, r.Index.View.Key(i),
						base.MaxSeqNum)) {
				t.Fatalf("byte %d, padding of block %d: %v, %v", at, i, scanned, err)
			}
			b[at] ^= 1 << (at % 8)
		}
	}
	if checked < 100 {
		t.Errorf("%d bytes of padding", checked)
	}
}

func fill(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// Values that are alike from entry to entry are packed as heaps; others one by one. A copy
// of packed values is the same table.
func TestPacking(t *testing.T) {
	words := strings.Fields("the quick brown fox jumps over a lazy dog and runs away from all " +
		"other animals of the forest")
	for _, tc := range []struct {
		name  string
		value func(i int) []byte
		heaps bool
	}{
		{"db_bench", func(i int) []byte { return benchEntry(i).value }, false},
		{"records", func(i int) []byte {
			return fmt.Appendf(nil, `{"name":%q,"animal":%q,"visits":%d}`, words[i%len(words)],
				words[i*7%len(words)], i)
		}, true},
	} {
		for _, z := range []sstable.Compression{sstable.Snappy, sstable.Zstd} {
			o := options()
			o.Compression = z
			b, meta := write(t, o, 20000, func(i int) entry {
				return set(fmt.Sprintf("%08d", i), 5, tc.value(i))
			})
			r := open(t, b)
			heaps := 0 // blocks without packed values
			if err := scan(r, func(e *base.Chunk) {
				if e.Codecs == nil {
					heaps++
				}
			}); err != nil {
				t.Fatal(err)
			}
			if tc.heaps && heaps < meta.Blocks/2 || !tc.heaps && z == sstable.Snappy && heaps > 0 {
				t.Errorf("%s, %d: %d of %d blocks are heaps", tc.name, z, heaps, meta.Blocks)
			}
			f := new(memory)
			w := NewWriter(f, o)
			n, packed := 0, 0
			err := scan(r, func(e *base.Chunk) {
				for i := range e.Len() {
					value, err := colblk.AppendUnpacked(nil, e.Value(i), e.Codec(i), nil, 1<<20)
					if err != nil || !bytes.Equal(value, tc.value(n)) {
						t.Fatalf("%s: entry %d is %q: %v", tc.name, n, value, err)
					}
					if n++; e.Codec(i) != base.CodecRaw {
						packed++
					}
					if err := w.Add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i)); err != nil {
						t.Fatal(err)
					}
				}
			})
			if err != nil || n != 20000 || !tc.heaps && packed < n/2 {
				t.Errorf("%s: %d entries, %d packed: %v", tc.name, n, packed, err)
			}
			if _, err := w.Finish(); err != nil || !bytes.Equal(b, f.Bytes()) {
				t.Errorf("%s, %d: the copy has %d bytes, the table %d: %v", tc.name, z, f.Len(),
					len(b), err)
			}
			w.Close()
		}
	}
}

// All kinds that the format has come back, range tombstones by themselves.
func TestKinds(t *testing.T) {
	o := options()
	o.Keyspace, o.KeyspaceName = 3, "three"
	handle := base.ValueHandle{Log: 7, Offset: 100, Len: 40000, Sum: 1}
	entries := []entry{
		{"a", base.MakeTrailer(9, base.KindMerge), []byte("+1")},
		{"a", base.MakeTrailer(8, base.KindSet), []byte("1")},
		{"b", base.MakeTrailer(7, base.KindRangeDelete), []byte("c")},
		{"b", base.MakeTrailer(6, base.KindValueHandle), base.AppendValueHandle(nil, handle)},
		{"c", base.MakeTrailer(6, base.KindSetExpiring), base.AppendDeadline([]byte("soon"), 77)},
		{"c", base.MakeTrailer(5, base.KindRangeDelete), []byte("zz")},
		{"c", base.MakeTrailer(3, base.KindRangeDelete), []byte("zz")},
		{"d", base.MakeTrailer(4, base.KindDelete), nil},
	}
	b, meta := write(t, o, len(entries), func(i int) entry { return entries[i] })
	r := open(t, b)
	p := r.Props()
	p.Sample = meta.Sample // see TestSampleIsStored
	if !reflect.DeepEqual(p, meta.Props) || p.Keyspace != 3 || p.RangeDels != 3 ||
		p.Deletes != 1 || p.Entries != 5 || p.MinSeq != 3 || p.MaxSeq != 9 ||
		p.MinExpiry != 77 || p.MaxExpiry != 77 {
		t.Errorf("properties %+v, the writer says %+v", p, meta.Props)
	}
	if want := uint64(1<<base.KindMerge | 1<<base.KindSet | 1<<base.KindRangeDelete |
		1<<base.KindValueHandle | 1<<base.KindSetExpiring | 1<<base.KindDelete); p.Kinds != want {
		t.Errorf("kinds %#x, want %#x", p.Kinds, want)
	}
	if want := (base.ValueLog{Log: 7, Values: 1, Bytes: 40000, End: 40100 + 19}); !slices.Equal(
		meta.ValueLogs, []base.ValueLog{want}) {
		t.Errorf("value logs %+v, want %+v", meta.ValueLogs, want)
	}
	if string(meta.Smallest.User) != "a" || string(meta.Largest.User) != "zz" ||
		meta.Largest.Trailer != base.RangeDelEnd {
		t.Errorf("bounds %q %q", meta.Smallest.User, meta.Largest.User)
	}
	var got []string
	each := func(e *base.Chunk) {
		for i := range e.Len() {
			got = append(got, fmt.Sprintf("%s#%d,%d:%s", e.Key(i), e.Trailers[i].Seq(),
				e.Trailers[i].Kind(), e.Value(i)))
		}
	}
	if err := scan(r, each); err != nil {
		t.Fatal(err)
	}
	want := "a#9,2:+1 a#8,1:1 b#6,17:" + string(entries[3].value) +
		" c#6,48:soonM\x00\x00\x00\x00 d#4,0:"
	if strings.Join(got, " ") != want {
		t.Errorf("entries %q, want %q", got, want)
	}
	got = nil
	for _, f := range r.RangeDels().Fragments() {
		got = append(got, fmt.Sprintf("%s-%s%d", f.Start, f.Limit, f.Seqs))
	}
	if want := "b-c[7] c-zz[5 3]"; strings.Join(got, " ") != want {
		t.Errorf("range tombstones %q, want %q", got, want)
	}
	if v, hit, found, err := r.Get(base.MakeLookup(base.Bytewise, []byte("a"), base.MaxSeqNum), 0,
		nil); !found || err != nil || string(v) != "+1" || hit.Trailer.Kind() != base.KindMerge {
		t.Errorf("a is %q %v %v %v", v, hit.Trailer.Kind(), found, err)
	}
	salvaged(t, b, entries)
	w := NewWriter(new(memory), o)
	defer w.Close()
	if err := w.Add([]byte("b"), base.MakeTrailer(1, base.KindRangeDelete), base.CodecRaw,
		[]byte("b")); !errors.Is(err, base.ErrInvalidArgument) {
		t.Errorf("an empty range: %v", err)
	}
	for _, second := range []entry{
		{"a", base.MakeTrailer(2, base.KindRangeDelete), []byte("b")},
		{"b", base.MakeTrailer(2, base.KindRangeDelete), []byte("d")},
		{"b", base.MakeTrailer(1, base.KindRangeDelete), []byte("cc")},
		{"bb", base.MakeTrailer(1, base.KindRangeDelete), []byte("d")},
	} {
		w := NewWriter(new(memory), o)
		if err := w.Add([]byte("b"), base.MakeTrailer(2, base.KindRangeDelete), base.CodecRaw,
			[]byte("d")); err != nil {
			t.Fatal(err)
		}
		if err := w.Add([]byte(second.key), second.t, base.CodecRaw, second.value); !errors.Is(err,
			base.ErrInvalidArgument) {
			t.Errorf("a tombstone from %s to %s behind that from b to d: %v", second.key,
				second.value, err)
		}
		w.Close()
	}
}

// salvaged checks that a salvage hands out the entries in their order.
func salvaged(t *testing.T, b []byte, entries []entry) {
	t.Helper()
	n := 0
	err := Salvage(fileOf(b), testEnv, sstable.Salvage{
		Add: func(key []byte, tr base.Trailer, codec base.Codec, value []byte) error {
			value, err := colblk.AppendUnpacked(nil, value, codec, nil, 1<<20)
			if e := entries[n]; err != nil || e.key != string(key) || e.t != tr ||
				!bytes.Equal(e.value, value) {
				t.Errorf("entry %d is %q %v %q", n, key, tr, value)
			}
			n++
			return nil
		},
		Lost: func(l sstable.Lost) { t.Errorf("lost %+v", l) },
	})
	if err != nil || n != len(entries) {
		t.Errorf("%d of %d entries: %v", n, len(entries), err)
	}
}

// A value that is a table is not taken for the table, even where the block around it is
// lost.
func TestSalvageOfTableInTable(t *testing.T) {
	inner, _ := write(t, options(), 300, benchEntry)
	o := options()
	o.Compression = sstable.NoCompression
	b, _ := write(t, o, 3, func(i int) entry { return set(string(rune('a'+i)), 1, inner) })
	b[headerLen+20] ^= 1
	got := 0
	err := Salvage(fileOf(b), testEnv, sstable.Salvage{
		Add: func(key []byte, _ base.Trailer, _ base.Codec, value []byte) error {
			if len(key) != 1 || !bytes.Equal(value, inner) {
				t.Errorf("an entry %q of the table in the table", key)
			}
			got++
			return nil
		},
		Lost: func(sstable.Lost) {},
	})
	if err != nil || got != 2 {
		t.Errorf("%d entries of 2 blocks: %v", got, err)
	}
}

// TestMalformedSampleIsNone: earlier versions wrote one for keys that were chosen by their hashes.
func TestMalformedSampleIsNone(t *testing.T) {
	p := properties{index: block.Handle{Size: headerLen}}
	b := binary.AppendUvarint(p.append(nil), tagSample)
	if got, err := parseProps(base.AppendBytes(b, []byte{88, 0, 0, 0, 0})); err != nil ||
		got.Sample != nil || got.index != p.index {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSampleIsStored: a reader has the sample of the writer.
func TestSampleIsStored(t *testing.T) {
	b, meta := write(t, options(), 50000, benchEntry)
	got := open(t, b).Props().Sample
	if meta.Sample.Len() < 10 || got == nil ||
		!bytes.Equal(got.AppendTo(nil), meta.Sample.AppendTo(nil)) {
		t.Errorf("%v is stored as %v", meta.Sample, got)
	}
	for _, bad := range [][]byte{{}, {11, 0}, {10}, {60}, make([]byte, 1<<13)} {
		if s, ok := base.ParseKeySample(bad); ok {
			t.Errorf("%x is taken for %v", bad, s)
		}
	}
}

// TestIngestedOfProperties: a list of ingested tables that no writer makes is damage.
func TestIngestedOfProperties(t *testing.T) {
	list := []sstable.Ingested{{Num: 3, Seq: 9}, {Num: 5, Seq: base.MaxSeqNum, Keyspace: 2}}
	good := appendIngested(nil, list)
	if got, ok := parseIngested(good); !ok || !slices.Equal(got, list) {
		t.Errorf("%v, %v", got, ok)
	}
	many := make([]sstable.Ingested, sstable.MaxIngested+1)
	for i := range many {
		many[i] = sstable.Ingested{Num: uint64(i) + 1, Seq: 1}
	}
	for name, b := range map[string][]byte{
		"cut":                     good[:len(good)-1],
		"a number again":          appendIngested(nil, []sstable.Ingested{list[0], list[0]}),
		"number 0":                appendIngested(nil, []sstable.Ingested{{Seq: 9}}),
		"no sequence number":      appendIngested(nil, []sstable.Ingested{{Num: 3}}),
		"a large sequence number": appendIngested(nil, []sstable.Ingested{{Num: 3, Seq: 1 << 60}}),
		"a large keyspace":        {3, 9, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"too many":                appendIngested(nil, many),
	} {
		if got, ok := parseIngested(b); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, ok := parseIngested(appendIngested(nil, many[1:])); !ok {
		t.Error("as many as a table may have are refused")
	}
}
