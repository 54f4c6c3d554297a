package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// script writes, sends and notes states; do is called for each step of the replicator.
type script struct {
	t      *testing.T
	clock  *clock
	db     *lsm.DB
	target *memTarget
	run    *runner
	o      Options
	states []moments
	n      int
}

func newScript(t *testing.T) *script {
	s := &script{t: t, clock: newClock(), target: newMem()}
	db, err := lsm.Open("db", &lsm.Options{FS: vfs.NewMem(), Clock: s.clock.time,
		WALRetentionBytes: 1 << 20})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s.db = db
	s.o = Options{Clock: s.clock.time, SnapshotEvery: 5 * time.Second}
	s.run = runnerOf(t, db, s.target, s.o)
	t.Cleanup(func() { s.run.close() })
	return s
}

// write makes a step of the database's life: ordinary writes, keyspaces, and an ingest.
func (s *script) write() {
	s.n++
	s.clock.add(time.Second)
	s.put(fmt.Sprint("n", s.n))
	var err error
	switch s.n {
	case 2:
		_, err = s.db.Keyspace("trees", nil)
	case 4:
		err = s.db.DropKeyspace("trees")
	case 5:
		err = s.db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			yield([]byte("loaded"), nil)
		}, nil)
	}
	must(s.t, err)
}

func (s *script) put(key string) {
	must(s.t, s.db.Put([]byte(key), fmt.Append(nil, s.n), lsm.NoSync))
}

// send takes a step, and notes the state if it succeeds and can be restored: after the failure of
// the first snapshot of a generation the next steps make none, and Status.Snapshot is zero.
func (s *script) send() error {
	err := settle(s.run)
	if err == nil && !s.run.snapshot.IsZero() {
		s.states = append(s.states, moments{moment(s.run.last), s.clock.time(),
			contentsOf(s.t, s.db)})
	}
	return err
}

func (s *script) restart() {
	s.run.close()
	s.run = runnerOf(s.t, s.db, s.target, s.o)
}

// check restores states, the newest always.
func (s *script) check(every int) {
	s.t.Helper()
	for i, m := range s.states {
		if i%every != 0 && i != len(s.states)-1 {
			continue
		}
		got, made := restoredAt(s.t, s.target, m.at, m.now)
		if diff := got.diff(m.want); diff != "" {
			s.t.Fatalf("state %d of %d, %+v: %s", i, len(s.states), made, diff)
		}
	}
}

const scriptSteps = 7

// TestFailingCalls fails each call of the target in turn, once without and once with effect, and
// once for all that follow until the replicator is killed and another one goes on. Every state that
// was sent is there afterwards.
func TestFailingCalls(t *testing.T) {
	for _, how := range []string{"without effect", "with effect", "killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for i := 0; ; i++ {
				s := newScript(t)
				calls, failed := 0, false
				s.target.fail = func(op, name string, done bool) error {
					if done != (how == "with effect") {
						return nil
					}
					if calls++; calls-1 == i || how == "killed" && failed {
						failed = true
						return fmt.Errorf("%s of %q: %w", op, name, errTarget)
					}
					return nil
				}
				for range scriptSteps {
					s.write()
					err := s.send()
					if err != nil && !errors.Is(err, errTarget) {
						t.Fatal(err)
					}
					if err != nil && how == "killed" {
						s.target.fail = nil
						s.restart()
					}
				}
				s.target.fail = nil
				must(t, s.send())
				s.check(100)
				s.run.close()
				must(t, s.db.Close())
				if !failed {
					if i < 20 {
						t.Fatalf("%d calls, expected more", i)
					}
					return
				}
			}
		})
	}
}

