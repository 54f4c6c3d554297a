// Package lifetimes calls every exported method of package lsm on objects that
// were closed, are being closed, are another database's, or with nil arguments,
// with a cache of the database's own and with a shared one. The calls are
// generated from the API by reflection: a new method is called from its first
// day, and one that needs an argument of a new kind fails the test until
// package lifetimes knows one.
//
// No call may crash or hang, each fails with the error that its documentation
// promises, the databases that share the cache stay whole, and no memory is left
// when everything is closed.
package lifetimes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

const entries = 60

// world is a database, and two others that may share its cache.
type world struct {
	disk   *disk
	cache  *lsm.Cache // nil: each has its own
	db     *lsm.DB
	others [2]*lsm.DB

	closedSnap  *lsm.Snapshot // of db
	foreignSnap *lsm.Snapshot // of another database

	space        *lsm.Keyspace // of db; "default" in LevelDB's format
	foreignSpace *lsm.Keyspace // of another database

	before int64 // bytes off the heap before it was made
}

// disk is a file system in memory that can be stopped at a call.
type disk struct {
	vfs.FS
	broken  atomic.Bool // syncs fail
	mu      sync.Mutex
	stopAt  int // calls from now on, 0 for never
	stopped chan struct{}
	release chan struct{}
}

func newDisk() *disk {
	mem := vfs.NewMem()
	if here, err := filepath.Abs("."); err == nil {
		_ = mem.MkdirAll(here) // for relative names of checkpoints
	}
	return diskOver(mem)
}

// diskOver is a disk with the files of fs.
func diskOver(fs vfs.FS) *disk {
	d := &disk{}
	d.FS = vfs.NewFault(fs, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpSync && d.broken.Load() {
			return vfs.Outcome{Err: syscall.EIO}
		}
		d.mu.Lock()
		stop := d.stopAt == 1
		if d.stopAt > 0 {
			d.stopAt--
		}
		stopped, release := d.stopped, d.release
		d.mu.Unlock()
		if stop {
			close(stopped)
			<-release
		}
		return vfs.Outcome{}
	})
	return d
}

// stop makes the nth call from now on wait for release.
func (d *disk) stop(n int) {
	d.mu.Lock()
	d.stopAt, d.stopped, d.release = n, make(chan struct{}), make(chan struct{})
	d.mu.Unlock()
}

// go on: from now on no call is stopped, and stopped ones continue.
func (d *disk) resume() {
	d.mu.Lock()
	d.stopAt = 0
	close(d.release)
	d.mu.Unlock()
}

func (w *world) key(i int) []byte { return fmt.Appendf(nil, "k%02d", i) }

func newWorld(shared bool) (*world, error) {
	w := &world{disk: newDisk(), before: offheap.InUse()}
	if shared {
		w.cache = lsm.NewCache(1 << 20)
	}
	open := func(fs vfs.FS) (*lsm.DB, error) {
		db, err := lsm.Open("/db", &lsm.Options{FS: fs, Cache: w.cache, CacheSize: 1 << 20,
			WriteBufferSize: 64 << 10, WALPreallocate: -1,
			MergeOperator: lsm.MergeOperatorNamed("append")})
		if err != nil {
			return nil, err
		}
		for i := range entries {
			for _, prefix := range []string{"k", "r"} { // "r" is never changed
				err = errors.Join(err, db.Put(fmt.Appendf(nil, "%s%02d", prefix, i),
					fmt.Appendf(nil, "value %d", i), lsm.NoSync))
			}
			if i == entries/2 {
				err = errors.Join(err, db.Flush())
			}
		}
		return db, err
	}
	var err error
	if w.db, err = open(w.disk); err != nil {
		return nil, err
	}
	for i := range w.others {
		if w.others[i], err = open(vfs.NewMem()); err != nil {
			return nil, err
		}
	}
	w.closedSnap, w.foreignSnap = w.db.Snapshot(), w.others[0].Snapshot()
	w.space, err = w.db.Keyspace("space",
		&lsm.KeyspaceOptions{MergeOperator: lsm.MergeOperatorNamed("append")})
	if errors.Is(err, lsm.ErrNeedsNative) {
		w.space, err = w.db.Keyspace("default", nil)
	}
	if err == nil {
		w.foreignSpace, err = w.others[0].Keyspace("default", nil)
	}
	return w, errors.Join(err, w.closedSnap.Close(), w.whole())
}

