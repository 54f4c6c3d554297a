// Package memory takes memory away from databases: the i-th allocation off the Go
// heap fails, for all i, once or from there on, in scripts of a database's life.
// Every failure is ErrNoMemory, acknowledged writes are there afterwards, no resource leaks, and
// work resumes when there is memory.
//
// Faults hit the whole process: no other test may run in parallel.
package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

const (
	dir        = "db"
	maxBatches = 400
)

var errRefused = errors.New("the system refuses, says the test")

// trial is one run of a workload in which allocation number at fails, and with
// forever all that follow.
type trial struct {
	w       *workload
	at      int64
	forever bool

	count  atomic.Int64
	off    atomic.Bool // no faults for now
	fs     *vfs.Mem
	opts   lsm.Options
	ledger *testkit.Ledger
	kinds  *testkit.Kinds // of one of the workloads
	db     *lsm.DB
	last   int
	okay   map[int]bool // acknowledged batches
}

func (t *trial) String() string {
	how := "once"
	if t.forever {
		how = "for ever"
	}
	return fmt.Sprintf("workload %s, allocation %d, %s", t.w.name, t.at, how)
}

func (t *trial) fault(int) error {
	if t.off.Load() {
		return nil
	}
	if n := t.count.Add(1); n == t.at || n > t.at && t.forever {

		return errRefused
	}
	return nil
}

// short passes over what may come out of a shortage: nothing, or ErrNoMemory.
// Where a writer does not wait, the shortage of a flush shows as ErrBusy.
func short(op string, err error) error {
	if err == nil || errors.Is(err, lsm.ErrNoMemory) || errors.Is(err, lsm.ErrBusy) {
		return nil
	}
	return fmt.Errorf("%s: %w", op, err)
}

var errNoDatabase = errors.New("no database")

// open opens the database, at the second try at the latest when the fault comes once.
func (t *trial) open() error {
	for try := 0; ; try++ {
		o := t.opts
		o.FS = t.fs
		if t.w.name == sharedName {
			o.Resources = lsm.NewResources(lsm.ResourcesOptions{Memory: 8 << 20, BackgroundJobs: 1})
		}
		db, err := lsm.Open(dir, &o)
		if o.Resources != nil {
			o.Resources.Close() // the database keeps them
		}
		if err == nil {
			if err = t.kinds.Open(db); err == nil {
				t.db = db
				return nil
			}
			err = errors.Join(err, db.Close())
		}
		if err := short("open", err); err != nil {
			return err
		}
		if t.forever || try > 0 {
			return errNoDatabase
		}
	}
}

func (t *trial) close() error {
	if t.db == nil {
		return nil
	}
	err := t.db.Close()
	t.db = nil
	return short("close", err)
}

// kill leaves the database as it is and goes on with its files as a killed process
// leaves them.
func (t *trial) kill() error {
	killed := t.fs.CrashClone(vfs.KeepAll())
	err := t.close()
	t.fs = killed
	return err
}

func (t *trial) write(n int) error {
	for range n {
		t.last++
		err := t.writeBatch(lsm.NoStall)
		t.okay[t.last] = err == nil
		if err := short("write", err); err != nil {
			return err
		}
	}
	return nil
}

// writeBatch writes the newest batch.
func (t *trial) writeBatch(mode lsm.WriteMode) error {
	if t.kinds != nil {
		return t.kinds.Write(t.db, t.ledger, t.last, mode, nil)
	}
	b := lsm.NewBatch()
	t.ledger.Fill(b, t.last)
	return t.db.Write(b, mode)
}

// check wants the acknowledged batches, and no others.
func (t *trial) check() error {
	is := func(i int) bool { return t.okay[i] }
	if err := t.ledger.CheckSparse(t.db, t.last, is, is); err != nil {
		return err
	}
	return t.kinds.Check(t.db, t.last, is)
}

func (t *trial) flush() error   { return short("flush", t.db.Flush()) }
func (t *trial) compact() error { return short("compact", t.db.CompactRange(nil, nil)) }

// read wants what was acknowledged, or an error.
func (t *trial) read() error { return short("read", t.check()) }

