package native

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// salvage reads one damaged table. It needs neither footer nor index: a frame has a marker and a
// checksum, and names its contents.
type salvage struct {
	blocktable.Salvager
	number uint64
	window block.Buffer // bytes of the file, to look for frames
	at     uint64       // where window begins in the file

	dict    *colblk.Dict
	dels    base.Chunk     // range tombstones
	del     int            // of dels, the next one
	blocks  []block.Handle // of data, as far as an index is readable, ascending; with their padding
	seen    uint64         // entries in the blocks that are readable
	entries uint64         // in all blocks, as the properties say; 0: not known
	zeros   []sstable.Lost // stretches that pass for padding, although no index tells
}

// found is a frame whose checksum is right.
type found struct {
	off, end uint64
	kind     byte
}

// Salvage hands out what is readable of a damaged table: the entries of every block
// whose checksum is right.
func Salvage(f vfs.ReadFile, env blocktable.Env, out sstable.Salvage) error {
	s := newSalvage(f, env)
	s.Out = out
	defer s.close()
	frames, err := s.find()
	if err != nil {
		return err
	}
	return s.takeAll(frames)
}

// Is reports whether a file, which may be damaged, is a native table: by the footer's
// magic or, if that is none that LevelDB's tables have, by whether there is a frame.
func Is(f vfs.ReadFile, env blocktable.Env) (bool, error) {
	size := f.Size()
	var tail [8]byte
	if size < int64(len(tail)) {
		return false, nil
	}
	if err := base.ReadFull(f, tail[:], size-int64(len(tail))); err != nil {
		return false, err
	}
	switch binary.LittleEndian.Uint64(tail[:]) {
	case Magic:
		return true, nil
	case base.LevelDBTableMagic:
		return false, nil
	}
	s := newSalvage(f, env)
	defer s.close()
	frames, err := s.find()
	return len(frames) > 0, err
}

func newSalvage(f vfs.ReadFile, env blocktable.Env) *salvage {
	return &salvage{Salvager: blocktable.NewSalvager(f, env, sstable.Salvage{}, &pool)}
}

func (s *salvage) close() {
	pool.Put(s.Scratch)
	s.window.Free()
}

// find returns all frames that are of this file.
func (s *salvage) find() (frames []found, err error) {
	numbers, err := s.numbers()
	if err != nil {
		return nil, err
	}
	for _, s.number = range numbers {
		if frames, err = s.findNumbered(); err != nil || len(frames) > 0 {
			break
		}
	}
	return frames, err
}

// numbers are the numbers that the file may have been written with, the likeliest first.
func (s *salvage) numbers() ([]uint64, error) {
	numbers := []uint64{s.Env.FileNum}
	if s.Env.FileNum != 0 {
		numbers = append(numbers, 0)
	}
	if s.Size < FooterLen {
		return numbers, nil
	}
	b, err := s.look(s.Size-FooterLen, FooterLen)
	if err != nil {
		return nil, err
	}
	if foot, err := parseFooter(b, s.Size); err == nil {
		numbers = []uint64{foot.fileNum}
	}
	return numbers, nil
}

const (
	// windowLen is how many bytes are looked at at a time.
	windowLen = 256 << 10
	// maxTries bounds the bytes of false frames.
	maxTries = 4 << 30
)

// look returns n bytes of the file, n <= windowLen, valid until the next call.
func (s *salvage) look(off, n uint64) ([]byte, error) {
	if held := s.window.Bytes(); off < s.at || off+n > s.at+uint64(len(held)) {
		if _, err := s.Read(&s.window, off, min(windowLen, s.Size-off)); err != nil {
			return nil, err
		}
		s.at = off
	}
	b := s.window.Bytes()[off-s.at:]
	return b[:n], nil
}

// findNumbered returns all frames of the file with this number.
func (s *salvage) findNumbered() (frames []found, err error) {
	tries := int64(maxTries)
	for off := uint64(0); off+headerLen <= s.Size && tries > 0; {
		if data := uint64(vfs.NextData(s.File, int64(off))); data > off+headerLen {
			off = data - headerLen // a frame's header has no more zeros in front
		}
		n := min(windowLen, s.Size-off)
		b, err := s.look(off, n)
		if err != nil {
			return nil, err
		}
		at := bytes.Index(b[frameMarker:], []byte(marker))
		if at < 0 || uint64(at)+headerLen > n {
			if n < windowLen {
				break
			}
			off += n - headerLen + 1
			continue
		}
		off += uint64(at)
		f, err := s.frameAt(off, &tries)
		if err != nil {
			return nil, err
		}
		if f.end == 0 {
			off++
			continue
		}
		frames = append(frames, f)
		off = f.end
	}
	return frames, nil
}