// TestDamage flips a byte of each object, cuts it, and takes it away: a restore fails with an error
// that names it, unless it needs none of the object, and then gives the same state, or an earlier
// one where the newest segment is not there.
func TestDamage(t *testing.T) {
	s := newScript(t)
	s.o.SnapshotEvery = time.Hour
	s.restart()
	for range 7 {
		s.write()
		must(t, s.send())
	}
	last := s.states[len(s.states)-1]
	_, whole := restoredAt(t, s.target, time.Time{}, last.now)
	seen := map[string]int{}
	for _, name := range s.target.names("") {
		b := s.target.objects[name]
		for what, damaged := range map[string][]byte{"cut": b[:len(b)-1], "emptied": {},
			"gone": nil, "begin": flipped(b, 0), "middle": flipped(b, len(b)/2),
			"end": flipped(b, len(b)-1)} {
			s.target.objects[name] = damaged
			if what == "gone" {
				delete(s.target.objects, name)
			}
			o := &lsm.Options{FS: vfs.NewMem(), Clock: s.clock.time}
			made, err := Restore(ctx, s.target, "new", &RestoreOptions{Open: o})
			var c *lsm.CorruptionError
			switch {
			case err == nil:
				seen["restored"]++
				if what == "gone" && needed(whole, name) {
					t.Errorf("%s is gone, and nobody misses it", name)
				}
				if made != whole && what != "gone" {
					t.Errorf("%s %s: restored %+v", name, what, made)
				}
				db, err := lsm.Open("new", o)
				must(t, err)
				if want, ok := s.stateAt(made.Time); ok {
					if diff := contentsOf(t, db).diff(want); diff != "" {
						t.Errorf("%s %s: %s", name, what, diff)
					}
				}
				must(t, db.Close())
			case errors.As(err, &c) && strings.Contains(err.Error(), name),
				errors.Is(err, ErrNoReplica) && what == "gone" && strings.Contains(err.Error(),
					name),
				errors.As(err, &c) && what == "gone" && strings.Contains(name, "/log/"):
				seen["damaged"]++
			default:
				t.Errorf("%s %s: %v", name, what, err)
			}
			if err != nil {
				if names, _ := o.FS.List("/"); len(names) > 0 {
					t.Errorf("%s %s: %q is left", name, what, names)
				}
			}
		}
		s.target.objects[name] = b
	}
	if seen["damaged"] < 20 || seen["restored"] < 10 {
		t.Errorf("%v: expected more of both", seen)
	}
}

// needed reports whether a segment that is gone has operations that others of the newest generation
// follow.
func needed(newest Restored, name string) bool {
	m := objectName.FindStringSubmatch(name)
	if m == nil || m[1] != newest.Generation || m[3] == "" {
		return false
	}
	g := generation{}
	g.add(name, m)
	s := g.segments[0]
	return s.first <= s.last && s.last < newest.Sequence
}

func flipped(b []byte, i int) []byte {
	b = append([]byte{}, b...)
	b[i] ^= 1
	return b
}

// stateAt is what the database had at a time. There are states between: what was committed before
// an ingest.
func (s *script) stateAt(at time.Time) (contents, bool) {
	for _, o := range s.states {
		if o.at.Equal(at) {
			return o.want, true
		}
	}
	return nil, false
}

// TestNewerObject: an object of a later version is no damage.
func TestNewerObject(t *testing.T) {
	m := newMem()
	b := seal("a", nil)
	b[3]++
	sum := sumOf("a", b[:4])
	m.objects["a"] = append(b[:4], sum[:]...)
	if _, err := get(ctx, m, "a"); !errors.Is(err, lsm.ErrNewerFormat) {
		t.Error(err)
	}
}

// TestRetention keeps ten seconds: states of that time are restored as they were, and objects that
// none of them needs are not there.
func TestRetention(t *testing.T) {
	s := newScript(t)
	s.o.Keep = 10 * time.Second
	s.restart()
	for range 30 {
		s.write()
		must(t, s.send())
		if s.run.pruned { // the one before is needed no more
			kept := s.states[:0:0]
			for _, m := range s.states {
				if s.clock.time().Sub(m.now) <= s.o.Keep {
					kept = append(kept, m)
				}
			}
			s.states = kept
		}
	}
	s.check(1)
	all, err := catalog(ctx, s.target)
	must(t, err)
	if len(all) != 1 || len(all[0].snapshots) > 4 || len(all[0].segments) > 20 {
		t.Errorf("%d generations, %+v", len(all), all[0])
	}
	if all[0].snapshots[0].time < moment(s.run.last).Add(-20*time.Second).UnixMilli() {
		t.Errorf("the first snapshot is of %v", moment(all[0].snapshots[0].time))
	}
}

// TestTakenOver: a second replicator goes on, and the first one ends.
func TestTakenOver(t *testing.T) {
	s := newScript(t)
	s.write()
	must(t, s.send())
	second := runnerOf(t, s.db, s.target, s.o)
	defer second.close()
	must(t, settle(second))
	if second.gen != s.run.gen {
		t.Error("it began a generation")
	}
	s.write()
	if err := s.send(); !errors.Is(err, ErrTakenOver) || !final(err) {
		t.Fatal(err)
	}
	must(t, settle(second))
	s.run.close()
	s.run = second
	must(t, s.send())
	s.check(1)
}

