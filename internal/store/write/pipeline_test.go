package write

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// fakeDB is an Env without a database: it checks the order of the calls and
// keeps what was applied.
type fakeDB struct {
	t        testing.TB
	step     string // the call before
	inside   atomic.Int32
	logged   [][]byte // batches, copied
	synced   int      // how many of logged are synced
	applied  [][]byte
	keys     map[string]base.SeqNum
	visible  atomic.Uint64
	groups   []int // batches per Append
	syncs    int
	appendFn func() error
	syncFn   func() error
	applyFn  func(batch []byte) error
	roomFn   func(mode Mode) error
}

func newFakeDB(t testing.TB) *fakeDB {
	return &fakeDB{t: t, keys: make(map[string]base.SeqNum)}
}

func (d *fakeDB) env() Env {
	return Env{Append: d.append, Sync: d.sync, Publish: d.publish, Room: d.room}
}

// enter checks that no two calls run at a time.
func (d *fakeDB) enter(step string, after ...string) func() {
	if d.inside.Add(1) != 1 {
		d.t.Errorf("%s runs beside another call", step)
	}
	for _, a := range after {
		if a == d.step {
			after = nil
			break
		}
	}
	if len(after) > 0 {
		d.t.Errorf("%s after %q", step, d.step)
	}
	d.step = step
	return func() { d.inside.Add(-1) }
}

// target is a Target by its Apply.
type target func(batch []byte, seq base.SeqNum) error

func (t target) Apply(batch []byte, seq base.SeqNum) error { return t(batch, seq) }

func (d *fakeDB) room(group [][]byte, bytes int64, entries int, mode Mode) (Target, error) {
	defer d.enter("room")()
	for _, b := range group {
		bytes -= int64(len(b))
		entries -= int(batchrepr.Count(b))
	}
	if bytes != 0 || entries != 0 {
		d.t.Errorf("room for a group of %d batches is off by %d bytes, %d entries", len(group),
			bytes, entries)
	}
	for _, b := range group {
		bytes += int64(len(b))
		entries += int(batchrepr.Count(b))
	}
	if bytes <= int64(entries) || entries == 0 {
		d.t.Errorf("room for %d bytes, %d entries", bytes, entries)
	}
	if d.roomFn != nil {
		return target(d.apply), d.roomFn(mode)
	}
	return target(d.apply), nil
}

func (d *fakeDB) append(group [][]byte) error {
	defer d.enter("append", "room")()
	d.groups = append(d.groups, len(group))
	if d.appendFn != nil {
		if err := d.appendFn(); err != nil {
			return err
		}
	}
	for _, b := range group {
		if err := batchrepr.Validate(b, nil); err != nil {
			d.t.Error(err)
		}
		if n := len(d.logged); n > 0 {
			prev := d.logged[n-1]
			if want := batchrepr.Seq(prev) +
				base.SeqNum(batchrepr.Count(prev)); batchrepr.Seq(b) != want {
				d.t.Errorf("batch with sequence %d, want %d", batchrepr.Seq(b), want)
			}
		}
		d.logged = append(d.logged, append([]byte(nil), b...))
	}
	return nil
}

func (d *fakeDB) sync() error {
	defer d.enter("sync")()
	d.syncs++
	if d.syncFn != nil {
		if err := d.syncFn(); err != nil {
			return err
		}
	}
	d.synced = len(d.logged)
	return nil
}

func (d *fakeDB) apply(b []byte, seq base.SeqNum) error {
	defer d.enter("apply", "append", "sync", "apply")()
	if seq != batchrepr.Seq(b) {
		d.t.Errorf("applied at %d, logged at %d", seq, batchrepr.Seq(b))
	}
	if d.applyFn != nil {
		if err := d.applyFn(b); err != nil {
			return err
		}
	}
	d.applied = append(d.applied, append([]byte(nil), b...))
	it := batchrepr.Read(b)
	for {
		_, _, k, _, ok := it.Next()
		if !ok {
			return nil
		}
		d.keys[string(k)] = seq
		seq++
	}
}

func (d *fakeDB) publish(seq base.SeqNum) {
	defer d.enter("publish", "apply")()
	if uint64(seq) <= d.visible.Load() {
		d.t.Errorf("published %d after %d", seq, d.visible.Load())
	}
	d.visible.Store(uint64(seq))
}

