package feed

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store"
)

// Follower is what feeds ask of a follower, see package follow.
type Follower interface {
	// Format is that of the logs.
	Format() base.Format
	// Synced is how many bytes of a log are known to be durable.
	Synced(log uint64) int64
	// Lost is why nothing more becomes known of, for now, or nil.
	Lost() error
}

// Of is an open database as its feeds see it. f is its Follower, or nil.
func Of(h store.Host, f Follower) Env {
	place, logs, seqs := h.Place(), h.Logs(), h.Sequences()
	env := Env{
		FS: place.FS, Dir: place.Dir, Format: func() base.Format { return place.Format },
		Visible: seqs.Visible, Oldest: logs.Oldest, Cuts: logs.Cuts, Durable: logs.Durable,
		Synced: logs.Synced, Ended: h.Health().Writable, Fail: h.Health().Fail,
		Keyspace: func(id base.KeyspaceID) string {
			if k := h.Keyspaces().ByID(id); k != nil {
				return k.Tree.Name()
			}
			return ""
		},
	}
	if f == nil {
		return env
	}
	// A feed shows what was made visible by a catch-up, counts as a read of the present, and waits
	// for the next catch-up.
	env.Follower = true
	env.Format = f.Format
	env.Visible = func() base.SeqNum {
		seqs.WaitFresh()
		return seqs.Visible()
	}
	env.Oldest = func() uint64 { return 0 } // of the logs that are there
	// What a reader has in its buffer behind the visible state may have been cut off since.
	env.Cuts = func() uint64 { return uint64(seqs.Visible()) }
	env.Durable = func(uint64, int64) bool { return false }
	env.Synced = f.Synced
	env.Ended = f.Lost
	return env
}
