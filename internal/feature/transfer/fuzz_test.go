package transfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// encoded makes a dump of two keyspaces.
func encoded(t testing.TB, codec block.Codec, blockBytes int) []byte {
	t.Helper()
	var b bytes.Buffer
	e, err := NewEncoder(&b, DumpOptions{Codec: codec, BlockBytes: blockBytes},
		Header{Created: 1700000000, Seq: 77}, func(*Encoder) {})
	if err == nil {
		err = e.Begin([]Space{{Name: "default", Comparer: base.Bytewise},
			{Name: "users", Comparer: base.Bytewise, Expires: true}})
	}
	for i := range 40 {
		if err == nil {
			err = e.Put(i/20, fmt.Appendf(nil, "key%03d", i), bytes.Repeat([]byte("v"), i),
				uint64(i/30*1700000000))
		}
	}
	if err == nil {
		err = e.End()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// seal makes the checksums of frames right, as far as frames are there.
func seal(b []byte) []byte {
	b = slices.Clone(b)
	if len(b) < preambleLen {
		return b
	}
	copy(b, magic)
	before := uint64(0)
	for at := preambleLen; at+frameLen <= len(b); {
		binary.LittleEndian.PutUint32(b[at+frameLen-4:], base.CRC(b[at:at+frameLen-4]))
		stored := int(binary.LittleEndian.Uint32(b[at+4:]))
		if stored > len(b)-at-frameLen-sumLen {
			break
		}
		end := at + frameLen + stored
		before = sum(before, b[at:end])
		binary.LittleEndian.PutUint64(b[end:], before)
		at = end + sumLen
	}
	return b
}

// FuzzDump reads dumps whose checksums are right. What one says is written again, and says the
// same.
func FuzzDump(f *testing.F) {
	for codec := block.None; codec <= block.Zstd; codec++ {
		b := encoded(f, codec, 100)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	hostile := func(change func(b []byte)) {
		b := encoded(f, block.Snappy, 1<<20)
		change(b)
		f.Add(b)
	}
	first := preambleLen + frameLen +
		int(binary.LittleEndian.Uint32(encoded(f, block.Snappy, 1)[preambleLen+4:])) + sumLen
	for _, at := range []int{preambleLen, first} {
		for field := 0; field < 20; field += 4 {
			hostile(func(b []byte) { binary.LittleEndian.PutUint32(b[at+field:], 1<<32-1) })
			hostile(func(b []byte) { binary.LittleEndian.PutUint32(b[at+field:], maxPayload+1) })
		}
	}
	hostile(func(b []byte) { b[preambleLen+frameLen+16+5+1] = 0xff }) // keyspaces
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		b = seal(b)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h, entries, err := readAll(b)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20+64*uint64(len(b)) {
			t.Fatalf("%d bytes took %d bytes of memory", len(b), taken)
		}
		var c *base.Corruption
		if err != nil && !errors.As(err, &c) && !errors.Is(err, base.ErrNewerFormat) &&
			!errors.Is(err, base.ErrTooLarge) {
			t.Fatal(err)
		}
		if _, err2 := Verify(context.Background(), bytes.NewReader(b), nil); err == nil &&
			err2 != nil && !errors.Is(err2, base.ErrCorruption) || err != nil && err2 == nil {
			t.Fatalf("%v, Verify %v", err, err2)
		}
		if err != nil {
			return
		}
		var out bytes.Buffer
		e, err := NewEncoder(&out, DumpOptions{Codec: block.Zstd, BlockBytes: 1000}, h,
			func(*Encoder) {})
		if err != nil {
			t.Fatal(err)
		}
		spaces := make([]Space, len(h.Spaces))
		for i, s := range h.Spaces {
			spaces[i] = Space{Name: s.Name, Comparer: &base.Comparer{Name: s.Comparer},
				Expires: s.Expires}
			h.Spaces[i].MergeOperator = ""
		}
		err = e.Begin(spaces)
		for _, x := range entries {
			if err == nil {
				err = e.Put(x.space, x.Key, x.Value, x.Deadline)
			}
		}
		if err := errors.Join(err, e.End()); err != nil {
			t.Fatal(err)
		}
		h2, again, err := readAll(out.Bytes())
		if err != nil || len(again) != len(entries) || fmt.Sprint(h2) != fmt.Sprint(h) {
			t.Fatalf("%d entries became %d, %v\n%v\n%v", len(entries), len(again), err, h, h2)
		}
		for i, x := range again {
			if y := entries[i]; x.space != y.space || !bytes.Equal(x.Key, y.Key) ||
				!bytes.Equal(x.Value, y.Value) || x.Deadline != y.Deadline {
				t.Fatalf("%v became %v", y, x)
			}
		}
	})
}

type placed struct {
	Entry
	space int
}

// readAll decodes a dump.
func readAll(b []byte) (h Header, entries []placed, err error) {
	d, err := NewDecoder(bytes.NewReader(b))
	if err != nil {
		return h, nil, err
	}
	defer d.Close()
	for more := true; more && err == nil; {
		more, err = d.Next(func(space int, e Entry) error {
			e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
			entries = append(entries, placed{e, space})
			return nil
		})
	}
	return d.Header, entries, err
}

// TestBombs: lengths that only a lot of memory could hold are refused before memory is taken.
func TestBombs(t *testing.T) {
	bomb := make([]byte, 256<<20)
	c, err := block.NewCompressor(block.Zstd, 1)
	if err != nil {
		t.Fatal(err)
	}
	packed, _ := c.Compress(make([]byte, 0, c.Bound(32<<20)), bomb[:32<<20])
	header := encoded(t, block.None, 1000)
	header = header[:preambleLen+frameLen+int(
		binary.LittleEndian.Uint32(header[preambleLen+4:]))+sumLen]
	bomb = nil
	for _, f := range []frame{
		{kind: blockFrame, codec: block.Zstd, stored: uint32(len(packed)), decoded: 1<<32 - 1,
			entries: 1},
		{kind: blockFrame, codec: block.Zstd, stored: uint32(len(packed)), decoded: 16 << 20,
			entries: 1},
		{kind: blockFrame, stored: 1<<32 - 1, decoded: 1<<32 - 1, entries: 1},
		{kind: endFrame, stored: 1<<32 - 1, decoded: 1<<32 - 1},
		{kind: headerFrame, stored: 1<<32 - 1, decoded: 1<<32 - 1},
	} {
		b := append(f.append(slices.Clone(header)), packed...)
		b = seal(append(b, make([]byte, sumLen)...))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := readAll(b)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%+v: %v", f, err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 8<<20 {
			t.Errorf("%+v: %d bytes of memory, %v", f, taken, err)
		}
	}
}

// TestMarker: each byte of a marker that is changed or cut off is noticed.
func TestMarker(t *testing.T) {
	for _, m := range []marker{{id: [16]byte{1, 2}},
		{id: [16]byte{3}, blocks: true,
			last: point{1000, 1 << 60, Counts{7, 1 << 33, []uint64{1, 300, 0}}}}} {
		b := m.encode()
		var back marker
		if !back.decode(b) || fmt.Sprint(back) != fmt.Sprint(m) {
			t.Errorf("%+v became %+v", m, back)
		}
		for i := range b {
			changed := slices.Clone(b)
			changed[i] ^= 0x10
			if new(marker).decode(changed) || new(marker).decode(b[:i]) {
				t.Errorf("byte %d is not noticed", i)
			}
		}
	}
}