func batchOf(keys ...string) []byte {
	b := batchrepr.Init(nil)
	for _, k := range keys {
		b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte(k), []byte("v"))
	}
	return b
}

func TestOneWriter(t *testing.T) {
	d := newFakeDB(t)
	p := New(d.env(), 41)
	steps := []struct {
		run     func() error
		visible uint64
		syncs   int
	}{
		{func() error { return p.Put(0, base.KindSet, []byte("a"), []byte("1"), 0) }, 42, 0},
		{func() error { return p.Commit(batchOf("b", "c", "d"), Sync) }, 45, 1},
		{func() error { return p.Put(0, base.KindDelete, []byte("a"), nil, Sync|NoStall) }, 46, 2},
		{func() error { return p.Commit(batchOf(), 0) }, 46, 2},
		{func() error { return p.Commit(batchOf(), Sync) }, 46, 3},
		{func() error { return p.Exclusive(func() error { return nil }) }, 46, 3},
	}
	for i, s := range steps {
		if err := s.run(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if d.visible.Load() != s.visible || d.syncs != s.syncs {
			t.Errorf("step %d: visible %d, %d syncs; want %d, %d", i, d.visible.Load(), d.syncs,
				s.visible, s.syncs)
		}
	}
	if d.keys["d"] != 45 || d.keys["a"] != 46 {
		t.Errorf("applied %v", d.keys)
	}
}

func TestFailuresPoison(t *testing.T) {
	boom := errors.New("boom")
	once := func() func() error {
		left := 1
		return func() error {
			if left--; left < 0 {
				return nil
			}
			return boom
		}
	}
	tests := []struct {
		name    string
		arm     func(d *fakeDB)
		logged  int
		applied int
	}{
		{"append", func(d *fakeDB) { d.appendFn = once() }, 0, 0},
		{"sync", func(d *fakeDB) { d.syncFn = once() }, 1, 0},
		{"apply", func(d *fakeDB) {
			f := once()
			d.applyFn = func([]byte) error { return f() }
		}, 1, 0},
		{"panic in apply", func(d *fakeDB) {
			d.applyFn = func([]byte) error { panic(boom) }
		}, 1, 0},
		{"panic in append", func(d *fakeDB) { d.appendFn = func() error { panic(boom) } }, 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := newFakeDB(t)
			p := New(d.env(), 0)
			tc.arm(d)
			err := p.Put(0, base.KindSet, []byte("k"), nil, Sync)
			if !errors.Is(err, base.ErrReadOnly) || !strings.Contains(err.Error(), "boom") {
				t.Fatalf("first failure: %v", err)
			}
			if !strings.HasPrefix(tc.name, "panic") && !errors.Is(err, boom) {
				t.Errorf("cause lost: %v", err)
			}
			if d.visible.Load() != 0 {
				t.Error("published a failed write")
			}
			calls := len(d.groups)
			for i := range 3 {
				if err2 := p.Put(0, base.KindSet, []byte("k"), nil, Mode(i&1)); err2 != err {
					t.Fatalf("later write: %v, want %v", err2, err)
				}
				if err2 := p.Commit(batchOf(), Sync); err2 != err {
					t.Fatalf("later barrier: %v, want %v", err2, err)
				}
			}
			if len(d.logged) != tc.logged || len(d.applied) != tc.applied ||
				len(d.groups) != calls {
				t.Errorf("%d logged, %d applied, %d appends after poison", len(d.logged),
					len(d.applied), len(d.groups)-calls)
			}
			if err := p.Exclusive(func() error { return nil }); err != nil {
				t.Errorf("Exclusive on a poisoned pipeline: %v", err)
			}
		})
	}
}

func TestPoisonFromOutsideFirstCauseWins(t *testing.T) {
	p := New(newFakeDB(t).env(), 0)
	first := errors.New("first")
	p.Poison(first)
	p.Poison(errors.New("second"))
	if err := p.Put(0, base.KindDelete, []byte("k"), nil, 0); err != first || p.Err() != first {
		t.Errorf("got %v", err)
	}
}

// stalls is the room of a database in which writes have to wait.
func stalls(mode Mode) error {
	if mode&NoStall != 0 {
		return base.ErrBusy
	}
	return nil
}

