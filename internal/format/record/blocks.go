package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// blocks reads a file block after block. It is the base of a Reader and a ChainReader.
type blocks struct {
	r    io.ReaderAt
	size int64
	name string

	buf      []byte // blockSize bytes
	block    []byte // the block in buf, shorter at the end of the file
	blockOff int64  // its file offset; -1: none

	pos     int64  // where the next chunk begins
	opening        // of chunks
	joined  []byte // chunks of an unfinished record
	start   int64  // of the last record returned
	ended   int64  // where it ends
	err     error
	tail    bool
}

// Offset is where in the file the last record returned begins.
func (b *blocks) Offset() int64 { return b.start }

// End is where the last record returned ends.
func (b *blocks) End() int64 { return b.ended }

// Tail reports, after a *base.Corruption, that it is the end of a log that was torn, and that
// nothing is missing that was durable. Of LevelDB's framing it tells whether a crash in the middle
// of a write explains the damage: the damaged record is the last one, and nothing valid follows.
func (b *blocks) Tail() bool { return b.tail }

func newBlocks(r io.ReaderAt, size int64, name string, header int) blocks {
	return blocks{r: r, size: size, name: name, blockOff: -1, opening: opening{header: header}}
}

// load reads the block that holds off, which is below size.
func (b *blocks) load(off int64) error {
	start := off - off%blockSize
	if b.blockOff == start {
		return nil
	}
	if b.buf == nil {
		b.buf = make([]byte, min(blockSize, b.size))
	}
	p := b.buf[:min(blockSize, b.size-start)]
	b.blockOff = -1
	if n, err := b.r.ReadAt(p, start); n < len(p) {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s: %w", b.name, io.ErrUnexpectedEOF)
		}
		return err
	}
	b.block, b.blockOff = p, start
	return nil
}

// zeros is a block of padding. allZero compares with it, as bytes.Equal is vectorized.
var zeros [blockSize]byte

func allZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}
