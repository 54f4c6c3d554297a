package native

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
)

// TestSalvageOfZeroedBlock: a block that was overwritten with zeros, at a page's end or not, is
// reported and not taken for padding, while what the writer padded is not reported. So it is
// without the index.
func TestSalvageOfZeroedBlock(t *testing.T) {
	o := options()
	o.Compression, o.BlockSize = sstable.NoCompression, 900
	whole, _ := write(t, o, 2000, func(i int) entry {
		return set(fmt.Sprintf("key%06d", i), base.SeqNum(i+1),
			bytes.Repeat([]byte{'v'}, 40+i*7%90))
	})
	s := newSalvage(fileOf(whole), testEnv)
	frames, err := s.find()
	s.close()
	if err != nil {
		t.Fatal(err)
	}
	padded, atEnd := 0, 0
	for i := 1; i+1 < len(frames) && frames[i+1].kind == kindData; i++ {
		f, next := frames[i], frames[i+1].off
		if next > f.end {
			padded++
		}
		if next%pageLen == 0 {
			atEnd++
		}
		for _, index := range []bool{true, false} {
			b := bytes.Clone(whole)
			clear(b[f.off:f.end])
			for _, x := range frames {
				if x.kind == kindIndex && !index {
					b[x.off+headerLen] ^= 1
				}
			}
			reported := false
			err := Salvage(fileOf(b), testEnv, sstable.Salvage{
				Add: func([]byte, base.Trailer, base.Codec, []byte) error { return nil },
				Lost: func(l sstable.Lost) {
					switch off := uint64(l.Offset); {
					case off <= f.off && f.end <= off+uint64(l.Length):
						reported = true
					case index:
						t.Errorf("block at %d zeroed: lost %+v", f.off, l)
					}
				},
			})
			if err != nil || !reported {
				t.Errorf("block [%d, %d), before %d, zeroed, index %v: not reported (%v)", f.off,
					f.end, next, index, err)
			}
		}
	}
	if padded < 5 || atEnd < 5 {
		t.Errorf("%d blocks with padding and %d at a page's end are too few", padded, atEnd)
	}
}

// TestSalvageOfShortZeroedBlock: a block that is short enough to pass for the previous one's
// padding is reported when it was overwritten with zeros and the index is lost, too, as the entries
// do not add up. Without such a block nothing more is reported than without the index.
func TestSalvageOfShortZeroedBlock(t *testing.T) {
	o := options()
	o.Compression, o.BlockSize = sstable.NoCompression, 900
	whole, _ := write(t, o, 3000, func(i int) entry {
		size := 10
		if i%3 == 0 {
			size = 1500 + i*37%1900
		}
		return set(fmt.Sprintf("key%06d", i), base.SeqNum(i+1), bytes.Repeat([]byte{'v'}, size))
	})
	s := newSalvage(fileOf(whole), testEnv)
	frames, err := s.find()
	s.close()
	if err != nil {
		t.Fatal(err)
	}
	salvaged := func(zeroed ...found) (taken int, lost []sstable.Lost) {
		b := bytes.Clone(whole)
		for _, f := range zeroed {
			clear(b[f.off:f.end])
		}
		for _, x := range frames {
			if x.kind == kindIndex {
				b[x.off+headerLen] ^= 1
			}
		}
		err := Salvage(fileOf(b), testEnv, sstable.Salvage{
			Add:  func([]byte, base.Trailer, base.Codec, []byte) error { taken++; return nil },
			Lost: func(l sstable.Lost) { lost = append(lost, l) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return taken, lost
	}
	intact, known := salvaged()
	if intact != 3000 {
		t.Fatalf("%d entries of 3000", intact)
	}
	short := 0
	for i := 1; i+1 < len(frames) && frames[i+1].kind == kindData; i++ {
		before, f, next := frames[i-1], frames[i], frames[i+1].off
		if next%pageLen != 0 || 2*(next-before.end) > before.end-before.off {
			continue
		}
		short++
		taken, lost := salvaged(f)
		reported := false
		for _, l := range lost {
			reported = reported || uint64(l.Offset) <= f.off &&
				f.end <= uint64(l.Offset+l.Length) && bytes.Compare(l.Smallest, l.Largest) < 0
		}
		if taken == intact || !reported || len(lost) > len(known)+1 {
			t.Errorf("block [%d, %d) zeroed: %d entries of %d, reported is %v, in %d losses "+
				"beside %d", f.off, f.end, taken, intact, reported, len(lost), len(known))
		}
	}
	if short < 5 {
		t.Errorf("%d blocks that could pass for padding are too few", short)
	}
}

// TestSalvageKeepsFewKeys: what a salvage says of many stretches behind a long key takes no more
// memory than a bound.
func TestSalvageKeepsFewKeys(t *testing.T) {
	b, _ := write(t, options(), 1, func(int) entry {
		return set(strings.Repeat("k", 1<<20), 1, nil)
	})
	h := open(t, b).Index.Handle(0)
	const stretches = 2*blocktable.MaxLostKeys>>20 + 1
	file := bytes.Clone(b[:h.End()])
	for range stretches {
		file = append(file, 1)
		f := make([]byte, headerLen)
		sealFrame(f, kindFilter, testEnv.FileNum, uint64(len(file)))
		file = append(file, f...)
	}
	keys, lost := 0, 0
	err := Salvage(fileOf(file), testEnv, sstable.Salvage{
		Add: func([]byte, base.Trailer, base.Codec, []byte) error { return nil },
		Lost: func(l sstable.Lost) {
			lost++
			keys += len(l.Smallest) + len(l.Largest)
		},
	})
	if err != nil || lost < stretches || keys > blocktable.MaxLostKeys || keys == 0 {
		t.Errorf("%d stretches with %d bytes of keys, %v", lost, keys, err)
	}
}
