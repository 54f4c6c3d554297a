package replicate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestOnceMakesWhatIsDue: a Run that is told to end before it begins makes the snapshot and the
// verification that are due, deletes old objects, and returns the error of a failure.
func TestOnceMakesWhatIsDue(t *testing.T) {
	s := newScript(t)
	s.run.close()
	now := make(chan struct{})
	close(now)
	o := s.o
	o.after, o.Until, o.SnapshotEvery, o.Keep = instant, now, time.Hour, time.Hour
	o.VerifyEvery, o.VerifyDir = time.Hour, "verify"
	o.Restore = &lsm.Options{FS: vfs.NewMem(), Clock: s.clock.time}
	must(t, o.Restore.FS.MkdirAll("verify"))
	var last Status
	o.Status = func(s Status) { last = s }
	for i := range 4 {
		s.clock.add(2 * time.Hour)
		s.put(fmt.Sprint(i))
		once := true
		s.target.fail = func(op, name string, done bool) (err error) {
			if op == "delete" && once {
				once, err = false, errTarget
			}
			return err
		}
		must(t, Run(ctx, s.db, s.target, &o))
		if at := s.clock.time(); last.Snapshot.Before(at) || last.Verified.Before(at) {
			t.Errorf("run %d, at %s: %+v", i, at, last)
		}
	}
	s.target.fail = nil
	must(t, Run(ctx, s.db, s.target, &o)) // in which nothing is due
	if kept := s.target.names(wholeName); len(kept) > 2 {
		t.Errorf("snapshots %q are kept", kept)
	}
	s.clock.add(2 * time.Hour)
	o.VerifyDir = "missing/verify"
	if err := Run(ctx, s.db, s.target, &o); err == nil || !errors.Is(last.Err, err) {
		t.Errorf("a verification that failed: %v, %+v", err, last)
	}
}

// TestFailingJobsArePaced: a job that fails is tried again after longer and longer pauses, in which
// changes are sent.
func TestFailingJobsArePaced(t *testing.T) {
	s := newScript(t)
	s.o.SnapshotEvery = time.Second
	s.restart()
	s.put("a")
	must(t, s.send())
	parts := 0
	s.target.fail = func(op, name string, done bool) error {
		if op == "put" && snapshotPart(name) && !done {
			parts++
			return errTarget
		}
		return nil
	}
	for i := range 200 {
		s.put(fmt.Sprint(i))
		s.clock.add(time.Second)
		_ = s.send()
		if s.run.pos != s.db.Metrics().LastSequence {
			t.Fatalf("step %d: changes are not sent: %v", i, s.run.jobErr)
		}
	}
	if parts < 8*maxTries || parts > 10*maxTries {
		t.Errorf("a part was put %d times", parts)
	}
	s.target.fail = nil
	for range maxPause / s.run.o.Interval {
		s.clock.add(time.Second)
		must(t, s.run.step(ctx))
		_ = endJob(s.run)
	}
	if s.run.jobErr != nil || s.clock.time().Sub(s.run.snapshot) > maxPause {
		t.Errorf("%v; the last snapshot is of %s", s.run.jobErr, s.run.snapshot)
	}
}

func snapshotPart(name string) bool {
	m := objectName.FindStringSubmatch(name)
	return m != nil && m[10] != "" && m[10] != wholeName[1:]
}

// TestDeletionsBesideChanges: changes are sent while objects are deleted, and while that fails.
func TestDeletionsBesideChanges(t *testing.T) {
	s := newScript(t)
	s.o.Keep, s.o.SnapshotEvery = time.Second, 5*time.Second
	s.restart()
	failed := 0
	s.target.fail = func(op, _ string, done bool) error {
		if op == "delete" && !done {
			failed++
			return errTarget
		}
		return nil
	}
	for i := range 100 {
		s.put(fmt.Sprint(i))
		s.clock.add(time.Second)
		must(t, s.run.step(ctx))
		if s.run.pos != s.db.Metrics().LastSequence {
			t.Fatalf("step %d: changes are not sent", i)
		}
		_ = endJob(s.run)
	}
	if failed < 5 || failed > 50 || !errors.Is(s.run.jobErr, errTarget) {
		t.Errorf("%d deletions failed, %v", failed, s.run.jobErr)
	}

	s.target.fail = nil
	more := make(chan struct{})
	s.run.target = &waiting{s.target, more}
	for s.run.rest > 0 {
		must(t, s.run.step(ctx))
	}
	before := len(s.target.names(""))
	must(t, s.run.step(ctx))
	s.put("beside")
	must(t, s.run.step(ctx))
	if s.run.job == nil || s.run.pos != s.db.Metrics().LastSequence {
		t.Error("nothing is sent while objects are deleted")
	}
	close(more)
	s.run.jobEnded(<-s.run.job.ended)
	if after := len(s.target.names("")); !s.run.pruned || after >= before {
		t.Errorf("%d objects, before %d", after, before)
	}
}

