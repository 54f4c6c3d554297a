package ldb

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
)

// sparseFile is a file whose bytes before tail are a hole, and which counts
// what is read.
type sparseFile struct {
	hole   int64
	tail   []byte
	stored int64
	read   atomic.Int64
}

func (f *sparseFile) Size() int64              { return f.hole + int64(len(f.tail)) }
func (f *sparseFile) Stored() int64            { return f.stored }
func (f *sparseFile) NextData(off int64) int64 { return max(off, f.hole) }
func (f *sparseFile) Prefetch(off, n int64)    {}
func (f *sparseFile) Close() error             { return nil }

func (f *sparseFile) ReadAt(p []byte, off int64) (int, error) {
	f.read.Add(int64(len(p)))
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

// A block of gigabytes that are a hole is refused before memory is asked for,
// whatever it is for; so is a table that is a hole altogether.
func TestSparseTable(t *testing.T) {
	const hole = 4 << 30
	for name, tc := range map[string]struct {
		stored int64 // bytes on disk
		make   func(a *assembler, huge block.Handle) (metaindex, index block.Handle)
		reason string
	}{
		"index": {hole / 30, func(a *assembler, huge block.Handle) (block.Handle, block.Handle) {
			return a.add(rows(t), block.None), huge
		}, "on disk"},
		"metaindex": {hole / 30, func(a *assembler, huge block.Handle) (block.Handle,
			block.Handle) {
			return huge, a.add(rows(t), block.None)
		}, "on disk"},
		"data block": {hole / 30, func(a *assembler, huge block.Handle) (block.Handle,
			block.Handle) {
			return a.add(rows(t), block.None),
				a.add(rows(t, ikey("y", 1), block.AppendHandle(nil, huge)), block.None)
		}, "on disk"},
		"filter": {hole / 30, func(a *assembler, huge block.Handle) (block.Handle, block.Handle) {
			return a.add(rows(t, []byte(filterKey), block.AppendHandle(nil, huge)), block.None),
				a.add(rows(t), block.None)
		}, "on disk"},
		"all": {4 << 10, func(a *assembler, huge block.Handle) (block.Handle, block.Handle) {
			return a.add(rows(t), block.None), a.add(rows(t), block.None)
		}, "are a hole"},
	} {
		a := assembler{}
		huge := block.Handle{Offset: 0, Size: hole - 10}
		f := &sparseFile{hole: hole, stored: tc.stored}
		// Offsets in the tail count from the file's start.
		shift := func(h block.Handle) block.Handle {
			if h != huge {
				h.Offset += hole
			}
			return h
		}
		metaindex, index := tc.make(&a, huge)
		f.tail = appendFooter(a.b, shift(metaindex), shift(index))
		const limit = 16 << 20
		r, err := Open(f, Env{Name: "x.ldb", Comparer: base.Bytewise, MaxDecoded: limit})
		if err == nil {
			_, _, _, err = r.Get(base.MakeLookup(base.Bytewise, []byte("x"), 1), 0, nil)
			r.Close()
		}
		if !errors.Is(err, base.ErrCorruption) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v", name, err)
		}
		if n := f.read.Load(); n > limit {
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
}

// countedFile counts reads.
type countedFile struct {
	bytesFile
	reads atomic.Int64
}

func (f *countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads.Add(1)
	return f.bytesFile.ReadAt(p, off)
}

// A block that is damaged although its checksum is right is unpacked once, in
// lookups and scans. One with a wrong checksum is read again.
func TestBadBlockIsRemembered(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := enc.EncodeAll(make([]byte, 8<<20), nil)
	for _, sound := range []bool{true, false} {
		var a assembler
		h := a.add(bomb, block.Zstd)
		if !sound {
			a.b[len(a.b)-1] ^= 1
		}
		meta := a.add(rows(t), block.None)
		index := a.add(rows(t, ikey("y", 1), block.AppendHandle(nil, h)), block.None)
		f := &countedFile{bytesFile: fileOf(a.finish(meta, index))}
		r, err := Open(f, Env{Name: "x.ldb", Comparer: base.Bytewise})
		if err != nil {
			t.Fatal(err)
		}
		before := f.reads.Load()
		for range 10 {
			if _, _, _, err := r.Get(base.MakeLookup(base.Bytewise, []byte("x"), 1), 0,
				nil); !errors.Is(err, base.ErrCorruption) {
				t.Error(err)
			}
			src := r.NewSource(sstable.Private)
			err := base.Scan(src, func(*base.Chunk) error { return nil })
			if src.Close(); !errors.Is(err, base.ErrCorruption) {
				t.Error(err)
			}
		}
		if n := f.reads.Load() - before; sound && n != 1 || !sound && n != 20 {
			t.Errorf("checksum right %v: %d reads", sound, n)
		}
		r.Close()
	}
}

// Where the table says what all its entries take, a block that declares more is
// not unpacked.
func TestBlockLargerThanTable(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Repeat([]byte("v"), 1000)
	data := rows(t, ikey("b", 1), value)
	for name, plain := range map[string][]byte{"right": data, "bomb": make([]byte, 8<<20)} {
		var a assembler
		h := a.add(enc.EncodeAll(plain, nil), block.Zstd)
		props := a.add(appendProps(nil, &sstable.Props{Entries: 1, RawKeys: 9, RawValues: 1000}),
			block.None)
		meta := a.add(rows(t, []byte(propsKey), block.AppendHandle(nil, props)), block.None)
		index := a.add(rows(t, ikey("y", 1), block.AppendHandle(nil, h)), block.None)
		n, err := drain(a.finish(meta, index), Env{Name: "x.ldb", Comparer: base.Bytewise})
		if name == "right" && (n != 1 || err != nil) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if name == "bomb" && (err == nil || !strings.Contains(err.Error(), "allowed are")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
