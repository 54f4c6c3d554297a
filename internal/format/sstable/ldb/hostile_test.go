package ldb

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// bytesFile is a file of these bytes.
type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error          { return nil }
func (f bytesFile) Size() int64         { return f.Reader.Size() }
func (bytesFile) Prefetch(off, n int64) {}
func fileOf(b []byte) bytesFile         { return bytesFile{bytes.NewReader(b)} }
func ikey(k string, seq uint64) []byte {
	return base.AppendInternalKey(nil, []byte(k), base.MakeTrailer(base.SeqNum(seq), base.KindSet))
}
func handleBytes(off, size uint64) []byte {
	return block.AppendHandle(nil, block.Handle{Offset: off, Size: size})
}

// rows encodes pairs of key and value as a block.
func rows(t testing.TB, kvs ...[]byte) []byte {
	t.Helper()
	b := block.RowBuilder{Interval: 1}
	defer b.Free()
	for i := 0; i < len(kvs); i += 2 {
		if err := b.AddRaw(kvs[i], kvs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	out, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(out)
}

// assembler puts a table together piece by piece.
type assembler struct{ b []byte }

func (a *assembler) add(p []byte, c block.Codec) block.Handle {
	h := block.Handle{Offset: uint64(len(a.b)), Size: uint64(len(p))}
	trailer := block.Trailer(p, c)
	a.b = append(append(a.b, p...), trailer[:]...)
	return h
}

func (a *assembler) finish(metaindex, index block.Handle) []byte {
	return appendFooter(a.b, metaindex, index)
}

// drain opens a table and reads all of it.
func drain(b []byte, env Env) (n int, err error) {
	r, err := Open(fileOf(b), env)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	src := r.NewSource(sstable.Private)
	defer src.Close()
	err = base.Scan(src, func(e *base.Chunk) error {
		n += e.Len()
		return nil
	})
	return n, err
}

// getAll opens a table and looks up keys until one fails.
func getAll(b []byte, env Env, keys ...string) error {
	r, err := Open(fileOf(b), env)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, k := range keys {
		if _, _, _, err := r.Get(base.MakeLookup(env.Comparer, []byte(k), base.MaxSeqNum), 0,
			nil); err != nil {
			return err
		}
	}
	return nil
}

func TestHostileIndex(t *testing.T) {
	one := rows(t, ikey("b", 1), []byte("v"))
	two := rows(t, ikey("d", 1), []byte("v"))
	const len1 = 12 + 1 + 8 // of one and of two
	end := uint64(len1 + block.TrailerLen)
	for _, tc := range []struct {
		name, reason string
		index        [][]byte
	}{
		{"good", "", [][]byte{ikey("b", 1), handleBytes(0, len1), ikey("d", 1),
			handleBytes(end, len1)}},
		{"good with shorter separators", "", [][]byte{ikey("c", 7), handleBytes(0, len1),
			ikey("e", 9), handleBytes(end, len1)}},
		{"one block twice", "overlaps", [][]byte{ikey("b", 1), handleBytes(0, len1), ikey("d", 1),
			handleBytes(0, len1)}},
		{"blocks in the wrong order", "overlaps", [][]byte{ikey("b", 1), handleBytes(end, len1),
			ikey("d", 1), handleBytes(0, len1)}},
		{"keys descend", "do not ascend", [][]byte{ikey("d", 1), handleBytes(0, len1), ikey("b", 1),
			handleBytes(end, len1)}},
		{"keys equal", "do not ascend", [][]byte{ikey("b", 1), handleBytes(0, len1), ikey("b", 1),
			handleBytes(end, len1)}},
		{"outside the file", "outside the data", [][]byte{ikey("b", 1), handleBytes(1<<40, len1)}},
		{"past the last offset", "malformed handle",
			[][]byte{ikey("b", 1), handleBytes(1<<63, len1)}},
		{"size wraps", "malformed handle", [][]byte{ikey("b", 1), handleBytes(0, 1<<64-1)}},
		{"the index itself", "outside the data", [][]byte{ikey("b", 1), handleBytes(2*end, 8)}},
		{"empty block", "is empty", [][]byte{ikey("b", 1), handleBytes(0, 0)}},
		{"no handle", "malformed handle", [][]byte{ikey("b", 1), nil}},
		{"more than a handle", "malformed handle",
			[][]byte{ikey("b", 1), append(handleBytes(0, len1), 1)}},
		{"short key", "too short", [][]byte{[]byte("short"), handleBytes(0, len1)}},
		{"unknown kind", "unknown kind", [][]byte{base.AppendInternalKey(nil, []byte("b"), 9),
			handleBytes(0, len1)}},
		{"key before the block's last", "after the block's key",
			[][]byte{ikey("a", 1), handleBytes(0, len1)}},
		{"key after the next block's first", "does not lie after",
			[][]byte{ikey("d", 1), handleBytes(0, len1), ikey("e", 1), handleBytes(end, len1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var a assembler
			a.add(one, block.None)
			a.add(two, block.None)
			meta := a.add(rows(t), block.None)
			index := a.add(rows(t, tc.index...), block.None)
			table, env := a.finish(meta, index), Env{Name: "x.ldb", Comparer: base.Bytewise}
			if err := getAll(table, env, "a", "b", "c", "d",
				"e"); (err == nil) != (tc.reason == "") || err != nil &&
				!strings.Contains(err.Error(), tc.reason) {
				t.Errorf("Gets say %v, want %q", err, tc.reason)
			}
			n, err := drain(table, env)
			if tc.reason == "" {
				if n != 2 || err != nil {
					t.Fatal(n, err)
				}
				return
			}
			if !errors.Is(err, base.ErrCorruption) || !strings.Contains(err.Error(), tc.reason) {
				t.Fatalf("%v, want a corruption with %q", err, tc.reason)
			}
		})
	}
}

func TestHostileFooter(t *testing.T) {
	var a assembler
	a.add(rows(t, ikey("b", 1), nil), block.None)
	meta := a.add(rows(t), block.None)
	index := a.add(rows(t, ikey("b", 1), handleBytes(0, 20)), block.None)
	for name, b := range map[string][]byte{
		"metaindex outside": a.finish(block.Handle{Offset: 1 << 61, Size: 10}, index),
		"index outside":     a.finish(meta, block.Handle{Offset: index.Offset, Size: 1 << 50}),
		"index in footer":   a.finish(meta, block.Handle{Offset: index.End(), Size: 8}),
		"index past files":  a.finish(meta, block.Handle{Offset: 1<<64 - 1, Size: 1<<64 - 1}),
		"swapped":           a.finish(index, meta),
		"empty file":        nil,
		"short file":        make([]byte, FooterLen-1),
		"zeros":             make([]byte, 4096),
	} {
		_, err := drain(b, Env{Name: "x.ldb", Comparer: base.Bytewise})
		var c *base.Corruption
		if name == "swapped" && err == nil {
			continue // an empty index, and a metaindex without names that matter
		}
		if !errors.As(err, &c) || c.File != "x.ldb" || c.Offset < 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostileMeta(t *testing.T) {
	data := rows(t, ikey("b", 1), nil)
	build := func(name string, content []byte, h func(block.Handle) block.Handle) []byte {
		var a assembler
		a.add(data, block.None)
		mh := a.add(content, block.None)
		if h != nil {
			mh = h(mh)
		}
		meta := a.add(rows(t, []byte(name), block.AppendHandle(nil, mh)), block.None)
		index := a.add(rows(t, ikey("b", 1), handleBytes(0, uint64(len(data)))), block.None)
		return a.finish(meta, index)
	}
	outside := func(h block.Handle) block.Handle {
		return block.Handle{Offset: h.Offset, Size: 1 << 40}
	}
	for name, b := range map[string][]byte{
		"filter":           build(filterKey, []byte("not a filter at all"), nil),
		"LevelDB's filter": build(levelDBFilterKey, []byte{0xff, 0xff, 0xff, 0xff, 11}, nil),
		"properties":       build(propsKey, []byte{2, 1, 1, 1}, nil),
		"filter outside":   build(filterKey, nil, outside),
		"bits":             build(propsKey, []byte{5, 200}, nil),
	} {
		if _, err := drain(b, Env{Name: "x.ldb", Comparer: base.Bytewise}); !errors.Is(err,
			base.ErrCorruption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Unknown parts are not checked.
	if n, err := drain(build("zzz.unknown", nil, outside),
		Env{Name: "x.ldb", Comparer: base.Bytewise}); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// Tables of Minecraft: codec 2 is zlib, codec 4 deflate without a frame.
func TestMinecraftCodecs(t *testing.T) {
	data := rows(t, ikey("b", 1), bytes.Repeat([]byte("chunk"), 500))
	for codec, newWriter := range map[block.Codec]func(io.Writer) io.WriteCloser{
		block.Zstd: func(b io.Writer) io.WriteCloser { return zlib.NewWriter(b) },
		block.Deflate: func(b io.Writer) io.WriteCloser {
			w, _ := flate.NewWriter(b, 6)
			return w
		},
	} {
		pack := func(p []byte) []byte {
			var b bytes.Buffer
			w := newWriter(&b)
			w.Write(p)
			w.Close()
			return b.Bytes()
		}
		var a assembler
		h := a.add(pack(data), codec)
		meta := a.add(pack(rows(t)), codec)
		index := a.add(pack(rows(t, ikey("b", 1), block.AppendHandle(nil, h))), codec)
		b := a.finish(meta, index)
		if n, err := drain(b, Env{Name: "x.ldb", Comparer: base.Bytewise}); n != 1 || err != nil {
			t.Errorf("codec %d: %d entries, %v", codec, n, err)
		}
		if _, err := drain(b, Env{Name: "x.ldb", Comparer: base.Bytewise,
			MaxDecoded: 1000}); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("codec %d with a cap: %v", codec, err)
		}
	}
}

// A block of 3 MiB whose keys expand to 64 GiB is refused, whether it goes
// into the cache or not, and so is one that only claims to be large.
func TestBombs(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 64<<10)
	bomb := append([]byte{0}, binary.AppendUvarint(nil, uint64(len(long)+8))...)
	bomb = append(append(bomb, 0), long...)
	bomb = append(bomb, 1, 255, 255, 255, 255, 255, 255, 255)
	for range 1 << 20 {
		bomb = append(binary.AppendUvarint(bomb, uint64(len(long)+8)), 0, 0)
	}
	bomb = append(bomb, 0, 0, 0, 0, 1, 0, 0, 0)
	claim := append(binary.AppendUvarint(nil, 60<<20), snappy.Encode(nil, bomb[:100])[1:]...)
	c := cache.New(1 << 20)
	defer c.Unref()
	for name, stored := range map[string]struct {
		p []byte
		c block.Codec
	}{"rows": {bomb, block.None}, "packed rows": {snappy.Encode(nil, bomb), block.Snappy},
		"claim": {claim, block.Snappy}} {
		var a assembler
		h := a.add(stored.p, stored.c)
		meta := a.add(rows(t), block.None)
		index := a.add(rows(t, ikey("y", 1), block.AppendHandle(nil, h)), block.None)
		b := a.finish(meta, index)
		_, err := drain(b, Env{Name: "x.ldb", Comparer: base.Bytewise})
		if !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", name, err)
		}
		r, err := Open(fileOf(b), Env{Name: "x.ldb", Comparer: base.Bytewise, Cache: c})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := r.Get(base.MakeLookup(base.Bytewise, []byte("x"), 1), 0,
			nil); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: Get: %v", name, err)
		}
		r.Close()
	}
}

// A filter written without loam's own blocks is LevelDB's, asked block by block.
func TestLevelDBFilterIsAsked(t *testing.T) {
	r := openGolden(t, "testdata/snappy-filter.ldb", base.Bytewise)
	if !r.hasLDB || r.HasWhole {
		t.Fatal("LevelDB's filter is not in use")
	}
	admitted := 0
	for i := range 250 {
		key := append([]byte("user/000"), byte('0'+i/100), byte('0'+i/10%10), byte('0'+i%10), '.')
		if r.MayContain(base.MakeLookup(base.Bytewise, key, base.MaxSeqNum)) {
			admitted++
		}
	}
	if admitted > 25 {
		t.Errorf("%d of 250 absent keys admitted", admitted)
	}
}

func FuzzTable(f *testing.F) {
	var a assembler
	h := a.add(rows(f, ikey("a", 1), []byte("v"), ikey("b", 2), nil), block.None)
	meta := a.add(rows(f), block.None)
	index := a.add(rows(f, ikey("b", 2), block.AppendHandle(nil, h)), block.None)
	f.Add(a.finish(meta, index), []byte("a"))
	golden, err := os.ReadFile("testdata/raw-plain.ldb")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, []byte("user/000700/"))
	f.Fuzz(func(t *testing.T, b, key []byte) {
		resealed := reseal(b)
		for _, b := range [][]byte{b, resealed} {
			for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise} {
				env := Env{Name: "f.ldb", Comparer: c, MaxDecoded: 1 << 20}
				_, err := drain(b, env)
				fuzzError(t, err)
				r, err := Open(fileOf(b), env)
				if err != nil {
					continue
				}
				_, _, _, err = r.Get(base.MakeLookup(base.Bytewise, key, base.MaxSeqNum), 0, nil)
				fuzzError(t, err)
				var e base.Chunk
				src := r.NewSource(sstable.Scan)
				i, err := src.SeekLT(key, base.MaxTrailer, &e)
				for ok := i >= 0; ok; ok, err = src.Prev(&e) {
				}
				fuzzError(t, err)
				src.Close()
				r.Close()
			}
		}
	})
}

func fuzzError(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, base.ErrCorruption) {
		t.Fatal(err)
	}
}

// reseal corrects the checksums of the blocks that footer and index name, so that mutations reach
// the parts after them.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < FooterLen {
		return b
	}
	binary.LittleEndian.PutUint64(b[len(b)-8:], Magic)
	meta, index, err := parseFooter(b[len(b)-FooterLen:])
	if err != nil {
		return b
	}
	seal := func(h block.Handle) []byte {
		if h.End() > uint64(len(b)) {
			return nil
		}
		p := b[h.Offset : h.Offset+h.Size]
		tr := block.Trailer(p, block.Codec(b[h.Offset+h.Size]))
		copy(b[h.Offset+h.Size:], tr[:])
		return p
	}
	seal(meta)
	if p := seal(index); p != nil {
		block.EachRow(p, func(_, v []byte) error {
			if h, n := block.DecodeHandle(v); n > 0 {
				seal(h)
			}
			return nil
		})
		seal(index)
	}
	return b
}