// readings reads what no call changes in four ways. Each is right, or fails with
// one of the errors allowed.
func readings(db *lsm.DB, allowed ...error) error {
	fail := func(how string, err error) error {
		for _, a := range allowed {
			if errors.Is(err, a) {
				return nil
			}
		}
		return fmt.Errorf("%s: %w", how, err)
	}
	var errs []error
	for i := 0; i < entries; i += 7 {
		v, err := db.Get(fmt.Appendf(nil, "r%02d", i), nil)
		if err == nil && !bytes.Equal(v, fmt.Appendf(nil, "value %d", i)) {
			err = fmt.Errorf("read %q", v)
		}
		if err != nil {
			errs = append(errs, fail("Get", err))
		}
	}
	var r lsm.MultiResult
	err := db.MultiGet([][]byte{[]byte("r00"), []byte("r59"), []byte("r60")}, &r)
	if err == nil {
		first, _ := r.Value(0)
		last, _ := r.Value(1)
		if _, found := r.Value(2); found || string(first) != "value 0" ||
			string(last) != "value 59" {
			err = fmt.Errorf("read %q, %q, %v", first, last, found)
		}
	}
	if err != nil {
		errs = append(errs, fail("MultiGet", err))
	}
	n := 0
	for k, v := range db.Prefix([]byte("r"), &err) {
		if string(k) != fmt.Sprintf("r%02d", n) || string(v) != fmt.Sprintf("value %d", n) {
			errs = append(errs, fmt.Errorf("a scan finds %q = %q at %d", k, v, n))
		}
		n++
	}
	if err == nil && n != entries {
		errs = append(errs, fmt.Errorf("a scan finds %d entries of %d", n, entries))
	}
	if err != nil {
		errs = append(errs, fail("Prefix", err))
	}
	return errors.Join(errs...)
}

// whole checks the other databases.
func (w *world) whole() error {
	for i, db := range w.others {
		if err := readings(db); err != nil {
			return fmt.Errorf("database %d beside it: %w", i, err)
		}
	}
	return nil
}

// end closes everything and looks for leftovers.
func (w *world) end() error {
	err := w.whole()
	w.foreignSnap.Close()
	if e := w.db.Close(); !errors.Is(e, lsm.ErrClosed) {
		err = errors.Join(err, e)
	}
	if w.cache != nil {
		w.cache.Close()
		w.cache.Close()
	}
	for _, db := range w.others {
		err = errors.Join(err, readings(db), db.Close())
	}
	// The last of what an iterator held is freed in the background.
	if !hang.Until(func() bool { return offheap.InUse() <= w.before }) {
		return errors.Join(err, fmt.Errorf("%d bytes off the heap, %d before", offheap.InUse(),
			w.before))
	}
	return err
}

// harmless are the methods without an error result, with their answers after Close. A new method of
// this kind needs a row.
var harmless = map[string]func(results []reflect.Value) error{
	"DB.Metrics": func(r []reflect.Value) error {
		m := r[0].Interface().(lsm.Metrics)
		if !errors.Is(m.ReadOnly, lsm.ErrClosed) || m.DiskBytes != 0 || m.Memtables != 0 {
			return fmt.Errorf("%+v", m)
		}
		return nil
	},
	// What the packages beside lsm reach their database by; it does nothing.
	"DB.Inside":       func([]reflect.Value) error { return nil },
	"Snapshot.Inside": func([]reflect.Value) error { return nil },

	"DB.Property":  zeros,
	"DB.Keyspaces": func([]reflect.Value) error { return nil },
	"DB.NewBatch":  func([]reflect.Value) error { return nil },
	"Keyspace.Metrics": func(r []reflect.Value) error {
		if m := r[0].Interface().(lsm.Metrics); !errors.Is(m.ReadOnly, lsm.ErrClosed) {
			return fmt.Errorf("%+v", m)
		}
		return nil
	},
	"Keyspace.Property":    zeros,
	"Keyspace.Name":        func([]reflect.Value) error { return nil },
	"Keyspace.ID":          func([]reflect.Value) error { return nil },
	"Keyspace.Comparer":    func([]reflect.Value) error { return nil },
	"Keyspace.NewBatch":    func([]reflect.Value) error { return nil },
	"Changes.KeyspaceName": func([]reflect.Value) error { return nil },
	"Changes.Position":     func([]reflect.Value) error { return nil },
	"DB.RecoveryReport":    func([]reflect.Value) error { return nil },
	"DB.PauseCompaction":   zeros,
	"DB.ResumeCompaction":  zeros,
	"Iterator.First":       zeros,
	"Iterator.Last":        zeros,
	"Iterator.Next":        zeros,
	"Iterator.Prev":        zeros,
	"Iterator.SeekGE":      zeros,
	"Iterator.SeekLT":      zeros,
	"Iterator.Valid":       zeros,
	"Iterator.Key":         zeros,
	"Iterator.Value":       zeros,
	"Iterator.SetBounds":   zeros,
	"Iterator.NextBlock":   func(r []reflect.Value) error { return zeros(r[1:]) },
	"Iterator.PrevBlock":   func(r []reflect.Value) error { return zeros(r[1:]) },
}

