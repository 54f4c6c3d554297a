package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/wire"
)

// AddVoter adds a node to the cluster, or makes a reader a voter, or changes its address, unless
// another member has it. The node is opened first, with neither Peers nor Join. It returns when the
// change of the membership is committed; the node gets the data meanwhile and afterwards. It fails
// as a change does, and is safe to try again; as not applied, and ErrUnavailable, where the node
// does not answer at the address, or most voters do not.
func (n *Node) AddVoter(ctx context.Context, id, addr string) error {
	return n.changeMember(ctx, opAddVoter, id, addr)
}

// AddReader adds a node that gets all changes and has no vote, for reads.
func (n *Node) AddReader(ctx context.Context, id, addr string) error {
	return n.changeMember(ctx, opAddReader, id, addr)
}

// Remove takes a node out of the cluster, which then may be closed. Its ID must not be used again
// but with its directory. It fails as AddVoter where most of the other voters do not answer.
func (n *Node) Remove(ctx context.Context, id string) error {
	return n.changeMember(ctx, opRemove, id, "")
}

// TransferLeader makes another voter the leader: the one with that ID, or, if it is "", the one
// with the most entries. Before a leader is closed it saves the others an election. It returns when
// the node that led knows another leader, which may be a third one if the voters chose so.
func (n *Node) TransferLeader(ctx context.Context, id string) error {
	return n.changeMember(ctx, opTransfer, id, "")
}

func (n *Node) changeMember(ctx context.Context, op operation, id, addr string) error {
	if id == "" && op != opTransfer || addr != "" && !hasPort(addr) ||
		addr == "" && (op == opAddVoter || op == opAddReader || op == opJoin) {
		return conclude(invalid("a member needs an ID and an address with a port"))
	}
	return n.lead(ctx, op != opTransfer, nil, func(ctx context.Context, s *session) error {
		leader, here := s.leader()
		if here {
			return s.member(ctx, op, id, addr)
		}
		args := wire.AppendBytes(wire.AppendBytes(nil, []byte(id)), []byte(addr))
		_, err := s.forward(ctx, leader, op, args)
		return err
	})
}

// member changes the membership as the leader.
func (s *session) member(ctx context.Context, op operation, id, addr string) error {
	sid, sa := raft.ServerID(id), raft.ServerAddress(addr)
	at, err := s.vacant(op, id, addr)
	if err == nil {
		err = s.outlasts(ctx, op, raft.Server{ID: sid, Address: sa})
	}
	if err != nil {
		return conclude(err)
	}
	var f func() raft.Future
	switch op {
	case opAddVoter, opJoin:
		f = func() raft.Future { return s.raft.AddVoter(sid, sa, at, s.cfg.Timeout) }
	case opAddReader:
		f = func() raft.Future { return s.raft.AddNonvoter(sid, sa, at, s.cfg.Timeout) }
	case opRemove:
		f = func() raft.Future { return s.raft.RemoveServer(sid, 0, s.cfg.Timeout) }
	default:
		return s.transfer(ctx, id)
	}
	if err := s.await(ctx, func() error { return f().Error() }); err != nil {
		return refusal(err)
	}
	return nil
}

// vacant checks that the members leave room for a node that is added, and returns the index of
// their configuration, so that no other change comes between. A node that joins is a new one: with
// the ID of a member it would take that one's place, and its vote, without its log.
func (s *session) vacant(op operation, id, addr string) (index uint64, err error) {
	if op != opAddVoter && op != opAddReader && op != opJoin {
		return 0, nil
	}
	f := s.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return 0, err
	}
	for _, m := range f.Configuration().Servers {
		switch {
		case string(m.ID) == id && string(m.Address) != addr && op == opJoin:
			return 0, invalid("the cluster has a node %q already, at %s: give the new one a "+
				"name that no node ever had", id, m.Address)
		case string(m.ID) != id && string(m.Address) == addr:
			return 0, invalid("the node %q of the cluster has the address %s already", m.ID, addr)
		}
	}
	return f.Index(), nil
}

