package testkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// The keyspaces of Kinds.
const (
	mergedSpace = "merged" // puts, deletes, range deletes and operands of few keys
	// a counter of the batches, and one of each remainder modulo counters
	countsSpace   = "counts"
	filteredSpace = "filtered" // a compaction filter removes and changes some values
	expiringSpace = "expiring" // values expire, some of them soon
)

const (
	mergedKeys   = 30
	counters     = 5
	filteredKeys = 17
)

// Kinds are keyspaces that the batches of a ledger write beside it, with every kind of
// write: puts, deletes, range deletes, operands of merges; some batches are transactions. A
// compaction filter works on one of the keyspaces. Their contents follow from the seed and from the
// applied batches. A nil *Kinds has no keyspaces.
//
// Several goroutines may use it.
type Kinds struct{ Seed int64 }

// Enable makes o one for a database with keyspaces.
func (k *Kinds) Enable(o *lsm.Options) {
	if k != nil {
		o.Format = lsm.FormatNative
	}
}

// Open opens the keyspaces, and makes those that are missing.
func (k *Kinds) Open(db *lsm.DB) error {
	if k == nil {
		return nil
	}
	for name, o := range map[string]*lsm.KeyspaceOptions{
		mergedSpace:   {MergeOperator: lsm.MergeOperatorNamed("append")},
		countsSpace:   {MergeOperator: lsm.MergeOperatorNamed("uint64add")},
		filteredSpace: {CompactionFilter: byMark},
		expiringSpace: nil,
	} {
		if _, err := db.Keyspace(name, o); err != nil {
			return fmt.Errorf("keyspace %s: %w", name, err)
		}
	}
	return nil
}

// Marks at the end of values in filteredSpace.
const (
	keeps   = 'k'
	removes = 'r'
	changes = 'c' // becomes changed
	changed = 'd'
)

// byMark is a compaction filter that does what the last byte of a value says.
var byMark = &lsm.CompactionFilter{Name: "by mark",
	Filter: func(_ int, _, value []byte) (lsm.FilterDecision, error) {
		switch mark := len(value) - 1; value[mark] {
		case removes:
			return lsm.FilterRemove, nil
		case changes:
			return lsm.FilterChange(append(slices.Clone(value[:mark]), changed)), nil
		}
		return lsm.FilterKeep, nil
	}}

// Target takes the writes of a batch: it is a lsm.Batch or a transaction.
type Target struct {
	batch *lsm.Batch
	tx    *lsm.Txn
	err   error // the first of the transaction
}

// Put sets a key in a keyspace, nil for the default one.
func (t *Target) Put(k *lsm.Keyspace, key, value []byte) {
	if t.tx == nil {
		t.batch.In(k).Put(key, value)
	} else if t.err == nil {
		t.err = t.tx.In(k).Put(key, value)
	}
}

// putTTL sets a key to a value that expires: soon if its mark says that it is removed.
func (t *Target) putTTL(k *lsm.Keyspace, key, value []byte) {
	ttl := 24 * time.Hour
	if value[len(value)-1] == removes {
		ttl = time.Second
	}
	if t.tx == nil {
		t.batch.In(k).PutTTL(key, value, ttl)
	} else if t.err == nil {
		t.err = t.tx.In(k).PutTTL(key, value, ttl)
	}
}

// Delete deletes a key in a keyspace, nil for the default one.
func (t *Target) Delete(k *lsm.Keyspace, key []byte) {
	if t.tx == nil {
		t.batch.In(k).Delete(key)
	} else if t.err == nil {
		t.err = t.tx.In(k).Delete(key)
	}
}

// count adds 1 to a counter, by an operand or, in a transaction, to the value read.
func (t *Target) count(k *lsm.Keyspace, key []byte) {
	if t.tx == nil {
		t.batch.In(k).Merge(key, encodeCount(1))
		return
	}
	if t.err != nil {
		return
	}
	v, err := t.tx.In(k).GetForUpdate(key, nil)
	if err != nil && !errors.Is(err, lsm.ErrNotFound) {
		t.err = err
		return
	}
	n := uint64(1)
	if err == nil {
		n += binary.LittleEndian.Uint64(v)
	}
	t.err = t.tx.In(k).Put(key, encodeCount(n))
}

