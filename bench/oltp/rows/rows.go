// Package rows is sysbench's table: rows with the columns id, k, c and pad, found by id, and by an
// index on k. Table is what a benchmark calls; OnKeys makes one of an ordered key-value store.
//
// A row's key is r and its id; its value is k, c and pad. An entry of the index has the key i, k
// and the id, and no value. Numbers are big-endian, in 8 bytes.
package rows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
)

// The lengths of sysbench's columns, and the rows of a range.
const (
	lenC     = 119
	lenPad   = 59
	rangeLen = 100
)

// ValueSize is the length of k, c and pad.
const ValueSize = 8 + lenC + lenPad

// Row is a row of the table.
type Row struct {
	ID, K  int64
	C, Pad []byte
}

// Op is a kind of transaction.
type Op int

// The transactions, each of one statement of sysbench.
const (
	PointSelect    Op = iota // c of an id
	RangeSelect              // c of 100 ids, one after the other
	UpdateNonIndex           // a new c, by id
	UpdateIndex              // k plus one, by id
	Insert                   // a new row
	Delete                   // by id, which may be gone
)

// Ops are all transactions with the names that sysbench gives its tests.
var Ops = []struct {
	Op   Op
	Name string
}{
	{PointSelect, "point_select"}, {RangeSelect, "range_select"},
	{UpdateNonIndex, "update_non_index"}, {UpdateIndex, "update_index"}, {Insert, "insert"},
	{Delete, "delete"},
}

// ErrMissing says that there is no such key.
var ErrMissing = errors.New("missing")

// Table is a table in some engine. Its methods are safe for concurrent use by workers with numbers
// of their own.
type Table interface {
	// Load inserts rows in one transaction.
	Load(ctx context.Context, rows []Row) error
	// Point returns c; ErrMissing: there is no row.
	Point(ctx context.Context, worker int, id int64) (c []byte, err error)
	// Range counts the rows of ids from first on, less than end, and reads their c.
	Range(ctx context.Context, worker int, first, end int64) (n int, err error)
	// SetC, AddK and Delete report whether there was a row.
	SetC(ctx context.Context, worker int, id int64, c []byte) (bool, error)
	AddK(ctx context.Context, worker int, id int64) (bool, error)
	Insert(ctx context.Context, worker int, r Row) error
	Delete(ctx context.Context, worker int, id int64) (bool, error)
	// Check counts the rows, and fails if the index has not one entry for each of them.
	Check(ctx context.Context) (n int64, err error)
	// Conflicts counts the transactions that were begun again.
	Conflicts() int64
	Close() error
}

// Maker makes rows of random digits. It is used by one goroutine at a time.
type Maker struct {
	rnd  *rand.Rand
	pool []byte
}

// NewMaker returns a Maker with a seed.
func NewMaker(seed uint64) *Maker {
	m := &Maker{rnd: rand.New(rand.NewPCG(seed, 28)), pool: make([]byte, 64<<10)}
	for i := range m.pool {
		m.pool[i] = '0' + byte(m.rnd.IntN(10))
	}
	return m
}

func (m *Maker) digits(n int) []byte {
	at := m.rnd.IntN(len(m.pool) - n)
	return m.pool[at : at+n : at+n]
}

// ID draws an id among the first n.
func (m *Maker) ID(n int64) int64 { return 1 + m.rnd.Int64N(n) }

// Row makes the row of an id, with one of n values of k. Its columns are valid for as long as m.
func (m *Maker) Row(id, n int64) Row {
	return Row{id, m.ID(n), m.digits(lenC), m.digits(lenPad)}
}

// Run runs a transaction on a table that began with n rows. next gives the ids of new rows. found
// reports whether there was a row to read or to change: a change of a row that is gone writes
// nothing.
func (m *Maker) Run(ctx context.Context, t Table, worker int, op Op, n int64,
	next func() int64) (found bool, err error) {
	id := m.ID(n)
	switch op {
	case PointSelect:
		c, err := t.Point(ctx, worker, id)
		switch {
		case errors.Is(err, ErrMissing):
			return false, nil
		case err == nil && len(c) != lenC:
			err = fmt.Errorf("row %d has %d bytes", id, len(c))
		}
		return true, err
	case RangeSelect:
		got, err := t.Range(ctx, worker, id, id+rangeLen)
		if err == nil && got > rangeLen {
			err = fmt.Errorf("%d rows of %d ids from %d on", got, rangeLen, id)
		}
		return got > 0, err
	case UpdateNonIndex:
		return t.SetC(ctx, worker, id, m.digits(lenC))
	case UpdateIndex:
		return t.AddK(ctx, worker, id)
	case Insert:
		return true, t.Insert(ctx, worker, m.Row(next(), n))
	case Delete:
		return t.Delete(ctx, worker, id)
	}
	return false, fmt.Errorf("no transaction %d", op)
}

const (
	rowPrefix   = 'r'
	indexPrefix = 'i'
)

func number(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }
func rowKey(id int64) []byte          { return number([]byte{rowPrefix}, id) }
func indexKey(k, id int64) []byte     { return number(number([]byte{indexPrefix}, k), id) }

func (r *Row) value() []byte {
	return append(append(number(make([]byte, 0, ValueSize), r.K), r.C...), r.Pad...)
}

// decode reads a value. Its columns lie in v.
func decode(id int64, v []byte) (Row, error) {
	if len(v) != ValueSize {
		return Row{}, fmt.Errorf("row %d has %d bytes", id, len(v))
	}
	return Row{id, int64(binary.BigEndian.Uint64(v)), v[8 : 8+lenC], v[8+lenC:]}, nil
}
