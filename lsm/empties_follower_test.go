package lsm

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestEmptiesOfFollowers: rows of a writer come and go in windows. Readers, snapshots and iterators
// of a follower move about, and see the rows of the last catch-up, or of when they were opened.
func TestEmptiesOfFollowers(t *testing.T) {
	ctx := context.Background()
	for round := range seed.Scale(2, 2, 60) {
		for _, format := range []Format{FormatNative, FormatLevelDB} {
			rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), uint64(round)))
			w := &windows{t: t, rng: rng, now: map[int]string{}}
			dir := t.TempDir()
			o := &Options{Format: format, WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
				MergeOperator: MergeOperatorNamed("append"), FollowInterval: longInterval}
			w.format = format
			w.db = mustOpen(t, dir, o)
			f, err := OpenFollower(dir, o)
			must(t, err)
			seen := map[int]string{}
			for step := range 300 {
				mustAll(t, w.write())
				switch rng.IntN(20) {
				case 0:
					mustAll(t, w.db.Flush())
				case 1:
					if rng.IntN(4) == 0 {
						mustAll(t, w.db.CompactRange(nil, nil))
					}
				case 2:
					v := &windowsView{sees: maps.Clone(seen), snap: f.Snapshot()}
					w.held = append(w.held, v)
				case 3:
					w.held = append(w.held, &windowsView{sees: maps.Clone(seen), it: f.Iter(nil)})
				case 4:
					mustAll(t, w.ingest(step))
				case 5:
					if rng.IntN(4) == 0 {
						mustClose(t, w.db)
						w.db = mustOpen(t, dir, o)
					}
				}
				if rng.IntN(3) == 0 {
					must(t, f.CatchUp(ctx))
					seen = maps.Clone(w.now)
				}
				for len(w.held) > 5 {
					mustAll(t, w.held[0].close())
					w.held = w.held[1:]
				}
				for range 2 {
					it := f.Iter(nil)
					w.look(it, seen)
					mustAll(t, it.Close())
				}
				w.lookHeld()
			}
			for _, v := range w.held {
				mustAll(t, v.close())
			}
			mustAll(t, f.Close(), w.db.Close())
		}
	}
}

func (v *windowsView) close() error {
	if v.snap != nil {
		return v.snap.Close()
	}
	return v.it.Close()
}

// ingest puts two rows by a table, where the format has such.
func (w *windows) ingest(step int) error {
	if w.format == FormatLevelDB {
		return nil
	}
	from := w.rng.IntN(windowRows - 1)
	path := writeTable(w.t, fmt.Sprintf("%s/%d", w.t.TempDir(), step),
		&Options{Format: w.format}, string(key(from)), "in", string(key(from+1)), "in")
	w.now[from], w.now[from+1] = "in", "in"
	return w.db.Ingest(context.Background(), nil, path)
}

// TestEmptiesOfFollowersAreKnown: what a look at the first message costs a follower does not grow
// with the messages that its writer took before, nor does it for a database opened to be read.
func TestEmptiesOfFollowersAreKnown(t *testing.T) {
	ctx := context.Background()
	n := seed.Scale(3000, 4000, 30000)
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	for i := range queueDepth {
		mustPut(t, db, i)
	}
	o := &Options{FollowInterval: longInterval}
	f, err := OpenFollower(dir, o)
	must(t, err)
	var tenths []uint64
	for i := range n {
		mustPut(t, db, i+queueDepth)
		mustAll(t, db.Delete(key(i), NoSync))
		if i%(n/10) == 0 {
			tenths = append(tenths, 0)
		}
		if i%10 == 9 {
			must(t, f.CatchUp(ctx))
			tenths[len(tenths)-1] += deadBefore(t, f, i+1)
		}
	}
	if last := tenths[9]; last > uint64(n/100*100) { // of n/100 looks
		t.Errorf("dead entries passed by tenths: %v", tenths)
	}
	late, err := OpenFollower(dir, o) // it has caught up with nothing yet
	must(t, err)
	deadBefore(t, late, n) // none after enough deletions, see tree.ScoutReplayed
	if second := deadBefore(t, late, n); second > 20 {
		t.Errorf("the second look of a follower passes over %d entries", second)
	}
	mustAll(t, late.Close(), f.Close(), db.Close())
	o.ReadOnly = true
	db = mustOpen(t, dir, o)
	first, second := deadBefore(t, db, n), deadBefore(t, db, n)
	if second > 20 || first < uint64(n)/2 {
		t.Errorf("the first look passes over %d entries, the second one over %d", first, second)
	}
	mustClose(t, db)
}

// deadBefore is how many dead entries a look at the first message, which is want, passes over.
func deadBefore(t *testing.T, db interface {
	Iter(o *IterOptions) *Iterator
	Metrics() Metrics
}, want int) uint64 {
	t.Helper()
	before := db.Metrics().EmptyRanges.DeadEntries
	it := db.Iter(nil)
	if !it.First() || string(it.Key()) != string(key(want)) {
		t.Fatalf("it is at %q, want %d; %v", it.Key(), want, it.Err())
	}
	mustAll(t, it.Close())
	return db.Metrics().EmptyRanges.DeadEntries - before
}

// TestFollowersLookFirst: once a reader of a follower passed over many dead entries, catch-ups pass
// over those that the next readers would meet.
func TestFollowersLookFirst(t *testing.T) {
	const taken = 200
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	for i := range 10 * taken {
		mustPut(t, db, i)
	}
	f, err := OpenFollower(dir, &Options{FollowInterval: longInterval})
	must(t, err)
	for n := taken; n < 10*taken; n += taken {
		for i := n - taken; i < n; i++ {
			mustAll(t, db.Delete(key(i), NoSync))
		}
		must(t, f.CatchUp(context.Background()))
		for range 3 { // readers that come often do not end that
			if dead := deadBefore(t, f, n); dead > 10 && n > taken {
				t.Errorf("after %d messages a look passes over %d", n, dead)
			}
		}
	}
	mustAll(t, f.Close(), db.Close())
}

// TestEmptiesOfFollowersConcurrently: while a follower catches up with a writer that empties and
// fills windows of rows, and its readers learn, each snapshot of it sees by iterators what it sees
// by Has.
func TestEmptiesOfFollowersConcurrently(t *testing.T) {
	const rows = 300
	ctx := context.Background()
	dir := t.TempDir()
	o := &Options{Format: FormatNative, WriteBufferSize: 64 << 10, FollowInterval: longInterval}
	db := mustOpen(t, dir, o)
	f, err := OpenFollower(dir, o)
	must(t, err)
	rounds := seed.Scale(seed.Brief(40, 100), 150, 20000)
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		defer done.Store(true)
		rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
		for range rounds {
			from := rng.IntN(rows)
			b := db.NewBatch()
			for i := from; i < min(from+150, rows); i++ {
				b.Delete(key(i))
			}
			if err := db.Write(b, NoSync); err != nil {
				t.Error(err)
			}
			for range rng.IntN(3) {
				if err := db.Put(key(rng.IntN(rows)), nil, NoSync); err != nil {
					t.Error(err)
				}
			}
			if err := f.CatchUp(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for !done.Load() && !t.Failed() {
				walkOver(t, f.Iter(nil))
			}
		})
	}
	wg.Go(func() {
		for !done.Load() && !t.Failed() {
			seesByHas(t, f.Snapshot(), rows)
		}
	})
	wg.Wait()
	mustAll(t, f.Close(), db.Close())
}
