// Package callbacks breaks what a user plugs into a database: the comparer, the merge operator, the
// listener, the logger, the file system and the compaction filter panic, block, or call the
// database, Close included, at any of their calls in a scripted life of a database. Nothing that
// was acknowledged is lost, nothing hangs or crashes, and the cause is told.
package callbacks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// Plug is something that the user plugs in.
type Plug int

// The plugs.
const (
	Comparer Plug = iota
	Listener
	Logger
	FileSystem
	Filter
	Merge
	Plugs
)

// Act is what a plug does at one of its calls.
type Act int

// The acts.
const (
	Panic Act = iota
	// until the script has ended, or, where the database has to wait, until others have gone on
	Block
	CallBack // into the database, Close included
	Acts
)

func (p Plug) String() string {
	return [...]string{"comparer", "listener", "logger", "file system", "compaction filter",
		"merge operator"}[p]
}

func (a Act) String() string { return [...]string{"panics", "blocks", "calls back"}[a] }

// mark is in every panic, and so in everything that tells of one.
const mark = "the user's own panic"

const dir = "db"

// trial is one life of a database, in which the at-th call of a plug acts.
type trial struct {
	plug  Plug
	act   Act
	at    int64
	large int64 // Options.LargeValue
	calls [Plugs]atomic.Int64

	mem   *vfs.Mem
	full  atomic.Bool // creating a table fails, once
	db    atomic.Pointer[lsm.DB]
	ended chan struct{} // the script has
	acted atomic.Bool

	mu   sync.Mutex
	told []string // errors, events and log records
	busy sync.WaitGroup

	step  int
	acked map[string]int // key -> last step that wrote it and was acknowledged
	tried map[string]int // key -> last step that tried to
}

// call is made by every call of a plug.
func (t *trial) call(p Plug) {
	if n := t.calls[p].Add(1) - 1; p != t.plug || n != t.at {
		return
	}
	t.acted.Store(true)
	switch t.act {
	case Panic:
		panic(mark)
	case Block:
		if p == Listener || p == Logger {
			<-t.ended // nobody waits for these
			return
		}
		for range 1000 { // others go on as far as they can
			runtime.Gosched()
		}
	case CallBack:
		if p == Listener || p == Logger || p == Filter {
			t.callDatabase() // what would wait for the filter fails with ErrInUse
			return
		}
		// The database waits for these, with locks held: they may not wait for it.
		t.busy.Add(1)
		go func() { defer t.busy.Done(); t.callDatabase() }()
	}
}

func (t *trial) callDatabase() {
	db := t.db.Load()
	if db == nil {
		return // Open has not returned
	}
	_ = db.Metrics()
	_, err := db.Get([]byte("k001"), nil)
	t.tell(err)
	it := db.Iter(nil)
	it.First()
	t.tell(it.Close())
	t.tell(db.Put([]byte("callback"), nil, lsm.NoSync))
	t.tell(db.Flush())
	t.tell(db.Resume())
	t.tell(db.Close())
}

func (t *trial) tell(err error) error {
	if err != nil {
		t.mu.Lock()
		t.told = append(t.told, err.Error())
		t.mu.Unlock()
	}
	return err
}

// Enabled, Handle, WithAttrs and WithGroup make the trial a slog.Handler.
func (t *trial) Enabled(context.Context, slog.Level) bool { return true }

// Handle takes a record.
func (t *trial) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		_ = t.tell(errors.New(a.Value.String()))
		return true
	})
	t.call(Logger)
	return nil
}

// WithAttrs returns t.
func (t *trial) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup returns t.
func (t *trial) WithGroup(string) slog.Handler { return t }

func comparer(call func()) *lsm.Comparer {
	c := *lsm.ReverseBytewiseComparer
	compare := c.Compare
	return &lsm.Comparer{Name: "callbacks", Compare: func(a, b []byte) int {
		call()
		return compare(a, b)
	}}
}

// last is a merge operator under which a merge is a put.
func last(call func()) *lsm.MergeOperator {
	return &lsm.MergeOperator{
		Name: "callbacks.Last",
		Full: func(dst, _, _ []byte, operands [][]byte) ([]byte, error) {
			call()
			return append(dst, operands[len(operands)-1]...), nil
		},
		Partial: func(dst, _, _, right []byte) ([]byte, bool) {
			call()
			return append(dst, right...), true
		},
	}
}