// TestOtherDatabase: what does not continue the target is refused if it is another directory's,
// and otherwise begins a generation, also if it has the same sequence numbers.
func TestOtherDatabase(t *testing.T) {
	s := newScript(t)
	for range 3 {
		s.write()
		must(t, s.send())
	}
	for _, c := range []struct {
		dir, key string
		n        int
		takeOver bool
		want     error
		gens     int
	}{
		{"other", "x", 20, false, ErrOtherDatabase, 1}, {"db", "x", 20, false, nil, 2},
		{"other", "y", 20, true, nil, 3}, {"other", "y", 25, false, nil, 3},
		{"other", "y", 10, false, nil, 4},
	} {
		db, err := lsm.Open(c.dir, &lsm.Options{FS: vfs.NewMem()})
		must(t, err)
		for range c.n {
			must(t, db.Put([]byte(c.key), nil, lsm.NoSync))
		}
		o := s.o
		o.TakeOver = c.takeOver
		r := runnerOf(t, db, s.target, o)
		s.clock.add(time.Second)
		if err := settle(r); !errors.Is(err, c.want) || err != nil && !final(err) {
			t.Errorf("%+v: %v", c, err)
		}
		// The next database of the directory continues what was sent.
		must(t, db.Put([]byte(c.key), nil, lsm.NoSync))
		if c.want == nil {
			must(t, settle(r))
		}
		r.close()
		must(t, db.Close())
		all, err := catalog(ctx, s.target)
		must(t, err)
		if len(all) != c.gens {
			t.Errorf("%+v: %d generations", c, len(all))
		}
	}
}

// TestListWithChanges: a keyspace that is dropped between two batches goes with both, or with
// neither, wherever segments end.
func TestListWithChanges(t *testing.T) {
	s := newScript(t)
	s.o.SegmentBytes = 1
	s.restart()
	k, err := s.db.Keyspace("k", nil)
	must(t, err)
	must(t, k.Put([]byte("a"), nil, lsm.NoSync))
	must(t, s.send())
	s.put("before")
	must(t, s.db.DropKeyspace("k"))
	s.put("after")
	calls := 0
	s.target.fail = func(op, name string, done bool) error {
		if calls++; op == "put" && !done && calls > 5 {
			return errTarget
		}
		return nil
	}
	if err := s.send(); !errors.Is(err, errTarget) {
		t.Fatal(err)
	}
	s.target.fail = nil
	if n := len(s.target.names("-q")); n == 0 {
		t.Error("no segment was sent")
	}
	got, _ := restoredAt(t, s.target, time.Time{}, s.clock.time())
	if diff := got.diff(s.states[0].want); diff != "" {
		t.Error(diff)
	}
	must(t, s.send())
	s.check(1)
}

// TestSnapshotOfReplaced drops a keyspace, and makes one of its name, before the snapshot begins to
// read: it is none of the state, and not sent.
func TestSnapshotOfReplaced(t *testing.T) {
	s := newScript(t)
	for range 3 { // which makes trees
		s.write()
	}
	must(t, s.send())
	k, err := s.db.Keyspace("trees", nil)
	must(t, err)
	must(t, k.Put([]byte("a"), nil, lsm.NoSync))
	now, err := s.run.now(true)
	must(t, err)
	must(t, s.db.DropKeyspace("trees"))
	_, err = s.db.Keyspace("trees", nil)
	must(t, err)
	if err := s.run.sendSnapshot(ctx, s.run.gen, now, &job{}); err == nil {
		t.Error("a snapshot was sent that lacks what the keyspace had")
	}
	s.run.release(&now)
}

// TestVerify restores and compares when it is time to; what cannot be restored ends a generation.
func TestVerify(t *testing.T) {
	s := newScript(t)
	s.o.VerifyEvery, s.o.VerifyDir = time.Minute, "verify"
	s.o.Restore = &lsm.Options{FS: vfs.NewMem(), Clock: s.clock.time}
	must(t, s.o.Restore.FS.MkdirAll("verify"))
	other, err := lsm.Open("verify/verify", s.o.Restore) // of somebody else, and not open later
	must(t, err)
	must(t, other.Close())
	defer func() {
		again := *s.o.Restore
		again.ErrorIfMissing = true
		other, err := lsm.Open("verify/verify", &again)
		must(t, err)
		must(t, other.Close())
		names, err := again.FS.List("verify")
		must(t, err)
		if !slices.Equal(names, []string{"verify"}) {
			t.Errorf("left %q", names)
		}
	}()
	s.restart()
	s.write()
	must(t, s.db.PutTTL([]byte("short"), nil, time.Second, lsm.NoSync))
	must(t, s.send())
	must(t, s.send())
	if s.run.verified.Generation != s.run.gen || len(s.target.names(verifiedName)) != 1 {
		t.Fatalf("%+v", s.run.verified)
	}
	s.write()
	must(t, s.send())
	s.clock.add(time.Minute)
	gen, segments := s.run.gen, s.target.names("/log/")
	s.target.objects[segments[len(segments)-1]][20] ^= 1
	s.o.SnapshotEvery = time.Hour
	s.run.o.SnapshotEvery = time.Hour
	if err := s.send(); !errors.Is(err, lsm.ErrCorruption) || !errors.Is(err, errUnrestorable) {
		t.Fatal(err)
	}
	must(t, s.send())
	s.clock.add(time.Minute)
	must(t, s.send())
	if s.run.gen == gen || s.run.verified.Generation != s.run.gen {
		t.Errorf("%s, %s, %+v", gen, s.run.gen, s.run.verified)
	}
	s.check(100)
}