func TestRoomErrorsDoNotPoison(t *testing.T) {
	d := newFakeDB(t)
	p := New(d.env(), 0)
	d.roomFn = stalls
	if err := p.Put(0, base.KindSet, []byte("a"), nil, NoStall); !errors.Is(err, base.ErrBusy) {
		t.Errorf("NoStall: %v", err)
	}
	if err := p.Put(0, base.KindSet, []byte("a"), nil, 0); err != nil {
		t.Errorf("after busy: %v", err)
	}
	if d.visible.Load() != 1 {
		t.Errorf("visible %d: the refused write took a number", d.visible.Load())
	}
}

func TestSequenceNumbersRunOut(t *testing.T) {
	d := newFakeDB(t)
	p := New(d.env(), base.MaxSeqNum-3)
	if err := p.Commit(batchOf("a", "b", "c"), 0); !errors.Is(err, base.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := p.Commit(batchOf("a", "b"), 0); err != nil {
		t.Error(err)
	}
}

func TestPanicInExclusive(t *testing.T) {
	d := newFakeDB(t)
	p := New(d.env(), 0)
	if err := p.Exclusive(func() error { panic("boom") }); !errors.Is(err, base.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
	if err := p.Put(0, base.KindSet, []byte("a"), nil, 0); !errors.Is(err, base.ErrReadOnly) {
		t.Errorf("got %v", err)
	}
}

// blocked, in a bubble, starts n writes while the lead is held, waits until all are queued,
// and returns their errors in the order in which they were queued, once the
// lead is given up.
func blocked(t *testing.T, p *Pipeline, hold func(), writes ...func() error) []error {
	t.Helper()
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	if err := p.Exclusive(func() error {
		for i, w := range writes {
			wg.Add(1)
			go func() { defer wg.Done(); errs[i] = w() }()
			synctest.Wait()
			if p.waiting.Load() < int32(i+1) {
				t.Fatal("write did not queue")
			}
		}
		if hold != nil {
			hold()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	return errs
}

func TestGroup(t *testing.T) {
	big := string(make([]byte, 200<<10))
	put := func(p *Pipeline, k string, mode Mode) func() error {
		return func() error { return p.Put(0, base.KindSet, []byte(k), []byte("v"), mode) }
	}
	tests := []struct {
		name   string
		writes func(p *Pipeline) []func() error
		groups []int
		syncs  int
	}{
		{"one append, one sync", func(p *Pipeline) []func() error {
			return []func() error{put(p, "a", 0), put(p, "b", Sync), put(p, "c", Sync),
				func() error { return p.Commit(batchOf("d", "e"), 0) },
				func() error { return p.Put(0, base.KindDelete, []byte("f"), nil, Sync) }}
		}, []int{5}, 1},
		{"nobody asks for a sync", func(p *Pipeline) []func() error {
			return []func() error{put(p, "a", 0), put(p, "b", 0)}
		}, []int{2}, 0},
		{"a small leader does not wait for large writes", func(p *Pipeline) []func() error {
			return []func() error{put(p, "a", 0), put(p, big, 0), put(p, "c", 0)}
		}, []int{1, 2}, 0},
		{"a large leader takes up to 1 MiB", func(p *Pipeline) []func() error {
			var w []func() error
			for range 7 {
				w = append(w, put(p, big, Sync))
			}
			return w
		}, []int{5, 2}, 2},
		{"larger than every limit", func(p *Pipeline) []func() error {
			return []func() error{put(p, strings.Repeat("x", 3<<20), 0), put(p, "b", 0)}
		}, []int{1, 1}, 0},
		{"exclusive splits a group", func(p *Pipeline) []func() error {
			return []func() error{put(p, "a", 0), put(p, "b", 0),
				func() error { return p.Exclusive(func() error { return nil }) }, put(p, "c", 0)}
		}, []int{2, 1}, 0},
		{"barrier in a group", func(p *Pipeline) []func() error {
			return []func() error{put(p, "a", 0), func() error {
				return p.Commit(batchOf(), Sync)
			}, put(p, "c", 0)}
		}, []int{2}, 1},
		{"barriers alone", func(p *Pipeline) []func() error {
			f := func() error { return p.Commit(batchOf(), Sync) }
			return []func() error{f, f, f}
		}, nil, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFakeDB(t)
				p := New(d.env(), 0)
				for i, err := range blocked(t, p, nil, tc.writes(p)...) {
					if err != nil {
						t.Errorf("write %d: %v", i, err)
					}
				}
				if fmt.Sprint(d.groups) != fmt.Sprint(tc.groups) || d.syncs != tc.syncs {
					t.Errorf("groups %v, %d syncs; want %v, %d", d.groups, d.syncs, tc.groups,
						tc.syncs)
				}
				if len(d.applied) != len(d.logged) || p.waiting.Load() != 0 || p.lead.Load() != 0 {
					t.Errorf("%d logged, %d applied, %d waiting, lead %d", len(d.logged),
						len(d.applied), p.waiting.Load(), p.lead.Load())
				}
			})
		})
	}
}

func TestGroupFailsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDB(t)
		p := New(d.env(), 0)
		d.syncFn = func() error { return errors.New("boom") }
		put := func() error { return p.Put(0, base.KindSet, []byte("k"), nil, Sync) }
		for i, err := range blocked(t, p, nil, put, put, func() error {
			return p.Put(0, base.KindSet, []byte("k"), nil, 0)
		}) {
			if !errors.Is(err, base.ErrReadOnly) {
				t.Errorf("write %d: %v", i, err)
			}
		}
		if len(d.applied) != 0 || d.visible.Load() != 0 {
			t.Error("applied after a failed sync")
		}
	})
}

