package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/meeting"
)

// self is this node as others meet it.
func (s *session) self() meeting.Node {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return meeting.Node{ID: s.cfg.ID, Mark: s.disk.state.Mark}
}

// meet refuses a member that comes with another directory than before, and a node at the address of
// a member, as what is said to that one would count for it. Of others it knows nothing.
func (s *session) meet(other meeting.Node, at string) error {
	select {
	case <-s.begun:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	member := false
	for _, m := range s.members() {
		if member = member || m.ID == other.ID; m.Addr == at && m.ID != other.ID {
			return fmt.Errorf("this is the address of the node %q, and the node %q is there", m.ID,
				other.ID)
		}
	}
	if !member {
		return nil
	}
	err := s.disk.changeBook(func(b meeting.Book) (meeting.Book, error) { return b.Note(other) })
	if errors.Is(err, lsm.ErrNoSpace) {
		return nil // it is noted when there is space
	}
	return err
}

// changeBook changes the book of the node, which is stored before it counts.
func (k *disk) changeBook(f func(meeting.Book) (meeting.Book, error)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.state
	var err error
	if s.Met, err = f(s.Met); err != nil || len(s.Met) == len(k.state.Met) {
		return err // a book of the same length is the same one
	}
	return k.save(s)
}

// left forgets the directories of nodes that a configuration has not: when such a node enters again
// it is a new one.
func (f *fsm) left(c raft.Configuration) {
	err := f.node.disk.changeBook(func(b meeting.Book) (meeting.Book, error) {
		return b.Keep(func(id string) bool {
			return slices.ContainsFunc(c.Servers, func(s raft.Server) bool {
				return string(s.ID) == id
			})
		}), nil
	})
	if err != nil { // the node would be refused under its old name
		f.node.cfg.log("forgetting a node that left failed", "error", err)
	}
}

// acquaint calls each member that this node has not met, from time to time, so that all know each
// other's directories before one of them is lost.
func (s *session) acquaint() {
	told := false
	for {
		for _, m := range s.members() {
			if m.ID == s.cfg.ID || s.disk.hasMet(m.ID) {
				continue
			}
			ctx, cancel := context.WithTimeout(s.ctx, s.cfg.ElectionTimeout)
			_, _, err := s.peers.call(ctx, m.Addr, opPing, nil)
			cancel()
			if errors.Is(err, meeting.ErrOther) && errors.Is(err, ErrRefused) && !told {
				told = true
				s.cfg.log("a member refuses this node", "error", err)
				s.event(Event{Kind: Refused, Err: err})
			}
		}
		select {
		case <-time.After(s.cfg.ElectionTimeout):
		case <-s.ctx.Done():
			return
		}
	}
}

func (k *disk) hasMet(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state.Met[id] != ""
}

// unmarked says that a directory has databases, and a Raft log without their names.
func (k *disk) unmarked() error {
	names, err := k.fs.List(k.dir)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(names, ours.MatchString); i >= 0 {
		return fmt.Errorf("replica: %s has %s, and a Raft log that is new: bring its directory "+
			"raft back, or begin in an empty directory: %w", k.dir, names[i], ErrForeign)
	}
	return nil
}
