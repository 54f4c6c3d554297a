package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/batchrepr"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/mergeop"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/txn"
)

// Seconds is a time to live in seconds, rounded up. It fails with base.ErrInvalidArgument if
// that is not positive.
func Seconds(ttl time.Duration) (uint64, error) {
	if ttl <= 0 {
		return 0, fmt.Errorf("%w: a time to live of %v is over already: it must be positive", base.ErrInvalidArgument, ttl)
	}
	return uint64((ttl-1)/time.Second) + 1, nil
}

// SetTTL gives values that are put from now on, and say none themselves, a time to live in
// seconds. 0: they live for ever.
func (k *Keyspace) SetTTL(seconds uint64) error {
	if seconds > 0 && !k.DB.Native() {
		return base.NeedsNative("a time to live")
	}
	k.ttl.Store(seconds)
	if seconds > 0 {
		k.DB.defaultTTLs.Store(true)
	}
	return nil
}

// TTL is the time to live that SetTTL set.
func (k *Keyspace) TTL() uint64 { return k.ttl.Load() }

// mergesByReading reports whether a merge into the keyspace may meet a value that expires. Such
// a merge is made at once, see write.
func (k *Keyspace) mergesByReading() bool { return k.ttl.Load() > 0 || k.Tree.Expires() }

// TTLOf is how long key has its value in snap, or at present if that is nil; see lsm.DB.TTL.
func (k *Keyspace) TTLOf(key []byte, snap *tree.Snapshot) (left time.Duration, expires bool, err error) {
	deadline, err := k.At(snap).Deadline(key, snap)
	if err != nil || deadline == 0 {
		return 0, false, err
	}
	return k.DB.Shared.Seqs.Clock.Left(deadline), true, nil
}

// values hold values with their deadlines.
var values = sync.Pool{New: func() any { return new([]byte) }}

// maxKept is the largest buffer that is kept in a pool, in bytes.
const maxKept = 1 << 20

// PutTTL puts a value that lives for so many seconds.
func (k *Keyspace) PutTTL(key, value []byte, seconds uint64, mode commit.Mode) (err error) {
	defer k.DB.Health.CatchPanic(&err)
	if !k.DB.Native() {
		return base.NeedsNative("a time to live")
	}
	deadline, err := k.DB.Shared.Seqs.Clock.Deadline(seconds)
	if err != nil {
		return err
	}
	k.Tree.NoteExpiring()
	buf := values.Get().(*[]byte)
	*buf = base.AppendDeadline(append((*buf)[:0], value...), deadline)
	err = k.DB.Pipeline.Put(k.Tree.ID(), base.KindSetExpiring, key, *buf, mode)
	if cap(*buf) <= maxKept {
		values.Put(buf)
	}
	return err
}

// write writes a batch, which is valid, in a keyspace: operations that name none are on k.
// expiring says that some expire, or are on keyspaces where values do.
//
// Then what has a time to live gets a deadline. A merge into a key whose value expires, or into
// none where a new value expires, is made now: it becomes the value, which keeps the later
// deadline. So no operand ever lies over a value that expires: when that had gone nobody would
// know how long the operand was to live.
//
// repr gets the sequence number.
func (k *Keyspace) write(repr []byte, expiring bool, mode commit.Mode) (err error) {
	defer k.DB.Health.CatchPanic(&err)
	if err := k.Writable(); err != nil {
		return err
	}
	if n := len(repr) + 5*int(batchrepr.Count(repr)); n > txn.MaxBatch {
		return TooLarge("batch", n)
	}
	buf := values.Get().(*[]byte)
	r := resolution{db: k.DB, home: k, out: batchrepr.Init(*buf)}
	if !expiring {
		r.out, _ = batchrepr.AppendDraft(r.out, repr, k.ID(), batchrepr.AppendEntry)
		err = k.DB.Pipeline.Commit(r.out, mode)
	} else if _, reads := r.survey(repr); reads {
		err = k.DB.Txns.WriteIf(mode, func(v txn.Values) ([]byte, error) {
			r.values, r.out, r.last, r.ranges = v, batchrepr.Init(r.out), map[opKey]operation{}, nil
			err := r.resolve(repr)
			return r.out, err
		})
	} else if err = r.resolve(repr); err == nil {
		err = k.DB.Pipeline.Commit(r.out, mode)
	}
	copy(repr[:8], r.out)
	if *buf = r.out; cap(*buf) <= maxKept {
		values.Put(buf)
	}
	return err
}

// resolution makes the batch that write writes.
type resolution struct {
	db      *DB
	home    *Keyspace
	out     []byte
	scratch []byte

	values txn.Values // that merges change; nil: none is to be read
	last   map[opKey]operation
	ranges []deleted
}

type opKey struct {
	id  base.KeyspaceID
	key string
}

// operation is the last one of the batch on a key, so far.
type operation struct {
	at       int // how many came before
	kind     base.Kind
	value    []byte // of an operation that expires
	deadline uint64
}

// deleted is a range delete of the batch.
type deleted struct {
	at           int
	id           base.KeyspaceID
	start, limit []byte
}

