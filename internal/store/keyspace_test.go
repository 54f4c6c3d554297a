package store

import (
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/tree"
)

// TestLastSnapshotBesideADrop closes the last snapshot that may read a dropped keyspace between
// the two steps of another closeUnread. It still counts as unread: the caller of Close looks at the
// count afterwards, and drops the tree, whose tables would stay until the database is closed.
func TestLastSnapshotBesideADrop(t *testing.T) {
	seqs := &tree.Sequences{}
	k := &Keyspace{Tree: tree.New(tree.Options{ID: 1, Name: "k", Comparer: base.Bytewise,
		MemTableSize: 1 << 16}, tree.Shared{Seqs: seqs, Reads: epoch.New(nil),
		Holders: tree.NewHolders(func() {}), Ops: tree.NewOperations()})}
	k.Tree.Start(1, nil, manifest.NoTables())
	var s keyspaces
	s.list.Store(&[]*Keyspace{k})
	var snap tree.Snapshot
	seqs.Open(&snap)
	seqs.Refuse(k.Tree)
	s.unread.Add(1)
	k.dropped.Store(true)

	over := s.dropUnread(seqs)
	snap.Close()
	s.unlist(over)
	if s.unread.Load() == 0 {
		t.Error("nobody drops the tree any more")
	}
	s.closeUnread(seqs)
	if state := k.Tree.Acquire(); state != nil {
		state.Unref()
		t.Error("the tree has a state")
	}
	if n := s.unread.Load(); n != 0 {
		t.Errorf("%d keyspaces count as unread", n)
	}
}
