package raftlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// small makes flushes, compactions and values that stay in logs in short histories.
var small = lsm.Options{WriteBufferSize: 64 << 10, WALPreallocate: 64 << 10, CacheSize: -1,
	LargeValue: 500}

func open(t testing.TB, dir string, d *lsm.Options) *Store {
	t.Helper()
	s, err := Open(dir, &Options{Database: d})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHistories compares random histories, with openings in between, with the model.
func TestHistories(t *testing.T) {
	from := seed.Of(t)
	history(t, uint64(from), 60, t.TempDir(), &small)
	for i := range seed.Scale(4, 6, 400) {
		d := small
		d.FS = crashfs.New()
		history(t, uint64(from)+uint64(i), 300, "/raft", &d)
	}
}

func history(t *testing.T, seed uint64, steps int, dir string, d *lsm.Options) {
	r, m := rand.New(rand.NewPCG(seed, 1)), newModel()
	s := open(t, dir, d)
	for i := range steps {
		o := next(r, m, 12)
		if r.IntN(30) == 0 {
			if o = (op{kind: "reopen"}); s.Close() != nil {
				t.Fatal("close")
			}
			s = open(t, dir, d)
		} else if err := o.on(s); err != nil {
			t.Fatalf("seed %d, step %d, %v: %v", seed, i, o, err)
		}
		m.apply(o)
		if err := m.diff(s); i%5 == 0 && err != nil {
			t.Fatalf("seed %d, step %d, %v: %v", seed, i, o, err)
		}
	}
	if err := errors.Join(m.diff(s), s.Close()); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// script is a short history with every kind of call, on a file system in memory.
type script struct {
	ops    []op
	states []*model // states[i] is the model after i calls
}

func newScript(seed uint64, steps, most int) *script {
	r, m := rand.New(rand.NewPCG(seed, 2)), newModel()
	sc := &script{states: []*model{m}}
	for range steps {
		o := next(r, m, most)
		m = m.clone()
		m.apply(o)
		sc.ops, sc.states = append(sc.ops, o), append(sc.states, m)
	}
	return sc
}

// check opens the files left after done calls that returned nil. The log has the state after these
// calls, or the state after the interrupted call as well.
func (sc *script) check(fs lsm.FS, dir string, done int) error {
	d := small
	d.FS = fs
	s, err := Open(dir, &Options{Database: &d})
	if err != nil {
		return err
	}
	err = sc.states[done].diff(s)
	if err != nil && done < len(sc.ops) && sc.states[done+1].diff(s) == nil {
		err = nil
	}
	if err == nil { // the log goes on
		last, _ := s.LastIndex()
		next := entry(last+1, 99, 10)
		m := newModel()
		m.logs[next.Index] = next
		err = errors.Join(s.StoreLog(next), m.same(s, next.Index))
	}
	return errors.Join(err, s.Close())
}

// TestCrashes cuts the power before every call of the file system: each change that returned is
// there, and one that was interrupted is there as a whole or not at all.
func TestCrashes(t *testing.T) {
	from := uint64(seed.Of(t))
	states := 0
	for i := range uint64(seed.Scale(1, 3, 100)) {
		sc := newScript(from+i, 40, 5)
		done := 0
		run := func(fs *crashfs.FS) {
			d := small
			d.FS, done = fs, 0
			s, err := Open("/raft", &Options{Database: &d})
			for err == nil && done < len(sc.ops) {
				if err = sc.ops[done].on(s); err == nil {
					done++
				}
			}
			if s != nil {
				_ = s.Close()
			}
		}
		plan := crashfs.Plan{Every: seed.Scale(3, 1, 1), Seed: from}
		for crash := range plan.Crashes(run) {
			states++
			if err := sc.check(crash.FS, "/raft", done); err != nil {
				t.Fatalf("seed %d, %v, after %d calls: %v", from+i, crash, done, err)
			}
		}
	}
	t.Logf("%d states", states)
}

// TestReturnedIsDurable cuts the power right behind each call of a history.
func TestReturnedIsDurable(t *testing.T) {
	from := uint64(seed.Of(t))
	sc := newScript(from, 100, 5)
	fs := crashfs.New()
	d := small
	d.FS = fs
	s := open(t, "/raft", &d)
	for i, o := range sc.ops {
		must(t, o.on(s))
		if err := sc.exactly(fs.Crash(crashfs.DropUnsynced, from), i+1); err != nil {
			t.Fatalf("seed %d, behind call %d, %v: %v", from, i+1, o, err)
		}
	}
	must(t, s.Close())
}

// exactly opens a disk on which the log is that behind done calls.
func (sc *script) exactly(fs lsm.FS, done int) error {
	d := small
	d.FS = fs
	s, err := Open("/raft", &Options{Database: &d})
	if err != nil {
		return err
	}
	return errors.Join(sc.states[done].diff(s), s.Close())
}

// TestFaults fails every call of the file system: the call that met it returns an error, reads show
// the state before or behind it, and a shortage that is over leaves a store that goes on.
func TestFaults(t *testing.T) {
	from := uint64(seed.Of(t))
	sc := newScript(from, 40, 5)
	var done int
	var wrong error
	run := func(fs *crashfs.FS) {
		d := small
		d.FS, done, wrong = fs, 0, nil
		s, err := Open("/raft", &Options{Database: &d})
		if err != nil {
			return
		}
		for done < len(sc.ops) {
			o := sc.ops[done]
			if err = o.on(s); err != nil {
				wrong = errors.Join(wrong, sc.afterFault(s, done, err))
				if err = o.on(s); err != nil {
					break
				}
			}
			done++
		}
		_ = s.Close()
	}
	plan := crashfs.Plan{Every: seed.Scale(3, 1, 1), Seed: from}
	faults := 0
	for fault := range plan.Faults(run) {
		faults++
		if err := errors.Join(wrong, sc.check(fault.FS, "/raft", done)); err != nil {
			t.Fatalf("seed %d, %v, after %d calls: %v", from, fault, done, err)
		}
	}
	t.Logf("%d faults", faults)
}

// afterFault reads what a Store shows behind a call that failed. A read may fail, too.
func (sc *script) afterFault(s *Store, done int, cause error) error {
	before := sc.states[done].diff(s)
	if before == nil || sc.states[done+1].diff(s) == nil || errors.Is(before, syscall.EIO) ||
		errors.Is(before, syscall.ENOSPC) {
		return nil
	}
	return fmt.Errorf("after %v: %w", cause, before)
}

// killEnv makes the test binary the program that TestKill kills: the directory, the seed and the
// number of the first call, one in each variable.
const killEnv = "LOAM_RAFTLOG_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		os.Exit(killed(dir))
	}
	os.Exit(m.Run())
}

