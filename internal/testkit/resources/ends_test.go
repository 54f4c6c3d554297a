package resources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base/preview"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/leak"
	"github.com/loamdb/loam/lsm"
)

const (
	memory  = 16 << 20
	entries = 60
)

// thing is something that ends.
type thing struct {
	name string
	of   string // the thing that it belongs to, whose end ends it too; "": none
	end  func() error
	// use works as long as this and what it belongs to have not ended, and fails with lsm.ErrClosed
	// then.
	use   func() error
	again error // what a second end answers; nil: no error
	// late is an error that end may answer when what it belongs to has ended before; none is as
	// good where that was not noticed.
	late    error
	lasting bool // its own end changes nothing
}

// world is databases that share Resources, and what was opened of them.
type world struct {
	res    *lsm.Resources
	things []thing
	ended  map[string]bool
	puts   int // that the databases got since they were filled
}

func key(i int) []byte   { return fmt.Appendf(nil, "key%03d", i) }
func value(i int) []byte { return bytes.Repeat(key(i), 40) }

// reads reads what was there when the world was made.
func reads(r interface {
	Get(key, dst []byte) ([]byte, error)
}) error {
	for i := 0; i < entries; i += 13 {
		got, err := r.Get(key(i), nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, value(i)) {
			return fmt.Errorf("%s is %.20q", key(i), got)
		}
	}
	return nil
}

// ended is err, or lsm.ErrClosed for the error that says the same of things of this kind.
func ended(err, own error) error {
	if errors.Is(err, own) {
		return lsm.ErrClosed
	}
	return err
}

// newWorld opens databases with memory, each with all that can be open of it.
func newWorld(formats ...lsm.Format) (*world, error) {
	w := &world{res: lsm.NewResources(lsm.ResourcesOptions{Memory: memory, BackgroundJobs: 1,
		OpenFiles: 64}), ended: map[string]bool{}}
	w.add(thing{name: "resources", end: func() error {
		w.res.Close()
		return nil
	}, use: func() error {
		db, err := lsm.Open("/other", &lsm.Options{FS: vfs.NewMem(), Resources: w.res})
		if err != nil {
			return err
		}
		return db.Close()
	}})
	for i, format := range formats {
		if err := w.addDatabase(fmt.Sprintf("db%d", i), format); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) add(x thing) { w.things = append(w.things, x) }

func (w *world) addDatabase(name string, format lsm.Format) error {
	fsys := vfs.NewMem()
	o := &lsm.Options{FS: fsys, Resources: w.res, Format: format, WriteBufferSize: 64 << 10,
		WALPreallocate: -1}
	db, err := lsm.Open("/db", o)
	if err != nil {
		return err
	}
	w.add(thing{name: name, end: db.Close, again: lsm.ErrClosed, use: func() error {
		w.puts++
		return errors.Join(reads(db), db.Put(fmt.Appendf(nil, "more%d", w.puts), nil, lsm.NoSync))
	}})
	spaces := map[string]*lsm.Keyspace{}
	var space *lsm.Keyspace // also of LevelDB's format
	if space, err = db.Keyspace("default", nil); err != nil {
		return err
	}
	if format == lsm.FormatNative {
		for _, k := range []string{"kept", "dropped"} {
			if spaces[k], err = db.Keyspace(k, nil); err != nil {
				return err
			}
		}
		space = spaces["kept"]
	}
	for i := range entries {
		b := lsm.NewBatch()
		b.Put(key(i), value(i))
		for _, k := range spaces {
			b.In(k).Put(key(i), value(i))
		}
		if err = db.Write(b, lsm.NoSync); err == nil && i == entries/2 {
			err = db.Flush()
		}
		if err != nil {
			return err
		}
	}
	if k := spaces["dropped"]; k != nil {
		w.addIterator(name+" iterator of a keyspace that may be dropped", name, k.Iter(nil))
		w.add(thing{name: name + " dropped keyspace", of: name, late: lsm.ErrClosed,
			again: lsm.ErrNoKeyspace, end: func() error { return db.DropKeyspace("dropped") },
			use: func() error { return ended(reads(k), lsm.ErrNoKeyspace) }})
	}
	w.add(thing{name: name + " keyspace", of: name, end: space.Close, use: func() error {
		return reads(space)
	}, lasting: true})
	w.addReaders(name, db, space)
	return w.addFollower(name, fsys, db)
}

// addReaders adds what reads a state of a database.
func (w *world) addReaders(name string, db *lsm.DB, space *lsm.Keyspace) {
	snap := db.Snapshot()
	w.add(thing{name: name + " snapshot", of: name, end: snap.Close, use: func() error {
		return reads(snap)
	}})
	tx := db.Begin(nil)
	w.add(thing{name: name + " transaction", of: name, end: tx.Rollback, use: func() error {
		return ended(reads(tx), lsm.ErrTxnDone)
	}})
	w.addIterator(name+" iterator", name, db.Iter(nil))
	w.addIterator(name+" iterator of a snapshot", name, snap.Iter(nil))
	w.addIterator(name+" iterator of a transaction", name, tx.Iter(nil))
	w.addIterator(name+" iterator of a keyspace", name, space.Iter(nil))
}

func (w *world) addIterator(name, of string, it *lsm.Iterator) {
	it.First()
	w.add(thing{name: name, of: of, end: it.Close, late: lsm.ErrClosed, use: func() error {
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			if n < entries && (!bytes.Equal(it.Key(), key(n)) ||
				!bytes.Equal(it.Value(), value(n))) {
				return fmt.Errorf("entry %d is %q", n, it.Key())
			}
			n++
		}
		if err := it.Err(); err != nil {
			return err
		}
		if !w.ended[name] && n != entries {
			return fmt.Errorf("%d entries of %d", n, entries)
		}
		return nil
	}})
}

