package crash

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

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

// lifeKey holds in againSpace how many drops of it were begun before.
const lifeKey = "!life"

// trees is the expected contents of the keyspaces of a session; nil: there is only the
// default one.
type trees struct {
	ledger *testkit.Ledger
	kinds  *testkit.Kinds

	mu     sync.Mutex
	drops  []int // the newest batch before each drop that was begun
	failed bool  // a drop has: batches may come after one that had no effect
}

// drops is how many drops had been begun when the newest that succeeded ended, and how many
// had been begun in all, when a state was taken.
type drops struct{ ended, begun int }

// enable makes o one for a database with keyspaces.
func (t *trees) enable(o *lsm.Options) {
	if t != nil {
		t.kinds.Enable(o)
	}
}

// make opens the keyspaces, and makes those that are missing.
func (t *trees) make(db *lsm.DB) error {
	if t == nil {
		return nil
	}
	for _, name := range []string{sameSpace, seldomSpace, againSpace} {
		c := lsm.BytewiseComparer
		if name == sameSpace {
			c = lsm.ReverseBytewiseComparer
		}
		if _, err := db.Keyspace(name, &lsm.KeyspaceOptions{Comparer: c}); err != nil {
			return fmt.Errorf("keyspace %s: %w", name, err)
		}
	}
	return t.kinds.Open(db)
}

// life is how many drops were begun before batch i.
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

// write writes batch i of the ledger, into all keyspaces.
func (t *trees) write(db *lsm.DB, i, begun int, mode lsm.WriteMode) error {
	return t.kinds.Write(db, t.ledger, i, mode, func(to *testkit.Target) error {
		return t.fill(db, to, i, begun)
	})
}

// fill adds what batch i writes into keyspaces.
func (t *trees) fill(db *lsm.DB, to *testkit.Target, i, begun int) error {
	only := &lsm.KeyspaceOptions{ErrorIfMissing: true}
	same, err1 := db.Keyspace(sameSpace, only)
	rare, err2 := db.Keyspace(seldomSpace, only)
	again, err3 := db.Keyspace(againSpace, only)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	for _, w := range t.ledger.Batch(i) {
		if w.Delete {
			to.Delete(same, []byte(w.Key))
		} else {
			to.Put(same, []byte(w.Key), []byte(w.Value))
		}
	}
	if i%seldom == 0 {
		to.Put(rare, numberKey(i), nil)
	}
	to.Put(again, []byte(lifeKey), strconv.AppendInt(nil, int64(t.life(i, begun)), 10))
	to.Put(again, numberKey(i), nil)
	return nil
}

func numberKey(i int) []byte { return fmt.Appendf(nil, "n%06d", i) }

// drop drops againSpace after batch last and makes it again.
func (t *trees) drop(db *lsm.DB, p *progress, last int) error {
	t.mu.Lock()
	t.drops = append(t.drops, last)
	begun := len(t.drops)
	t.mu.Unlock()
	p.dropsBegun.Add(1)
	if err := db.DropKeyspace(againSpace); err != nil {
		t.mu.Lock()
		t.failed = true
		t.mu.Unlock()
		return err
	}
	p.dropsEnded.Store(int64(begun))
	return nil
}

// check compares the keyspaces with the batches of 1 to n that has selects; nil: all
// of them.
func (t *trees) check(db *lsm.DB, n int, has func(i int) bool, d drops) error {
	if t == nil {
		return nil
	}
	found := map[string][]model.Pair{}
	for _, name := range []string{sameSpace, seldomSpace, againSpace} {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if errors.Is(err, lsm.ErrNoKeyspace) {
			continue
		}
		if err == nil {
			found[name], err = testkit.Dump(k)
		}
		if err == nil {
			err = testkit.Same(k, found[name]) // backwards, and by Get
		}
		if err != nil {
			return fmt.Errorf("keyspace %s: %w", name, err)
		}
	}
	want := slices.Clone(t.ledger.StateOf(n, has))
	slices.Reverse(want)
	if err := sameNames(found[sameSpace], want); err != nil {
		return fmt.Errorf("keyspace %s after batch %d: %w", sameSpace, n, err)
	}
	want = nil
	for i := seldom; i <= n; i += seldom {
		if has == nil || has(i) {
			want = append(want, model.Pair{Key: string(numberKey(i))})
		}
	}
	if err := sameNames(found[seldomSpace], want); err != nil {
		return fmt.Errorf("keyspace %s after batch %d: %w", seldomSpace, n, err)
	}
	if err := t.checkAgain(found[againSpace], n, has, d); err != nil {
		return fmt.Errorf("keyspace %s after batch %d, %d drops ended, %d begun: %w", againSpace, n,
			d.ended, d.begun, err)
	}
	return t.kinds.Check(db, n, has)
}

