package native

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
)

// Blocks of up to a page do not straddle two pages: a read of one touches one page. As
// many blocks of about BlockSize raw bytes are cut from a page as fit, so that only the end
// of the page is padding. Padding stays below one byte in maxPadded: where entries are
// large against a page, some blocks straddle.
//
// Blocks whose values are packed as a heap are not placed: their size is known only after packing.
const (
	maxPadded = 50
	// credit is how many bytes, in maxPadded, may be padding besides.
	credit = 16 << 10
	// unplaced is the length, in pages, from which on blocks are not placed.
	unplaced = 1.5
)

// A block stores once what all its keys share. Of long keys that share much, blocks of BlockSize
// bytes with whole keys would hold a few entries each, and most of the table would be what they
// share. So only the first countedPrefix bytes of it count in each key. A view has whole keys:
// maxExpansion bounds them, in block sizes.
const (
	countedPrefix = 64
	maxExpansion  = 16
)

// dataBlock is the state of the data block being filled.
type dataBlock struct {
	bytes  int // of its keys, trailers and values, unpacked
	raw    int // bytes without what countedPrefix leaves out
	prefix int // what countedPrefix leaves out of each key but one
	view   int // bytes of keys and columns that its view will have
	values int // of its values there
	target int // raw bytes with which it ends
	limit  int // length that its frame must not exceed; 0 for none
}

// count counts the last entry of w, which has so many bytes.
func (d *dataBlock) count(w *colblk.Writer, key, value int) {
	d.bytes += key + value + base.TrailerLen
	d.view += key + blocktable.ViewColumns
	d.values += value
	d.prefix = 0
	if key > countedPrefix {
		d.prefix = max(w.SharedLen()-countedPrefix, 0)
	}
	d.raw = d.bytes - (w.Len()-1)*d.prefix
}

// full reports whether the block ends before the next entry.
func (d *dataBlock) full(blockSize int) bool {
	return d.raw >= d.target || d.view >= min(maxExpansion*blockSize, blocktable.MaxExpanded)
}

// splits reports whether the last entry begins the next block, where d was the state before: its
// key has less in common with the others than they have, so that the block would store these whole.
func (d *dataBlock) splits(before *dataBlock) bool {
	return d.prefix < before.prefix && d.raw > 2*d.target
}

// size is about what the block takes, whose entries are in w.
func (d *dataBlock) size(w *colblk.Writer) uint64 {
	n := w.Len()
	if n == 0 {
		return 0
	}
	return uint64(d.view - d.bytes + d.raw - n*blocktable.ViewColumns/2 + w.ValueBytes())
}

// planBlock chooses where the next data block ends, and pads the one before if the next one
// is to begin with a page.
func (w *Writer) planBlock() error {
	w.open = dataBlock{target: w.Options.BlockSize}
	expected := float64(w.Options.BlockSize) * w.ratio
	if w.data.Packing() == colblk.PackHeap || expected > unplaced*pageLen {
		return nil
	}
	room := pageLen - int(w.Offset%pageLen)
	blocks := int(float64(room)/expected + 0.5)
	if blocks == 0 {
		if (w.padded+uint64(room))*maxPadded > w.Offset+credit {
			w.open.limit = room + pageLen
			return nil
		}
		if err := w.pad(room); err != nil {
			return err
		}
		room, blocks = pageLen, max(1, int(pageLen/expected+0.5))
	}
	w.open.limit = room
	w.open.target = int(float64(room) / float64(blocks) / w.ratio)
	if blocks == 1 { // it ends with the page
		w.open.target = 2 * w.Options.BlockSize
	}
	return nil
}

// pad adds n zeros to the last data block.
func (w *Writer) pad(n int) error {
	if err := w.Buf.Reserve(n); err != nil {
		return err
	}
	b := w.Buf.Bytes()
	clear(b[len(b) : len(b)+n])
	w.Buf.Set(b[:len(b)+n])
	w.padded += uint64(n)
	w.blocks.handles[w.blocks.len()-1].Size += uint64(n)
	return w.Advance(n)
}

// overflows reports whether the data block is longer than its limit. While it is far from that
// by the measure of the block before, it does not look.
func (w *Writer) overflows() bool {
	limit := w.open.limit
	if limit == 0 || float64(w.data.Len())*w.columns+float64(w.data.ValueBytes()) < 0.96*float64(
		limit) {
		return false
	}
	return !w.data.Fits(limit - headerLen)
}

