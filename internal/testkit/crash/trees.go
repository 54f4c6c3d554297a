package crash

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// The keyspaces that batches of a session with keyspaces write to, besides the
// default one.
const (
	sameSpace   = "same"   // has what the default one has, in the opposite order
	seldomSpace = "seldom" // has the number of each batch that seldom divides
	againSpace  = "again"  // has the numbers of its life's batches; it is dropped and made again
	seldom      = 7
)

// lifeKey holds in againSpace how often that was dropped before.
const lifeKey = "!life"

// trees is what is known of the keyspaces of a session; nil: there is only the
// default one.
type trees struct {
	ledger *testkit.Ledger

	mu    sync.Mutex
	drops []int // the newest batch before each drop that was begun
}

// drops is how many drops had ended and how many had begun when a state was taken.
type drops struct{ ended, begun int }

// enable makes o one for a database with keyspaces.
func (t *trees) enable(o *lsm.Options) {
	if t != nil {
		o.Format = lsm.FormatNative
	}
}

// make opens the keyspaces, and makes those that are missing.
func (t *trees) make(db *lsm.DB) error {
	if t == nil {
		return nil
	}
	for _, name := range []string{sameSpace, seldomSpace, againSpace} {
		c := base.Bytewise
		if name == sameSpace {
			c = base.ReverseBytewise
		}
		if _, err := db.Keyspace(name, &lsm.KeyspaceOptions{Comparer: c}); err != nil {
			return fmt.Errorf("keyspace %s: %w", name, err)
		}
	}
	return nil
}

// life is how often againSpace was dropped before batch i.
func (t *trees) life(i, begun int) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, before := range t.drops[:begun] {
		if before < i {
			n++
		}
	}
	return n
}

// fill adds to b what batch i writes into keyspaces.
func (t *trees) fill(db *lsm.DB, b *lsm.Batch, i, begun int) error {
	if t == nil {
		return nil
	}
	same, err1 := db.Keyspace(sameSpace, nil)
	rare, err2 := db.Keyspace(seldomSpace, nil)
	again, err3 := db.Keyspace(againSpace, nil)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	for _, w := range t.ledger.Batch(i) {
		if w.Delete {
			b.In(same).Delete([]byte(w.Key))
		} else {
			b.In(same).Put([]byte(w.Key), []byte(w.Value))
		}
	}
	if i%seldom == 0 {
		b.In(rare).Put(numberKey(i), nil)
	}
	b.In(again).Put([]byte(lifeKey), strconv.AppendInt(nil, int64(t.life(i, begun)), 10))
	b.In(again).Put(numberKey(i), nil)
	return nil
}

func numberKey(i int) []byte { return fmt.Appendf(nil, "n%06d", i) }

// drop drops againSpace after batch last and makes it again.
func (t *trees) drop(db *lsm.DB, p *progress, last int) error {
	t.mu.Lock()
	t.drops = append(t.drops, last)
	t.mu.Unlock()
	p.dropsBegun.Add(1)
	if err := db.DropKeyspace(againSpace); err != nil {
		return err
	}
	p.dropsEnded.Add(1)
	return t.make(db)
}

// check wants the keyspaces as they are after the batches 1 to i.
func (t *trees) check(db *lsm.DB, i int, d drops) error {
	if t == nil {
		return nil
	}
	found := map[string][]model.Pair{}
	for _, name := range db.Keyspaces()[1:] {
		k, err := db.Keyspace(name, nil)
		if err == nil {
			found[name], err = dumpSpace(k)
		}
		if err != nil {
			return fmt.Errorf("keyspace %s: %w", name, err)
		}
	}
	want := slices.Clone(t.ledger.State(i))
	slices.Reverse(want)
	if err := sameNames(found[sameSpace], want); err != nil {
		return fmt.Errorf("keyspace %s after batch %d: %w", sameSpace, i, err)
	}
	want = want[:0]
	for n := seldom; n <= i; n += seldom {
		want = append(want, model.Pair{Key: string(numberKey(n))})
	}
	if err := sameNames(found[seldomSpace], want); err != nil {
		return fmt.Errorf("keyspace %s after batch %d: %w", seldomSpace, i, err)
	}
	if err := t.checkAgain(found[againSpace], i, d); err != nil {
		return fmt.Errorf("keyspace %s after batch %d, %d drops ended, %d begun: %w", againSpace, i, d.ended, d.begun, err)
	}
	return nil
}

// checkAgain wants againSpace to have one life's batches up to i, or, where a drop
// had begun after batch i, nothing.
func (t *trees) checkAgain(got []model.Pair, i int, d drops) error {
	life := t.life(i, d.begun)
	if len(got) == 0 {
		if i == 0 || life < d.begun {
			return nil
		}
		return errors.New("it is empty")
	}
	if life < d.ended {
		return fmt.Errorf("it has entries of life %d", life)
	}
	want := []model.Pair{{Key: lifeKey, Value: strconv.Itoa(life)}}
	for n := 1; n <= i; n++ {
		if t.life(n, d.begun) == life {
			want = append(want, model.Pair{Key: string(numberKey(n))})
		}
	}
	return sameNames(got, want)
}

// dumpSpace lists a keyspace, forwards and the same backwards.
func dumpSpace(k *lsm.Keyspace) (all []model.Pair, err error) {
	it := k.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, model.Pair{Key: string(it.Key()), Value: string(it.Value())})
	}
	n := len(all)
	for ok := it.Last(); ok; ok = it.Prev() {
		if n--; n < 0 || string(it.Key()) != all[n].Key {
			return nil, errors.Join(fmt.Errorf("backwards: %q where %d of %d are left", it.Key(), n+1, len(all)), it.Close())
		}
	}
	if err = it.Close(); err == nil && n != 0 {
		err = fmt.Errorf("backwards: %d of %d missing", n, len(all))
	}
	return all, err
}

func sameNames(got, want []model.Pair) error {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("%d entries, want %d; entry %d differs", len(got), len(want), i)
		}
	}
	return nil
}

// treeWorkload writes to several keyspaces: it rotates and flushes them at different
// times, leaves one alone, and drops one and makes it again.
var treeWorkload = workload{"trees", 2500, func(s *session) error {
	drop := func() error { return s.trees.drop(s.db, &s.progress, s.last) }
	return steps(s.open,
		func() error { return s.write(20, 3) },
		func() error { return s.write(40, 0) },
		func() error { return s.flushSpace(sameSpace) },
		func() error { return s.write(15, 0) },
		drop,
		func() error { return s.write(15, 5) },
		func() error { return s.flushSpace(againSpace) },
		func() error { return s.write(10, 0) },
		s.reopen, drop, drop,
		func() error { return s.write(40, 4) },
		func() error { return s.db.Flush() }, // others have entries of the same batches in logs
		func() error { return s.write(10, 0) },
		drop, s.compact,
		func() error { return s.write(6, 0) },
		s.reopen,
		func() error { return s.write(60, 0) },
		s.close)
}}

// flushSpace flushes one keyspace.
func (s *session) flushSpace(name string) error {
	k, err := s.db.Keyspace(name, nil)
	if err != nil {
		return err
	}
	return k.Flush()
}

// TreeStates runs the workload over several keyspaces and checks what a power cut
// leaves at each every-th call that changes something: of each batch all or nothing,
// in every keyspace.
func TreeStates(seed int64, every int) (Result, error) {
	return explore(&treeWorkload, seed, int64(every), nil)
}