// resolve makes the batch to commit of that of a transaction; see txn.Env.
func (db *DB) resolve(repr []byte, v txn.Values) ([]byte, error) {
	r := resolution{db: db, home: db.Default, out: batchrepr.Init(nil), values: v, last: map[opKey]operation{}}
	if expires, reads := r.survey(repr); !expires && !reads {
		return repr, nil
	}
	err := r.resolve(repr)
	return r.out, err
}

// spaceOf is the keyspace of an operation; nil: it was dropped.
func (r *resolution) spaceOf(id base.KeyspaceID) *Keyspace {
	if id == r.home.ID() {
		return r.home
	}
	return r.db.KeyspaceByID(id)
}

// survey reports whether the batch has values that expire, and whether it has a merge that must
// read; after such a one it looks no further. The value that a merge meets may be the first of its
// keyspace that expires, and in this batch.
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

func (r *resolution) resolve(repr []byte) error {
	clock := &r.db.Shared.Seqs.Clock
	for it := batchrepr.ReadDraft(repr, r.home.ID()); ; {
		id, kind, key, value, ok := it.Next()
		if !ok {
			if len(r.out) > txn.MaxBatch {
				return TooLarge("batch", len(r.out))
			}
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
			r.put(k, id, key, user, deadline)
		case kind == base.KindSet && k != nil && k.TTL() > 0:
			var deadline uint64
			deadline, err = clock.Deadline(k.TTL())
			r.put(k, id, key, value, deadline)
		case kind == base.KindMerge && r.values != nil && k != nil && k.mergesByReading():
			err = r.merge(k, id, key, value)
		default:
			r.add(id, kind, key, value, operation{kind: kind})
		}
		if err != nil {
			return err
		}
	}
}

// add adds an operation to the batch.
func (r *resolution) add(id base.KeyspaceID, kind base.Kind, key, value []byte, o operation) {
	o.at = int(batchrepr.Count(r.out))
	r.out = batchrepr.AppendEntry(r.out, id, kind, key, value)
	switch {
	case r.values == nil:
	case kind == base.KindRangeDelete:
		r.ranges = append(r.ranges, deleted{o.at, id, key, value})
	default:
		r.last[opKey{id, string(key)}] = o
	}
}

// put adds a value with a deadline. value is of the batch that is resolved, or new.
func (r *resolution) put(k *Keyspace, id base.KeyspaceID, key, value []byte, deadline uint64) {
	if k != nil {
		k.Tree.NoteExpiring()
	}
	r.scratch = base.AppendDeadline(append(r.scratch[:0], value...), deadline)
	r.add(id, base.KindSetExpiring, key, r.scratch, operation{kind: base.KindSetExpiring, value: value, deadline: deadline})
}

// merge adds a merge of a keyspace where values expire.
func (r *resolution) merge(k *Keyspace, id base.KeyspaceID, key, operand []byte) error {
	now, err := r.present(k, id, key)
	if err != nil {
		return err
	}
	absent := now.kind.IsTombstone()
	if now.kind != base.KindSetExpiring && (!absent || k.TTL() == 0) { // it lives for ever
		r.add(id, base.KindMerge, key, operand, operation{kind: base.KindMerge})
		return nil
	}
	deadline := now.deadline
	if ttl := k.TTL(); ttl > 0 {
		later, err := r.db.Shared.Seqs.Clock.Deadline(ttl)
		if err != nil {
			return err
		}
		deadline = max(deadline, later)
	}
	fold := mergeop.New()
	defer fold.Free()
	if !absent {
		fold.Existing(append(fold.Buffer(), now.value...), 0)
	}
	fold.Operand(append(fold.Buffer(), operand...))
	value, err := fold.Value(k.Tree.Merge(), key, false)
	k.Tree.CountFold(1, err)
	if err != nil {
		return err
	}
	r.put(k, id, key, append([]byte{}, value...), deadline)
	return nil
}

// present is what a key has where the batch has come to: a value for ever (base.KindSet or
// base.KindMerge), one that expires, or none (base.KindDelete).
func (r *resolution) present(k *Keyspace, id base.KeyspaceID, key []byte) (operation, error) {
	o, ok := r.last[opKey{id, string(key)}]
	for _, d := range r.ranges {
		cmp := k.Comparer()
		if d.id == id && (!ok || d.at > o.at) && cmp.Cmp(d.start, key) <= 0 && cmp.Cmp(key, d.limit) < 0 {
			return operation{kind: base.KindDelete}, nil
		}
	}
	if ok {
		return o, nil
	}
	deadline, err := r.values.Deadline(k, key)
	switch {
	case errors.Is(err, base.ErrNotFound):
		return operation{kind: base.KindDelete}, nil
	case err != nil || deadline == 0:
		return operation{kind: base.KindSet}, err
	}
	if deadline <= r.db.Shared.Seqs.Clock.Now() { // since the snapshot of the values
		return operation{kind: base.KindDelete}, nil
	}
	value, err := r.values.Value(k, key)
	return operation{kind: base.KindSetExpiring, value: value, deadline: deadline}, err
}
