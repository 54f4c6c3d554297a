// Package messages stands between the network and hashicorp/raft: it deals with messages that come
// late, and sends large ones in parts.
package messages

import (
	"io"

	"github.com/hashicorp/raft"
)

// Node is what Late asks about the node that gets messages.
type Node struct {
	// Term returns when Raft has dealt with the messages before, with its term then.
	Term func() uint64
	// Has reports whether the node has an entry, in its log or in a snapshot.
	Has func(index, term uint64) bool
}

// Late hands messages to Raft until done is closed, but for snapshots whose last entry the node
// has, which it answers: Raft would go back to the state of such a snapshot and remove all entries
// from its log, those behind the snapshot included, on which the leader counts. The network may
// deliver a message on a connection that the leader has given up, behind those that the leader
// sent on another one since.
func Late(in <-chan raft.RPC, done <-chan struct{}, node Node) <-chan raft.RPC {
	out := make(chan raft.RPC)
	go func() {
		for {
			var m raft.RPC
			select {
			case m = <-in:
			case <-done:
				return
			}
			if r, ok := m.Command.(*raft.InstallSnapshotRequest); ok && node.answers(m, r) {
				continue
			}
			select {
			case out <- m:
			case <-done:
				return
			}
		}
	}()
	return out
}

// answers answers a snapshot whose last entry the node has, and reports whether it did.
func (n *Node) answers(m raft.RPC, r *raft.InstallSnapshotRequest) bool {
	term := n.Term()
	if r.Term < term || !n.Has(r.LastLogIndex, r.LastLogTerm) {
		return false // Raft refuses an older term by itself
	}
	go func() {
		// the connection that cannot be read takes no answer either
		_, _ = io.Copy(io.Discard, m.Reader)
		m.Respond(&raft.InstallSnapshotResponse{Term: r.Term, Success: true}, nil)
	}()
	return true
}
