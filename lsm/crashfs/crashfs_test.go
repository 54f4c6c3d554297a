package crashfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// ledger is a program that writes batches of two keys and notes what it was told.
type ledger struct {
	format lsm.Format
	mode   lsm.WriteMode
	apart  bool // two writes instead of a batch
	begun  int  // batches
	acked  int  // of these, acknowledged
}

const batches = 4

func (l *ledger) run(fs *crashfs.FS) {
	l.begun, l.acked = 0, 0
	db, err := lsm.Open("/db", &lsm.Options{FS: fs, Format: l.format, WriteBufferSize: 64 << 10})
	if err != nil {
		return
	}
	defer db.Close()
	for i := range batches {
		l.begun++
		if err := l.write(db, i); err != nil {
			return
		}
		l.acked++
	}
	if db.Flush() == nil {
		db.CompactRange(nil, nil)
	}
}

func (l *ledger) write(db *lsm.DB, i int) error {
	if l.apart {
		return errors.Join(db.Put(key("a", i), nil, l.mode), db.Put(key("b", i), nil, l.mode))
	}
	b := lsm.NewBatch()
	b.Put(key("a", i), nil)
	b.Put(key("b", i), nil)
	return db.Write(b, l.mode)
}

func key(s string, i int) []byte { return fmt.Appendf(nil, "%s%d", s, i) }

// check wants a prefix of the batches, each whole, with all that were acknowledged.
func (l *ledger) check(disk *crashfs.FS) error {
	db, err := lsm.Open("/db", &lsm.Options{FS: disk})
	if err != nil {
		return err
	}
	defer db.Close()
	n := 0
	for i := range batches {
		a, err := db.Has(key("a", i))
		b, err2 := db.Has(key("b", i))
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		switch {
		case a != b:
			return fmt.Errorf("batch %d is torn", i)
		case a && n < i:
			return fmt.Errorf("batch %d is there, %d is not", i, n)
		case a:
			n++
		}
	}
	if n < l.acked || n > l.begun {
		return fmt.Errorf("%d batches, %d were begun and %d acknowledged", n, l.begun, l.acked)
	}
	return nil
}

// first is the first state that check refuses, and how many states there were.
func (l *ledger) first(p *crashfs.Plan) (bad error, states int) {
	for c := range p.Crashes(l.run) {
		if states++; bad == nil {
			if err := l.check(c.FS); err != nil {
				bad = fmt.Errorf("%v: %w", c, err)
			}
		}
	}
	return bad, states
}

// TestCrashes: a sound program passes in both formats, and planted faults are found.
func TestCrashes(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		sound := &ledger{format: format, mode: lsm.Sync}
		bad, states := sound.first(&crashfs.Plan{Seed: 7})
		if bad != nil || states < 150 || sound.acked != batches {
			t.Errorf("%v: %d states, the last run wrote %d batches: %v", format, states,
				sound.acked, bad)
		}
		apart := &ledger{format: format, mode: lsm.Sync, apart: true}
		if bad, _ := apart.first(&crashfs.Plan{Losses: []crashfs.Loss{crashfs.KeepAll}}); bad ==
			nil || !strings.Contains(bad.Error(), "torn") {
			t.Errorf("%v: two writes instead of a batch: %v", format, bad)
		}
		unsynced := &ledger{format: format, mode: lsm.NoSync}
		if bad, _ := unsynced.first(&crashfs.Plan{Losses: []crashfs.Loss{crashfs.KeepAll}}); bad !=
			nil {
			t.Errorf("%v: no sync, the process dies: %v", format, bad)
		}
		if bad, _ := unsynced.first(
			&crashfs.Plan{Losses: []crashfs.Loss{crashfs.DropUnsynced}}); bad == nil ||
			!strings.Contains(bad.Error(), "acknowledged") {
			t.Errorf("%v: no sync, the power is cut: %v", format, bad)
		}
	}
}

