package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// Progress says how far a dump, or the load of one, has come.
type Progress struct {
	Entries uint64
	Bytes   uint64 // of keys and values
	Offset  int64  // in the dump
}

// Summary is what a whole dump has.
type Summary struct {
	Header Header
	Counts Counts
	Size   int64 // in bytes
	// IDs are the numbers of the header's keyspaces in the database that was dumped.
	IDs []base.KeyspaceID
}

// DumpOptions says how Dump writes.
type DumpOptions struct {
	Snapshot   *tree.Snapshot // nil: the present
	Codec      block.Codec
	BlockBytes int  // size of a block from which on it takes no further entry
	Continue   bool // the dump that the File has is to be completed
	Progress   func(Progress)
}

// File is where a dump is continued.
type File interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

// Dump writes a state of a database; see package lsm/dump.
func Dump(ctx context.Context, db store.Host, w io.Writer, o DumpOptions) (s Summary, err error) {
	st, err := NewState(db, o.Snapshot)
	if err != nil {
		return s, err
	}
	defer st.Close()
	defer func() { s.IDs = st.ids() }()
	progress := func(e *Encoder) {
		if o.Progress != nil {
			o.Progress(Progress{e.counts.All(), e.counts.Bytes, e.written})
		}
	}
	h := Header{Created: uint64(max(time.Now().Unix(), 0)), Seq: uint64(st.snap.Seq())}
	_, _ = rand.Read(h.ID[:]) // never fails
	e, err := NewEncoder(w, o, h, progress)
	if err != nil {
		return s, err
	}
	if !o.Continue {
		err = st.Copy(ctx, e)
		return e.summary(), err
	}
	f, ok := w.(File)
	if !ok {
		return s, base.Invalidf("a dump is continued in a file, which can be read, sought and " +
			"truncated")
	}
	c := continuation{ctx: ctx, st: st, f: f, e: e}
	err = c.run()
	return e.summary(), err
}

func (e *Encoder) summary() Summary {
	return Summary{Header: e.header, Counts: e.counts, Size: e.written}
}

// continuation completes a dump that was cut.
type continuation struct {
	ctx context.Context
	st  *State
	f   File
	e   *Encoder
}

func (c *continuation) run() error {
	size, err := c.f.Seek(0, io.SeekEnd)
	if err == nil && size == 0 {
		return c.st.Copy(c.ctx, c.e)
	}
	if err == nil {
		_, err = c.f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	d, err := NewDecoder(c.f)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := c.sameState(&d.Header); err != nil {
		return err
	}
	d.compare = func(i int) *base.Comparer { return c.st.spaces[i].Comparer() }
	for more := true; more; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		more, err = d.Next(func(int, Entry) error { return nil })
		if err != nil && !errors.Is(err, base.ErrCorruption) {
			return err
		}
		if err != nil {
			break
		}
	}
	c.e.header, c.e.sum, c.e.counts, c.e.written = d.Header, d.at.sum, d.at.counts, d.at.offset
	if err == nil {
		return nil // it is whole
	}
	var after *position
	if d.last != nil {
		after = &position{d.space, slices.Clone(d.lastKey)}
		if err := c.compareBlock(*d.last); err != nil {
			return err
		}
	}
	if err := c.f.Truncate(c.e.written); err != nil {
		return err
	}
	if _, err := c.f.Seek(c.e.written, io.SeekStart); err != nil {
		return err
	}
	return c.st.copyBehind(c.ctx, after, c.e)
}

var errOtherState = base.Invalidf("the database is not in the state of the dump any more, so the " +
	"dump cannot be continued")

// sameState compares the state with that of the dump, as far as the header says.
func (c *continuation) sameState(h *Header) error {
	spaces := headerSpaces(c.st.Spaces())
	// values that expire are no writes, and those that did may have gone
	same := func(a, b HeaderSpace) bool {
		return a.Name == b.Name && a.Comparer == b.Comparer && a.MergeOperator == b.MergeOperator &&
			(a.Expires || !b.Expires)
	}
	if h.Seq != c.e.header.Seq || !slices.EqualFunc(h.Spaces, spaces, same) {
		return fmt.Errorf("%w: that was at sequence number %d, this is at %d", errOtherState, h.Seq,
			c.e.header.Seq)
	}
	return nil
}

// compareBlock compares the last block, which begins at p, with the state.
func (c *continuation) compareBlock(p point) error {
	if _, err := c.f.Seek(p.offset, io.SeekStart); err != nil {
		return err
	}
	d := &Decoder{r: c.f, Header: Header{Spaces: headerSpaces(c.st.Spaces())}, at: p.clone()}
	defer d.Close()
	for i := range d.Header.Spaces {
		d.Header.Spaces[i].Expires = true
	}
	var it tree.Iterator
	defer func() { _ = it.Close() }()
	begun := false
	_, err := d.Next(func(space int, e Entry) error {
		ok := it.Valid()
		if !begun {
			c.st.iter(&it, space)
			ok, begun = it.SeekGE(e.Key), true
		}
		if it.Err() != nil {
			return it.Err()
		}
		if !ok || !bytes.Equal(it.Key(), e.Key) {
			if e.Deadline == 0 {
				return errOtherState
			}
			return nil // it has expired since
		}
		if !bytes.Equal(it.Value(), e.Value) || it.Deadline() != e.Deadline {
			return errOtherState
		}
		it.Next()
		return nil
	})
	return err
}

// Verify reads a whole dump.
func Verify(ctx context.Context, r io.Reader, progress func(Progress)) (s Summary, err error) {
	d, err := NewDecoder(r)
	if err != nil {
		return s, err
	}
	defer d.Close()
	d.compare = func(i int) *base.Comparer {
		c, _ := base.ComparerNamed(d.Header.Spaces[i].Comparer) // nil: its order is not known here
		return c
	}
	for more := true; more && err == nil; {
		if err = ctx.Err(); err != nil {
			break
		}
		if more, err = d.Next(func(int, Entry) error { return nil }); more && progress != nil {
			progress(d.progress())
		}
	}
	return d.summary(), err
}

func (d *Decoder) progress() Progress {
	return Progress{d.at.counts.All(), d.at.counts.Bytes, d.at.offset}
}

func (d *Decoder) summary() Summary {
	return Summary{Header: d.Header, Counts: d.at.counts, Size: d.at.offset}
}