// cut writes a data block of the first n entries; the key that follows them is next, nil
// where none does.
func (w *Writer) cut(n int, next []byte) error {
	values := w.data.ValueBytes()
	h, err := w.writeColumns(kindData, &w.data, n)
	if err != nil {
		return err
	}
	values -= w.data.ValueBytes()
	w.columns = max(float64(int(h.Size)-values)/float64(n), 1)
	if w.open.raw >= w.Options.BlockSize/4 {
		// The ratio follows the data, but not every block.
		w.ratio += (min(float64(h.Size)/float64(w.open.raw), 1.25) - w.ratio) / 4
	}
	w.open = dataBlock{}
	return w.blocks.add(w.separator(next), h, w.NumHashes(), w.PrefixAt)
}

// separator returns an internal key at or after the last one and before every entry of
// next, short if the comparer knows one. Its trailer is 0 unless next is the same key, so
// that the index need not store trailers.
func (w *Writer) separator(next []byte) base.InternalKey {
	c := w.Options.Comparer
	if next == nil {
		return base.InternalKey{User: w.last.User}
	}
	if c.Cmp(w.last.User, next) == 0 {
		return w.last
	}
	w.sep = c.AppendSeparator(w.sep[:0], w.last.User, next)
	if len(w.sep) > countedPrefix && c == base.Bytewise {
		// LevelDB's separator is the last key where the next one has the next byte: 1abc, 2abc.
		if n := base.SharedPrefixLen(w.last.User, next); n+1 < len(next) {
			w.sep = append(w.sep[:0], next[:n+1]...)
		}
	}
	if len(w.sep) < len(w.last.User) && c.Cmp(w.last.User, w.sep) < 0 && c.Cmp(w.sep, next) < 0 {
		return base.InternalKey{User: w.sep}
	}
	return base.InternalKey{User: w.last.User}
}

// writeColumns writes the first n entries of c as a frame.
func (w *Writer) writeColumns(kind byte, c *colblk.Writer, n int) (block.Handle, error) {
	if err := w.Buf.Reserve(headerLen + c.Bound()); err != nil {
		return block.Handle{}, err
	}
	from := w.Buf.Len()
	b, err := c.Finish(w.Buf.Bytes()[:from+headerLen], n)
	if err != nil {
		return block.Handle{}, err
	}
	w.Buf.Set(b)
	return w.seal(kind, from)
}

// seal makes a frame of what the output has after from.
func (w *Writer) seal(kind byte, from int) (block.Handle, error) {
	b := w.Buf.Bytes()[from:]
	h := block.Handle{Offset: w.Offset, Size: uint64(len(b))}
	if h.Size > maxFrame {
		return h, fmt.Errorf("%w: a block of %d bytes", base.ErrTooLarge, len(b))
	}
	sealFrame(b, kind, w.Options.FileNum, h.Offset)
	return h, w.Advance(len(b))
}

// writeFrame writes p as a frame.
func (w *Writer) writeFrame(kind byte, p []byte) (block.Handle, error) {
	if err := w.Buf.Reserve(headerLen + len(p)); err != nil {
		return block.Handle{}, err
	}
	from := w.Buf.Len()
	w.Buf.Set(append(w.Buf.Bytes()[:from+headerLen], p...))
	return w.seal(kind, from)
}

// blockList is the data blocks written.
type blockList struct {
	keys     block.Buffer // of the separators, one after the other
	ends     []int        // of each in keys
	trailers []base.Trailer
	handles  []block.Handle
	hashes   []int // how many hashes there are up to the end of each block
	prefixes []int // where the hash of the last prefix before that lies, -1 for none
}

func (l *blockList) len() int { return len(l.handles) }

// size is about what the index takes in the file, memory what its View takes.
func (l *blockList) size() int   { return l.keys.Len() + 12*l.len() }
func (l *blockList) memory() int { return l.keys.Len() + (blocktable.ViewColumns+6)*l.len() }

func (l *blockList) add(sep base.InternalKey, h block.Handle, hashes, prefix int) error {
	if err := l.keys.Append(sep.User); err != nil {
		return err
	}
	l.ends = append(l.ends, l.keys.Len())
	l.trailers = append(l.trailers, sep.Trailer)
	l.handles = append(l.handles, h)
	l.hashes = append(l.hashes, hashes)
	l.prefixes = append(l.prefixes, prefix)
	return nil
}

func (l *blockList) separator(i int) base.InternalKey {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return base.InternalKey{User: l.keys.Bytes()[from:l.ends[i]], Trailer: l.trailers[i]}
}

func (l *blockList) reset() {
	l.keys.Truncate(0)
	l.ends, l.trailers, l.handles = l.ends[:0], l.trailers[:0], l.handles[:0]
	l.hashes, l.prefixes = l.hashes[:0], l.prefixes[:0]
}

func (l *blockList) free() {
	l.keys.Free()
	*l = blockList{}
}