// killSteps is the length of the history of TestKill.
const killSteps = 1500

func killed(dir string) int {
	from, err1 := strconv.ParseUint(os.Getenv(killEnv+"_SEED"), 10, 64)
	at, err2 := strconv.Atoi(os.Getenv(killEnv + "_AT"))
	s, err3 := Open(dir, &Options{Database: &small})
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return 1
	}
	sc := newScript(from, killSteps, 12)
	_ = s.StageCommitIndex(sc.states[at].staged) // it ended with the process before
	for i, o := range sc.ops[at:] {
		if err := o.on(s); err != nil {
			fmt.Println(i, err)
			return 1
		}
		fmt.Println("done")
	}
	return 0
}

// TestKill kills a process that changes a Raft log, again and again: the log has the state after
// the last call that the process reported, or after the next one.
func TestKill(t *testing.T) {
	from := uint64(seed.Of(t))
	r := rand.New(rand.NewPCG(from, 3))
	sc := newScript(from, killSteps, 12)
	dir, done := t.TempDir(), 0
	for life := range seed.Scale(4, 6, 300) {
		if done += kill(t, dir, from, done, 1+r.IntN(30)); done+100 > len(sc.ops) {
			break
		}
		s := open(t, dir, &small)
		at, err := done, sc.states[done].diff(s)
		if err != nil {
			at++
			if sc.states[at].diff(s) != nil {
				_ = s.Close()
				t.Fatalf("seed %d, life %d, after %d calls: %v", from, life, done, err)
			}
		}
		done = at
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// kill starts a process, kills it when it made calls changes, and returns how many it made.
func kill(t *testing.T, dir string, seed uint64, at, calls int) (done int) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), killEnv+"="+dir, fmt.Sprintf("%s_SEED=%d", killEnv, seed),
		fmt.Sprintf("%s_AT=%d", killEnv, at))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if line != "done\n" {
			t.Fatalf("the process says %q, %v", line, err)
		}
		if done++; done == calls {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	return done
}