// addFollower adds a feed of changes, a follower, and what is open of the follower.
func (w *world) addFollower(name string, fsys vfs.FS, db *lsm.DB) error {
	feed, err := db.Changes(uint64(db.Metrics().LastSequence)+1, nil)
	if err != nil {
		return err
	}
	w.addFeed(name+" feed", name, feed, func() error {
		return db.Put([]byte("feed"), nil, lsm.NoSync)
	})
	f, err := lsm.OpenFollower("/db", &lsm.Options{FS: fsys, Resources: w.res})
	if err != nil {
		return err
	}
	follower := name + " follower"
	w.add(thing{name: follower, end: f.Close, again: lsm.ErrClosed, use: func() error {
		return errors.Join(f.CatchUp(context.Background()), reads(f))
	}})
	w.addIterator(follower+"'s iterator", follower, f.Iter(nil))
	snap := f.Snapshot()
	w.add(thing{name: follower + "'s snapshot", of: follower, end: snap.Close, use: func() error {
		return reads(snap)
	}})
	theirs, err := f.Changes(uint64(f.Metrics().LastSequence)+1, nil)
	if err != nil {
		return err
	}
	w.addFeed(follower+"'s feed", follower, theirs, nil)
	return nil
}

// addFeed adds a feed of changes, which shows what wake writes; nil: nothing comes.
func (w *world) addFeed(name, of string, feed *lsm.Changes, wake func() error) {
	w.add(thing{name: name, of: of, end: feed.Close, use: func() error {
		if wake != nil && !w.ended[name] && !w.ended[of] {
			if err := wake(); err != nil {
				return err
			}
		}
		_, ok, err := feed.TryNext()
		if err == nil && !ok && wake != nil {
			return errors.New("there is no change")
		}
		return err
	}})
}

// check uses everything.
func (w *world) check() error {
	var errs []error
	for _, x := range w.things {
		err := x.use()
		over := w.ended[x.of] || w.ended[x.name] && !x.lasting
		if over != errors.Is(err, lsm.ErrClosed) || !over && err != nil {
			errs = append(errs, fmt.Errorf("%s, ended %v, which belongs to %q, ended %v: %w",
				x.name, w.ended[x.name], x.of, w.ended[x.of], orNone(err)))
		}
	}
	return errors.Join(errs...)
}

var errNone = errors.New("no error")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// end ends one thing, sometimes twice.
func (w *world) end(x thing, twice bool) error {
	if err := x.end(); err != nil && (!w.ended[x.of] || !errors.Is(err, x.late)) {
		return fmt.Errorf("the end of %s: %w", x.name, err)
	}
	w.ended[x.name] = true
	if !twice || w.ended[x.of] {
		return nil
	}
	if err := x.end(); !errors.Is(err, x.again) {
		return fmt.Errorf("the second end of %s: %w; want %v", x.name, orNone(err), x.again)
	}
	return nil
}