func (t *trial) options() *lsm.Options {
	event := func(err error) { _ = t.tell(err); t.call(Listener) }
	return &lsm.Options{
		Comparer:      comparer(func() { t.call(Comparer) }),
		MergeOperator: last(func() { t.call(Merge) }),
		Logger:        slog.New(t),
		CompactionFilter: &lsm.CompactionFilter{Name: "callbacks",
			Filter: func(_ int, key, value []byte) (lsm.FilterDecision, error) {
				t.call(Filter)
				return lsm.FilterChange(slices.Clone(value)), nil
			}},
		FS: vfs.NewFault(t.mem, func(op vfs.Op) vfs.Outcome {
			t.call(FileSystem)
			if op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable &&
				t.full.Swap(false) {
				return vfs.Outcome{Err: syscall.ENOSPC}
			}
			return vfs.Outcome{}
		}),
		Events: &lsm.EventListener{
			FlushBegin:      func() { event(nil) },
			FlushEnd:        func(i lsm.FlushInfo) { event(i.Err) },
			CompactionBegin: func(lsm.CompactionInfo) { event(nil) },
			CompactionEnd:   func(i lsm.CompactionInfo) { event(i.Err) },
			WriteStall:      func(lsm.StallInfo) { event(nil) },
			BackgroundError: event,
			ReadOnly:        event,
		},
		WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10, MaxMemtables: 2, L0Compaction: 2,
		CacheSize: 1 << 20, MaxBackgroundJobs: 2, LargeValue: t.large,
	}
}

// write puts or deletes n keys. A failure is told, and the script goes on.
func (t *trial) write(rng *rand.Rand, n int) {
	db := t.db.Load()
	for range n {
		t.step++
		k := fmt.Sprintf("k%03d", rng.IntN(60))
		t.tried[k] = t.step
		var err error
		if t.step%5 == 0 {
			err = db.Delete([]byte(k), lsm.NoSync)
		} else {
			value := fmt.Appendf(nil, "%d %s", t.step, strings.Repeat("x", 3000))
			if err = lsm.ErrNeedsNative; t.step%3 == 0 {
				err = db.Merge([]byte(k), value, lsm.NoSync)
			}
			if errors.Is(err, lsm.ErrNeedsNative) {
				err = db.Put([]byte(k), value, lsm.WriteMode(t.step%7/6))
			}
		}
		if t.tell(err) == nil {
			t.acked[k] = t.step
		}
	}
}

// open opens the database, twice if need be: a plug acts only once.
func (t *trial) open() bool {
	for range 3 {
		db, err := lsm.Open(dir, t.options())
		if t.tell(err) == nil {
			t.db.Store(db)
			return true
		}
		t.mem = t.mem.Clone() // without the lock that a panic in its Close may have left
	}
	return false
}

func (t *trial) read() {
	db := t.db.Load()
	for i := range 60 {
		_, err := db.Get(fmt.Appendf(nil, "k%03d", i), nil)
		if !errors.Is(err, lsm.ErrNotFound) {
			_ = t.tell(err)
		}
	}
	snap := db.Snapshot()
	it := db.Iter(&lsm.IterOptions{Snapshot: snap})
	for ok := it.First(); ok; ok = it.Next() {
	}
	t.tell(it.Err())
	for ok := it.SeekLT([]byte("k030")); ok; ok = it.Prev() {
	}
	t.tell(it.Err())
	t.tell(it.Close())
	t.tell(snap.Close())
}

// script is a life of a database: created, filled, flushed, compacted, read, closed,
// recovered, repaired.
func (t *trial) script(seed int64) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 18))
	for life := range 2 {
		if !t.open() {
			return errors.New("three openings failed")
		}
		db := t.db.Load()
		t.write(rng, 40)
		t.full.Store(life == 1)
		t.tell(db.Flush())
		t.tell(db.Resume())
		t.write(rng, 60)
		t.tell(db.Flush())
		t.read()
		t.tell(db.CompactRange(nil, nil))
		t.write(rng, 12) // for the log to keep
		t.read()
		if err := t.checkPoison(db); err != nil {
			return err
		}
		t.tell(db.Close())
		t.db.Store(nil)
		t.mem = t.mem.Clone()
	}
	_, err := lsm.Repair(dir, t.options())
	t.tell(err)
	t.mem = t.mem.Clone()
	return nil
}