func zeros(results []reflect.Value) error {
	for _, r := range results {
		if !r.IsZero() {
			return fmt.Errorf("answers %v", r.Interface())
		}
	}
	return nil
}

// closed calls all methods of a closed object.
func (w *world) closed(object any, rng *rand.Rand, skip ...string) error {
	calls, err := w.calls(object, rng, skip...)
	if err != nil {
		return err
	}
	var bad []error
	for _, c := range calls {
		o := run(c)
		allowed := []error{lsm.ErrClosed}
		if wrongArgument(c) {
			allowed = append(allowed, lsm.ErrInvalidArgument)
		}
		if over(c) { // its context's error is as true
			allowed = append(allowed, context.Canceled)
		}
		if wrong := judge(c, o, allowed...); wrong != "" {
			bad = append(bad, errors.New(wrong))
			continue
		}
		if o.canFail || o.panicked != "" {
			continue
		}
		check, known := harmless[c.name]
		if !known {
			return fmt.Errorf("%s tells of no failure: say in the table harmless what it answers "+
				"on a closed object", c.name)
		}
		if err := check(o.results); err != nil {
			bad = append(bad, fmt.Errorf("%v on a closed object: %w", c, err))
		}
	}
	return errors.Join(bad...)
}

// wrongArgument reports whether a call has an argument that is refused as such.
func wrongArgument(c call) bool {
	if strings.HasSuffix(c.name, "Option") { // no option, or no value of one
		return true
	}
	for _, a := range c.args {
		if a.Kind() == reflect.Func && a.IsNil() {
			return true
		}
		switch x := a.Interface().(type) {
		case *lsm.IterOptions:
			if x != nil && x.Snapshot != nil {
				return true
			}
		case *lsm.Batch:
			if x == nil {
				return true
			}
		case *lsm.MultiResult:
			if x == nil {
				return true
			}
		case *lsm.PinnedValue:
			if x == nil {
				return true
			}
		case nil: // a context
			return true
		case []byte:
			switch _, method, _ := strings.Cut(c.name, "."); method {
			case "WriteBytes", "CompactRange", "CompactRangeContext", "DeleteRange":
				return true
			}
		case string: // the name of a keyspace
			if c.name == "DB.Keyspace" || c.name == "DB.DropKeyspace" {
				return true
			}
		case *lsm.Keyspace: // of another database, perhaps
			return true
		}
	}
	return false
}

