package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// dumped is a dump, and its entries in their order.
type dumped struct {
	bytes  []byte
	format lsm.Format
	keys   []string // keyspace, a zero byte, and the key
	values map[string]string
}

// loadStep is how much is loaded between two markers, in bytes.
const loadStep = 40 << 10

// makeDump dumps a database with entries, in LevelDB's format in one keyspace.
func makeDump(t *testing.T, rng *rand.Rand, n int) *dumped {
	t.Helper()
	format := lsm.FormatNative
	if path.Base(t.Name()) == "leveldb" {
		format = lsm.FormatLevelDB
	}
	o := options()
	o.FS, o.Format = vfs.NewMem(), format
	db, err := lsm.Open(dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d := &dumped{format: format, values: map[string]string{}}
	spaces := []string{"default"}
	if format == lsm.FormatNative {
		spaces = []string{"default", "users", "empty", "z"}
	}
	for _, name := range spaces {
		var k lsm.Store = db
		if name != "default" {
			if k, err = db.Keyspace(name, nil); err != nil {
				t.Fatal(err)
			}
		}
		if name == "empty" {
			continue
		}
		b := k.NewBatch()
		for i := range n / len(spaces) {
			key, value := fmt.Sprintf("key%06d", i), strings.Repeat(fmt.Sprint(rng.Uint64()),
				rng.IntN(100))
			b.Put([]byte(key), []byte(value))
			d.keys = append(d.keys, name+"\x00"+key)
			d.values[name+"\x00"+key] = value
		}
		if err := k.Write(b, lsm.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	var w bytes.Buffer
	if _, err := transfer.Dump(context.Background(), db.Inside(), &w,
		transfer.DumpOptions{BlockBytes: 8 << 10, Codec: block.Snappy}); err != nil {
		t.Fatal(err)
	}
	d.bytes = w.Bytes()
	return d
}

// open opens the database into which the dump is loaded.
func (d *dumped) open(fsys vfs.FS) (*lsm.DB, error) {
	o := options()
	o.FS, o.Format = fsys, d.format
	return lsm.Open("to", &o)
}

func (d *dumped) load(db *lsm.DB) error {
	_, err := transfer.Load(context.Background(), db.Inside(), bytes.NewReader(d.bytes),
		transfer.LoadOptions{SyncBytes: loadStep})
	return err
}

// prefix counts the entries of a database, which must be the first ones of the dump.
func (d *dumped) prefix(db *lsm.DB) (n int, err error) {
	for _, name := range db.Keyspaces() {
		var k lsm.Store = db
		if name != "default" {
			if k, err = db.Keyspace(name, nil); err != nil {
				return 0, err
			}
		}
		it := k.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			at := name + "\x00" + string(it.Key())
			if n >= len(d.keys) || d.keys[n] != at || d.values[at] != string(it.Value()) {
				return n,
					errors.Join(fmt.Errorf("entry %d is key %q of %q, with %d bytes", n, it.Key(),
						name, len(it.Value())), it.Close())
			}
			n++
		}
		if err := it.Close(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// check wants a prefix of the dump in a state of the file system, and all of it after the load has
// gone on. resumed says how many entries were loaded then.
func (d *dumped) check(fsys, hooked vfs.FS, ended bool) (there, resumed int, err error) {
	db, err := d.open(hooked)
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	if there, err = d.prefix(db); err != nil {
		return there, 0, err
	}
	_, err = fsys.Stat("to/" + base.LoadName)
	switch marked := err == nil; {
	case ended && (marked || there < len(d.keys)):
		return there, 0, fmt.Errorf("the load had ended; %d entries, marked %v", there, marked)
	case !marked && there > 0 && there < len(d.keys):
		return there, 0, fmt.Errorf("%d of %d entries are there, and nothing says so", there,
			len(d.keys))
	}
	if !ended && there < len(d.keys) || err == nil {
		seq := db.Metrics().LastSequence
		if err := d.load(db); err != nil {
			return there, 0, fmt.Errorf("going on with %d entries: %w", there, err)
		}
		resumed = int(db.Metrics().LastSequence - seq)
	} else if err := d.load(db); !errors.Is(err, lsm.ErrExists) {
		return there, 0, fmt.Errorf("a second load: %w", err)
	}
	n, err := d.prefix(db)
	if err == nil && n < len(d.keys) {
		err = fmt.Errorf("%d of %d entries in the end", n, len(d.keys))
	}
	if _, serr := fsys.Stat("to/" + base.LoadName); err == nil && serr == nil {
		err = errors.New("the marker is left")
	}
	return there, resumed, errors.Join(err, db.Close())
}

// TestLoadStates: what a crash at any call of a load, or of its continuation, leaves is a prefix of
// the dump, and the load goes on from there.
func TestLoadStates(t *testing.T) { testkit.EachFormat(t, testLoadStates) }

func testLoadStates(t *testing.T, share int) {
	rng := rand.New(rand.NewPCG(uint64(testkit.Seed(t)), 1))
	d := makeDump(t, rng, 400)
	every := int64(testkit.Scale(9, 2+share, 1))
	mem := prepared(t, d)
	var (
		mu                              sync.Mutex // calls come from several goroutines
		calls, states, parts, cut, most int64
		ended                           atomic.Bool
		failed                          error
	)
	look := func() {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%every != 0 || failed != nil {
			return
		}
		for i, o := range []vfs.CrashOptions{vfs.DropAll(), vfs.KeepAll(), vfs.RandomBlocks(rng)} {
			over := ended.Load()
			state := mem.CrashClone(o)
			var hooked vfs.FS = state
			var again *vfs.Mem
			if rng.IntN(10) == 0 { // a crash in a later call
				var left atomic.Int64 // calls before it
				left.Store(1 + rng.Int64N(200))
				// calls come from several goroutines here, too
				blocks := rand.New(rand.NewPCG(rng.Uint64(), 3))
				hooked = vfs.NewFault(state, func(vfs.Op) vfs.Outcome {
					if left.Add(-1) == 0 {
						again = state.CrashClone(vfs.RandomBlocks(blocks))
					}
					return vfs.Outcome{}
				})
			}
			there, resumed, err := d.check(state, hooked, over)
			if err == nil && again != nil {
				cut++
				_, _, err = d.check(again, again, false)
			}
			if err != nil {
				failed = fmt.Errorf("call %d, state %d: %w", calls, i, err)
				return
			}
			states++
			if there > 0 && there < len(d.keys) {
				parts++
			}
			most = max(most, int64(resumed-(len(d.keys)-there)))
		}
	}
	db, err := d.open(vfs.NewFault(mem, func(vfs.Op) vfs.Outcome {
		look()
		return vfs.Outcome{}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.load(db); err != nil {
		t.Fatal(err)
	}
	ended.Store(true)
	look()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls, %d states, %d with a part of the dump, %d cut again; at most %d of %d "+
		"entries were loaded twice", calls, states, parts, cut, most, len(d.keys))
	if failed != nil {
		t.Fatal(failed)
	}
	// A marker comes after each loadStep: what is loaded twice is a part of the dump.
	if parts < states/5 || most > int64(len(d.keys)/3) {
		t.Errorf("%d of %d states have a part of the dump; %d of %d entries were loaded twice",
			parts, states, most, len(d.keys))
	}
}

// prepared is a file system with the database into which the dump is loaded.
func prepared(t *testing.T, d *dumped) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	db, err := d.open(mem)
	if err == nil {
		err = errors.Join(db.Close(), mem.SyncDir("/"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return mem
}

// TestLoadFaults: a load whose i-th call fails says so or succeeds, and goes on afterwards, in the
// same opening or the next.
func TestLoadFaults(t *testing.T) { testkit.EachFormat(t, testLoadFaults) }

func testLoadFaults(t *testing.T, share int) {
	rng := rand.New(rand.NewPCG(uint64(testkit.Seed(t)), 2))
	d := makeDump(t, rng, 150)
	source := prepared(t, d)
	failed, again := 0, 0
	step := int64(testkit.Scale(3, 1+share, 1))
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for i := rng.Int64N(step); ; i += step {
			mem := source.Clone()
			at := &fstest.FailAt{At: i, Outcome: vfs.Outcome{Err: errno}}
			hits := func() int64 { return at.Failed() }
			err := d.loadWithFault(vfs.NewFault(mem, at.Hook))
			if err != nil && !errors.Is(err, errno) {
				t.Fatalf("%v at call %d: %v", errno, i, err)
			}
			if err != nil {
				failed++
			}
			there, _, err := d.check(mem, mem, err == nil && hits() == 0)
			if err != nil {
				t.Fatalf("%v at call %d: afterwards: %v", errno, i, err)
			}
			if there > 0 && there < len(d.keys) {
				again++
			}
			if hits() == 0 {
				break
			}
		}
	}
	t.Logf("%d loads failed, %d of them in the middle", failed, again)
	if failed < 10 || again < 3 {
		t.Errorf("%d loads failed, %d of them in the middle", failed, again)
	}
}

// loadWithFault loads, tries again if that fails, and tells the last failure. A failed Open, or a
// database that is read-only, ends it.
func (d *dumped) loadWithFault(fsys vfs.FS) error {
	db, err := d.open(fsys)
	if err != nil {
		return err
	}
	if err = d.load(db); err != nil && !errors.Is(err, lsm.ErrReadOnly) {
		if err2 := d.load(db); err2 == nil {
			n, err3 := d.prefix(db)
			if err3 == nil && n < len(d.keys) {
				err3 = fmt.Errorf("%d of %d entries after a second load", n, len(d.keys))
			}
			if err3 != nil {
				return errors.Join(err3, db.Close())
			}
		}
	}
	return errors.Join(err, db.Close())
}
