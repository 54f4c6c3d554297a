package replicate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
)

// TestTakeOverHistories has replicators that take a target over from each other at any call of
// theirs, with calls that fail with and without effect. Each state that one of them has sent is
// restored as it was.
func TestTakeOverHistories(t *testing.T) {
	for i := range seed.Scale(2, 6, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := &takeOver{t: t, r: rand.New(rand.NewPCG(uint64(seed.Of(t)), 5)),
				script: newScript(t), count: map[string]int{}}
			h.live()
			t.Log(h.count)
		})
	}
}

// takeOver is a history of replicators. Of two, one waits in a call while the other takes a step.
type takeOver struct {
	t      *testing.T
	r      *rand.Rand
	script *script
	runs   []*runner
	depth  int
	rare   int // one in so many calls of the target fails; 0: none
	count  map[string]int
}

// between is a target beside whose calls another replicator takes a step now and then.
type between struct {
	Target
	h *takeOver
}

func (b between) Put(ctx context.Context, name string, data []byte) error {
	b.h.interrupt()
	err := b.Target.Put(ctx, name, data)
	b.h.interrupt()
	return err
}

func (b between) Delete(ctx context.Context, name string) error {
	b.h.interrupt()
	return b.Target.Delete(ctx, name)
}

func (b between) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := b.Target.List(ctx, prefix)
	b.h.interrupt()
	return names, err
}

// interrupt takes a step of another replicator. Jobs are waited for, so that all is one goroutine's
// at a time.
func (h *takeOver) interrupt() {
	if h.depth >= 2 || h.r.IntN(40) != 0 {
		return
	}
	h.depth++
	h.step()
	h.depth--
}

func (h *takeOver) live() {
	s := h.script
	s.run.close()
	s.o.SnapshotEvery, s.o.SegmentBytes = 2*time.Second, 1+h.r.IntN(100)
	s.target.fail = func(op, name string, done bool) error {
		if h.rare > 0 && h.r.IntN(h.rare) == 0 {
			return errTarget
		}
		return nil
	}
	for range 60 {
		h.rare = 0
		if h.r.IntN(3) == 0 {
			h.rare = 1 + h.r.IntN(20)
		}
		h.step()
	}
	h.rare = 0
	for _, r := range h.runs {
		r.close()
	}
	for i, m := range s.states {
		got, made := restoredAt(h.t, s.target, m.at, m.now)
		if diff := got.diff(m.want); diff != "" {
			h.t.Fatalf("state %d of %d, %+v: %s", i, len(s.states), made, diff)
		}
	}
}

// step writes, and has one of the replicators send.
func (h *takeOver) step() {
	s := h.script
	s.clock.add(100 * time.Millisecond)
	s.n++
	for range h.r.IntN(3) {
		s.put(fmt.Sprint("k", h.r.IntN(10)))
	}
	switch all := s.db.Keyspaces(); h.r.IntN(12) {
	case 0, 1:
		k, err := s.db.Keyspace(fmt.Sprint("s", h.r.IntN(3)), nil)
		must(h.t, err)
		must(h.t, k.Put([]byte("in"), fmt.Append(nil, s.n), lsm.NoSync))
	case 2:
		if len(all) > 1 {
			must(h.t, s.db.DropKeyspace(all[len(all)-1]))
		}
	}
	if h.r.IntN(30) == 0 {
		must(h.t, s.db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			yield([]byte("loaded"), fmt.Append(nil, s.n))
		}, nil))
	}
	if len(h.runs) == 0 || h.r.IntN(8) == 0 {
		h.runs = append(h.runs, runnerOf(h.t, s.db, between{s.target, h}, s.o))
		h.count["begun"]++
	}
	i := h.r.IntN(len(h.runs))
	r := h.runs[i]
	h.runs = append(h.runs[:i:i], h.runs[i+1:]...) // nobody else takes a step of it
	steps := s.n
	want, now := contentsOf(h.t, s.db), s.clock.time()
	err := settle(r)
	switch {
	case errors.Is(err, ErrTakenOver):
		r.close()
		h.count["taken over"]++
		return
	case err != nil && !errors.Is(err, errTarget) &&
		!strings.Contains(err.Error(), "dropped when it began"):
		h.t.Error(err)
	case err != nil:
		h.count["failed"]++
	case r.snapshot.IsZero(): // the next one comes after a pause; until then nothing restores this
		h.count["sent without a snapshot"]++
	case s.n == steps: // no other one wrote meanwhile
		s.states = append(s.states, moments{moment(r.last), now, want})
		h.count["sent"]++
	default:
		h.count["sent beside writes"]++
	}
	h.runs = append(h.runs, r)
}
