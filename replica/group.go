package replica

import (
	"context"
	"fmt"
	"sync"

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
	came   chan applied // has one element
}

// applied is what became of a proposal.
type applied struct {
	outcome outcome
	err     error
}

// apply appends a change to the log of this node, which leads, and returns its outcome. Where the
// context ends while the change waits for its group, it did not happen.
func (s *session) apply(ctx context.Context, change []byte) (outcome, error) {
	p := &proposal{change, make(chan applied, 1)}
	g := &s.group
	g.mu.Lock()
	g.waiting = append(g.waiting, p)
	if g.underWay < maxUnderWay {
		g.underWay++
		go s.propose()
	}
	g.mu.Unlock()
	var why error
	select {
	case a := <-p.came:
		return a.outcome, a.err
	case <-ctx.Done():
		why = ctx.Err()
	case <-s.ctx.Done():
		why = context.Cause(s.ctx)
	}
	if g.withdraw(p) {
		return 0, conclude(why)
	}
	return 0, unknown(why)
}

// withdraw takes back a change that still waits.
func (g *group) withdraw(p *proposal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == p {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return true
		}
	}
	return false
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
	for {
		all := s.group.next()
		if all == nil {
			return
		}
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
				p.came <- applied{err: refusal(err)}
			case r.err != nil: // it is committed, and this node could not apply it
				p.came <- applied{err: fmt.Errorf("%w: %w: %w", ErrUnknown, ErrHalted, r.err)}
			case i < len(r.group):
				p.came <- applied{outcome: r.group[i]}
			default:
				p.came <- applied{outcome: r.outcome}
			}
		}
	}
}

// append appends an entry, and returns what the state machine answered.
func (s *session) append(entry []byte) (r result, err error) {
	err = s.await(s.ctx, func() error {
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
