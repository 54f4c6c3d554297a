package client

import (
	"bytes"
	"context"
	"fmt"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/wire"
)

const (
	// firstChunk is what the first chunk of an iterator has, in bytes of keys and values; each
	// further one in the same direction has twice as much, up to lastChunk.
	firstChunk = 4 << 10
	lastChunk  = 256 << 10
)

// iterator walks over a snapshot by chunks: it has one of them.
type iterator struct {
	ctx    context.Context
	of     *remote
	o      kv.IterOptions
	size   uint64
	closed bool
	err    error

	entries  []entry // in ascending order
	backward bool    // the chunk was read backward
	more     bool    // there are more in that direction
	at       int     // the present one; outside of entries: none
}

var _ kv.Iterator = (*iterator)(nil)

func (i *iterator) First() bool { return i.fetch(false, i.o.Lower, i.o.Upper, firstChunk) }
func (i *iterator) Last() bool  { return i.fetch(true, i.o.Lower, i.o.Upper, firstChunk) }

func (i *iterator) SeekGE(key []byte) bool {
	return i.fetch(false, i.clip(key), i.o.Upper, firstChunk)
}

func (i *iterator) SeekLT(key []byte) bool {
	return i.fetch(true, i.o.Lower, i.clip(key), firstChunk)
}

// clip moves a key into the bounds. The result is not nil.
func (i *iterator) clip(key []byte) []byte {
	switch {
	case i.o.Lower != nil && bytes.Compare(key, i.o.Lower) < 0:
		return i.o.Lower
	case i.o.Upper != nil && bytes.Compare(key, i.o.Upper) > 0:
		return i.o.Upper
	case key == nil:
		return []byte{}
	}
	return key
}

func (i *iterator) Next() bool {
	switch {
	case !i.Valid():
		return false
	case i.at+1 < len(i.entries):
		i.at++
		return true
	case !i.backward && !i.more:
		i.at++
		return false
	}
	behind := append(bytes.Clone(i.Key()), 0)
	return i.fetch(false, behind, i.o.Upper, i.larger(false))
}

func (i *iterator) Prev() bool {
	switch {
	case !i.Valid():
		return false
	case i.at > 0:
		i.at--
		return true
	case i.backward && !i.more:
		i.at--
		return false
	}
	return i.fetch(true, i.o.Lower, bytes.Clone(i.Key()), i.larger(true))
}

// larger is the size of the next chunk.
func (i *iterator) larger(backward bool) uint64 {
	if backward != i.backward {
		return firstChunk
	}
	return min(2*i.size, lastChunk)
}

// fetch reads a chunk within bounds, and moves to the entry that it begins with.
func (i *iterator) fetch(backward bool, lower, upper []byte, size uint64) bool {
	i.entries, i.at, i.more = nil, 0, false
	switch {
	case i.closed:
		i.err = fmt.Errorf("client: iterator: %w", lsm.ErrClosed)
	case i.err == nil && (lower == nil || upper == nil || bytes.Compare(lower, upper) < 0):
		var c *chunk
		c, i.err = i.of.reader().scan(i.ctx, &wire.Scan{KeysOnly: i.o.KeysOnly, Backward: backward,
			Lower: lower, Upper: upper, Bytes: size})
		if i.err != nil {
			return false
		}
		i.entries, i.more, i.backward, i.size = c.entries, c.more, backward, size
	}
	if backward {
		for a, b := 0, len(i.entries)-1; a < b; a, b = a+1, b-1 {
			i.entries[a], i.entries[b] = i.entries[b], i.entries[a]
		}
		i.at = len(i.entries) - 1
	}
	return i.Valid()
}

func (i *iterator) Valid() bool {
	return i.err == nil && !i.closed && i.at >= 0 && i.at < len(i.entries)
}

func (i *iterator) Key() []byte {
	if !i.Valid() {
		return nil
	}
	return i.entries[i.at].key
}

func (i *iterator) Value() []byte {
	if !i.Valid() {
		return nil
	}
	return i.entries[i.at].value
}

func (i *iterator) Err() error { return i.err }

func (i *iterator) Close() error {
	if !i.closed {
		i.closed = true
		i.entries = nil
		i.of.release()
	}
	return i.err
}
