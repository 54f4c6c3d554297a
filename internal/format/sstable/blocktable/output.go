package blocktable

import (
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
)

// outputChunk is what goes to the file in one write: large pieces become large
// pages of the page cache.
const outputChunk = 2 << 20

// Output is a table on its way to the file. Its user appends to Buf, for which it asked
// Buf.Reserve, and then calls Advance.
type Output struct {
	File vfs.WriteFile
	Buf  block.Buffer // not yet in the file
	// Offset is the end of Buf in the file.
	Offset uint64
	// Summed means that Checksum is the crc32c of the whole file.
	Summed   bool
	Checksum uint32
}

// Advance counts n bytes that were appended, and writes what makes whole chunks.
func (o *Output) Advance(n int) error {
	o.Offset += uint64(n)
	b := o.Buf.Bytes()
	if len(b) < outputChunk {
		return nil
	}
	for len(b) >= outputChunk {
		if err := o.write(b[:outputChunk]); err != nil {
			return err
		}
		b = b[outputChunk:]
	}
	o.Buf.Truncate(copy(o.Buf.Bytes(), b))
	return nil
}

// Flush writes all there is.
func (o *Output) Flush() error {
	b := o.Buf.Bytes()
	o.Buf.Truncate(0)
	for len(b) > 0 {
		n := min(len(b), outputChunk)
		if err := o.write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Through writes p behind all there is; a large p is not copied.
func (o *Output) Through(p []byte) error {
	if len(p) < outputChunk {
		if err := o.Buf.Append(p); err != nil {
			return err
		}
		return o.Advance(len(p))
	}
	if err := o.Flush(); err != nil {
		return err
	}
	o.Offset += uint64(len(p))
	return o.write(p)
}

// Sync makes what was written durable.
func (o *Output) Sync() error {
	if err := o.File.Sync(); err != nil {
		return fmt.Errorf("syncing a table: %w", err)
	}
	return nil
}

func (o *Output) write(p []byte) error {
	n, err := o.File.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("writing a table: %w", err)
	}
	if o.Summed {
		o.Checksum = base.CRCUpdate(o.Checksum, p)
	}
	return nil
}
