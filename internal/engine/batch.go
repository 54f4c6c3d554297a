package engine

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/txn"
)

// Batch is a batch in the making, and what Commit would otherwise have to read it for. The zero
// Batch is empty. It is used by one goroutine at a time.
type Batch struct {
	Repr []byte    // wire form; nil: empty
	Home *Keyspace // of operations that name none; nil: the default one
	Err  error     // the first operation that did not fit

	spaces  []*Keyspace // those that operations name
	plain   bool        // an operation names no keyspace
	beyond  base.Kind   // the first kind that LevelDB's format does not have; 0: none
	ranges  bool        // there is a range delete
	expires bool        // an operation expires
	// mergesByReading is set by Commit: a merge is of a keyspace where values expire.
	mergesByReading bool
}

// TooLarge is the error of what no batch holds: n bytes of it.
func TooLarge(what string, n int) error {
	return fmt.Errorf("%w: a %s of %d bytes; a batch holds at most %d", base.ErrTooLarge, what, n, int64(txn.MaxBatch))
}

// fits reports whether n more bytes of keys and values fit. If not, Commit will fail with
// base.ErrTooLarge.
func (b *Batch) fits(n int) bool {
	if b.Repr == nil {
		b.Repr = batchrepr.Init(nil)
	}
	if n > txn.MaxBatch-len(b.Repr)-32 {
		if b.Err == nil {
			b.Err = TooLarge("batch", len(b.Repr)+n)
		}
		return false
	}
	return true
}

// Put adds a put into Home.
func (b *Batch) Put(key, value []byte) {
	if b.Home != nil {
		b.Add(b.Home, base.KindSet, key, value)
	} else if b.fits(len(key) + len(value)) {
		b.plain = true
		b.Repr = batchrepr.AppendPut(b.Repr, key, value)
	}
}

// Delete adds a delete in Home.
func (b *Batch) Delete(key []byte) {
	if b.Home != nil {
		b.Add(b.Home, base.KindDelete, key, nil)
	} else if b.fits(len(key)) {
		b.plain = true
		b.Repr = batchrepr.AppendDelete(b.Repr, key)
	}
}

// Add adds an operation on a keyspace; nil is the default one.
func (b *Batch) Add(k *Keyspace, kind base.Kind, key, value []byte) {
	b.ranges = b.ranges || kind == base.KindRangeDelete
	b.expires = b.expires || kind == base.KindSetExpiring
	if !b.fits(len(key) + len(value)) {
		return
	}
	id := base.DefaultKeyspace
	if k != nil {
		b.note(k)
		id = k.Tree.ID()
	}
	b.plain = b.plain || id == base.DefaultKeyspace
	if b.beyond == 0 && !kind.InLevelDB() {
		b.beyond = kind
	}
	b.Repr = batchrepr.AppendEntry(b.Repr, id, kind, key, value)
}

// note remembers that operations name a keyspace.
func (b *Batch) note(k *Keyspace) {
	if n := len(b.spaces); (n == 0 || b.spaces[n-1] != k) && !slices.Contains(b.spaces, k) {
		b.spaces = append(b.spaces, k)
	}
}

// Append adds the operations of other.
func (b *Batch) Append(other *Batch) {
	if other.Err != nil && b.Err == nil {
		b.Err = other.Err
	}
	if other.Count() == 0 || !b.fits(len(other.Repr)) {
		return
	}
	for _, k := range other.spaces {
		b.note(k)
	}
	if b.beyond == 0 {
		b.beyond = other.beyond
	}
	b.ranges, b.expires = b.ranges || other.ranges, b.expires || other.expires
	b.plain = b.plain || other.plain
	repr, ok := batchrepr.AppendBatch(b.Repr, other.Repr)
	if !ok && b.Err == nil {
		b.Err = TooLarge("batch", len(b.Repr)+len(other.Repr))
	}
	b.Repr = repr
}

// Clear empties the batch and keeps its memory and Home.
func (b *Batch) Clear() {
	*b = Batch{Repr: batchrepr.Init(b.Repr[:0]), Home: b.Home, spaces: b.spaces[:0]}
}

// Count is the number of operations.
func (b *Batch) Count() int {
	if len(b.Repr) == 0 {
		return 0
	}
	return int(batchrepr.Count(b.Repr))
}

// Bytes is the wire form.
func (b *Batch) Bytes() []byte {
	if b.Repr == nil {
		b.Repr = batchrepr.Init(nil)
	}
	return b.Repr
}

// BatchOf makes a batch of a wire form, which comes from outside and is checked; see
// lsm.DB.WriteBytes. It keeps repr.
func (k *Keyspace) BatchOf(repr []byte) (Batch, error) {
	kinds, err := k.validate(repr)
	if err == nil && len(repr) > txn.MaxBatch {
		err = TooLarge("batch", len(repr))
	}
	return Batch{
		Repr: repr, plain: true, beyond: kinds.BeyondLevelDB(),
		ranges: kinds>>base.KindRangeDelete&1 != 0, expires: kinds>>base.KindSetExpiring&1 != 0,
	}, err
}

// PlainBatch makes a batch of a wire form that has puts and deletes without keyspaces. It keeps
// repr.
func PlainBatch(repr []byte) (Batch, error) {
	if err := batchrepr.Validate(repr, nil); err != nil {
		return Batch{}, fmt.Errorf("%w: batch bytes: %w", base.ErrInvalidArgument, err)
	}
	if len(repr) > txn.MaxBatch {
		return Batch{}, TooLarge("batch", len(repr))
	}
	return Batch{Repr: repr, plain: true}, nil
}

