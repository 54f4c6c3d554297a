package testkit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// lastKey holds the number of the newest batch of a ledger.
const lastKey = "!last"

// Ledger is an endless sequence of batches, 1, 2, 3 …, that follows from a
// seed. A database into which they are written in order can be asked which
// batches it holds, and whether it holds just these: every batch writes its
// number, and overwrites or deletes keys of earlier ones.
type Ledger struct {
	Seed int64
	// Keys is how many keys the batches go around in; 0 stands for 60.
	Keys int
	// MaxValue is the length of the longest usual value; 0 stands for 200.
	MaxValue int
	// Sparse gives every batch a key of its own as well, so that a database
	// may lack any of them, not only the newest.
	Sparse bool

	model   *model.Model
	seqs    []base.SeqNum // seqs[i] is the model's after batch i
	batches [][]Write     // batches[i-1] is batch i
}

// prepared is the ledger that Prepared returned last for each size.
var prepared struct {
	mu      sync.Mutex
	ledgers map[preparedSize]*Ledger
}

type preparedSize struct {
	n, keys, maxValue int
	sparse            bool
}

// Prepared returns a ledger like l on which Prepare(n) was called, the same one as the last time if
// that had the same seed. It must not be changed.
func Prepared(l Ledger, n int) *Ledger {
	p := &prepared
	p.mu.Lock()
	defer p.mu.Unlock()
	size := preparedSize{n, l.Keys, l.MaxValue, l.Sparse}
	if last := p.ledgers[size]; last != nil && last.Seed == l.Seed {
		return last
	}
	made := &Ledger{Seed: l.Seed, Keys: l.Keys, MaxValue: l.MaxValue, Sparse: l.Sparse}
	made.Prepare(n)
	if p.ledgers == nil {
		p.ledgers = map[preparedSize]*Ledger{}
	}
	p.ledgers[size] = made
	return made
}

// Write is one put or delete of a batch.
type Write struct {
	Key, Value string
	Delete     bool
}

// Batch returns what batch i (from 1) does. The caller does not change it.
func (l *Ledger) Batch(i int) []Write {
	if i <= len(l.batches) {
		return l.batches[i-1]
	}
	keys, maxValue := l.Keys, l.MaxValue
	if keys == 0 {
		keys = 60
	}
	if maxValue == 0 {
		maxValue = 200
	}
	rng := rand.New(rand.NewPCG(uint64(l.Seed), uint64(i)))
	out := []Write{{Key: lastKey, Value: strconv.Itoa(i)}}
	if l.Sparse {
		out = append(out, Write{Key: sparseKey(i), Value: strconv.Itoa(i)})
	}
	for n := 1 + rng.IntN(6); n > 0; n-- {
		w := Write{Key: fmt.Sprintf("k%03d", rng.IntN(keys)), Delete: rng.IntN(4) == 0}
		if !w.Delete {
			w.Value = string(text(rng, i, rng.IntN(maxValue+1)))
		}
		out = append(out, w)
	}
	return out
}

// text is a value of batch i: its number, then n random letters.
func text(rng *rand.Rand, i, n int) []byte {
	b := strconv.AppendInt(nil, int64(i), 10)
	b = append(b, ':')
	for range n {
		b = append(b, 'a'+byte(rng.IntN(26)))
	}
	return b
}

func sparseKey(i int) string { return fmt.Sprintf("n%06d", i) }

// Fill makes b batch i.
func (l *Ledger) Fill(b *lsm.Batch, i int) {
	b.Clear()
	for _, w := range l.Batch(i) {
		if w.Delete {
			b.Delete([]byte(w.Key))
		} else {
			b.Put([]byte(w.Key), []byte(w.Value))
		}
	}
}

func apply(m *model.Model, batch []Write) {
	for _, w := range batch {
		if w.Delete {
			m.Delete([]byte(w.Key))
		} else {
			m.Put([]byte(w.Key), []byte(w.Value))
		}
	}
}

// Prepare computes the states up to batch n, so that Check and State may be
// used by several goroutines up to there.
func (l *Ledger) Prepare(n int) {
	if l.model == nil {
		l.model, l.seqs = model.New(base.Bytewise), []base.SeqNum{0}
	}
	for i := len(l.seqs); i <= n; i++ {
		batch := l.Batch(i)
		apply(l.model, batch)
		l.batches = append(l.batches, batch)
		l.seqs = append(l.seqs, l.model.Now())
	}
}