// checkAgain wants againSpace to have the batches after one of the drops: the newest that
// ended, or one that was begun after it.
func (t *trees) checkAgain(got []model.Pair, n int, has func(i int) bool, d drops) error {
	t.mu.Lock()
	before := append([]int{0}, t.drops[:d.begun]...) // of each life
	failed := t.failed
	t.mu.Unlock()
	first := d.ended
	if !failed { // a drop before the newest batch has ended
		for n > 0 && has != nil && !has(n) {
			n--
		}
		first = max(first, t.life(n, d.begun))
	}
	var err error
	for life := first; life <= d.begun; life++ {
		var want []model.Pair
		newest := 0
		for i := before[life] + 1; i <= n; i++ {
			if has == nil || has(i) {
				want = append(want, model.Pair{Key: string(numberKey(i))})
				newest = i
			}
		}
		if newest > 0 {
			want = append(
				[]model.Pair{{Key: lifeKey, Value: strconv.Itoa(t.life(newest, d.begun))}}, want...)
		}
		if err = sameNames(got, want); err == nil {
			return nil
		}
	}
	return err
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
var treeWorkload = workload{name: "trees", maxValue: 2500, run: func(s *session) error {
	return steps(s.open,
		func() error { return s.write(20, 3) },
		func() error { return s.write(40, 0) },
		func() error { return s.flushSpace(sameSpace) },
		func() error { return s.write(15, 0) },
		s.drop,
		func() error { return s.write(15, 5) },
		func() error { return s.flushSpace(againSpace) },
		func() error { return s.write(10, 0) },
		s.reopen, s.drop, s.drop,
		func() error { return s.write(40, 4) },
		s.flushDefault, // others have entries of the same batches in logs
		func() error { return s.write(10, 0) },
		s.drop, s.compact,
		func() error { return s.write(6, 0) },
		s.reopen,
		func() error { return s.write(60, 0) },
		s.close)
}}

// kindsWorkload has few batches and many flushes and compactions: it is for faults at each
// call.
var kindsWorkload = workload{name: "kinds", maxValue: 300, run: writeKinds}

// largeKindsWorkload is kindsWorkload with large values: in logs, some with a deadline, and in
// value files, as merge operators and a compaction filter make them.
var largeKindsWorkload = workload{name: "large-kinds", maxValue: 300,
	run: func(s *session) error {
		s.opts.LargeValue = 20
		return writeKinds(s)
	}}

func writeKinds(s *session) error {
	return steps(s.open,
		func() error { return s.write(9, 3) }, s.flush,
		func() error { return s.write(9, 4) }, s.flush, s.compactAll,
		func() error { return s.write(4, 0) }, s.drop,
		func() error { return s.write(5, 2) }, s.flush, s.compactAll, s.apart, s.read,
		s.reopen,
		func() error { return s.write(5, 0) }, s.compactAll,
		s.close)
}

// apart makes sure that large values lie in logs and in value files, where no call failed.
func (s *session) apart() error {
	if m := s.db.Metrics().Values; s.failed == nil && s.opts.LargeValue > 0 &&
		(m.Logs == 0 || m.Files == 0) {
		return fmt.Errorf("values lie in %d logs and %d value files", m.Logs, m.Files)
	}
	return nil
}

// drop drops a keyspace and makes it again.
func (s *session) drop() error {
	if err := s.trees.drop(s.db, &s.progress, s.last); err != nil {
		if err := s.fail("drop", 0, err); err != nil {
			return err
		}
	}
	return s.makeSpaces()
}

// makeSpaces makes the keyspaces that are missing, at the second try at the latest; without
// them the workload ends.
func (s *session) makeSpaces() error {
	err := s.trees.make(s.db)
	if err == nil {
		return nil
	}
	if err := s.fail("keyspaces", 0, err); err != nil {
		return err
	}
	if err = s.trees.make(s.db); err != nil {
		return errors.Join(s.fail("keyspaces", 0, err), s.close(), errNoDatabase)
	}
	return nil
}

// flushDefault flushes the default keyspace.
func (s *session) flushDefault() error { return s.fail("flush", 0, s.db.Flush()) }

// flushSpace flushes one keyspace.
func (s *session) flushSpace(name string) error {
	k, err := s.db.Keyspace(name, nil)
	if err != nil {
		return err
	}
	return s.fail("flush", 0, k.Flush())
}

// compactAll compacts all keyspaces.
func (s *session) compactAll() error {
	for _, name := range s.db.Keyspaces() {
		k, err := s.db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if err == nil {
			err = k.CompactRange(nil, nil)
		}
		if err := s.fail("compact", 0, err); err != nil {
			return err
		}
	}
	return nil
}