// TestFaults: nothing acknowledged is lost by a call that fails, every call is tried, and a program
// that ignores errors is found.
func TestFaults(t *testing.T) {
	sound := &ledger{mode: lsm.Sync}
	tried, calls := 0, map[int]bool{}
	for f := range crashfs.Faults(sound.run) {
		tried++
		calls[f.Call] = true
		if err := sound.check(f.FS); err != nil {
			t.Fatalf("%v: %v", f, err)
		}
	}
	if len(calls) < 50 || tried < 3*len(calls) {
		t.Errorf("%d faults at %d calls", tried, len(calls))
	}
	for i := range len(calls) {
		if !calls[i+1] {
			t.Fatalf("call %d was not tried", i+1)
		}
	}
	deaf := &ledger{mode: lsm.Sync}
	program := func(fs *crashfs.FS) {
		deaf.run(fs)
		deaf.acked = deaf.begun // whatever Write said
	}
	found := false
	for f := range (&crashfs.Plan{Errors: []error{syscall.ENOSPC}}).Faults(program) {
		found = found || deaf.check(f.FS) != nil
	}
	if !found {
		t.Error("a program that does not hear errors passes")
	}
}

// TestPowerCut: after the cut every call fails, the call at the cut included, and no byte reaches
// the disk.
func TestPowerCut(t *testing.T) {
	disk := crashfs.New()
	disk.CutAt(3)
	f, err := disk.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "before"); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, crashfs.ErrPowerCut) {
		t.Errorf("the third call: %v", err)
	}
	if _, err := disk.Open("/f"); !errors.Is(err, crashfs.ErrPowerCut) {
		t.Errorf("a read afterwards: %v", err)
	}
	if err := disk.Remove("/f"); !errors.Is(err, crashfs.ErrPowerCut) {
		t.Errorf("a removal afterwards: %v", err)
	}
	if all, changes := disk.Calls(); all != 3 || changes != 3 {
		t.Errorf("%d calls, %d of them changes, want those before the cut and the one at it", all,
			changes)
	}
	if _, err := disk.Crash(crashfs.DropUnsynced, 0).Stat("/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of an unsynced directory: %v", err)
	}
	if got := content(t, disk.Crash(crashfs.KeepAll, 0)); got != "before" {
		t.Errorf("nothing lost: %q", got)
	}
	sizes := map[int]bool{}
	for seed := range uint64(40) {
		got := content(t, disk.Crash(crashfs.TornWrite, seed))
		if !strings.HasPrefix("before", got) || got == "before" {
			t.Fatalf("seed %d: a torn write left %q", seed, got)
		}
		sizes[len(got)] = true
		if again := content(t, disk.Crash(crashfs.TornWrite, seed)); again != got {
			t.Errorf("seed %d: once %q, once %q", seed, got, again)
		}
	}
	if len(sizes) != len("before") {
		t.Errorf("torn at %d places", len(sizes))
	}
}

func content(t *testing.T, disk *crashfs.FS) string {
	t.Helper()
	f, err := disk.Open("/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, f.Size())
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(b)
}

// TestFailAt: a call fails once, or for ever until FailAt(0).
func TestFailAt(t *testing.T) {
	disk := crashfs.New()
	try := func() error { _, err := disk.List("/"); return err }
	disk.FailAt(2, syscall.EIO, false)
	if a, b, c := try(), try(), try(); a != nil || !errors.Is(b, syscall.EIO) || c != nil {
		t.Errorf("once: %v, %v, %v", a, b, c)
	}
	disk.FailAt(4, syscall.ENOSPC, true)
	if a, b := try(), try(); !errors.Is(a, lsm.ErrNoSpace) || !errors.Is(b, lsm.ErrNoSpace) {
		t.Errorf("for ever: %v, %v", a, b)
	}
	disk.FailAt(0, nil, false)
	if err := try(); err != nil {
		t.Error(err)
	}
}

// TestEvery: with a distance, other calls are tried with another seed, and all with some.
func TestEvery(t *testing.T) {
	program := func(fs *crashfs.FS) {
		for i := range 10 {
			fs.MkdirAll(fmt.Sprint("/", i))
		}
	}
	tried := map[int]int{}
	for seed := range uint64(3) {
		p := &crashfs.Plan{Every: 3, Seed: seed, Losses: []crashfs.Loss{crashfs.RandomBlocks}}
		for c := range p.Crashes(program) {
			tried[c.Call]++
			names, err := c.FS.List("/")
			if err != nil || len(names) > 10 {
				t.Errorf("%v: %v, %v", c, names, err)
			}
		}
	}
	for call := range 11 {
		if want := map[bool]int{true: 3, false: 1}[call == 0]; tried[call] != want {
			t.Errorf("call %d was tried %d times", call, tried[call])
		}
	}
}