// TestCompare finds each kind of difference between a state and a restored database.
func TestCompare(t *testing.T) {
	for what, change := range map[string]func(db *lsm.DB) error{
		"key %q should not": func(db *lsm.DB) error { return db.Put([]byte("a"), nil, lsm.NoSync) },
		"value":             func(db *lsm.DB) error { return db.Put([]byte("b"), nil, lsm.NoSync) },
		"lack":              func(db *lsm.DB) error { return db.Delete([]byte("b"), lsm.NoSync) },
		"keyspace": func(db *lsm.DB) error {
			_, err := db.Keyspace("other", nil)
			return err
		},
		"": func(*lsm.DB) error { return nil },
	} {
		var dbs [2]*lsm.DB
		for i := range dbs {
			db, err := lsm.Open("db", &lsm.Options{FS: vfs.NewMem()})
			must(t, err)
			defer db.Close()
			must(t, db.Put([]byte("b"), []byte("x"), lsm.NoSync))
			dbs[i] = db
		}
		must(t, change(dbs[1]))
		r := runnerOf(t, dbs[0], newMem(), Options{})
		s, err := r.now(true)
		must(t, err)
		err = compareSpaces(ctx, dbs[0].Inside(), dbs[1].Inside(), s, r.o.Clock)
		if errors.Is(err, ErrDiffers) != (what != "") {
			t.Errorf("%s: %v", what, err)
		}
		r.release(&s)
		r.close()
	}
}

// TestRun sends everything until it is told to end, tells its status, and ends when its context
// does, wherever it is.
func TestRun(t *testing.T) {
	s := newScript(t)
	s.write()
	ended := make(chan struct{})
	close(ended)
	var told []Status
	o := s.o
	o.after, o.Until = instant, ended
	o.Status = func(s Status) { told = append(told, s) }
	must(t, Run(ctx, s.db, s.target, &o))
	last := told[len(told)-1]
	if last.Err != nil || last.Pending != 0 || last.Lag != 0 || last.Snapshot.IsZero() ||
		last.Sequence != s.db.Metrics().LastSequence {
		t.Errorf("%+v", last)
	}
	s.states = append(s.states, moments{time.Time{}, s.clock.time(), contentsOf(t, s.db)})
	s.check(1)

	o.Until = nil
	for i := 0; ; i++ {
		s.put("more")
		ctx, cancel := context.WithCancel(ctx)
		calls := 0
		s.target.fail = func(string, string, bool) error {
			if calls++; calls == i {
				cancel()
				return ctx.Err()
			}
			return nil
		}
		steps := 0
		o.Status = func(Status) {
			if steps++; steps == 3 {
				cancel()
			}
		}
		if err := Run(ctx, s.db, s.target, &o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		s.target.fail = nil
		if steps == 3 && i > 0 {
			break
		}
	}
	must(t, s.db.Close())
	if err := Run(ctx, s.db, s.target, &o); !errors.Is(err, lsm.ErrClosed) {
		t.Error(err)
	}
}

// TestRefusals are wrong arguments.
func TestRefusals(t *testing.T) {
	s := newScript(t)
	for i, f := range []func() error{
		func() error { return Run(ctx, nil, s.target, nil) },
		func() error { return Run(ctx, s.db, nil, nil) },
		func() error { return Run(ctx, s.db, s.target, &Options{Keep: -1}) },
		func() error { return Run(ctx, s.db, s.target, &Options{VerifyEvery: 1}) },
		func() error { _, err := Restore(ctx, nil, "new", nil); return err },
		func() error { _, err := List(ctx, nil); return err },
		func() error { _, err := Dir("", nil); return err },
	} {
		if err := f(); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := Restore(ctx, s.target, "new", nil); !errors.Is(err, ErrNoReplica) {
		t.Error(err)
	}
	s.write()
	must(t, s.send())
	early := &RestoreOptions{At: s.clock.time().Add(-time.Hour),
		Open: &lsm.Options{FS: vfs.NewMem()}}
	if _, err := Restore(ctx, s.target, "new", early); !errors.Is(err, ErrNoReplica) {
		t.Error(err)
	}
}
