package txn

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree"
)

// A point read has two steps: under the transaction's lock it looks at own writes and notes
// what is read; without it, it reads the database and calls the merge operator.

// read is a point read after its first step.
type read struct {
	value []byte         // with known and without fold: dst with the value appended
	err   error          // base.ErrNotFound where the transaction has deleted the key
	known bool           // what the database has does not count
	at    *tree.Snapshot // to read at; nil after an error
	// fold has own operands, and the value before them if the transaction has written that,
	// too; nil: the newest own write is no operand.
	fold *mergeop.Fold
}

// ownGet answers from own writes, as far as they go. tx.mu is held.
func (r *read) ownGet(tx *Txn, k Keyspace, key, dst []byte) {
	r.value, r.at = dst, tx.snap
	s := tx.own(k)
	if s == nil {
		return
	}
	value, kind, found := s.Get(key)
	switch {
	case !found:
	case kind.IsTombstone():
		r.known, r.err = true, base.ErrNotFound
	case kind.EndsLookup():
		r.known, r.value = true, append(dst, value...)
	default:
		r.fold = mergeop.New()
		r.known = s.operands(key, r.fold)
	}
}

// beginRead is the first step of Get.
func (tx *Txn) beginRead(k Keyspace, key, dst []byte) (r read) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	defer tx.catch(&r.err)
	if tx.over != nil {
		return read{value: dst, err: tx.over}
	}
	if r.ownGet(tx, k, key, dst); r.known {
		return r
	}
	if tx.o.Serializable {
		tx.note(k)
		tx.reads.AddKey(k.ID(), key, tx.snap.Seq())
	}
	tx.unlocked = true
	return r
}

// beginUpdate is the first step of GetForUpdate.
func (tx *Txn) beginUpdate(k Keyspace, key, dst []byte) (r read) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	defer tx.catch(&r.err)
	err := tx.mayWrite(k)
	if err == nil {
		err = tx.depend(k, key)
	}
	if err != nil {
		return read{value: dst, err: err}
	}
	if !tx.o.Lock { // else lock has done it
		tx.reads.AddKey(k.ID(), key, tx.snap.Seq())
	}
	tx.pinned = true
	if tx.o.Lock {
		tx.updating++
	}
	r.ownGet(tx, k, key, dst)
	return r
}

// endUpdate ends a read that beginUpdate began in a transaction with locks.
func (tx *Txn) endUpdate() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.updating--
}

// finish is the second step.
func (r *read) finish(tx *Txn, k Keyspace, key, dst []byte,
	flags sstable.ReadFlags) ([]byte, error) {
	if r.fold == nil {
		if r.known || r.err != nil {
			return r.value, r.err
		}
		value, err := k.Reads().Get(key, dst, r.at, flags)
		return value, tx.ended(err)
	}
	defer r.fold.Free()
	if r.err != nil {
		return dst, r.err
	}
	if !r.known {
		buf := r.fold.Buffer()
		switch with, err := k.Reads().Get(key, buf, r.at, flags); {
		case err == nil:
			r.fold.Existing(with, len(buf))
		case !errors.Is(err, base.ErrNotFound):
			return dst, tx.ended(err)
		}
	}
	return r.folded(k, key, dst)
}

// folded appends the value that the operands amount to to dst.
func (r *read) folded(k Keyspace, key, dst []byte) ([]byte, error) {
	t := k.Reads()
	value, err := r.fold.Value(t.Merge(), key, true)
	t.CountFold(r.fold.Len(), err)
	if err != nil {
		return dst, err
	}
	return append(dst, value...), nil
}

// ended makes the failure of a read whose snapshot was closed meanwhile the right one.
func (tx *Txn) ended(err error) error {
	if err == nil || !errors.Is(err, base.ErrClosed) {
		return err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.over != nil {
		return tx.over
	}
	return err
}

// Get appends the value of key to dst; see tree.Tree.Get.
func (tx *Txn) Get(k Keyspace, key, dst []byte, flags sstable.ReadFlags) ([]byte, error) {
	r := tx.beginRead(k, key, dst)
	return r.finish(tx, k, key, dst, flags)
}

// GetPinned is Get of a value that stays where it is; see tree.Tree.GetPinned. What the transaction
// wrote is copied.
func (tx *Txn) GetPinned(k Keyspace, key []byte, p *tree.Pinned) error {
	key = base.Apart(key, p.Value())
	p.Release()
	r := tx.beginRead(k, key, nil)
	if r.err == nil && !r.known && r.fold == nil {
		return tx.ended(k.Reads().GetPinned(key, r.at, p))
	}
	value, err := r.finish(tx, k, key, nil, 0)
	if err == nil {
		p.Copy(value)
	}
	return err
}

// Has reports whether key has a value.
func (tx *Txn) Has(k Keyspace, key []byte) (has bool, err error) {
	r := tx.beginRead(k, key, nil)
	if r.err == nil && !r.known && r.fold == nil {
		has, err = k.Reads().Has(key, r.at)
		return has, tx.ended(err)
	}
	_, err = r.finish(tx, k, key, nil, 0)
	if errors.Is(err, base.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// GetForUpdate is Get of a key that the transaction is about to write: it is checked, or
// locked, as if it was written.
func (tx *Txn) GetForUpdate(k Keyspace, key, dst []byte) ([]byte, error) {
	r := tx.beginUpdate(k, key, dst)
	if tx.o.Lock && r.at != nil {
		defer tx.endUpdate()
	}
	return r.finish(tx, k, key, dst, 0)
}

// MultiGet looks up many keys; see tree.Tree.MultiGet.
func (tx *Txn) MultiGet(k Keyspace, keys [][]byte, r *tree.MultiResult) error {
	tx.mu.Lock()
	at, err := tx.snap, tx.over
	own := false
	if err == nil {
		tx.unlocked = true
		own = tx.own(k) != nil
	}
	if err == nil && tx.o.Serializable {
		tx.note(k)
		for _, key := range keys {
			tx.reads.AddKey(k.ID(), key, at.Seq())
		}
	}
	tx.mu.Unlock()
	if err != nil {
		return err
	}
	switch err := k.Reads().MultiGet(keys, at, r); {
	case errors.Is(err, base.ErrMergeFailed) && own: // an own write may hide the operands
		r.Reset(len(keys))
		all := make([]int, len(keys))
		for i := range all {
			all[i] = i
		}
		return tx.getEach(k, keys, all, r)
	case err != nil:
		return tx.ended(err)
	case own:
		merges, err := tx.overlay(k, keys, r)
		if err != nil {
			return err
		}
		return tx.getEach(k, keys, merges, r)
	}
	return nil
}

// getEach looks keys[i] up on its own, for each i of which.
func (tx *Txn) getEach(k Keyspace, keys [][]byte, which []int, r *tree.MultiResult) error {
	for _, i := range which {
		value, err := tx.Get(k, keys[i], nil, 0)
		switch {
		case err == nil:
			r.Set(i, value, true)
		case !errors.Is(err, base.ErrNotFound):
			return err
		}
	}
	return nil
}

// overlay puts own writes over the answers of the database, and returns the keys whose newest own
// write is an operand.
func (tx *Txn) overlay(k Keyspace, keys [][]byte,
	r *tree.MultiResult) (merges []int, err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	defer tx.catch(&err)
	s := tx.own(k)
	if s == nil { // it has ended
		return nil, tx.over
	}
	for i, key := range keys {
		value, kind, found := s.Get(key)
		switch {
		case !found:
		case kind.EndsLookup():
			r.Set(i, value, !kind.IsTombstone())
		default:
			merges = append(merges, i)
		}
	}
	return merges, nil
}