// frameAt returns the frame at off; its end is 0 where there is none.
func (s *salvage) frameAt(off uint64, tries *int64) (found, error) {
	b, err := s.look(off, headerLen)
	if err != nil {
		return found{}, err
	}
	f := found{off: off, end: off + headerLen + uint64(binary.LittleEndian.Uint32(b[frameLength:])),
		kind: b[frameKind]}
	if f.end > s.Size || f.end-off > max(s.Stored, uint64(s.Env.MaxDecoded)) {
		return found{}, nil
	}
	want, crc := binary.LittleEndian.Uint32(b), seed(s.number, off)
	for p := off + frameMarker; p < f.end; {
		n := min(f.end-p, windowLen)
		b, err := s.look(p, n)
		if err != nil {
			return found{}, err
		}
		crc = base.CRCUpdate(crc, b)
		p += n
	}
	if crc != want {
		*tries -= int64(f.end - off)
		return found{}, nil
	}
	return f, nil
}

// takeAll hands out the entries of the frames and says what lies between them.
func (s *salvage) takeAll(frames []found) error {
	for _, f := range frames {
		err := error(nil)
		switch f.kind {
		case kindRangeDels:
			err = s.openRangeDels(f)
		case kindDict:
			err = s.openDict(f)
		case kindIndex:
			err = s.openIndex(f)
		case kindProps:
			err = s.openProps(f)
		}
		if err != nil {
			return err
		}
	}
	sort.Slice(s.blocks, func(i, j int) bool { return s.blocks[i].Offset < s.blocks[j].Offset })
	before, complete := found{}, false
	for _, f := range frames {
		if err := s.gap(before, f); err != nil {
			return err
		}
		if before = f; f.kind == kindData {
			if err := s.take(f); err != nil {
				return err
			}
		}
		complete = complete || f.kind == kindProps
	}
	if err := s.takeDels(nil, 0); err != nil {
		return err
	}
	s.lostZeros()
	if !complete {
		s.Lost(before.end, s.Size-before.end,
			base.Corruptf("table", "no block can be made out, and the end is missing"),
			bytes.Clone(s.Last), nil)
	}
	return nil
}

// gap reports what lies between two frames unless it is padding.
func (s *salvage) gap(before, f found) error {
	end := before.end
	if end >= f.off {
		return nil
	}
	may, known := s.mayPad(before, f)
	if may {
		b, err := s.look(end, f.off-end)
		if err != nil {
			return err
		}
		may = len(bytes.TrimLeft(b, "\x00")) == 0
	}
	if may && known {
		return nil
	}
	var largest []byte
	if f.kind == kindData {
		b, err := s.contents(f)
		if err != nil {
			return err
		}
		if c, err := colblk.Open(b, s.Env.Comparer); err == nil && c.Len() > 0 {
			largest = c.AppendKey(nil, 0)
		}
	}
	if may {
		l := sstable.Lost{Offset: int64(end), Length: int64(f.off - end), Largest: largest}
		if n := len(s.zeros); n > 0 {
			s.zeros[n-1].Largest = nil // lostZeros takes that of the last stretch
		} else {
			l.Smallest = bytes.Clone(s.Last)
		}
		s.zeros = append(s.zeros, l)
		return nil
	}
	s.Lost(end, f.off-end, base.Corruptf("table", "no block can be made out"), bytes.Clone(s.Last),
		largest)
	return nil
}

// mayPad reports whether zeros between two frames are padding, and not blocks that were overwritten
// with zeros: the index tells. known is false where it is lost, too: then zeros pass for padding up
// to a page's end of at most half the block before them, as the writer pads less than half of a
// usual block.
func (s *salvage) mayPad(before, f found) (may, known bool) {
	n := f.off - before.end
	if before.kind != kindData || n > maxPadding || f.off%pageLen != 0 {
		return false, true
	}
	i, ok := slices.BinarySearchFunc(s.blocks, before.off, func(h block.Handle, off uint64) int {
		return cmp.Compare(h.Offset, off)
	})
	if ok {
		return s.blocks[i].Offset+s.blocks[i].Size == f.off, true
	}
	return 2*n <= before.end-before.off, false
}

// lostZeros reports zeros that passed for padding if entries are missing. Which of them were blocks
// is not known, nor whether all missing entries were in such blocks where other parts are lost,
// too.
func (s *salvage) lostZeros() {
	if len(s.zeros) == 0 || s.seen >= s.entries {
		return
	}
	first, last := s.zeros[0], s.zeros[len(s.zeros)-1]
	s.Lost(uint64(first.Offset), uint64(last.Offset+last.Length-first.Offset),
		base.Corruptf("table",
			"%d of %d entries are missing, and %d stretches of zeros here may have been blocks: "+
				"the index is lost, too", s.entries-s.seen, s.entries, len(s.zeros)),
		first.Smallest, last.Largest)
}

