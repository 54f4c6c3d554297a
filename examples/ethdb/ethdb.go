// Package ethdb makes a Loam database a go-ethereum ethdb.KeyValueStore.
//
// It is a module of its own, so that programs which use Loam do not depend on go-ethereum.
// Copy it, or require it with a replace directive.
package ethdb

import (
	"bytes"
	"fmt"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/loamdb/loam/lsm"
)

// Database is a key-value store of go-ethereum. It is safe for concurrent use.
type Database struct{ db *lsm.DB }

var _ ethdb.KeyValueStore = (*Database)(nil)

// Open opens the database in a directory, or creates it. A nil o means the defaults, with
// Loam's own format, which range deletes need.
func Open(dir string, o *lsm.Options) (*Database, error) {
	if o == nil {
		o = &lsm.Options{Format: lsm.FormatNative}
	}
	db, err := lsm.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &Database{db}, nil
}

// Close closes the database. Iterators that are open must be released all the same.
func (d *Database) Close() error { return d.db.Close() }

// Has reports whether a key has a value.
func (d *Database) Has(key []byte) (bool, error) { return d.db.Has(key) }

// Get returns the value of a key. A missing key is lsm.ErrNotFound.
func (d *Database) Get(key []byte) ([]byte, error) { return d.db.Get(key, []byte{}) }

// Put sets key to value. What it writes survives the process; see SyncKeyValue.
func (d *Database) Put(key, value []byte) error { return d.db.Put(key, value, lsm.NoSync) }

// Delete removes a key.
func (d *Database) Delete(key []byte) error { return d.db.Delete(key, lsm.NoSync) }

// DeleteRange removes the keys from start up to, not including, end, at the cost of one Put. A
// nil end stands for ethdb.MaximumKey.
func (d *Database) DeleteRange(start, end []byte) error {
	if end = limit(end); bytes.Compare(start, end) >= 0 {
		return nil
	}
	return d.db.DeleteRange(start, end, lsm.NoSync)
}

func limit(end []byte) []byte {
	if end == nil {
		return ethdb.MaximumKey
	}
	return end
}

// SyncKeyValue makes everything that was written survive a power cut.
func (d *Database) SyncKeyValue() error { return d.db.Write(lsm.NewBatch(), lsm.Sync) }

// Stat is a table of the levels.
func (d *Database) Stat() (string, error) {
	stats, ok := d.db.Property("loam.stats")
	if !ok {
		return "", lsm.ErrClosed
	}
	return stats, nil
}

// Compact rewrites the tables of a range, so that what was deleted gives its space back.
func (d *Database) Compact(start, limit []byte) error { return d.db.CompactRange(start, limit) }

// NewIterator walks over the keys that begin with prefix, from prefix and start on.
func (d *Database) NewIterator(prefix, start []byte) ethdb.Iterator {
	return &iterator{
		it:    d.db.Iter(&lsm.IterOptions{Prefix: prefix}),
		first: append(append([]byte{}, prefix...), start...),
	}
}

type iterator struct {
	it       *lsm.Iterator
	first    []byte // where the first Next goes; nil: it has gone there
	at       bool
	released bool
	err      error // of an iterator that was released
}

// Next moves to the next key.
func (i *iterator) Next() bool {
	switch {
	case i.released:
		return false
	case i.first != nil:
		i.at, i.first = i.it.SeekGE(i.first), nil
	case i.at:
		i.at = i.it.Next()
	}
	return i.at
}

// Error is the failure that ended the walk.
func (i *iterator) Error() error {
	if i.released {
		return i.err
	}
	return i.it.Err()
}

// Key is valid until Next.
func (i *iterator) Key() []byte {
	if !i.at {
		return nil
	}
	return i.it.Key()
}

// Value is valid until Next.
func (i *iterator) Value() []byte {
	if !i.at {
		return nil
	}
	return i.it.Value()
}

// Release may be called more than once.
func (i *iterator) Release() {
	if !i.released {
		i.err, i.at, i.released = i.it.Err(), false, true
		_ = i.it.Close() // says what Err said
	}
}

// batch collects operations, which Write hands to Loam together.
type batch struct {
	db   *Database
	ops  []op
	size int
}

type op struct {
	kind       byte // 'p', 'd' or 'r'
	key, value []byte
}

// NewBatch returns an empty batch.
func (d *Database) NewBatch() ethdb.Batch { return &batch{db: d} }

// NewBatchWithSize returns an empty batch; the size is of no use here.
func (d *Database) NewBatchWithSize(int) ethdb.Batch { return d.NewBatch() }

func (b *batch) add(kind byte, key, value []byte) error {
	b.ops = append(b.ops, op{kind, bytes.Clone(key), bytes.Clone(value)})
	b.size += len(key) + len(value)
	return nil
}

// Put adds a put.
func (b *batch) Put(key, value []byte) error { return b.add('p', key, value) }

// Delete adds a delete.
func (b *batch) Delete(key []byte) error { return b.add('d', key, nil) }

// DeleteRange adds a range delete. As with all operations, what comes later in the batch wins.
func (b *batch) DeleteRange(start, end []byte) error { return b.add('r', start, end) }

// ValueSize is the size of keys and values.
func (b *batch) ValueSize() int { return b.size }

// Write makes all operations take effect together, or none.
func (b *batch) Write() error {
	out := lsm.NewBatch()
	for _, o := range b.ops {
		switch o.kind {
		case 'p':
			out.Put(o.key, o.value)
		case 'd':
			out.Delete(o.key)
		default:
			if end := limit(o.value); bytes.Compare(o.key, end) < 0 {
				out.DeleteRange(o.key, end)
			}
		}
	}
	return b.db.db.Write(out, lsm.NoSync)
}

// Reset empties the batch.
func (b *batch) Reset() { b.ops, b.size = b.ops[:0], 0 }

// Close gives the memory back.
func (b *batch) Close() { b.ops, b.size = nil, 0 }

// Replay makes the operations on w.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for _, o := range b.ops {
		var err error
		switch o.kind {
		case 'p':
			err = w.Put(o.key, o.value)
		case 'd':
			err = w.Delete(o.key)
		default:
			ranges, ok := w.(ethdb.KeyValueRangeDeleter)
			if !ok {
				return fmt.Errorf("a range delete is to be replayed on a %T, which has none", w)
			}
			err = ranges.DeleteRange(o.key, o.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