// waiting is a target whose deletions wait.
type waiting struct {
	*memTarget
	more chan struct{}
}

func (w *waiting) Delete(ctx context.Context, name string) error {
	<-w.more
	return w.memTarget.Delete(ctx, name)
}

// TestFaultsOfGenerations: a verification that finds a difference each time begins one generation
// each time that it is due.
func TestFaultsOfGenerations(t *testing.T) {
	s := newScript(t)
	s.o.VerifyEvery, s.o.VerifyDir = time.Hour, "verify"
	later := s.clock.time().Add(100 * time.Hour)
	s.o.Restore = &lsm.Options{FS: vfs.NewMem(), Clock: func() time.Time { return later }}
	must(t, s.o.Restore.FS.MkdirAll("verify"))
	must(t, s.db.PutTTL([]byte("key"), nil, 50*time.Hour, lsm.NoSync))
	s.restart()
	for i := range 3 {
		differs := 0
		for range 20 {
			if err := s.send(); errors.Is(err, ErrDiffers) {
				differs++
			}
		}
		all, err := List(ctx, s.target)
		must(t, err)
		if differs != 1 || len(all) != i+2 {
			t.Errorf("%d differences, %d generations", differs, len(all))
		}
		s.clock.add(time.Hour)
	}
}

// TestFaultOfAnEarlierGeneration: a verification that finds a fault ends no generation that began
// meanwhile.
func TestFaultOfAnEarlierGeneration(t *testing.T) {
	s := newScript(t)
	s.put("a")
	must(t, s.send())
	s.run.job = &job{gen: "another"}
	gen := s.run.gen
	if s.run.jobEnded(fmt.Errorf("verification: %w", ErrDiffers)); s.run.gen != gen {
		t.Errorf("generation %q, was %q", s.run.gen, gen)
	}
}

// TestClockSetBack: snapshots go on, and the lag is told, after a clock was ahead.
func TestClockSetBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		s := newScript(t)
		s.put("a")
		must(t, s.send())
		s.clock.add(-1000 * time.Hour)
		if restart {
			s.restart()
		}
		s.put("b")
		must(t, s.send())
		s.clock.add(time.Minute)
		must(t, s.send())
		all, err := List(ctx, s.target)
		must(t, err)
		if len(all) != 1 || len(all[0].Snapshots) != 2 {
			t.Errorf("restart %t: %+v", restart, all)
		}
		s.target.fail = func(string, string, bool) error { return errTarget }
		s.put("c")
		s.clock.add(time.Hour)
		var told Status
		s.run.o.Status = func(s Status) { told = s }
		s.run.report(s.run.step(ctx))
		if told.Err == nil || told.Lag != time.Hour {
			t.Errorf("restart %t: %+v", restart, told)
		}
	}
}

// dead is a target whose program ends before a part of a snapshot is stored.
type dead struct {
	*memTarget
	again func() // called by the second part
	parts int
}

func (d *dead) Put(ctx context.Context, name string, data []byte) error {
	if snapshotPart(name) {
		if d.parts++; d.parts > 1 {
			d.again()
		}
		return fmt.Errorf("%w: %w", errEnded, context.Canceled)
	}
	return d.memTarget.Put(ctx, name, data)
}

// TestProgramEndsInASnapshot ends Run, although nothing else is to be sent.
func TestProgramEndsInASnapshot(t *testing.T) {
	s := newScript(t)
	s.put("a")
	o := s.o
	o.after = instant
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target := &dead{memTarget: s.target, again: cancel}
	if err := Run(ctx, s.db, target, &o); !errors.Is(err, errEnded) {
		t.Error(err)
	}
}

// TestNumberOfParts: a number of parts that are not there is damage, and takes no memory.
func TestNumberOfParts(t *testing.T) {
	s := newScript(t)
	s.put("a")
	must(t, s.send())
	name := s.target.names(wholeName)[0]
	for _, n := range []int{-1, 0, 2, 1 << 45} {
		var w whole
		must(t, getJSON(ctx, s.target, name, &w))
		w.Parts = n
		must(t, putJSON(ctx, s.target, name, w))
		_, err := Restore(ctx, s.target, "new", &RestoreOptions{
			Open: &lsm.Options{FS: vfs.NewMem()}})
		if !errors.Is(err, lsm.ErrCorruption) {
			t.Errorf("%d parts: %v", n, err)
		}
	}
}