// feed wants a feed of changes to make what the database has.
func (t *trial) feed() error { return short("changes", testkit.CheckRebuilt(t.db)) }

// getMany reads the batches' keys side by side.
func (t *trial) getMany() error {
	var keys [][]byte
	for i := 1; i <= t.last; i++ {
		keys = append(keys, fmt.Appendf(nil, "n%06d", i))
	}
	r := new(lsm.MultiResult)
	err := t.db.MultiGet(keys, r)
	for i := 0; err == nil && i < t.last; i++ {
		if _, found := r.Value(i); found != t.okay[i+1] {
			err = fmt.Errorf("batch %d: present %v", i+1, found)
		}
	}
	return short("multiget", err)
}

func (t *trial) repair() error {
	for try := 0; ; try++ {
		o := t.opts
		o.FS = t.fs
		_, err := lsm.Repair(dir, &o)
		if err == nil || t.forever || try > 0 {
			return short("repair", err)
		}
		if err := short("repair", err); err != nil {
			return err
		}
	}
}

// run executes the workload and checks what is left. done says that there was no
// such allocation.
func (t *trial) run(seed int64) (done bool, err error) {
	t.fs, t.okay = vfs.NewMem(), map[int]bool{}
	t.ledger = testkit.Prepared(testkit.Ledger{Seed: seed, MaxValue: t.w.maxValue, Sparse: true},
		maxBatches)
	t.opts = options()
	if t.w.options != nil {
		t.w.options(&t.opts)
	}
	if t.w.name == kindsName {
		t.kinds = &testkit.Kinds{Seed: seed}
		t.kinds.Enable(&t.opts)
	}
	before := offheap.InUse()
	offheap.SetFault(t.fault)
	defer offheap.SetFault(nil)
	err = hang.InTime(func() error {
		err := t.w.run(t)
		if errors.Is(err, errNoDatabase) {
			err = nil
		}
		done = t.count.Load() < t.at
		t.off.Store(true)
		// A failed trial has its database open: what that holds is no part of the next trial.
		return errors.Join(err, t.resume(), t.close())
	})
	if err == nil {
		err = given(before)
	}
	if err != nil {
		return done, fmt.Errorf("seed %d, %v: %w", seed, t, err)
	}
	return done, nil
}

// resume goes on without faults: with the open database, then anew.
func (t *trial) resume() error {
	if t.db == nil {
		if err := t.open(); err != nil {
			return fmt.Errorf("opening when there is memory again: %w", err)
		}
	}
	if err := t.db.Resume(); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	t.last++
	t.okay[t.last] = true
	if err := t.writeBatch(lsm.Sync); err != nil {
		return fmt.Errorf("a write when there is memory again: %w", err)
	}
	if err := t.db.Flush(); err != nil {
		return fmt.Errorf("a flush when there is memory again: %w", err)
	}
	for _, when := range []string{"still open", "reopened"} {
		if err := t.check(); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		err := t.db.Close()
		t.db = nil
		if err != nil {
			return err
		}
		if when == "still open" {
			if err := t.open(); err != nil {
				return fmt.Errorf("reopening: %w", err)
			}
		}
	}
	return nil
}

// given wants the memory in use to be what it was. Goroutines that are on their
// way out may take a moment.
func given(before int64) error {
	var now int64
	if hang.Until(func() bool { now = offheap.InUse(); return now == before }) {
		return nil
	}
	return fmt.Errorf("%d bytes off the heap before, %d after", before, now)
}

// Faults runs the named workloads with every allocation failing, once and for ever.
// stride > 1 takes only every stride-th; the seed says from which on. It returns
// how many trials that was.
func Faults(seed int64, names []string, stride int) (trials int, err error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 17))
	for _, name := range names {
		for i := range workloads {
			if workloads[i].name != name {
				continue
			}
			for _, forever := range []bool{false, true} {
				for at := int64(1 + rng.IntN(stride)); ; at += int64(stride) {
					trials++
					done, err := (&trial{w: &workloads[i], at: at, forever: forever}).run(seed)
					if err != nil {
						return trials, err
					}
					if done {
						break
					}
				}
			}
		}
	}
	return trials, nil
}