// endAll ends everything in an order, and uses what is left, and what is not, at each of the looks;
// everything is checked at the end. hold keeps the memory, so that what is counted in the end
// shows.
func (w *world) endAll(order []int, looks func() bool, hold bool) error {
	release := func() {}
	if hold {
		var err error
		if release, err = preview.HoldResources(w.res); err != nil {
			return err
		}
	}
	defer release()
	for _, i := range order {
		x := w.things[i]
		if err := w.end(x, looks()); err != nil {
			return err
		}
		if looks() {
			if err := w.check(); err != nil {
				return fmt.Errorf("after the end of %s: %w", x.name, err)
			}
		}
	}
	if err := w.check(); err != nil {
		return fmt.Errorf("in the end: %w", err)
	}
	want := lsm.ResourcesMetrics{}
	if hold {
		want.Memory = memory
	}
	return within(func() error {
		m := w.res.Metrics()
		if err := w.res.Set("memory", "16MiB"); errors.Is(err, lsm.ErrClosed) == hold ||
			hold && err != nil {
			return fmt.Errorf("memory that is kept: %v; set: %w", hold, orNone(err))
		}
		if m.BufferBytes = 0; m != want { // of the whole process
			return fmt.Errorf("in the end there is %+v", m)
		}
		return nil
	})
}

// within calls f until it returns no error: there is no event of memory freed in the background.
func within(f func() error) (err error) {
	hang.Until(func() bool { err = f(); return err == nil })
	return err
}

// names says an order.
func (w *world) names(order []int) string {
	var list []string
	for _, i := range order {
		list = append(list, w.things[i].name)
	}
	return strings.Join(list, ", ")
}

// tryOrder makes a world, ends all of it in the order that pick gives for the number of objects,
// and looks for leftovers.
func tryOrder(pick func(w *world) []int, looks func() bool, hold bool,
	formats ...lsm.Format) error {
	before := offheap.InUse()
	w, err := newWorld(formats...)
	if err != nil {
		return err
	}
	order := pick(w)
	if err := hang.InTime(func() error { return w.endAll(order, looks, hold) }); err != nil {
		return fmt.Errorf("order: %s: %w", w.names(order), err)
	}
	err = within(func() error {
		if n := offheap.InUse(); n > before {
			return fmt.Errorf("%d bytes off the heap, %d before", n, before)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("order: %s: %w", w.names(order), err)
	}
	return nil
}

// TestEveryOrder ends Resources, a database, a snapshot, an iterator, a feed and a follower in
// every order, what else there is after them.
func TestEveryOrder(t *testing.T) {
	kinds := []string{"resources", "db0", "db0 snapshot", "db0 iterator", "db0 feed",
		"db0 follower"}
	var orders [][]string
	permute(kinds, 0, &orders)
	rng := rand.New(rand.NewPCG(uint64(testkit.Seed(t)), 1))
	rng.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	orders = orders[:testkit.Scale(60, 120, len(orders))]
	before := leak.Now()
	for i, names := range orders {
		pick := func(w *world) []int {
			var first, rest []int
			for i := range w.things {
				if !slices.Contains(names, w.things[i].name) {
					rest = append(rest, i)
				}
			}
			for _, name := range names {
				first = append(first, slices.IndexFunc(w.things, func(x thing) bool {
					return x.name == name
				}))
			}
			return append(first, rest...)
		}
		format := []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB}[i%2]
		if err := tryOrder(pick, func() bool {
			return i%8 < 2
		}, rng.IntN(2) == 0, format); err != nil {
			t.Fatal(err)
		}
	}
	noneLeft(t, before)
}

func permute(list []string, from int, out *[][]string) {
	if from == len(list) {
		*out = append(*out, slices.Clone(list))
		return
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		permute(list, from+1, out)
		list[from], list[i] = list[i], list[from]
	}
}

// TestRandomOrders ends all that two databases of both formats have open, in random orders.
func TestRandomOrders(t *testing.T) {
	seed := uint64(testkit.Seed(t))
	before := leak.Now()
	for i := range uint64(testkit.Scale(30, 60, 5000)) {
		rng := rand.New(rand.NewPCG(seed, i))
		pick := func(w *world) []int { return rng.Perm(len(w.things)) }
		if err := tryOrder(pick, func() bool {
			return rng.IntN(4) == 0
		}, rng.IntN(2) == 0, lsm.FormatNative, lsm.FormatLevelDB); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	noneLeft(t, before)
}

// noneLeft fails if goroutines or memory were left.
func noneLeft(t *testing.T, before leak.Usage) {
	now := leak.Now() // no other test runs in parallel
	for range 100 {
		if now.Goroutines <= before.Goroutines && now.OffHeap <= before.OffHeap {
			return
		}
		now = leak.Now()
	}
	t.Errorf("before %v, now %v", before, now)
}
