package replica

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/wire"
)

// readIndex returns an index that the leader had committed when it was the leader, at some moment
// after the call began. A follower asks the leader (askLeader, answerIndex), the leader asks its
// followers (confirm); calls that come while a question is on its way share the next one.
func (s *session) readIndex(ctx context.Context) (uint64, error) {
	if _, here := s.leader(); here {
		return s.leaderIndex(ctx)
	}
	return s.asked.Share(ctx, s.askLeader)
}

// question is what a follower says when it asks the leader for its index:
//
//	term, applied index, and last index of the log, 8 bytes each, little-endian; its ID: the rest
//
// Followers of an older version say nothing.
type question struct {
	term, applied, last uint64
	id                  raft.ServerID
}

func (q *question) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, q.term)
	b = binary.LittleEndian.AppendUint64(b, q.applied)
	return append(binary.LittleEndian.AppendUint64(b, q.last), q.id...)
}

func decodeQuestion(b []byte) (q question, ok bool) {
	if len(b) < 24 {
		return q, false
	}
	return question{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
		binary.LittleEndian.Uint64(b[16:]), raft.ServerID(b[24:])}, true
}

// askLeader asks the leader, which is another node.
func (s *session) askLeader() (uint64, error) {
	addr, here := s.leader()
	if here || addr == "" {
		return 0, errNotLeader
	}
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.cfg.ElectionTimeout)
	defer cancel()
	q := question{s.raft.CurrentTerm(), s.fsm.index(), s.log.stored.Get(), s.id()}
	b, _, err := s.peers.call(ctx, addr, opIndex, q.encode())
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNotLeader, err) // a read is tried again in any case
	}
	if len(b) != 8 {
		return 0, wire.ErrMalformed
	}
	index := binary.LittleEndian.Uint64(b)
	if index > q.last {
		s.askAgain(index)
	}
	return index, nil
}

// askAgain asks the leader once more when this node has an entry that it had not when it asked: the
// answer comes with a message that says that the entry is committed (transport.commit).
func (s *session) askAgain(index uint64) {
	if s.missing.Swap(index) != 0 {
		return // the goroutine below sees the newer index
	}
	go func() {
		for {
			index := s.missing.Load()
			if s.log.stored.Wait(s.ctx, index) != nil {
				return // the session has ended
			}
			if s.fsm.index() < index {
				// without it the entry is applied a little later
				_, _ = s.asked.Share(s.ctx, s.askLeader)
			}
			if s.missing.CompareAndSwap(index, 0) {
				return
			}
		}
	}()
}

// answerIndex answers the question of a follower. Where that follower and this node are a majority
// of the voters, the question is the acknowledgement that confirm asks for: the follower was in the
// leader's term when it asked, and it asked after its reads began. It counts for these alone, as
// reads of other nodes may have begun since.
func (s *session) answerIndex(ctx context.Context, asked []byte) (index uint64, err error) {
	q, ok := decodeQuestion(asked)
	members, err := s.configuration()
	if err != nil {
		return 0, err
	}
	both := func(id raft.ServerID) bool { return id == q.id || id == s.id() }
	if ok && q.term == s.raft.CurrentTerm() && majority(members, both) {
		index, err = s.committed(ctx, q.term)
	} else {
		index, err = s.leaderIndex(ctx)
	}
	if err == nil && ok {
		s.sayCommitted(&q, members, index)
	}
	return index, err
}

// sayCommitted tells a follower that an entry is committed which it has and has not applied, and
// reports whether it does. The message is one of the leader of the follower's term: a follower of a
// term that this node did not lead would take it for the leader of that.
func (s *session) sayCommitted(q *question, members []raft.Server, index uint64) bool {
	s.marking.Lock()
	led := s.marked
	s.marking.Unlock()
	i := slices.IndexFunc(members, func(m raft.Server) bool { return m.ID == q.id })
	if i < 0 || q.term != led || index <= q.applied || index > q.last {
		return false
	}
	go s.transport.commit(members[i], led, index)
	return true
}

// leaderIndex is readIndex on the leader.
func (s *session) leaderIndex(ctx context.Context) (uint64, error) {
	return s.confirmed.Share(ctx, s.confirm)
}

// confirm returns the commit index of a leader:
//
//  1. An entry of the leader's own term is applied: before, its commit index may lack entries that
//     the leader before it had acknowledged.
//  2. The commit index is taken.
//  3. A majority acknowledges the leader, by messages that were sent after that.
//  4. The term is still the one of the first step.
func (s *session) confirm() (uint64, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Timeout)
	defer cancel()
	term := s.raft.CurrentTerm()
	index, err := s.committed(ctx, term)
	if err == nil {
		err = s.acknowledged(ctx, s.transport.acks.begin(), term)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNotLeader, err)
	}
	if s.raft.CurrentTerm() != term {
		return 0, errNotLeader
	}
	return index, nil
}

// committed returns the commit index of a term of which an entry is applied, steps 1 and 2 of
// confirm. The caller has taken the term, or heard of it, after the reads began.
func (s *session) committed(ctx context.Context, term uint64) (uint64, error) {
	if err := s.mark(ctx, term); err != nil {
		return 0, fmt.Errorf("%w: %w", errNotLeader, err)
	}
	index := s.raft.CommitIndex()
	if s.raft.CurrentTerm() != term {
		return 0, errNotLeader
	}
	return index, nil
}

// acknowledged waits for messages of the term that began after a moment, and sends them.
// REQUIRES: the term is marked, so that this node leads it, or did.
func (s *session) acknowledged(ctx context.Context, after, term uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ElectionTimeout)
	defer cancel()
	members, err := s.configuration()
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Suffrage == raft.Voter && m.ID != s.id() {
			s.transport.probe(m, term)
		}
	}
	return s.transport.acks.wait(ctx, s.id(), members, after, term)
}

// configuration returns the members of the cluster.
func (s *session) configuration() ([]raft.Server, error) {
	f := s.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	return f.Configuration().Servers, nil
}

// mark returns when an entry of this node's own term is applied here. It writes an empty change for
// that, once a term. Unlike Raft's barrier, the change has an index that followers apply, too, so
// that they can wait for it.
func (s *session) mark(ctx context.Context, term uint64) error {
	s.marking.Lock()
	defer s.marking.Unlock()
	if s.marked == term {
		return nil
	}
	c := wire.Change{Batch: lsm.NewBatch().Bytes()}
	b, err := c.Encode()
	if err == nil {
		_, err = s.apply(ctx, b)
	}
	if err != nil {
		return err
	}
	if s.raft.CurrentTerm() != term {
		return errNotLeader
	}
	s.marked = term
	return nil
}