func encodeCount(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// byTxn reports whether batch i is a transaction.
func byTxn(i int) bool { return i%4 == 3 }

// Write writes batch i of the ledger with all that more and Kinds add to it, together or not
// at all. more may be nil.
func (k *Kinds) Write(db *lsm.DB, l *Ledger, i int, mode lsm.WriteMode,
	more func(t *Target) error) error {
	t := &Target{}
	if byTxn(i) {
		o := &lsm.TxnOptions{Lock: i%8 == 7}
		if i%3 == 0 {
			o.Isolation = lsm.Serializable
		}
		t.tx = db.Begin(o)
		defer t.tx.Rollback()
		point := t.tx.SavePoint()
		t.Put(nil, []byte("rolled back"), nil)
		if t.err == nil {
			t.err = t.tx.RollbackTo(point)
		}
	} else {
		t.batch = lsm.NewBatch()
	}
	for _, w := range l.Batch(i) {
		if w.Delete {
			t.Delete(nil, []byte(w.Key))
		} else {
			t.Put(nil, []byte(w.Key), []byte(w.Value))
		}
	}
	if err := k.fill(db, t, i); err != nil {
		return err
	}
	if more != nil {
		if err := more(t); err != nil {
			return err
		}
	}
	if t.err != nil {
		return t.err
	}
	if t.tx != nil {
		return t.tx.Commit(mode)
	}
	return db.Write(t.batch, mode)
}

// fill adds what batch i writes into the keyspaces.
func (k *Kinds) fill(db *lsm.DB, t *Target, i int) error {
	var spaces [4]*lsm.Keyspace
	for n, name := range []string{mergedSpace, countsSpace, filteredSpace, expiringSpace} {
		var err error
		if spaces[n], err = db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true}); err !=
			nil {
			return err
		}
	}
	for _, w := range k.merged(i) {
		key := mergedKey(w.from)
		switch w.kind {
		case base.KindSet:
			t.Put(spaces[0], key, w.value)
		case base.KindDelete:
			t.Delete(spaces[0], key)
		case base.KindMerge:
			t.batch.In(spaces[0]).Merge(key, w.value)
		default:
			t.batch.In(spaces[0]).DeleteRange(key, mergedKey(w.to))
		}
	}
	t.count(spaces[1], []byte("all"))
	t.count(spaces[1], counterKey(i))
	t.Put(spaces[2], filteredKey(i), k.filtered(i))
	t.putTTL(spaces[3], filteredKey(i), k.expiring(i))
	return nil
}

// mergedWrite is an operation on key from, or on the keys from up to to.
type mergedWrite struct {
	kind     base.Kind
	from, to int
	value    []byte
}

func mergedKey(i int) []byte   { return fmt.Appendf(nil, "m%02d", i) }
func counterKey(i int) []byte  { return fmt.Appendf(nil, "n%d", i%counters) }
func filteredKey(i int) []byte { return fmt.Appendf(nil, "x%02d", i%filteredKeys) }

func (k *Kinds) random(i int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(k.Seed)^0x6b696e64, uint64(i)))
}

// merged is what batch i does in mergedSpace. A transaction has puts and deletes.
func (k *Kinds) merged(i int) (ws []mergedWrite) {
	rng := k.random(i)
	for range 1 + rng.IntN(4) {
		w := mergedWrite{kind: base.KindSet, from: rng.IntN(mergedKeys)}
		switch n := rng.IntN(10); {
		case n < 2:
			w.kind = base.KindDelete
		case n < 6 && !byTxn(i):
			w.kind = base.KindMerge
		case n < 8 && !byTxn(i):
			w.kind, w.to = base.KindRangeDelete, w.from+rng.IntN(mergedKeys/2)
		}
		w.value = text(rng, i, rng.IntN(150))
		ws = append(ws, w)
	}
	return ws
}

// filtered is the value that batch i puts into filteredSpace.
func (k *Kinds) filtered(i int) []byte {
	rng := k.random(-i)
	return append(text(rng, i, rng.IntN(150)), []byte{keeps, keeps, removes, changes}[rng.IntN(4)])
}

