// Package crun lets engines written in C++ be scanned and written to with few
// calls across the language boundary, each of which costs as much as a step of
// an iterator: entries cross it packed.
//
// Everything in it belongs to one goroutine.
package crun

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/loamdb/loam/internal/workload/store"
)

// Op is how an engine's iterator moves before entries are packed.
type Op int

// The values are those of the drivers' C code.
const (
	Step Op = iota // one forward or backward
	First
	Last
	SeekGE
	SeekLT
	SeekGT
	Stay
)

// Iterator is an engine's iterator.
type Iterator interface {
	// Fetch moves by op and packs up to limit entries into buf, the one it
	// stands on first, going on forward or backward; it ends on the last one
	// packed. When an entry does not fit, it ends on that one, and need is what
	// it takes; else need is 0. used is how much of buf was filled.
	Fetch(op Op, key []byte, backward bool, limit int, buf []byte) (n, used, need int)
	Err() error
	Close() error
}

// A scan packs fewEntries at once at first, so that a short scan reads few entries that it does not
// use, and mostEntries after longScan.
const (
	fewEntries  = 16
	mostEntries = 128
	longScan    = 256
)

// firsts are the buffers that closed cursors began with, for new ones: a seek
// with a new iterator makes no garbage of that size.
var firsts = sync.Pool{New: func() any { return new([4096]byte) }}

// Cursor makes a benchmark's iterator of an engine's.
type Cursor struct {
	it         Iterator
	first      *[4096]byte // nil once closed
	buf        []byte
	rest       []byte // packed entries behind the current one
	left       int    // their number
	key, value []byte
	valid      bool
	backward   bool
	limit      int
	seen       int  // packed since the last seek, roughly
	stay       bool // the engine's iterator stands on an entry that did not fit
}

// NewCursor returns an unpositioned cursor.
func NewCursor(it Iterator) *Cursor {
	first, ok := firsts.Get().(*[4096]byte)
	if !ok {
		first = new([4096]byte)
	}
	return &Cursor{it: it, first: first, buf: first[:]}
}

func (c *Cursor) First() bool            { return c.seek(First, nil, false) }
func (c *Cursor) Last() bool             { return c.seek(Last, nil, true) }
func (c *Cursor) SeekGE(key []byte) bool { return c.seek(SeekGE, key, false) }
func (c *Cursor) SeekLT(key []byte) bool { return c.seek(SeekLT, key, true) }
func (c *Cursor) Valid() bool            { return c.valid }
func (c *Cursor) Key() []byte            { return c.key }
func (c *Cursor) Value() []byte          { return c.value }
func (c *Cursor) Err() error             { return c.it.Err() }

// Close ends what Key and Value returned.
func (c *Cursor) Close() error {
	if c.first != nil {
		firsts.Put(c.first)
		c.first, c.buf, c.valid = nil, nil, false
	}
	return c.it.Close()
}

func (c *Cursor) seek(op Op, key []byte, backward bool) bool {
	c.limit, c.seen, c.backward = 1, 0, backward
	return c.fetch(op, key)
}

func (c *Cursor) fetch(op Op, key []byte) bool {
	for {
		n, used, need := c.it.Fetch(op, key, c.backward, c.limit, c.buf)
		if n == 0 && need > len(c.buf) {
			c.buf, op = make([]byte, 2*need), Stay
			continue
		}
		c.left, c.rest, c.stay = n, c.buf[:used], need > 0
		return c.take()
	}
}

// take makes the next packed entry the current one.
func (c *Cursor) take() bool {
	if c.left == 0 {
		c.valid = false
		return false
	}
	c.left--
	k, v := binary.LittleEndian.Uint32(c.rest), binary.LittleEndian.Uint32(c.rest[4:])
	c.key, c.value = c.rest[8:8+k], c.rest[8+k:8+k+v]
	c.rest = c.rest[8+k+v:]
	c.valid = true
	return true
}