// outlasts refuses a change after which the voters that answer are no majority: nothing could be
// changed then, the membership included. A voter that is added has to answer itself.
func (s *session) outlasts(ctx context.Context, op operation, m raft.Server) error {
	members, err := s.configuration()
	i := slices.IndexFunc(members, func(o raft.Server) bool { return o.ID == m.ID })
	votes := i >= 0 && members[i].Suffrage == raft.Voter
	adds := op == opAddVoter || op == opJoin
	if err != nil || adds && votes && members[i].Address == m.Address ||
		!adds && (op != opRemove || !votes) {
		return err
	}
	if members = slices.Clone(members); i >= 0 {
		members = slices.Delete(members, i, i+1)
	}
	if adds {
		members = append(members, m)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.ElectionTimeout)
	defer cancel()
	answers := make([]bool, len(members))
	var asked sync.WaitGroup
	for i, o := range members {
		asked.Go(func() { answers[i] = s.answers(ctx, o) })
	}
	asked.Wait()
	answer := func(id raft.ServerID) bool {
		return answers[slices.IndexFunc(members, func(o raft.Server) bool { return o.ID == id })]
	}
	switch {
	case adds && !answer(m.ID):
		return fmt.Errorf("%w: the node %q does not answer at %s: start it first", ErrUnavailable,
			m.ID, m.Address)
	case len(members) > 0 && !majority(members, answer):
		return fmt.Errorf("%w: of the voters that would be left too few answer", ErrUnavailable)
	}
	return nil
}

// answers reports whether a node answers at its address.
func (s *session) answers(ctx context.Context, m raft.Server) bool {
	if m.ID == s.id() {
		return true
	}
	q, err := s.peers.peer(ctx, string(m.Address))
	if err == nil && q.id == string(m.ID) {
		_, _, err = q.call(ctx, opPing, nil)
		return err == nil
	}
	return false
}

func (s *session) transfer(ctx context.Context, id string) error {
	if s.raft.State() != raft.Leader {
		return errNotLeader
	}
	f := s.raft.LeadershipTransfer
	if id != "" {
		all := s.members()
		i := slices.IndexFunc(all, func(m Member) bool { return m.ID == id && m.Voter })
		switch {
		case i < 0:
			return conclude(invalid("no voter is named %q", id))
		case id == s.cfg.ID:
			return nil
		}
		f = func() raft.Future {
			return s.raft.LeadershipTransferToServer(raft.ServerID(id),
				raft.ServerAddress(all[i].Addr))
		}
	}
	if err := s.await(ctx, func() error { return f().Error() }); err != nil {
		return unknown(err)
	}
	for p := (pause{}); ; { // this node leads no more, the next leader is yet to be elected
		if addr, here := s.leader(); addr != "" || here {
			return nil
		}
		if err := p.wait(ctx); err != nil {
			return unknown(err)
		}
	}
}

// members are those of the latest configuration that the node has.
func (s *session) members() (out []Member) {
	f := s.raft.GetConfiguration()
	if f.Error() != nil {
		return nil // it does not fail
	}
	for _, m := range f.Configuration().Servers {
		out = append(out, Member{string(m.ID), string(m.Address), m.Suffrage == raft.Voter})
	}
	return out
}

func sortServers(all []raft.Server) {
	slices.SortFunc(all, func(a, b raft.Server) int { return cmp.Compare(a.ID, b.ID) })
}

// enter asks the nodes of Config.Join, one after the other, to add this node, until one has or this
// node hears that it is a member.
func (n *Node) enter() {
	args := wire.AppendBytes(wire.AppendBytes(nil, []byte(n.cfg.ID)), []byte(n.cfg.Addr))
	var pause pause
	told := map[string]string{} // errors, by address: each is told once in a row
	for {
		for _, addr := range n.cfg.Join {
			s := n.run.Load()
			if len(s.members()) > 0 {
				return
			}
			ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Timeout)
			_, _, err := s.peers.call(ctx, addr, opJoin, args)
			cancel()
			if err == nil {
				return
			}
			if told[addr] == err.Error() || n.ctx.Err() != nil {
				continue
			}
			told[addr] = err.Error()
			n.cfg.log("joining the cluster failed", "at", addr, "error", err)
			if errors.Is(err, ErrRefused) || errors.Is(err, lsm.ErrInvalidArgument) {
				s.event(Event{Kind: Refused, Err: err})
			}
		}
		if pause.wait(n.ctx) != nil {
			return
		}
	}
}
