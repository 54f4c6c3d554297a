package store

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store/write"
)

// Batch is a batch in the making, and what Commit would otherwise have to read it for. The zero
// Batch is empty. It is used by one goroutine at a time.
type Batch struct {
	Repr []byte // wire form; nil: empty
	// Home is the keyspace of Put, Delete and Add; nil: the one that the batch is written to.
	Home *Keyspace
	Err  error // the first operation that did not fit

	spaces []*Keyspace // those that operations name
	has    batchrepr.Contents
	merged mergedBlind // set by Commit: the keyspaces of its merges
}

// plain reports whether operations that Repr has without a keyspace are on the default one, so
// that Repr is LevelDB's. In any other batch they are on the keyspace that it is written to, and
// Repr names the default one.
func (b *Batch) plain() bool { return b.Home != nil && b.Home.ID() == base.DefaultKeyspace }

// TooLarge is the error for contents that no batch holds: n bytes of it.
func TooLarge(what string, n int) error {
	return fmt.Errorf("%w: a %s of %d bytes; a batch holds at most %d", base.ErrTooLarge, what, n,
		int64(batchrepr.MaxLen))
}

// fits reports whether n more bytes of keys and values fit. If not, Commit will fail with
// base.ErrTooLarge.
func (b *Batch) fits(n int) bool {
	if b.Repr == nil {
		b.Repr = batchrepr.Init(nil)
	}
	if n > batchrepr.MaxLen-len(b.Repr)-32 {
		if b.Err == nil {
			b.Err = TooLarge("batch", len(b.Repr)+n)
		}
		return false
	}
	return true
}

// Put adds a put into Home.
func (b *Batch) Put(key, value []byte) { b.Add(base.KindSet, key, value) }

// Delete adds a delete in Home.
func (b *Batch) Delete(key []byte) { b.Add(base.KindDelete, key, nil) }

// Add adds an operation on Home.
func (b *Batch) Add(kind base.Kind, key, value []byte) {
	if b.Home != nil {
		b.AddIn(b.Home, kind, key, value)
	} else if b.fits(len(key) + len(value)) {
		b.has.Unnamed = true
		b.has.Kinds |= 1 << kind
		b.Repr = batchrepr.AppendEntry(b.Repr, base.DefaultKeyspace, kind, key, value)
	}
}

// AddIn adds an operation on a keyspace; nil is the default one.
func (b *Batch) AddIn(k *Keyspace, kind base.Kind, key, value []byte) {
	if !b.fits(len(key) + len(value)) {
		return
	}
	id := base.DefaultKeyspace
	if k != nil {
		b.note(k)
		id = k.Tree.ID()
	}
	b.has.Kinds |= 1 << kind
	if id == base.DefaultKeyspace {
		b.noteDefault()
	}
	b.Repr = b.appender()(b.Repr, id, kind, key, value)
}

// noteDefault remembers that an operation is on the default keyspace.
func (b *Batch) noteDefault() {
	if b.plain() {
		b.has.Unnamed = true
	} else {
		b.has.NamesDefault = true
	}
}

// appender adds operations on known keyspaces to Repr.
func (b *Batch) appender() batchrepr.Appender {
	if b.plain() {
		return batchrepr.AppendEntry
	}
	return batchrepr.AppendNamed
}

// note remembers that operations name a keyspace.
func (b *Batch) note(k *Keyspace) {
	if n := len(b.spaces); (n == 0 || b.spaces[n-1] != k) && !slices.Contains(b.spaces, k) {
		b.spaces = append(b.spaces, k)
	}
}

// Append adds the operations of other. Those that are on the keyspace that other is written to
// are on that of b's Add.
func (b *Batch) Append(other *Batch) {
	if other.Err != nil && b.Err == nil {
		b.Err = other.Err
	}
	n := len(other.Repr) + 5*other.Count() // a keyspace takes up to 5 bytes
	if other.Count() == 0 || !b.fits(n) {
		return
	}
	for _, k := range other.spaces {
		b.note(k)
	}
	b.has.Kinds |= other.has.Kinds
	var ok bool
	if b.Home == other.Home || other.Home != nil && !b.plain() && !other.plain() {
		b.has.Unnamed = b.has.Unnamed || other.has.Unnamed
		b.has.NamesDefault = b.has.NamesDefault || other.has.NamesDefault
		b.Repr, ok = batchrepr.AppendBatch(b.Repr, other.Repr)
	} else {
		home := cmp.Or(other.Home, b.Home)
		if other.has.Unnamed {
			b.note(home)
		}
		if other.has.NamesDefault || other.has.Unnamed && home.ID() == base.DefaultKeyspace {
			b.noteDefault()
		}
		b.Repr, ok = batchrepr.AppendDraft(b.Repr, other.Repr, home.ID(), b.appender())
	}
	if !ok && b.Err == nil {
		b.Err = TooLarge("batch", len(b.Repr)+n)
	}
}

// Clear empties the batch and keeps its memory and Home.
func (b *Batch) Clear() {
	*b = Batch{
		Repr: batchrepr.Init(b.Repr[:0]), Home: b.Home, spaces: b.spaces[:0], merged: b.merged[:0],
	}
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
	has, err := k.validate(repr)
	if err == nil && len(repr) > batchrepr.MaxLen {
		err = TooLarge("batch", len(repr))
	}
	return Batch{Repr: repr, has: has}, err
}

// PlainBatch makes a batch of a wire form that has puts and deletes without keyspaces, or in the
// default one. It keeps repr.
func PlainBatch(repr []byte) (Batch, error) {
	has, err := batchrepr.ValidateDraft(repr, nil)
	if err != nil {
		return Batch{}, base.Invalidf("batch bytes: %w", err)
	}
	if len(repr) > batchrepr.MaxLen {
		return Batch{}, TooLarge("batch", len(repr))
	}
	return Batch{Repr: repr, has: has}, nil
}