func (c *Cursor) Next() bool {
	if !c.backward && c.left > 0 {
		return c.take()
	}
	return c.step(false, SeekGT)
}

func (c *Cursor) Prev() bool {
	if c.backward && c.left > 0 {
		return c.take()
	}
	return c.step(true, SeekLT)
}

func (c *Cursor) step(backward bool, turn Op) bool {
	if !c.valid {
		return false
	}
	if c.backward != backward {
		return c.seek(turn, bytes.Clone(c.key), backward)
	}
	if len(c.buf) < 32<<10 {
		c.buf = make([]byte, 32<<10)
	}
	c.limit = min(c.limit*2, fewEntries)
	if c.seen += c.limit; c.seen > longScan {
		c.limit = mostEntries
	}
	if c.stay {
		return c.fetch(Stay, nil)
	}
	return c.fetch(Step, nil)
}

// Batch packs writes: for each the lengths of key and value, the key and the
// value; the length Deleted marks a deletion.
type Batch struct {
	Data []byte
	N    int
}

// Deleted is the length of the value of a deletion.
const Deleted = 1<<32 - 1

func (b *Batch) Put(key, value []byte) {
	b.header(len(key), uint32(len(value)))
	b.Data = append(append(b.Data, key...), value...)
}

// SpaceShift is how many bits the length of a key has in a Batch with keyspaces. The number of
// the keyspace stands above, 0 for that of the store itself.
const SpaceShift = 20

// PutIn is Put in a keyspace, numbered from 0, for engines whose C code knows them.
func (b *Batch) PutIn(keyspace int, key, value []byte) {
	b.header((keyspace+1)<<SpaceShift|len(key), uint32(len(value)))
	b.Data = append(append(b.Data, key...), value...)
}

func (b *Batch) Delete(key []byte) {
	b.header(len(key), Deleted)
	b.Data = append(b.Data, key...)
}

func (b *Batch) header(key int, value uint32) {
	b.Data = binary.LittleEndian.AppendUint32(b.Data, uint32(key))
	b.Data = binary.LittleEndian.AppendUint32(b.Data, value)
	b.N++
}

func (b *Batch) Clear() { b.Data, b.N = b.Data[:0], 0 }

// Answers are the packed values of a MultiGet. Ends[i] is where the i-th value
// ends; Found is 1 where the key was there.
type Answers struct {
	Keys  []byte // lengths and keys asked for
	Data  []byte
	Ends  []uint64
	Found []byte
}

// Ask packs the keys and makes room for the answers.
func (a *Answers) Ask(keys [][]byte) {
	a.Keys = a.Keys[:0]
	for _, k := range keys {
		a.Keys = binary.LittleEndian.AppendUint32(a.Keys, uint32(len(k)))
		a.Keys = append(a.Keys, k...)
	}
	if n := len(keys); cap(a.Ends) < n {
		a.Ends, a.Found = make([]uint64, n), make([]byte, n)
	} else {
		a.Ends, a.Found = a.Ends[:n], a.Found[:n]
	}
	if a.Data == nil {
		a.Data = make([]byte, 64<<10)
	}
}

// MultiGet asks for the keys until the values, which are Answers, have room for what read packs
// into Data, Ends and Found. need is what all of it takes.
func MultiGet(keys [][]byte, values store.Values,
	read func(a *Answers) (need int, err error)) error {
	a, ok := values.(*Answers)
	if !ok {
		return errors.New("values of another store")
	}
	a.Ask(keys)
	for {
		need, err := read(a)
		if err != nil || need <= len(a.Data) {
			return err
		}
		a.Data = make([]byte, 2*need)
	}
}

// Value returns the i-th answer.
func (a *Answers) Value(i int) ([]byte, bool) {
	var start uint64
	if i > 0 {
		start = a.Ends[i-1]
	}
	return a.Data[start:a.Ends[i]], a.Found[i] == 1
}
