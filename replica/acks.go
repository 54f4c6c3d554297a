package replica

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// acks knows when the calls began that followers acknowledged last. Raft.VerifyLeader counts every
// acknowledgement that arrives, also one of a call that began long before: a follower may have
// voted for another leader since. Linearizable reads want calls that began after them.
type acks struct {
	mu      sync.Mutex
	clock   uint64 // counts calls
	newest  uint64 // term of any answer
	last    map[raft.ServerID]ack
	changed chan struct{}
}

type ack struct{ began, term uint64 }

func (a *acks) init() {
	a.last, a.changed = map[raft.ServerID]ack{}, make(chan struct{})
}

// refused notes an answer of a later term.
func (a *acks) refused(term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term > a.newest {
		a.newest = term
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// begin returns the moment at which a call begins.
func (a *acks) begin() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock++
	return a.clock
}

func (a *acks) note(id raft.ServerID, began, term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.last[id]; l.term == term && l.began >= began {
		return
	}
	a.last[id] = ack{began, term}
	close(a.changed)
	a.changed = make(chan struct{})
}

// wait returns when a majority of the voters, this node one of them, acknowledged calls of the term
// that began after a moment. It fails when a follower was in a later term.
func (a *acks) wait(ctx context.Context, self raft.ServerID, members []raft.Server, after,
	term uint64) error {
	for {
		a.mu.Lock()
		agree := majority(members, func(id raft.ServerID) bool {
			l := a.last[id]
			return id == self || l.term == term && l.began > after
		})
		changed, newest := a.changed, a.newest
		a.mu.Unlock()
		switch {
		case agree:
			return nil
		case newest > term:
			return errNotLeader
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// majority reports whether most voters agree.
func majority(members []raft.Server, agrees func(id raft.ServerID) bool) bool {
	voters, agree := 0, 0
	for _, m := range members {
		if m.Suffrage != raft.Voter {
			continue
		}
		voters++
		if agrees(m.ID) {
			agree++
		}
	}
	return agree > voters/2
}

// probes are the heartbeats that reads ask for, at most one on its way to each follower: Raft's own
// come at times of its own, and Raft.VerifyLeader, which asks for them, passes four goroutines.
type probes struct {
	mu   sync.Mutex
	next map[raft.ServerID]uint64 // term of the next one, by followers that one is on its way to
}

// probe has a heartbeat of a term sent that begins after now.
// REQUIRES: this node leads the term, or did: a follower takes the sender for its leader.
func (t *transport) probe(to raft.Server, term uint64) {
	p := &t.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	_, underWay := p.next[to.ID]
	if p.next[to.ID] = term; !underWay {
		go t.heartbeats(to)
	}
}

// heartbeats sends one after the other until none is asked for.
func (t *transport) heartbeats(to raft.Server) {
	p := &t.probes
	for {
		p.mu.Lock()
		term := p.next[to.ID]
		if term == 0 {
			delete(p.next, to.ID)
			p.mu.Unlock()
			return
		}
		p.next[to.ID] = 0
		p.mu.Unlock()
		var answer raft.AppendEntriesResponse
		// readers wait for an acknowledgement, and not for an error
		_ = t.AppendEntries(to.ID, to.Address, t.message(term), &answer)
	}
}

// commit tells a follower that an entry is committed: it has the entry, and would hear of that with
// the next entries, or after Config.commitTimeout. Where the message is lost, it does.
// REQUIRES: the entry is of this term, which this node leads, or did.
func (t *transport) commit(to raft.Server, term, index uint64) {
	m := t.message(term)
	m.PrevLogEntry, m.PrevLogTerm, m.LeaderCommitIndex = index, term, index
	var answer raft.AppendEntriesResponse
	_ = t.AppendEntries(to.ID, to.Address, m, &answer)
}

// message is one of this node as the leader of a term.
func (t *transport) message(term uint64) *raft.AppendEntriesRequest {
	self := t.EncodePeer(raft.ServerID(t.cfg.ID), raft.ServerAddress(t.cfg.Addr))
	return &raft.AppendEntriesRequest{Term: term, RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.cfg.ID), Addr: self}}
}