// validate says what of a batch in wire form the database cannot take, and what the batch has.
func (k *Keyspace) validate(repr []byte) (has batchrepr.Contents, err error) {
	if !k.db.Native() {
		if has, err = batchrepr.ValidateDraft(repr, nil); err == nil {
			return has, nil
		}
		any := func(base.KeyspaceID) bool { return true }
		if all, beyond := batchrepr.ValidateDraft(repr, any); beyond == nil {
			if kind := all.Kinds.BeyondLevelDB(); kind != 0 {
				return has, base.NeedsNative("a " + kind.String())
			}
			return has, base.NeedsNative("a keyspace")
		}
		return has, base.Invalidf("batch bytes: %w", err)
	}
	last, missing := base.DefaultKeyspace, false
	has, err = batchrepr.ValidateDraft(repr, func(id base.KeyspaceID) bool {
		if id != last {
			missing = k.db.keyspaceByID(id) == nil
			last = id
		}
		return !missing
	})
	switch {
	case err == nil:
		return has, nil
	case missing:
		return has, fmt.Errorf("%w: number %d, which the batch names", base.ErrNoKeyspace, last)
	}
	return has, base.Invalidf("batch bytes: %w", err)
}

// Commit writes a batch. Operations that name no keyspace are on k, unless the batch is plain.
// See lsm.DB.Write.
func (k *Keyspace) Commit(b *Batch, mode write.Mode) error {
	if b.Err != nil {
		return b.Err
	}
	if err := k.db.health.Writable(); err != nil {
		return err
	}
	if err := k.db.checkKeyspaces(b.spaces); err != nil {
		return err
	}
	if b.plain() {
		k = k.db.home
	}
	if b.has.Kinds.BeyondLevelDB() != 0 {
		if err := k.checkKinds(b); err != nil {
			return err
		}
	}
	if b.Count() == 0 && mode&write.Sync == 0 {
		return nil
	}
	err := k.commit(b, mode)
	for err == errMergesRead {
		err = k.commit(b, mode)
	}
	if err == nil && b.has.Kinds.Has(base.KindRangeDelete) {
		_ = k.eachOf(b, base.KindRangeDelete, func(in *Keyspace, start, limit []byte) error {
			in.RangeDeleted(start, limit)
			return nil
		})
	}
	return err
}

// commit writes a batch that Commit has checked. It fails with errMergesRead if a value of a
// keyspace that is merged into has got a time to live meanwhile.
func (k *Keyspace) commit(b *Batch, mode write.Mode) error {
	expiring := b.has.Kinds.Has(base.KindSetExpiring) || k.db.defaultTTLs.Load() ||
		slices.ContainsFunc(b.merged, (*Keyspace).mergesByReading)
	if expiring || b.has.NamesDefault || b.has.Unnamed && k.ID() != base.DefaultKeyspace {
		return k.write(b, expiring, mode)
	}
	return k.db.commit(b.Bytes(), &b.merged, mode)
}

// checkKinds refuses operations that the format or the keyspaces of a batch cannot hold: merges
// without an operator, range deletes that start behind their limits.
func (k *Keyspace) checkKinds(b *Batch) error {
	if !k.db.Native() {
		return base.NeedsNative("a " + b.has.Kinds.BeyondLevelDB().String())
	}
	b.merged = b.merged[:0]
	var err error
	if b.has.Kinds.Has(base.KindMerge) {
		err = k.eachOf(b, base.KindMerge, func(in *Keyspace, _, _ []byte) error {
			if slices.Contains(b.merged, in) {
				return nil
			}
			b.merged = append(b.merged, in)
			return in.mergeable()
		})
	}
	if err == nil && b.has.Kinds.Has(base.KindRangeDelete) {
		err = k.eachOf(b, base.KindRangeDelete, (*Keyspace).checkRange)
	}
	return err
}

// eachOf calls f for the operations of a kind in a batch, but for those on keyspaces that were
// dropped meanwhile.
func (k *Keyspace) eachOf(b *Batch, want base.Kind,
	f func(in *Keyspace, key, value []byte) error) error {
	for it := batchrepr.ReadDraft(b.Repr, k.ID()); ; {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if kind != want {
			continue
		}
		in := k
		if id != k.ID() {
			if in = k.db.keyspaceByID(id); in == nil {
				continue
			}
		}
		if err := f(in, key, value); err != nil {
			return err
		}
	}
}

// Put writes one operation of a kind that every format has; the database may have been closed.
func (k *Keyspace) Put(kind base.Kind, key, value []byte, mode write.Mode) error {
	if err := k.Writable(); err != nil {
		return err
	}
	k.Tree.PrefetchWrite(key)
	err := k.db.pipeline.Put(k.Tree.ID(), kind, key, value, mode)
	k.db.committed(mode)
	return err
}

// DeleteRange deletes the keys from start up to limit; see lsm.DB.DeleteRange.
func (k *Keyspace) DeleteRange(start, limit []byte, mode write.Mode) error {
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
func (k *Keyspace) Merge(key, operand []byte, mode write.Mode) error {
	if err := k.Writable(); err != nil {
		return err
	}
	if err := k.CheckWrite(base.KindMerge, key, operand); err != nil {
		return err
	}
	if !k.mergesByReading() {
		k.Tree.PrefetchWrite(key)
		err := k.db.pipeline.PutIf(k.ID(), base.KindMerge, key, operand, mode, (*mergeBlind)(k))
		k.db.committed(mode)
		if err != errMergesRead {
			return err
		}
	}
	b := Batch{Home: k}
	b.Add(base.KindMerge, key, operand)
	return k.Commit(&b, mode)
}