// TestSalvageKeepsFewSeparators: of an index whose long keys share all but a few bytes, a salvage
// keeps no more than a bound.
func TestSalvageKeepsFewSeparators(t *testing.T) {
	const blocks, keyLen = 2*blocktable.MaxLostKeys>>20 + 1, 1 << 20
	var a assembler
	index := block.RowBuilder{Interval: blocks}
	defer index.Free()
	for i := range uint64(blocks) {
		h := a.add(nil, block.None)
		a.b[len(a.b)-1] ^= 1 // it is damaged
		if err := index.AddRaw(ikey(strings.Repeat("k", keyLen), blocks-i),
			handleBytes(h.Offset, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := index.Finish()
	if err != nil {
		t.Fatal(err)
	}
	at := a.add(b, block.None)
	if len(a.b) > 2*keyLen {
		t.Fatalf("the table has %d bytes", len(a.b))
	}
	keys, lost := 0, 0
	s := &salvage{Salvager: blocktable.NewSalvager(fileOf(a.finish(at, at)),
		Env{Name: "t", Comparer: base.Bytewise}, sstable.Salvage{
			Add: func([]byte, base.Trailer, base.Codec, []byte) error { return nil },
			Lost: func(l sstable.Lost) {
				lost++
				keys += len(l.Largest)
			},
		}, &pool)}
	defer pool.Put(s.Scratch)
	s.left = 1 << 30
	entries, err := s.readIndex()
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, e := range entries {
		kept += len(e.separator)
	}
	err = s.byIndex(entries)
	if err != nil || lost != blocks || max(keys, kept) > blocktable.MaxLostKeys || keys == 0 {
		t.Errorf("%d of %d blocks lost, with %d of %d bytes of keys, %v", lost, blocks, keys, kept,
			err)
	}
}