// TestNoRoomForMembersOfAGroup has no room for two writers of a group, as if compactions of their
// keyspace failed: the others are written, and conditions are asked once.
func TestNoRoomForMembersOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, full := newFakeDB(t), errors.New("full")
		env := d.env()
		env.Room = func(group [][]byte, bytes int64, entries int, mode Mode) (Target, error) {
			if slices.ContainsFunc(group, func(b []byte) bool {
				return strings.Contains(string(b), "full")
			}) {
				return nil, full
			}
			return d.room(group, bytes, entries, mode)
		}
		p := New(env, 0)
		put := func(k string) func() error {
			return func() error { return p.Put(0, base.KindSet, []byte(k), nil, 0) }
		}
		asked := 0
		errs := blocked(t, p, nil, put("a"), put("full 1"), func() error {
			return p.CommitIf(batchOf("c"), 0, holds(func() error { asked++; return nil }))
		}, put("full 2"), put("e"))
		for i, err := range errs {
			if want := i == 1 || i == 3; errors.Is(err, full) != want || !want && err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		}
		if len(d.applied) != 3 || asked != 1 || d.visible.Load() != 3 {
			t.Errorf("%d batches applied, %d visible, the condition was asked %d times",
				len(d.applied), d.visible.Load(), asked)
		}
	})
}

// holds is a Condition by its answer.
type holds func() error

func (h holds) Holds(base.SeqNum) error { return h() }

func TestBusyMembersOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDB(t)
		p := New(d.env(), 0)
		d.roomFn = stalls
		put := func(mode Mode) func() error {
			return func() error { return p.Put(0, base.KindSet, []byte("k"), nil, mode) }
		}
		errs := blocked(t, p, nil, put(NoStall), put(0), put(NoStall), put(0))
		for i, busy := range []bool{true, false, true, false} {
			if errors.Is(errs[i], base.ErrBusy) != busy {
				t.Errorf("write %d: %v", i, errs[i])
			}
		}
		if fmt.Sprint(d.groups) != "[2]" {
			t.Errorf("groups %v", d.groups)
		}
		if errs := blocked(t, p, nil, put(NoStall), put(NoStall)); errs[0] != base.ErrBusy ||
			errs[1] != base.ErrBusy {
			t.Errorf("all busy: %v", errs)
		}
	})
}

func TestStallTurnsNoStallWritersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDB(t)
		p := New(d.env(), 0)
		put := func(mode Mode) func() error {
			return func() error { return p.Put(0, base.KindSet, []byte("k"), nil, mode) }
		}
		errs := blocked(t, p, func() {
			p.BeginStall()
			if n := p.waiting.Load(); n != 2 {
				t.Errorf("%d waiting, want 2", n)
			}
			if err := put(NoStall)(); err != base.ErrBusy {
				t.Errorf("write during the stall: %v", err)
			}
			p.EndStall()
		}, put(0), put(NoStall), put(0), put(NoStall))
		for i, busy := range []bool{false, true, false, true} {
			if errors.Is(errs[i], base.ErrBusy) != busy {
				t.Errorf("write %d: %v", i, errs[i])
			}
		}
		if fmt.Sprint(d.groups) != "[2]" {
			t.Errorf("groups %v", d.groups)
		}
		if err := put(NoStall)(); err != nil {
			t.Errorf("after the stall: %v", err)
		}
	})
}

