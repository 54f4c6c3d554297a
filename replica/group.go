package replica

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/replica/internal/wire"
)

const (
	// maxGroup bounds the bytes of the changes of one entry, unless it is a single one.
	maxGroup = 1 << 20
	// maxUnderWay is how many entries are on their way at once: one is written while the one before
	// waits for its majority.
	maxUnderWay = 2
)

// group gathers the changes that come to a leader while entries are on their way, and makes one
// entry of all that wait: the price of an entry, which is syncs and messages, is shared.
type group struct {
	mu       sync.Mutex
	waiting  []*proposal
	underWay int
}

// proposal is a change that wants to be applied.
type proposal struct {
	change []byte
	of     *proposals
	applied
}

// applied is what became of a proposal.
type applied struct {
	outcome outcome
	err     error
}

// proposals are what one caller waits for.
type proposals struct {
	left atomic.Int64  // how many have no outcome yet
	over chan struct{} // closed when none is left
}

// is sets what became of a proposal.
func (p *proposal) is(a applied) {
	p.applied = a
	if p.of.left.Add(-1) == 0 {
		close(p.of.over)
	}
}

// apply is applyAll of one change.
func (s *session) apply(ctx context.Context, change []byte) (outcome, error) {
	a := s.applyAll(ctx, [][]byte{change})[0]
	return a.outcome, a.err
}

// applyAll appends changes to the log of this node, which leads, and returns their outcomes. Where
// the context ends while a change waits for its group, it did not happen; where the session does,
// the error is errNotLeader.
func (s *session) applyAll(ctx context.Context, changes [][]byte) []applied {
	of := &proposals{over: make(chan struct{})}
	of.left.Store(int64(len(changes)))
	all := make([]proposal, len(changes))
	g := &s.group
	g.mu.Lock()
	for i, c := range changes {
		all[i] = proposal{change: c, of: of}
		g.waiting = append(g.waiting, &all[i])
	}
	if g.underWay < maxUnderWay {
		g.underWay++
		go s.propose()
	}
	g.mu.Unlock()
	out := make([]applied, len(changes))
	var why error
	select {
	case <-of.over:
		for i := range all {
			out[i] = all[i].applied
		}
		return out
	case <-ctx.Done():
		why = ctx.Err()
	case <-s.ctx.Done():
		why = context.Cause(s.ctx)
	}
	withdrawn := g.withdraw(of)
	for i := range all {
		switch {
		case !withdrawn[&all[i]]:
			out[i].err = unknown(why)
		case s.ctx.Err() != nil: // so that the node that forwarded the change asks the next leader
			out[i].err = fmt.Errorf("%w: %w", errNotLeader, why)
		default:
			out[i].err = conclude(why)
		}
	}
	return out
}

// withdraw takes back those changes of a caller that still wait, and returns them.
func (g *group) withdraw(of *proposals) map[*proposal]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	withdrawn := map[*proposal]bool{}
	g.waiting = slices.DeleteFunc(g.waiting, func(p *proposal) bool {
		if p.of == of {
			withdrawn[p] = true
		}
		return p.of == of
	})
	return withdrawn
}

// next takes the changes of one entry, none where none wait: then the caller ends.
func (g *group) next() []*proposal {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < len(g.waiting) && n < wire.MaxParts {
		size += len(g.waiting[n].change)
		if n > 0 && size > maxGroup {
			break
		}
		n++
	}
	if n == 0 {
		g.underWay--
		return nil
	}
	all := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; len(g.waiting) == 0 {
		g.waiting = nil
	}
	return all
}

// propose appends one entry after the other, until no change waits.
func (s *session) propose() {
	for all := s.group.next(); all != nil; all = s.group.next() {
		entry := all[0].change
		if len(all) > 1 {
			changes := make([][]byte, len(all))
			for i, p := range all {
				changes[i] = p.change
			}
			entry = wire.AppendGroup(nil, changes)
		}
		r, err := s.append(entry)
		for i, p := range all {
			switch {
			case err != nil:
				p.is(applied{err: refusal(err)})
			case r.err != nil: // it is committed, and this node could not apply it
				p.is(applied{err: fmt.Errorf("%w: %w: %w", ErrUnknown, ErrHalted, r.err)})
			case i < len(r.group):
				p.is(applied{outcome: r.group[i]})
			default:
				p.is(applied{outcome: r.outcome})
			}
		}
	}
}

// append appends an entry, and returns what the state machine answered.
func (s *session) append(entry []byte) (result, error) {
	var r result // no result of append, which a late answer would change as it returns
	err := s.await(s.ctx, func() error {
		f := s.raft.Apply(entry, s.cfg.Timeout)
		if err := f.Error(); err != nil {
			return err
		}
		r = f.Response().(result)
		return nil
	})
	if err != nil {
		return result{}, err // r may still be written
	}
	return r, nil
}
