package replica

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestLateSnapshot: a message that installs a snapshot and arrives late, when the follower has
// further entries, takes none of them away: the leader counts on them.
func TestLateSnapshot(t *testing.T) {
	c := newCluster(t, func(cfg *Config) {
		cfg.TrailingEntries, cfg.ElectionTimeout = 1, time.Second
	}, "a", "b", "c")
	led := c.leader()
	n, id := c.nodes[led], c.follower(led)
	put(t, n, "k", "1")
	s := n.run.Load()
	must(t, s.raft.Snapshot().Error())
	list, err := s.disk.List()
	must(t, err)
	meta, stream, err := s.disk.Open(list[0].ID)
	must(t, err)
	sent, err := io.ReadAll(stream)
	must(t, err, stream.Close())
	install := func(term uint64) (answer raft.InstallSnapshotResponse) {
		t.Helper()
		r := raft.InstallSnapshotRequest{RPCHeader: s.transport.message(term).RPCHeader,
			SnapshotVersion: meta.Version, Term: term, LastLogIndex: meta.Index,
			LastLogTerm: meta.Term, Size: meta.Size, ConfigurationIndex: meta.ConfigurationIndex,
			Configuration: raft.EncodeConfiguration(meta.Configuration)}
		must(t, s.transport.InstallSnapshot(raft.ServerID(id), raft.ServerAddress(addr(id)), &r,
			&answer, bytes.NewReader(sent)))
		return answer
	}
	put(t, n, "k", "2")
	c.caughtUp(id, led)
	f := c.nodes[id].run.Load()
	before, err := f.log.LastIndex()
	must(t, err)
	for range 2 {
		if a := install(s.raft.CurrentTerm()); !a.Success || a.Term != s.raft.CurrentTerm() {
			t.Errorf("the follower answers %+v", a)
		}
		if last, err := f.log.LastIndex(); err != nil || last < before {
			t.Errorf("the log ends with entry %d, and did with %d, %v", last, before, err)
		}
		has(t, c.nodes[id], "k", "2")
		must(t, f.raft.Snapshot().Error()) // now the entry is in its snapshot alone
		put(t, n, "l", "3")
		c.caughtUp(id, led)
	}
	if a := install(1); a.Success || a.Term != s.raft.CurrentTerm() {
		t.Errorf("the follower answers a leader of before by %+v", a)
	}
	has(t, c.nodes[id], "k", "2")
	has(t, c.nodes[id], "l", "3")
}