// expiring is the value that batch i puts into expiringSpace.
func (k *Kinds) expiring(i int) []byte {
	rng := k.random(-i)
	return append(text(rng, i, rng.IntN(50)), []byte{keeps, removes}[rng.IntN(2)])
}

// Check compares the keyspaces with the batches of 1 to n that has selects, in their order; nil:
// all of them.
func (k *Kinds) Check(db *lsm.DB, n int, has func(i int) bool) error {
	if k == nil {
		return nil
	}
	m, filtered, expiring := model.New(base.Bytewise), model.New(base.Bytewise), model.New(
		base.Bytewise)
	counts := map[string]uint64{}
	for i := 1; i <= n; i++ {
		if has != nil && !has(i) {
			continue
		}
		k.apply(m, i)
		filtered.Put(filteredKey(i), k.filtered(i))
		expiring.Put(filteredKey(i), k.expiring(i))
		counts["all"]++
		counts[string(counterKey(i))]++
	}
	var want []model.Pair
	for key, n := range counts {
		want = append(want, model.Pair{Key: key, Value: string(encodeCount(n))})
	}
	slices.SortFunc(want, func(a, b model.Pair) int { return strings.Compare(a.Key, b.Key) })
	same := func(want []model.Pair) func(lsm.Reader) error {
		return func(r lsm.Reader) error { return Same(r, want) }
	}
	return errors.Join(
		inSpace(db, len(counts) == 0, mergedSpace, same(m.Scan(m.Now(), nil, nil))),
		inSpace(db, len(counts) == 0, countsSpace, same(want)),
		inSpace(db, len(counts) == 0, filteredSpace, func(r lsm.Reader) error {
			return checkFiltered(r, filtered.Scan(filtered.Now(), nil, nil))
		}),
		inSpace(db, len(counts) == 0, expiringSpace, func(r lsm.Reader) error {
			return checkFiltered(r, expiring.Scan(expiring.Now(), nil, nil))
		}))
}

func (k *Kinds) apply(m *model.Model, i int) {
	for _, w := range k.merged(i) {
		switch key := mergedKey(w.from); w.kind {
		case base.KindSet:
			m.Put(key, w.value)
		case base.KindDelete:
			m.Delete(key)
		case base.KindMerge:
			m.Merge(key, w.value)
		default:
			m.DeleteRange(key, mergedKey(w.to))
		}
	}
}

// inSpace calls f with a keyspace, which may be missing as long as nothing was written.
func inSpace(db *lsm.DB, unwritten bool, name string, f func(r lsm.Reader) error) error {
	k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	switch {
	case errors.Is(err, lsm.ErrNoKeyspace) && unwritten:
		return nil
	case err == nil:
		err = f(k)
	}
	if err != nil {
		return fmt.Errorf("keyspace %s: %w", name, err)
	}
	return nil
}

// checkFiltered wants what was written, without some of the values that the filter removes,
// and with some of those changed that it changes. Never an older value. It reads a snapshot:
// compactions filter and values expire between one read and the next.
func checkFiltered(r lsm.Reader, want []model.Pair) error {
	snap := r.(*lsm.Keyspace).Snapshot()
	defer snap.Close()
	got, err := Dump(snap)
	if err != nil {
		return err
	}
	found := map[string]string{}
	for _, p := range got {
		found[p.Key] = p.Value
	}
	may := func(p model.Pair) bool {
		v, ok := found[p.Key]
		switch mark := len(p.Value) - 1; {
		case p.Value[mark] == removes && !ok:
			return true
		case p.Value[mark] == changes && v == p.Value[:mark]+string(rune(changed)):
			return true
		}
		return ok && v == p.Value
	}
	for _, p := range want {
		if !may(p) {
			return fmt.Errorf("%q is %.40q, written was %.40q", p.Key, found[p.Key], p.Value)
		}
		delete(found, p.Key)
	}
	if len(found) > 0 {
		return fmt.Errorf("%d keys are there that nobody wrote", len(found))
	}
	return Same(snap, got) // backwards and by Get, too
}
