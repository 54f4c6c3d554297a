package messages

import "github.com/hashicorp/raft"

// PartBytes is what the entries of one message have at most, unless a single one has more.
const PartBytes = 4 << 20

// InParts calls send with a message, or, where its entries have more than PartBytes, with one part
// of them after the other: a message has a time-out, and a slow network would never bring a larger
// one to a follower that is behind. It ends with the first part that is not taken. Where parts
// before were taken, r has their entries alone then, and w the answer to them: Raft goes on behind.
func InParts(r *raft.AppendEntriesRequest, w *raft.AppendEntriesResponse,
	send func(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error) error {
	all := r.Entries
	if first(all) == len(all) {
		return send(r, w)
	}
	part := *r
	for sent := 0; sent < len(all); sent += len(part.Entries) {
		if part.Entries = all[sent:]; sent > 0 {
			part.PrevLogEntry, part.PrevLogTerm = all[sent-1].Index, all[sent-1].Term
		}
		part.Entries = part.Entries[:first(part.Entries)]
		var answer raft.AppendEntriesResponse
		err := send(&part, &answer)
		deposed := err == nil && answer.Term > r.Term
		if taken := err == nil && answer.Success; !taken && !deposed && sent > 0 {
			r.Entries = all[:sent]
			return nil
		}
		if *w = answer; err != nil || !answer.Success || deposed {
			return err
		}
	}
	return nil
}

// first returns how many of the first entries one part has.
func first(all []*raft.Log) int {
	size := 0
	for i, e := range all {
		if size += len(e.Data); size > PartBytes && i > 0 {
			return i
		}
	}
	return len(all)
}
