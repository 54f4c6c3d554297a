package store

import (
	"errors"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// Seconds is a time to live in seconds, rounded up. It fails with base.ErrInvalidArgument if
// that is not positive.
func Seconds(ttl time.Duration) (uint64, error) {
	if ttl <= 0 {
		return 0, base.Invalidf("a time to live of %v is over already: it must be positive", ttl)
	}
	return uint64((ttl-1)/time.Second) + 1, nil
}

// SetTTL gives values that are put from now on, and say none themselves, a time to live in
// seconds. 0: they live for ever.
func (k *Keyspace) SetTTL(seconds uint64) error {
	if seconds > 0 && !k.db.Native() {
		return base.NeedsNative("a time to live")
	}
	k.ttl.Store(seconds)
	if seconds > 0 {
		k.db.defaultTTLs.Store(true)
	}
	return nil
}

// TTL is the time to live that SetTTL set.
func (k *Keyspace) TTL() uint64 { return k.ttl.Load() }

// mergesByReading reports whether a merge into the keyspace may meet a value that expires. Such
// a merge is made at once, see write.
func (k *Keyspace) mergesByReading() bool { return k.ttl.Load() > 0 || k.Tree.Expires() }

// TTLOf is how long key has its value in snap, or at present if that is nil; see lsm.DB.TTL.
func (k *Keyspace) TTLOf(key []byte,
	snap *tree.Snapshot) (left time.Duration, expires bool, err error) {
	deadline, err := k.Tree.Deadline(key, snap)
	if err != nil || deadline == 0 {
		return 0, false, err
	}
	return k.db.shared.Seqs.Clock.Left(deadline), true, nil
}

// values hold values with their deadlines.
var values = sync.Pool{New: func() any { return new([]byte) }}

// maxKept is the largest buffer that is kept in a pool, in bytes.
const maxKept = 1 << 20

// PutTTL puts a value that lives for so many seconds.
func (k *Keyspace) PutTTL(key, value []byte, seconds uint64, mode write.Mode) (err error) {
	defer k.db.health.CatchPanic(&err)
	if !k.db.Native() {
		return base.NeedsNative("a time to live")
	}
	deadline, err := k.db.shared.Seqs.Clock.Deadline(seconds)
	if err != nil {
		return err
	}
	k.Tree.NoteExpiring()
	buf := values.Get().(*[]byte)
	*buf = base.AppendDeadline(append((*buf)[:0], value...), deadline)
	err = k.db.pipeline.Put(k.Tree.ID(), base.KindSetExpiring, key, *buf, mode)
	k.db.committed(mode)
	if cap(*buf) <= maxKept {
		values.Put(buf)
	}
	return err
}

// write writes a valid batch in a keyspace: operations that name none are on k.
// expiring says that some expire, or are on keyspaces where values do.
//
// Then what has a time to live gets a deadline. A merge into a key whose value expires is made
// now: it becomes the value, which keeps the later deadline. So is a merge into a key without a
// value, which may have one that expired. So no operand ever lies over a value that expires: after
// the deadline the operand's own time to live would be lost. After a crash, or in a replica, the
// clock may be behind the deadline again: the operand would be merged with the expired value.
//
// The batch gets the sequence number.
func (k *Keyspace) write(b *Batch, expiring bool, mode write.Mode) (err error) {
	defer k.db.health.CatchPanic(&err)
	if err := k.Writable(); err != nil {
		return err
	}
	repr := b.Bytes()
	if n := len(repr) + 5*b.Count(); n > batchrepr.MaxLen {
		return TooLarge("batch", n)
	}
	buf := values.Get().(*[]byte)
	r := resolution{db: k.db, home: k, out: batchrepr.Init(*buf)}
	if !expiring {
		r.out, _ = batchrepr.AppendDraft(r.out, repr, k.ID(), batchrepr.AppendEntry)
		err = k.db.commit(r.out, &b.merged, mode)
	} else if _, reads := r.survey(repr); reads {
		r.written = k.db.txns.NewDraft()
		err = k.db.txns.WriteIf(mode, func(v Values) ([]byte, error) {
			r.values = v
			r.written.Reset()
			err := r.resolve(repr)
			return r.written.Bytes(), err
		})
		copy(repr[:8], r.written.Bytes())
		r.written.Release()
		return err
	} else if err = r.resolve(repr); err == nil {
		err = k.db.commit(r.out, &b.merged, mode)
	}
	copy(repr[:8], r.out)
	if *buf = r.out; cap(*buf) <= maxKept {
		values.Put(buf)
	}
	return err
}

// errMergesRead is the error of a commit whose merges are to be made by reading.
var errMergesRead = errors.New("a merge meets values that expire")

// mergedBlind are keyspaces with merges that were made without reading. It is the condition of
// their commit. A keyspace notes that it has values that expire before the first of them is
// queued. So while none is noted, neither a value in the memtable nor one of the same group
// expires.
type mergedBlind []*Keyspace

// Holds is for write.Condition.
func (m *mergedBlind) Holds(last base.SeqNum) error {
	for _, k := range *m {
		if err := (*mergeBlind)(k).Holds(last); err != nil {
			return err
		}
	}
	return nil
}

// mergeBlind is mergedBlind of one keyspace.
type mergeBlind Keyspace

// Holds is for write.Condition.
func (m *mergeBlind) Holds(base.SeqNum) error {
	if (*Keyspace)(m).mergesByReading() {
		return errMergesRead
	}
	return nil
}

// commit commits a batch with merges into keyspaces. It fails with errMergesRead if values expire
// in one of them.
func (db *DB) commit(repr []byte, merged *mergedBlind, mode write.Mode) error {
	if len(*merged) == 0 {
		return db.Commit(repr, mode, nil)
	}
	return db.Commit(repr, mode, merged)
}

// resolution makes the batch that write writes.
type resolution struct {
	db      *DB
	home    *Keyspace
	out     []byte // the batch, unless merges read
	scratch []byte

	values  Values // that merges change; nil: none is to be read
	written Draft  // the batch if merges read
}

// Resolve makes the batch to commit of that of a transaction: times to live become deadlines, and
// merges values where they meet one that expires.
func (db *DB) Resolve(repr []byte, v Values) ([]byte, error) {
	r := resolution{db: db, home: db.home}
	if expires, reads := r.survey(repr); !expires && !reads {
		return repr, nil
	}
	r.values, r.written = v, db.txns.NewDraft()
	err := r.resolve(repr)
	return r.written.Bytes(), err
}

// spaceOf is the keyspace of an operation; nil: it was dropped.
func (r *resolution) spaceOf(id base.KeyspaceID) *Keyspace {
	if id == r.home.ID() {
		return r.home
	}
	return r.db.keyspaceByID(id)
}

// survey reports whether the batch has values that expire, and whether it has a merge that must
// read; it stops at the first such merge. The value that the merge meets may come earlier in the
// batch, as the first one of its keyspace that expires.
func (r *resolution) survey(repr []byte) (expires, reads bool) {
	for it := batchrepr.ReadDraft(repr, r.home.ID()); ; {
		id, kind, _, _, ok := it.Next()
		if !ok {
			return expires, false
		}
		if kind != base.KindMerge && kind != base.KindSetExpiring {
			continue
		}
		expires = expires || kind == base.KindSetExpiring
		switch k := r.spaceOf(id); {
		case k == nil:
		case kind == base.KindSetExpiring:
			k.Tree.NoteExpiring()
		case k.mergesByReading():
			return expires, true
		}
	}
}

// resolve adds the operations of repr to the batch, in their order and in the form in which they
// are stored:
//
//  1. A value with a time to live gets its deadline: a relative one counts from now.
//  2. A Put in a keyspace with a default time to live becomes a value that expires.
//  3. A merge becomes the value that it makes, if r.values is set, unless it meets a value that
//     lives for ever (merge).
//  4. All others are added as they are, also those on a keyspace that was dropped meanwhile.
//
// A merge must see the value that a Get would see just before it: that of an earlier operation of
// the batch, else that of the database when the batch is committed. The order gives the first:
// present looks into the batch as far as it is made. The second is read before the commit, and may
// change until then. So r.values notes each key that it reads, the commit checks these keys by its
// condition, and its caller resolves all of repr again after a conflict. Without r.values no merge
// of repr reads: survey found that values expire in none of its keyspaces, and the commit checks
// that by mergedBlind.
func (r *resolution) resolve(repr []byte) error {
	clock := &r.db.shared.Seqs.Clock
	for it := batchrepr.ReadDraft(repr, r.home.ID()); ; {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		k := r.spaceOf(id)
		var err error
		switch {
		case kind == base.KindSetExpiring:
			user, deadline, _ := base.CutDeadline(value)
			if deadline&base.Relative != 0 {
				deadline, err = clock.Deadline(deadline &^ base.Relative)
			}
			if err == nil {
				err = r.put(k, id, key, user, deadline)
			}
		case kind == base.KindSet && k != nil && k.TTL() > 0:
			var deadline uint64
			if deadline, err = clock.Deadline(k.TTL()); err == nil {
				err = r.put(k, id, key, value, deadline)
			}
		case kind == base.KindMerge && r.values != nil && k != nil:
			err = r.merge(k, key, value)
		default:
			err = r.add(k, id, kind, key, value)
		}
		if err != nil {
			return err
		}
	}
}

// add adds an operation to the batch. k is nil if the keyspace was dropped.
func (r *resolution) add(k *Keyspace, id base.KeyspaceID, kind base.Kind, key, value []byte) error {
	size := len(r.out)
	if r.written != nil {
		size = r.written.Size()
	}
	if size += len(key) + len(value) + 32; size > batchrepr.MaxLen {
		return TooLarge("batch", size)
	}
	switch {
	case r.written == nil:
		r.out = batchrepr.AppendEntry(r.out, id, kind, key, value)
	case k == nil:
		r.written.AddIn(id, base.Bytewise, kind, key, value)
	default:
		r.written.AddIn(id, k.Comparer(), kind, key, value)
	}
	return nil
}

// put adds a value with a deadline.
func (r *resolution) put(
	k *Keyspace, id base.KeyspaceID, key, value []byte, deadline uint64,
) error {
	if k != nil {
		k.Tree.NoteExpiring()
	}
	r.scratch = base.AppendDeadline(append(r.scratch[:0], value...), deadline)
	return r.add(k, id, base.KindSetExpiring, key, r.scratch)
}

// merge adds a merge. What it finds is noted for the check of the commit, also where the value
// lives for ever.
func (r *resolution) merge(k *Keyspace, key, operand []byte) error {
	kind, value, deadline, err := r.present(k, key)
	if err != nil {
		return err
	}
	absent := kind.IsTombstone()
	if kind != base.KindSetExpiring && !absent { // it lives for ever
		return r.add(k, k.ID(), base.KindMerge, key, operand)
	}
	if ttl := k.TTL(); ttl > 0 {
		later, err := r.db.shared.Seqs.Clock.Deadline(ttl)
		if err != nil {
			return err
		}
		deadline = max(deadline, later)
	}
	fold := mergeop.New()
	defer fold.Free()
	if !absent {
		fold.Existing(append(fold.Buffer(), value...), 0)
	}
	fold.Operand(append(fold.Buffer(), operand...))
	folded, err := fold.Value(k.Tree.Merge(), key, false)
	k.Tree.CountFold(1, err)
	if err != nil {
		return err
	}
	if deadline == 0 {
		return r.add(k, k.ID(), base.KindSet, key, folded)
	}
	return r.put(k, k.ID(), key, folded, deadline)
}

// present returns what the operations before leave of a key: a value for ever (base.KindSet or
// base.KindMerge), a value that expires, or nothing (base.KindDelete). The value is that of
// base.KindSetExpiring, and valid until the next add.
func (r *resolution) present(k *Keyspace, key []byte) (
	kind base.Kind, value []byte, deadline uint64, err error,
) {
	if value, kind, found := r.written.NewestIn(k.ID(), key); found &&
		kind == base.KindSetExpiring {
		value, deadline, _ := base.CutDeadline(value)
		return kind, value, deadline, nil
	} else if found {
		return kind, nil, 0, nil
	}
	deadline, err = r.values.Deadline(k, key)
	switch {
	case errors.Is(err, base.ErrNotFound):
		return base.KindDelete, nil, 0, nil
	case err != nil || deadline == 0:
		return base.KindSet, nil, 0, err
	}
	if deadline <= r.db.shared.Seqs.Clock.Now() { // since the snapshot of the values
		return base.KindDelete, nil, 0, nil
	}
	value, err = r.values.Value(k, key)
	return base.KindSetExpiring, value, deadline, err
}