// State returns the pairs after batches 1 to i.
func (l *Ledger) State(i int) []model.Pair {
	l.Prepare(i)
	return l.model.Scan(l.seqs[i], nil, nil)
}

// StateOf returns the pairs after the batches of 1 to n that has selects; nil: after
// all of them.
func (l *Ledger) StateOf(n int, has func(i int) bool) []model.Pair {
	if has == nil {
		return l.State(n)
	}
	m := model.New(base.Bytewise)
	for i := 1; i <= n; i++ {
		if has(i) {
			apply(m, l.Batch(i))
		}
	}
	return m.Scan(m.Now(), nil, nil)
}

// Last reads which batch is the newest in db; 0 is none.
func Last(db *lsm.DB) (int, error) {
	v, err := db.Get([]byte(lastKey), nil)
	if errors.Is(err, lsm.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}

// Check wants db to hold the batches 1 to some i, lo <= i <= hi, whole and
// nothing else. It returns i.
func (l *Ledger) Check(db *lsm.DB, lo, hi int) (int, error) {
	i, err := Last(db)
	if err != nil {
		return 0, err
	}
	if i < lo || i > hi {
		return i, fmt.Errorf("the newest batch is %d; %d was promised, %d the last begun", i, lo,
			hi)
	}
	if err := Same(db, l.State(i)); err != nil {
		return i, fmt.Errorf("state of batch %d: %w", i, err)
	}
	return i, nil
}

// CheckSparse requires that db holds every batch that must selects and no batch outside may, each
// whole, and no other keys. The ledger is Sparse.
func (l *Ledger) CheckSparse(db *lsm.DB, n int, must, may func(i int) bool) error {
	has, err := l.Present(db, n)
	if err != nil {
		return err
	}
	for i := 1; i <= n; i++ {
		if has(i) && !may(i) || !has(i) && must(i) {
			return fmt.Errorf("batch %d: present %v", i, has(i))
		}
	}
	return Same(db, l.StateOf(n, has))
}

// Present reads which of the batches 1 to n of a Sparse ledger db has.
func (l *Ledger) Present(db *lsm.DB, n int) (has func(i int) bool, err error) {
	found := make([]bool, n+1)
	for i := 1; i <= n && err == nil; i++ {
		found[i], err = db.Has([]byte(sparseKey(i)))
	}
	return func(i int) bool { return found[i] }, err
}

// Same wants db to hold exactly the pairs, in their order, by a scan both ways and by Get.
func Same(db lsm.Reader, want []model.Pair) error {
	got, err := Dump(db)
	if err != nil {
		return err
	}
	if err := diff(got, want); err != nil {
		return err
	}
	it := db.Iter(nil)
	defer it.Close()
	n := len(want)
	for ok := it.Last(); ok; ok = it.Prev() {
		if n--; n < 0 || string(it.Key()) != want[n].Key || string(it.Value()) != want[n].Value {
			return fmt.Errorf("backwards: %q where %d of %d are left", it.Key(), n+1, len(want))
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("backwards: %w", err)
	}
	if n != 0 {
		return fmt.Errorf("backwards: %d of %d missing", n, len(want))
	}
	for i := 0; i < len(want); i += 1 + len(want)/16 {
		v, err := db.Get([]byte(want[i].Key), nil)
		if err != nil {
			return fmt.Errorf("get %q: %w", want[i].Key, err)
		}
		if string(v) != want[i].Value {
			return fmt.Errorf("get %q: %q", want[i].Key, v)
		}
	}
	return nil
}

// Dump returns all pairs of db.
func Dump(db lsm.Reader) (all []model.Pair, err error) {
	it := db.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, model.Pair{Key: string(it.Key()), Value: string(it.Value())})
	}
	return all, it.Close()
}

func diff(got, want []model.Pair) error {
	for i := 0; i < len(got) || i < len(want); i++ {
		switch {
		case i >= len(got) || i < len(want) && got[i].Key > want[i].Key:
			return fmt.Errorf("%q is missing", want[i].Key)
		case i >= len(want) || got[i].Key < want[i].Key:
			return fmt.Errorf("%q=%.40q should not be there", got[i].Key, got[i].Value)
		case got[i].Value != want[i].Value:
			return fmt.Errorf("%q is %.40q, not %.40q", got[i].Key, got[i].Value, want[i].Value)
		}
	}
	return nil
}
