package replica

import (
	"errors"
	"runtime"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/raftlog"
	"github.com/loamdb/loam/replica/internal/logsize"
	"github.com/loamdb/loam/replica/internal/waits"
)

// guard is the Raft log as Raft sees it. Raft panics where it cannot store its term or read an
// entry. The guard halts the node instead: it cuts the network first, so that no message that
// depends on the failed write leaves the node, and ends the goroutine of Raft that made the call.
type guard struct {
	*raftlog.Store
	node   *session
	stored waits.Index // index of the last entry that was stored
	size   *logsize.Log
}

var (
	_ raft.LogStore          = (*guard)(nil)
	_ raft.StableStore       = (*guard)(nil)
	_ raft.MonotonicLogStore = (*guard)(nil)
)

func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

func (g *guard) StoreLogs(logs []*raft.Log) error {
	err := g.noted(g.Store.StoreLogs(logs))
	if err == nil && len(logs) > 0 {
		g.stored.Set(logs[len(logs)-1].Index)
		g.size.Stored(logs)
	}
	return err
}

func (g *guard) DeleteRange(low, high uint64) error {
	return g.noted(g.Store.DeleteRange(low, high))
}

func (g *guard) Set(key, value []byte) error { return g.noted(g.Store.Set(key, value)) }

// noted halts the node after an error that only another opening of the log mends. Raft itself deals
// with the others: a leader steps down, a follower refuses the entries.
func (g *guard) noted(err error) error {
	if errors.Is(err, lsm.ErrReadOnly) || errors.Is(err, lsm.ErrCorruption) {
		g.node.halt(err, true)
	}
	return err
}

func (g *guard) SetUint64(key []byte, v uint64) error {
	if err := g.Store.SetUint64(key, v); err != nil {
		g.end(err)
	}
	return nil
}

// GetLog has the index and term of an entry that only a snapshot of this node ends with. Raft asks
// whether the entry before the ones that a leader sends is the leader's. Where the log begins right
// behind the snapshot it would refuse them, and would be sent the same snapshot again and again.
func (g *guard) GetLog(index uint64, l *raft.Log) error {
	err := g.Store.GetLog(index, l)
	switch {
	case err == nil:
	case !errors.Is(err, raft.ErrLogNotFound):
		g.end(err)
	default:
		if m := g.node.disk.snapshotAt(index); m != nil {
			*l = raft.Log{Index: m.Index, Term: m.Term, Type: raft.LogNoop}
			return nil
		}
	}
	return err
}

// has reports whether the node has an entry, in the log or in its snapshot.
func (g *guard) has(index, term uint64) bool {
	if all, _ := g.node.disk.List(); len(all) > 0 && all[0].Index >= index { // it cannot fail
		return true
	}
	var l raft.Log
	return g.Store.GetLog(index, &l) == nil && l.Term == term
}

// end does not return. Deferred calls of Raft run.
func (g *guard) end(err error) {
	g.node.halt(err, true)
	runtime.Goexit()
}