// validate says what of a batch in wire form the database cannot take. kinds are those of its
// operations.
func (k *Keyspace) validate(repr []byte) (kinds batchrepr.Kinds, err error) {
	if !k.DB.Native() {
		if err = batchrepr.Validate(repr, nil); err == nil {
			return 0, nil
		}
		if all, beyond := batchrepr.ValidateKinds(repr, func(base.KeyspaceID) bool { return true }); beyond == nil {
			if kind := all.BeyondLevelDB(); kind != 0 {
				return 0, base.NeedsNative("a " + kind.String())
			}
			return 0, base.NeedsNative("a keyspace")
		}
		return 0, fmt.Errorf("%w: batch bytes: %w", base.ErrInvalidArgument, err)
	}
	last, missing := base.DefaultKeyspace, false
	kinds, err = batchrepr.ValidateKinds(repr, func(id base.KeyspaceID) bool {
		if id != last {
			missing = k.DB.KeyspaceByID(id) == nil
			last = id
		}
		return !missing
	})
	switch {
	case err == nil:
		return kinds, nil
	case missing:
		return 0, fmt.Errorf("%w: number %d, which the batch names", base.ErrNoKeyspace, last)
	}
	return 0, fmt.Errorf("%w: batch bytes: %w", base.ErrInvalidArgument, err)
}

// Commit writes a batch. Operations that name no keyspace are on k. See lsm.DB.Write.
func (k *Keyspace) Commit(b *Batch, mode commit.Mode) error {
	if b.Err != nil {
		return b.Err
	}
	if err := k.DB.Health.Writable(); err != nil {
		return err
	}
	if err := k.DB.checkKeyspaces(b.spaces); err != nil {
		return err
	}
	if b.beyond != 0 {
		if err := k.checkKinds(b); err != nil {
			return err
		}
	}
	if b.Count() == 0 && mode&commit.Sync == 0 {
		return nil
	}
	var err error
	if expiring := b.expires || b.mergesByReading || k.DB.defaultTTLs.Load(); expiring || b.plain && k.ID() != base.DefaultKeyspace {
		err = k.write(b.Bytes(), expiring, mode)
	} else {
		err = k.DB.Pipeline.Commit(b.Bytes(), mode)
	}
	if b.ranges && err == nil {
		_ = k.eachOf(b, base.KindRangeDelete, func(in *Keyspace, start, limit []byte) error {
			in.RangeDeleted(start, limit)
			return nil
		})
	}
	return err
}

// checkKinds refuses operations that the format or the keyspaces of a batch cannot hold: merges
// without an operator, range deletes that start behind their limits.
func (k *Keyspace) checkKinds(b *Batch) error {
	if !k.DB.Native() {
		return base.NeedsNative("a " + b.beyond.String())
	}
	b.mergesByReading = false
	err := k.eachOf(b, base.KindMerge, func(in *Keyspace, _, _ []byte) error {
		b.mergesByReading = b.mergesByReading || in.mergesByReading()
		return in.mergeable()
	})
	if err == nil && b.ranges {
		err = k.eachOf(b, base.KindRangeDelete, (*Keyspace).checkRange)
	}
	return err
}

// eachOf calls f for the operations of a kind in a batch, but for those on keyspaces that were
// dropped meanwhile.
func (k *Keyspace) eachOf(b *Batch, want base.Kind, f func(in *Keyspace, key, value []byte) error) error {
	for it := batchrepr.Read(b.Repr); ; {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if kind != want {
			continue
		}
		in := k
		if id != base.DefaultKeyspace && id != k.ID() {
			if in = k.DB.KeyspaceByID(id); in == nil {
				continue
			}
		}
		if err := f(in, key, value); err != nil {
			return err
		}
	}
}

// Put writes one operation of a kind that every format has; the database may have been closed.
func (k *Keyspace) Put(kind base.Kind, key, value []byte, mode commit.Mode) error {
	if err := k.Writable(); err != nil {
		return err
	}
	k.Tree.PrefetchWrite(key)
	return k.DB.Pipeline.Put(k.Tree.ID(), kind, key, value, mode)
}

// DeleteRange deletes the keys from start up to limit; see lsm.DB.DeleteRange.
func (k *Keyspace) DeleteRange(start, limit []byte, mode commit.Mode) error {
	if err := k.Writable(); err != nil {
		return err
	}
	if err := k.CheckWrite(base.KindRangeDelete, start, limit); err != nil {
		return err
	}
	err := k.Put(base.KindRangeDelete, start, limit, mode)
	if err == nil {
		k.RangeDeleted(start, limit)
	}
	return err
}

// Merge adds an operand to key; see lsm.DB.Merge.
func (k *Keyspace) Merge(key, operand []byte, mode commit.Mode) error {
	if err := k.Writable(); err != nil {
		return err
	}
	if err := k.CheckWrite(base.KindMerge, key, operand); err != nil {
		return err
	}
	if k.mergesByReading() {
		b := Batch{}
		b.Add(k, base.KindMerge, key, operand)
		return k.Commit(&b, mode)
	}
	return k.Put(base.KindMerge, key, operand, mode)
}
