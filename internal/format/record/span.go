package record

import (
	"io"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// A span is some consecutive bytes of one record of a chained log, by the offset in the file of the
// first one and their number. A chunk of a record that goes on in the next block fills its block.
// So where the bytes lie follows from these two numbers, and no header is read.

const chainRoom = blockSize - chainHeaderLen // bytes of data in a chunk that has a block

// SpanAt is the offset in the file of byte n of a record that was appended when the chained log
// had size bytes.
func SpanAt(size, n int64) int64 {
	if room := blockSize - size%blockSize; room < chainHeaderLen {
		size += room
	} else if first := room - chainHeaderLen; n < first {
		return size + chainHeaderLen + n
	} else {
		size, n = size+room, n-first
	}
	return size + n/chainRoom*blockSize + chainHeaderLen + n%chainRoom
}

// SpanLen is how many bytes of the file a span takes, which begins at off and has n bytes.
func SpanLen(off, n int64) int64 {
	room := blockSize - off%blockSize
	if n <= room {
		return n
	}
	return n + (n-room+chainRoom-1)/chainRoom*chainHeaderLen
}

// ValueEnd is the offset in its file behind the value that a handle refers to.
func ValueEnd(h base.ValueHandle) int64 {
	if h.InFile {
		return h.Offset + int64(h.Len)
	}
	return h.Offset + SpanLen(h.Offset, int64(h.Len))
}

// AppendSpan appends the n bytes of a span of log f to dst. A file that ends before is a
// *base.Corruption; the caller compares a checksum.
func AppendSpan(dst []byte, f io.ReaderAt, off, n int64) ([]byte, error) {
	if !hasData(off) {
		return dst, base.Corruptf("value handle", "no record has data at offset %d", off)
	}
	from, raw := len(dst), int(SpanLen(off, n))
	dst = slices.Grow(dst, raw)[:from+raw]
	b := dst[from:]
	if err := base.ReadFull(f, b, off); err != nil {
		return dst[:from], err
	}
	JoinSpan(b, off, n)
	return dst[:from+int(n)], nil
}

// hasData reports whether a byte of a record may lie at an offset.
func hasData(off int64) bool { return off%blockSize >= chainHeaderLen }

// JoinSpan moves the n bytes of a span to the beginning of b, which has its bytes in the file,
// headers of chunks included. It reports false if no record has data at off.
func JoinSpan(b []byte, off, n int64) bool {
	if !hasData(off) {
		return false
	}
	// Each piece moves over the headers before it.
	to := min(blockSize-off%blockSize, n)
	for at := to; at < int64(len(b)); {
		at += chainHeaderLen
		m := min(chainRoom, int64(len(b))-at)
		copy(b[to:], b[at:at+m])
		to, at = to+m, at+m
	}
	return true
}