// AfterClose calls everything on closed databases, and on snapshots and
// iterators that were closed or whose database was.
func AfterClose(shared bool, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	w, err := newWorld(shared)
	if err != nil {
		return err
	}
	snap, closedSnap := w.db.Snapshot(), w.db.Snapshot()
	tx := w.db.Begin(nil)
	defer tx.Rollback()
	feed, e1 := w.db.Changes(0, nil)
	closedFeed, e2 := w.db.Changes(0, nil)
	if err := errors.Join(e1, e2, closedFeed.Close(), closedFeed.Close()); err != nil {
		return err
	}
	it, unused, closedIt := w.db.Iter(nil), w.db.Iter(nil), snap.Iter(nil)
	if !it.First() || !closedIt.Last() {
		return errors.Join(it.Err(), closedIt.Err())
	}
	err = errors.Join(closedIt.Close(), closedSnap.Close(), closedIt.Close(), closedSnap.Close())
	if e := closedIt.Err(); e != nil {
		err = errors.Join(err, fmt.Errorf("an iteration that ended well: %w", e))
	}
	ends := error(nil)           // what Close returns
	if shared == (seed%2 == 1) { // a database that became read-only tells so, and is closed
		ends = lsm.ErrReadOnly
		w.disk.broken.Store(true)
		if e := w.db.Put([]byte("w"), nil, lsm.Sync); !errors.Is(e, lsm.ErrReadOnly) {
			err = errors.Join(err, fmt.Errorf("a write on a broken disk: %w", e))
		}
		w.disk.broken.Store(false)
	}
	for range 2 { // the database is open, then closed
		err = errors.Join(err,
			w.closed(closedIt, rng, "Iterator.Close", "Iterator.Err"),
			w.closed(closedSnap, rng, "Snapshot.Close"), w.closed(closedFeed, rng, "Changes.Close"),
			w.whole())
		if e := w.db.Close(); !errors.Is(e, ends) {
			err = errors.Join(err, fmt.Errorf("closed with %v, want %v", e, ends))
		}
		ends = lsm.ErrClosed
	}
	for range 2 {
		err = errors.Join(err,
			w.closed(w.db, rng, "DB.Snapshot"), w.closed(w.space, rng, "Keyspace.Snapshot",
				"Keyspace.Close"), w.closed(snap, rng, "Snapshot.Close"),
			// The skipped ones report the transaction's own end, see TestTxnEnds of lsm.
			w.closed(tx, rng, "Txn.In", "Txn.Close", "Txn.Commit", "Txn.Rollback", "Txn.RollbackTo",
				"Txn.SavePoint"),
			// Key and Value stay what they are until the next move.
			w.closed(it, rng, "Iterator.Close", "Iterator.Err", "Iterator.Key", "Iterator.Value"),
			w.closed(unused, rng, "Iterator.Close", "Iterator.Err"),
			w.closed(feed, rng, "Changes.Close"), w.whole())
		late := w.db.Snapshot()
		err = errors.Join(err, w.closed(late, rng, "Snapshot.Close"), late.Close())
	}
	if !errors.Is(it.Err(), lsm.ErrClosed) || !errors.Is(it.Close(), lsm.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("an iterator of a closed database: %w", it.Err()))
	}
	unused.Close()
	err = errors.Join(err, w.closed(w.db, rng, "DB.Snapshot"), w.whole()) // now nothing holds it
	return errors.Join(err, snap.Close(), snap.Close(), w.end())
}

// usual are the errors that calls on an open database may end with.
var usual = []error{nil, lsm.ErrNotFound, lsm.ErrWouldBlock, lsm.ErrBusy, lsm.ErrNeedsNative,
	lsm.ErrNoKeyspace}

// Open calls everything on an open database: nil arguments, and objects that are
// closed or another database's.
func Open(shared bool, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	w, err := newWorld(shared)
	if err != nil {
		return err
	}
	snap, it := w.db.Snapshot(), w.db.Iter(nil)
	var r lsm.MultiResult
	err = w.db.MultiGet([][]byte{w.key(1), nil}, &r)
	failed := new(lsm.MultiResult)
	_ = w.closedSnap.MultiGet([][]byte{w.key(1)}, failed)
	batch := lsm.NewBatch()
	batch.Put(w.key(7), nil)
	tx := w.db.Begin(nil)
	feed, e := w.db.Changes(0, nil)
	err = errors.Join(err, e)
	for _, object := range []any{w.db, w.space, snap, tx, it, batch, new(lsm.Batch), &r, failed,
		new(lsm.MultiResult), feed} {
		calls, e := w.calls(object, rng, "Changes.Close", "Changes.Next", "DB.Close",
			"Snapshot.Close", "Snapshot.In", "Txn.In", "Txn.Close", "Txn.Commit", "Txn.Rollback",
			"Txn.RollbackTo", "Iterator.Close")
		err = errors.Join(err, e)
		for _, c := range calls {
			o := run(c)
			allowed := usual
			if wrongArgument(c) {
				allowed = append([]error{lsm.ErrInvalidArgument, lsm.ErrClosed}, usual...)
			}
			if over(c) {
				allowed = append([]error{o.err}, usual...)
			}
			if wrong := judge(c, o, allowed...); wrong != "" {
				err = errors.Join(err, errors.New(wrong))
			}
			if foreign(c, w.foreignSnap) && !errors.Is(o.err, lsm.ErrInvalidArgument) &&
				c.name == "DB.Iter" {
				err = errors.Join(err, fmt.Errorf("%v with another database's snapshot: %w", c,
					o.err))
			}
		}
	}
	w.db.ResumeCompaction()
	err = errors.Join(err, it.Close(), it.Close(), snap.Close(), snap.Close(), tx.Rollback(),
		tx.Rollback())
	return errors.Join(err, readings(w.db), w.end())
}

