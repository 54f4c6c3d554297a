package tikv

import (
	"bytes"
	"context"
	"fmt"

	"github.com/loamdb/loam/lsm/kv"
)

// scanBatch is how many entries an iterator fetches at a time.
const scanBatch = 64

// scanner is what client-go returns: a walk in one direction.
type scanner interface {
	Valid() bool
	Key() []byte
	Value() []byte
	Next() error
	Close()
}

// iterator walks both ways with a scanner at a time. Its moves take no context: client-go gives up
// a scan after 20 seconds of refusals.
type iterator struct {
	db           *DB
	held         *hold
	lower, upper []byte // keys of the cluster, never nil
	keysOnly     bool

	scan    scanner // nil: at no entry
	reverse bool
	key     []byte // of the cluster
	value   []byte
	err     error
	closed  bool
}

// iter opens an iterator at a timestamp; 0: the present one.
func (db *DB) iter(ctx context.Context, ts uint64, o *kv.IterOptions) (kv.Iterator, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	it := &iterator{db: db, lower: db.key(nil), upper: db.end}
	if o != nil {
		it.keysOnly = o.KeysOnly
		it.lower = db.key(o.Lower)
		if o.Upper != nil {
			it.upper = db.key(o.Upper)
		}
	}
	var err error
	if it.held, err = db.hold(ctx, ts); err != nil {
		return nil, err
	}
	return it, nil
}

func (it *iterator) First() bool { return it.seek(it.lower, false) }
func (it *iterator) Last() bool  { return it.seek(it.upper, true) }

func (it *iterator) SeekGE(key []byte) bool {
	return it.seek(larger(it.lower, it.db.key(key)), false)
}

func (it *iterator) SeekLT(key []byte) bool {
	if k := it.db.key(key); bytes.Compare(k, it.upper) < 0 {
		return it.seek(k, true)
	}
	return it.Last()
}

func larger(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// seek begins a scan at a key, or, in reverse, at the last key before it.
func (it *iterator) seek(at []byte, reverse bool) bool {
	it.leave()
	if it.err != nil || !it.enter() {
		return false
	}
	defer it.db.leave()
	if !reverse && bytes.Compare(at, it.upper) >= 0 || reverse && bytes.Compare(at, it.lower) <= 0 {
		return false
	}
	from := it.db.at(it.held.ts)
	from.SetKeyOnly(it.keysOnly)
	from.SetScanBatchSize(scanBatch)
	var err error
	if it.reverse = reverse; reverse {
		it.scan, err = from.IterReverse(at)
	} else {
		it.scan, err = from.Iter(at, it.upper)
	}
	return it.arrive(err)
}

func (it *iterator) Next() bool {
	if it.reverse && it.scan != nil {
		return it.seek(append(bytes.Clone(it.key), 0), false)
	}
	return it.move()
}

func (it *iterator) Prev() bool {
	if !it.reverse && it.scan != nil {
		return it.seek(bytes.Clone(it.key), true)
	}
	return it.move()
}

// move goes on in the direction of the scan.
func (it *iterator) move() bool {
	if it.scan == nil || !it.enter() {
		it.leave()
		return false
	}
	defer it.db.leave()
	return it.arrive(it.scan.Next())
}

// enter begins a call to the cluster, which db.leave ends.
func (it *iterator) enter() bool {
	if it.closed {
		it.err = fmt.Errorf("tikv: iterator: %w", ErrClosed)
		return false
	}
	it.err = it.db.enter(context.Background())
	return it.err == nil
}

// arrive takes the entry at the scanner, if there is one and it is within the bounds: scans in
// reverse have no bound of their own.
func (it *iterator) arrive(err error) bool {
	if err != nil {
		it.leave()
		it.err = explain(err)
		return false
	}
	if !it.scan.Valid() || it.reverse && bytes.Compare(it.scan.Key(), it.lower) < 0 {
		it.leave()
		return false
	}
	it.key = it.scan.Key()
	if it.keysOnly {
		return true
	}
	if it.value, err = value(it.Key(), it.scan.Value()); err != nil {
		it.leave()
		it.err = err
		return false
	}
	return true
}

// leave puts the iterator at no entry.
func (it *iterator) leave() {
	if it.scan != nil {
		it.scan.Close()
	}
	it.scan, it.value = nil, nil
}

func (it *iterator) Valid() bool { return it.scan != nil }

func (it *iterator) Key() []byte {
	if it.scan == nil {
		return nil
	}
	return it.key[len(it.db.cfg.Prefix):]
}

func (it *iterator) Value() []byte { return it.value }
func (it *iterator) Err() error    { return it.err }

func (it *iterator) Close() error {
	if it.leave(); !it.closed {
		it.closed = true
		it.held.release()
	}
	return it.err
}