// TestTorture has many writers at once; each checks that its write is visible
// when acknowledged, and in the end everything acknowledged stands in order.
func TestTorture(t *testing.T) {
	for _, failAt := range []int{0, 300} {
		t.Run(fmt.Sprintf("failAt=%d", failAt), func(t *testing.T) { torture(t, failAt) })
	}
}

func torture(t *testing.T, failAt int) {
	const clients, each = 12, 300
	d := newFakeDB(t)
	appends := 0
	d.appendFn = func() error {
		if appends++; appends == failAt {
			return errors.New("boom")
		}
		return nil
	}
	d.roomFn = func(mode Mode) error {
		if mode&NoStall != 0 && appends%7 == 0 {
			appends++
			return base.ErrBusy
		}
		return nil
	}
	d.syncFn = func() error { runtime.Gosched(); return nil }
	p := New(d.env(), 0)
	var acked, poisoned atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				key := fmt.Sprintf("%02d-%04d", c, i)
				var err error
				var mode Mode
				if i%2 == 0 {
					mode |= Sync
				}
				if i%3 == 0 {
					mode |= NoStall
				}
				n := int64(1)
				switch i % 5 {
				case 0:
					err = p.Commit(batchOf(key, key+"x"), mode)
					n = 2
				case 1:
					err, n = p.Exclusive(func() error { d.enter("exclusive")(); return nil }), 0
				default:
					err = p.Put(0, base.KindSet, []byte(key), []byte("value"), mode)
				}
				switch {
				case err == nil:
					acked.Add(n)
				case errors.Is(err, base.ErrReadOnly):
					poisoned.Add(1)
				case !errors.Is(err, base.ErrBusy):
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if failAt == 0 && poisoned.Load() > 0 || failAt > 0 && poisoned.Load() == 0 {
		t.Errorf("%d writes met poison", poisoned.Load())
	}
	if int64(d.visible.Load()) != acked.Load() || len(d.keys) != int(acked.Load()) {
		t.Errorf("%d acknowledged, %d visible, %d applied", acked.Load(), d.visible.Load(),
			len(d.keys))
	}
	if p.lead.Load() != 0 || p.waiting.Load() != 0 || p.head != nil || p.tail != nil {
		t.Error("pipeline is not idle")
	}
}

func TestNoAllocations(t *testing.T) {
	p := New(nopEnv(), 0)
	key, value := make([]byte, 16), make([]byte, 100)
	batch := batchOf("a", "b")
	if n := testing.AllocsPerRun(1000, func() {
		if p.Put(0, base.KindSet, key, value, 0) != nil ||
			p.Put(0, base.KindDelete, key, nil, Sync) != nil || p.Commit(batch, NoStall) != nil {
			t.Error("failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func nopEnv() Env {
	return Env{
		Append:  func([][]byte) error { return nil },
		Sync:    func() error { return nil },
		Publish: func(base.SeqNum) {},
		Room: func([][]byte, int64, int, Mode) (Target, error) {
			return target(func([]byte, base.SeqNum) error { return nil }), nil
		},
	}
}

// TestNoStallWritersDoNotWaitForOthersRoom has a group wait for room until its
// NoStall writers have returned.
func TestNoStallWritersDoNotWaitForOthersRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, leader := range []Mode{0, NoStall} {
			d := newFakeDB(t)
			p := New(d.env(), 0)
			var refused sync.WaitGroup
			d.roomFn = func(mode Mode) error {
				if mode&NoStall != 0 {
					return base.ErrBusy
				}
				refused.Wait()
				return nil
			}
			put := func(mode Mode) func() error {
				if mode&NoStall != 0 {
					refused.Add(1)
				}
				return func() error {
					if mode&NoStall != 0 {
						defer refused.Done()
					}
					return p.Put(0, base.KindSet, []byte("k"), nil, mode)
				}
			}
			errs := blocked(t, p, nil, put(leader), put(NoStall), put(0), put(NoStall))
			for i, busy := range []bool{leader == NoStall, true, false, true} {
				if errors.Is(errs[i], base.ErrBusy) != busy {
					t.Errorf("leader mode %d, write %d: %v", leader, i, errs[i])
				}
			}
		}
	})
}
