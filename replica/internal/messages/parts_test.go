package messages_test

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/replica/internal/messages"
)

// follower is a log that takes entries as Raft does, up to a number of parts.
type follower struct {
	last, term uint64 // of the last entry
	parts      int
	end        func(*raft.AppendEntriesResponse) error // what becomes of the part behind them
	taken      int
}

func (f *follower) send(r *raft.AppendEntriesRequest, w *raft.AppendEntriesResponse) error {
	size := 0
	for _, e := range r.Entries {
		size += len(e.Data)
	}
	if size > messages.PartBytes && len(r.Entries) > 1 {
		return errors.New("too large")
	}
	w.Term = 5
	if f.taken == f.parts {
		return f.end(w)
	}
	if f.taken++; r.PrevLogEntry != f.last || r.PrevLogTerm != f.term {
		return nil
	}
	for _, e := range r.Entries {
		f.last, f.term = e.Index, e.Term
	}
	w.Success = true
	return nil
}

// TestInParts: a follower gets all entries of a large message, and Raft hears how far that went.
func TestInParts(t *testing.T) {
	cut := errors.New("cut")
	for _, x := range []struct {
		parts   int
		end     func(*raft.AppendEntriesResponse) error
		entries int    // of the message afterwards
		term    uint64 // of the answer
		success bool
		err     error
	}{
		{parts: 9, entries: 8, term: 5, success: true},
		{0, func(*raft.AppendEntriesResponse) error { return cut }, 8, 0, false, cut},
		{0, func(*raft.AppendEntriesResponse) error { return nil }, 8, 5, false, nil},
		{2, func(*raft.AppendEntriesResponse) error { return cut }, 4, 5, true, nil},
		{2, func(*raft.AppendEntriesResponse) error { return nil }, 4, 5, true, nil},
		{2, func(w *raft.AppendEntriesResponse) error { w.Term = 6; return nil }, 8, 6, false, nil},
	} {
		r := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 7, PrevLogTerm: 2,
			LeaderCommitIndex: 99}
		for i, size := range []int{1, 3 << 20, 2 << 20, 1 << 20, 9 << 20, 0, 4 << 20, 1} {
			r.Entries = append(r.Entries, &raft.Log{Index: 8 + uint64(i), Term: 2 + uint64(i)/4,
				Data: make([]byte, size)})
		}
		f := &follower{last: 7, term: 2, parts: x.parts, end: x.end}
		var w raft.AppendEntriesResponse
		err := messages.InParts(r, &w, f.send)
		if err != x.err || len(r.Entries) != x.entries || w.Success != x.success ||
			err == nil && w.Term != x.term {
			t.Errorf("%d parts: %d entries, %+v, %v", x.parts, len(r.Entries), w, err)
		}
		if x.success && f.last != r.Entries[len(r.Entries)-1].Index {
			t.Errorf("%d parts: the follower has entries up to %d", x.parts, f.last)
		}
	}
}