// over reports whether the call has a context that is over.
func over(c call) bool {
	for _, a := range c.args {
		if ctx, ok := a.Interface().(interface{ Err() error }); ok && ctx != nil &&
			ctx.Err() != nil {
			return true
		}
	}
	return false
}

func foreign(c call, snap *lsm.Snapshot) bool {
	for _, a := range c.args {
		if o, ok := a.Interface().(*lsm.IterOptions); ok && o != nil && o.Snapshot == snap {
			return true
		}
	}
	return false
}

// DuringClose stops a compaction, or the Close that comes after it, at its nth
// call of the file system, makes every call beside Close, and lets it go on. It
// reports whether there are so many.
func DuringClose(shared bool, seed uint64, n int) (reached bool, err error) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	w, err := newWorld(shared)
	if err != nil {
		return false, err
	}
	snap, closing := w.db.Snapshot(), w.db.Snapshot()
	it := w.db.Iter(nil)
	if !it.First() {
		return false, it.Err()
	}
	dbCalls, err := w.calls(w.db, rng)
	spaceCalls, e1 := w.calls(w.space, rng)
	snapCalls, e2 := w.calls(snap, rng, "Snapshot.Close")
	if err = errors.Join(err, e1, e2); err != nil {
		return false, err
	}
	w.disk.stop(n)
	work, closed := make(chan error, 1), make(chan error, 1)
	go func() { work <- errors.Join(w.db.Flush(), w.db.CompactRange(nil, nil)) }()
	select {
	case <-w.disk.stopped: // Close meets a flush or a compaction
		reached = true
	case e := <-work:
		work <- e
	case <-hang.After():
		return false, errors.New("a compaction hangs")
	}
	go func() { closed <- w.db.Close() }()
	if !reached {
		select {
		case <-w.disk.stopped:
			reached = true
		case e := <-closed:
			closed <- e
		case <-hang.After():
			return false, errors.New("a hang in Close")
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	report := func(e error) {
		mu.Lock()
		err = errors.Join(err, e)
		mu.Unlock()
	}
	allowed := append([]error{lsm.ErrClosed, lsm.ErrInvalidArgument}, usual...)
	for _, c := range slices.Concat(dbCalls, spaceCalls, snapCalls) {
		if over(c) {
			continue
		}
		wg.Go(func() {
			if wrong := judge(c, run(c), allowed...); wrong != "" {
				report(errors.New("during Close: " + wrong))
			}
		})
	}
	wg.Go(func() { report(readings(w.db, lsm.ErrClosed)) })
	wg.Go(func() {
		for it.Next() {
		}
		if e := it.Close(); e != nil && !errors.Is(e, lsm.ErrClosed) {
			report(fmt.Errorf("an iterator during Close: %w", e))
		}
	})
	wg.Go(func() { report(closing.Close()) })
	for range rng.IntN(1000) {
		runtime.Gosched()
	}
	w.disk.resume()
	var result error
	done := make(chan struct{})
	go func() {
		wg.Wait()
		result = <-closed
		if e := <-work; e != nil && !errors.Is(e, lsm.ErrClosed) {
			report(fmt.Errorf("a compaction beside Close: %w", e))
		}
		close(done)
	}()
	select {
	case <-done:
	case <-hang.After():
		return reached, fmt.Errorf("calls beside Close stopped at its call %d hang", n)
	}
	if result != nil && !errors.Is(result, lsm.ErrClosed) { // one of the calls may have been first
		report(fmt.Errorf("closing: %w", result))
	}
	return reached, errors.Join(err, w.closed(w.db, rng, "DB.Snapshot"), snap.Close(), w.end())
}

// Run is all of it once, for either kind of cache. It returns at how many points
// Close was stopped.
func Run(seed uint64) (stops int, err error) {
	for _, shared := range []bool{false, true} {
		if err := errors.Join(AfterClose(shared, seed), Open(shared, seed)); err != nil {
			return stops, err
		}
		for n := 1; ; n++ {
			reached, err := DuringClose(shared, seed, n)
			if err != nil {
				return stops, fmt.Errorf("stopped at call %d: %w", n, err)
			}
			if !reached {
				break
			}
			stops++
		}
	}
	return stops, nil
}