// damaged reports the frame f if err is damage; other errors end the salvage.
func (s *salvage) damaged(f found, err error) error {
	var c *base.Corruption
	if !errors.As(err, &c) {
		return err
	}
	s.Lost(f.off, f.end-f.off, c, nil, nil)
	return nil
}

// contents reads what the frame holds.
func (s *salvage) contents(f found) ([]byte, error) {
	b, err := s.Read(&s.Scratch.File, f.off, f.end-f.off)
	if err != nil {
		return nil, err
	}
	return b[headerLen:], nil
}

// chunk reads the entries of a frame.
func (s *salvage) chunk(f found, buf *block.Buffer, e *base.Chunk) error {
	b, err := s.contents(f)
	if err != nil {
		return err
	}
	c, err := colblk.Open(b, s.Env.Comparer)
	if err != nil {
		return err
	}
	return c.Chunk(e, s.dict, viewLimit(s.Env.MaxDecoded, len(b)), buf, &s.Scratch.Raw)
}

// openIndex reads where data blocks lie. Unreadable parts are ignored.
func (s *salvage) openIndex(f found) error {
	var e base.Chunk
	if err := s.chunk(f, &s.Scratch.View, &e); err != nil {
		if errors.Is(err, base.ErrCorruption) {
			return nil
		}
		return err
	}
	for i := range e.Len() {
		if h, n := block.DecodeHandle(e.Value(i)); n > 0 {
			s.blocks = append(s.blocks, h)
		}
	}
	return nil
}

// openProps reads how many entries there are. Unreadable properties are ignored.
func (s *salvage) openProps(f found) error {
	b, err := s.contents(f)
	if err != nil {
		return err
	}
	if p, err := parseProps(b); err == nil {
		s.entries = p.Entries
	}
	return nil
}

// openDict reads the dictionary. Without it the blocks that need it are lost.
func (s *salvage) openDict(f found) error {
	b, err := s.contents(f)
	if err == nil {
		s.dict, err = colblk.NewDict(b)
	}
	if err != nil {
		return s.damaged(f, err)
	}
	return nil
}

// openRangeDels reads the range tombstones, which lie behind the entries that they
// are to be handed out with.
func (s *salvage) openRangeDels(f found) error {
	var buf block.Buffer
	defer buf.Free()
	var e base.Chunk
	if err := s.chunk(f, &buf, &e); err != nil {
		return s.damaged(f, err)
	}
	s.dels = base.Chunk{Data: bytes.Clone(e.Data)}
	s.dels.KeyOff = append(s.dels.KeyOff, e.KeyOff...)
	s.dels.ValOff = append(s.dels.ValOff, e.ValOff...)
	s.dels.ValEnd = append(s.dels.ValEnd, e.ValEnd...)
	s.dels.Trailers = append(s.dels.Trailers, e.Trailers...)
	return nil
}

// takeDels hands out the range tombstones before (key, t), all if key is nil.
func (s *salvage) takeDels(key []byte, t base.Trailer) error {
	for ; s.del < s.dels.Len(); s.del++ {
		k, dt := s.dels.Key(s.del), s.dels.Trailers[s.del]
		if key != nil && s.Env.Comparer.CompareInternal(k, dt, key, t) > 0 {
			break
		}
		if _, err := s.Add(k, dt, base.CodecRaw, s.dels.Value(s.del)); err != nil {
			return err
		}
	}
	return nil
}

// take hands out the entries of a data block.
func (s *salvage) take(f found) error {
	var e base.Chunk
	if err := s.chunk(f, &s.Scratch.View, &e); err != nil {
		return s.damaged(f, err)
	}
	s.seen += uint64(e.Len())
	skipped := 0
	for i := range e.Len() {
		key, t := e.Key(i), e.Trailers[i]
		if s.del < s.dels.Len() {
			if err := s.takeDels(key, t); err != nil {
				return err
			}
		}
		ok, err := false, error(nil)
		if t.Kind().Known() {
			if ok, err = s.Add(key, t, e.Codec(i), e.Value(i)); err != nil {
				return err
			}
		}
		if !ok {
			skipped++
		}
	}
	if skipped > 0 {
		return s.damaged(f,
			base.Corruptf("table block", "%d entries are of no kind that is known, or do not "+
				"come after the one before", skipped))
	}
	return nil
}