// checkPoison requires that a database that a panic made read-only says so wherever
// it is asked.
func (t *trial) checkPoison(db *lsm.DB) error {
	said := db.Metrics().ReadOnly
	if said == nil || errors.Is(said, lsm.ErrClosed) {
		return nil
	}
	for _, err := range []error{said, db.Put([]byte("k"), nil, lsm.NoSync), db.Flush(),
		db.Resume()} {
		if err == nil || t.act == Panic && !errors.Is(err, lsm.ErrClosed) &&
			!strings.Contains(err.Error(), mark) {
			return fmt.Errorf("a panic made the database read-only, and it says %v", err)
		}
	}
	return nil
}

// check opens what is left with plugs in order and requires every acknowledged
// write, or a later one of its key.
func (t *trial) check() error {
	db, err := lsm.Open(dir, &lsm.Options{FS: t.mem.Clone(), Comparer: comparer(func() {}),
		MergeOperator: last(func() {})})
	if err != nil {
		return fmt.Errorf("reopening: %w", err)
	}
	defer db.Close()
	for k, step := range t.acked {
		v, err := db.Get([]byte(k), nil)
		var got int
		switch {
		case errors.Is(err, lsm.ErrNotFound):
			if step%5 != 0 && (t.tried[k] == step || !t.deletedSince(k, step)) {
				return fmt.Errorf("%s: the acknowledged write of step %d is lost", k, step)
			}
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", k, err)
		}
		if _, err := fmt.Sscan(string(v[:min(len(v), 8)]), &got); err != nil || got < step {
			return fmt.Errorf("%s: step %d is there, step %d was acknowledged", k, got, step)
		}
	}
	return nil
}

// deletedSince reports whether an unacknowledged deletion may have come after step.
func (t *trial) deletedSince(k string, step int) bool { return t.tried[k] > step }

// Run plays a script in which the at-th call of a plug acts; with an odd seed the values are large
// ones, in logs. calls is how many calls each plug got.
func Run(seed int64, plug Plug, act Act, at int64) (calls [Plugs]int64, err error) {
	t := &trial{plug: plug, act: act, at: at, large: seed & 1 * 2000, mem: vfs.NewMem(),
		ended: make(chan struct{}), acked: map[string]int{}, tried: map[string]int{}}
	err = hang.InTime(func() error {
		err := t.script(seed)
		close(t.ended)
		t.busy.Wait()
		return err
	})
	if errors.Is(err, hang.Error) {
		return calls, t.describe(seed, err)
	}
	for p := range calls {
		calls[p] = t.calls[p].Load()
	}
	if err == nil {
		err = t.check()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && act == Panic && t.acted.Load() && !strings.Contains(strings.Join(t.told, "\n"),
		mark) {
		err = fmt.Errorf("nothing tells of the panic; told was %.500q", t.told)
	}
	return calls, t.describe(seed, err)
}

func (t *trial) describe(seed int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("seed %d: the %v %v at call %d: %w", seed, t.plug, t.act, t.at, err)
}

// All plays the script for every act of every plug, with values in logs and without, at most sites
// calls of each plug spread evenly (0: every call), and for a blocking listener or logger, for
// which Close waits a second, at most an eighth of them. It returns how many it played.
func All(seed int64, sites int64) (played int, err error) {
	for _, seed := range []int64{seed &^ 1, seed | 1} {
		n, err := each(seed, (sites+1)/2)
		played += n
		if err != nil {
			return played, err
		}
	}
	return played, nil
}

func each(seed, sites int64) (played int, err error) {
	calls, err := Run(seed, Plugs, Acts, -1)
	if err != nil {
		return 0, err
	}
	for plug := range Plugs {
		for act := range Acts {
			n := calls[plug]
			want := n
			if sites > 0 {
				want = min(n, sites)
			}
			if act == Block && (plug == Listener || plug == Logger) {
				want = (want + 7) / 8
			}
			for i := range want {
				if _, err := Run(seed, plug, act, i*n/want); err != nil {
					return played, err
				}
				played++
			}
		}
	}
	return played, nil
}
