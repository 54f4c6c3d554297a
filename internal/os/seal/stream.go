package seal

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/loamdb/loam/internal/base"
)

// Stream returns a writer that seals what goes to w, as a file is sealed. Close writes the end; it
// does not close w.
func (k *Keys) Stream(w io.Writer) (io.WriteCloser, error) {
	header, c, err := k.New(Chunks, 0)
	if err != nil {
		return nil, err
	}
	return &writer{f: unsynced{w}, c: c, out: header}, nil
}

// unsynced is a file that is somebody else's to sync and close.
type unsynced struct{ io.Writer }

func (unsynced) Sync() error  { return nil }
func (unsynced) Close() error { return nil }

// OpenStream returns what was written to a Stream, or r as it is if it does not begin with a
// Header. The end of a stream that was cut is a *base.Corruption. The keys may be nil.
func (k *Keys) OpenStream(r io.Reader) (io.Reader, error) {
	var magic [len(Magic)]byte
	n, err := io.ReadFull(r, magic[:])
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(magic[:n]), r)
	if s, ok := r.(io.Seeker); ok {
		if _, err := s.Seek(-int64(n), io.SeekCurrent); err == nil { // it is no pipe
			whole = r
		}
	}
	if string(magic[:n]) != Magic {
		return whole, nil // nothing is read ahead
	}
	in := bufio.NewReaderSize(whole, writeLen)
	b, err := in.Peek(HeaderLen)
	if err != nil && err != io.EOF {
		return nil, err
	}
	h, err := Decode(b)
	if h == nil || err != nil {
		return in, err
	}
	if h.Kind != Chunks {
		return nil, base.Corruptf(kindHeader, "it is one of a log")
	}
	c, err := k.Open(h, "")
	if err != nil {
		return nil, err
	}
	if _, err := in.Discard(HeaderLen); err != nil {
		return nil, err
	}
	return &streamReader{in: in, c: c, sealed: make([]byte, sealedLen)}, nil
}

// streamReader opens one chunk after another.
type streamReader struct {
	in     *bufio.Reader
	c      *Opener
	sealed []byte
	plain  []byte // what was opened
	rest   []byte // of plain, that was not read
	n      uint64 // chunks that were opened
	err    error
}

// Read reads up to the end of a chunk.
func (r *streamReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next opens a chunk. io.EOF comes with the last one.
func (r *streamReader) next() error {
	n, err := io.ReadFull(r.in, r.sealed)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	turn := uint32(more)
	if n < sealedLen {
		turn = last
	} else if _, err := r.in.Peek(1); err == io.EOF {
		turn = last
	} else if err != nil {
		return err // whether it was the last one is not known
	}
	plain, ok := r.c.Open(r.plain[:0], r.sealed[:n], r.n, turn, nil)
	if !ok {
		return base.Corruptf(kindChunk, "it is not what was written there, or the stream was "+
			"cut").At("", int64(r.n)*chunkLen, 0)
	}
	r.plain, r.rest = plain, plain
	r.n++
	if turn == last {
		return io.EOF
	}
	return nil
}
