package replicate

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWholeWithoutAnAnswer stores the last object of a snapshot, and answers each try with an
// error: the snapshot is there, whole.
func TestWholeWithoutAnAnswer(t *testing.T) {
	s := newScript(t)
	s.write()
	must(t, s.send())
	s.o.SnapshotEvery = time.Second
	s.restart()
	s.write()
	must(t, s.send())
	s.write() // of a snapshot that is due
	s.target.fail = func(op, name string, done bool) error {
		if done && op == "put" && strings.HasSuffix(name, wholeName) {
			return errTarget
		}
		return nil
	}
	if err := s.send(); !errors.Is(err, errTarget) {
		t.Fatal(err)
	}
	s.target.fail = nil
	s.states = append(s.states, moments{moment(s.run.last), s.clock.time(),
		contentsOf(t, s.db)})
	s.check(1)
	if n := len(s.target.names(wholeName)); n != 2 {
		t.Errorf("%d whole snapshots", n)
	}
}

// hooked calls before in each Put.
type hooked struct {
	Target
	before func(name string)
}

func (h *hooked) Put(ctx context.Context, name string, data []byte) error {
	h.before(name)
	return h.Target.Put(ctx, name, data)
}

// TestSnapshotTakenOver: a replicator that is taken over while it sends a snapshot does not end it,
// as the other one has deleted its parts; and Run ends, although the database is not written.
func TestSnapshotTakenOver(t *testing.T) {
	s := newScript(t)
	s.write()
	must(t, s.send())
	s.o.SnapshotEvery = time.Second
	s.run.close()
	second := runnerOf(t, s.db, s.target, s.o)
	defer second.close()
	s.write()
	s.clock.add(time.Second) // a snapshot is due
	o := s.o
	o.after = instant
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looks := 0
	o.Status = func(Status) {
		if looks++; looks == 100_000 {
			cancel()
		}
	}
	var once sync.Once
	var took error
	err := Run(ctx, s.db, &hooked{s.target, func(name string) {
		if strings.HasSuffix(name, "/000000") {
			once.Do(func() {
				s.clock.add(time.Second)
				took = settle(second)
			})
		}
	}}, &o)
	must(t, took)
	if !errors.Is(err, ErrTakenOver) {
		t.Fatal(err)
	}
	s.states = append(s.states, moments{moment(second.last), s.clock.time(),
		contentsOf(t, s.db)})
	s.run = second
	must(t, s.send())
	all, err := catalog(ctx, s.target)
	must(t, err)
	if len(all) != 1 {
		t.Errorf("%d generations", len(all))
	}
	for _, snap := range all[0].snapshots {
		if snap.parts != 1 {
			t.Errorf("%+v", snap)
		}
		got, made := restoredAt(t, s.target, moment(snap.time), s.clock.time())
		if len(got) == 0 {
			t.Errorf("%+v is empty", made)
		}
	}
	s.check(1)
}

// TestHalvesAfterTakingOver: a snapshot that becomes whole after a replicator listed the target,
// and before that takes it over, keeps its parts.
func TestHalvesAfterTakingOver(t *testing.T) {
	s := newScript(t)
	s.write()
	must(t, s.send())
	s.run.close()
	whole := s.target.names(wholeName)[0]
	kept := s.target.objects[whole]
	delete(s.target.objects, whole)
	second := runnerOf(t, s.db, &hooked{s.target, func(name string) {
		if name == ownerName {
			s.target.objects[whole] = kept
		}
	}}, s.o)
	defer second.close()
	must(t, settle(second))
	s.check(1)
}

// TestGenerationAheadOfTheClock begins a generation while the clock is wrong: the next one, by the
// right clock, is the newest nevertheless.
func TestGenerationAheadOfTheClock(t *testing.T) {
	s := newScript(t)
	s.write()
	must(t, s.send())
	load := func() {
		must(t, s.db.BulkLoad(ctx, func(yield func(k, v []byte) bool) { yield([]byte("x"), nil) },
			nil))
	}
	load() // which begins a generation
	s.clock.add(time.Hour)
	s.target.fail = func(op, name string, done bool) error {
		if done && op == "put" && strings.HasSuffix(name, beginName) {
			return errTarget
		}
		return nil
	}
	if err := s.send(); !errors.Is(err, errTarget) {
		t.Fatal(err)
	}
	s.target.fail = nil
	s.clock.add(-time.Hour)
	load()
	s.restart()
	s.write()
	must(t, s.send())
	gen := s.run.gen
	s.write()
	must(t, s.send())
	s.restart()
	s.write()
	must(t, s.send())
	if s.run.gen != gen {
		t.Errorf("generation %s goes on as %s", gen, s.run.gen)
	}
	s.check(1)
}

// TestCanceledRequests: a call whose context is done sends nothing, so that it has no effect after
// it has returned.
func TestCanceledRequests(t *testing.T) {
	r, answers := io.Pipe()
	defer answers.Close()
	var sent strings.Builder
	p := Pipe(r, &sent)
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, get := p.Get(done, "a")
	_, list := p.List(done, "")
	for _, err := range []error{p.Put(done, "a", nil), get, list, p.Delete(done, "a")} {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if sent.Len() > 0 {
		t.Errorf("sent %q", sent.String())
	}
}

// TestPartOfLaterState: a part of a state, which a replicator sent that was taken over, does not
// stand in the way of an earlier state that the other one sent.
func TestPartOfLaterState(t *testing.T) {
	of := func(first, last uint64, point bool) segment {
		s := segment{first: first, last: last, time: int64(last), point: point}
		s.name = segmentName("g", s)
		return s
	}
	part, whole, more := of(6, 12, false), of(6, 9, true), of(10, 11, true)
	for want, segments := range map[uint64][]segment{
		5: {part}, 9: {whole, part}, 11: {whole, part, more}, 8: {of(6, 8, true), of(9, 12, false)},
		14: {whole, part, of(10, 14, true)},
	} {
		p := &plan{snapshot: &snapshot{seq: 5}, segments: segments}
		slices.SortFunc(p.segments, func(a, b segment) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
		})
		if must(t, p.link()); p.seq != want {
			t.Errorf("state %d of %+v, want %d", p.seq, segments, want)
		}
	}
}

// TestLateSegments: a segment that a replicator stored after another one had taken over does not
// count where that one sent its operations again, unless something would be missing without it.
func TestLateSegments(t *testing.T) {
	of := func(first, last uint64, time int64) segment {
		s := segment{first: first, last: last, time: time, point: true}
		s.name = segmentName("g", s)
		return s
	}
	for i, c := range []struct{ in, want []segment }{
		{[]segment{of(1, 2, 1), of(3, 9, 2), of(3, 5, 3), of(6, 9, 4)},
			[]segment{of(1, 2, 1), of(3, 5, 3), of(6, 9, 4)}},
		{[]segment{of(1, 2, 1), of(3, 9, 2)}, []segment{of(1, 2, 1), of(3, 9, 2)}},
		{[]segment{of(1, 5, 1), of(1, 3, 2), of(6, 9, 3)}, []segment{of(1, 5, 1), of(6, 9, 3)}},
		{[]segment{of(1, 2, 1), of(3, 3, 2), of(3, 2, 3)}, []segment{of(1, 2, 1), of(3, 2, 3),
			of(3, 3, 2)}},
	} {
		slices.SortFunc(c.in, func(a, b segment) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last))
		})
		if got, _, hole := follow(c.in, 0); !slices.Equal(got, c.want) || hole != 0 {
			t.Errorf("%d: %+v, hole %d, want %+v", i, got, hole, c.want)
		}
	}
}
