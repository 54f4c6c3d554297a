package work

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// group is the group for which MakeRoom has made room: what goes to which keyspace. It is the
// write.Target of one with batches for several keyspaces, or for dropped ones. Commit leader only.
type group struct {
	shares []share
	routes []route // of the batches, in their order
	next   int     // in routes: the batch that Apply expects, or an earlier one
	sole   bool    // all entries are of the one share

	log       uint64 // that the group has begun; 0: none
	rotateLog func(last base.SeqNum) (uint64, error)
}

// share is the part of a group that goes to one keyspace.
type share struct {
	space   *Keyspace
	bytes   int64
	entries int
}

// route is where a batch goes.
type route struct {
	batch *byte      // its first one
	tree  *tree.Tree // of all its entries; nil: they go to several, or to dropped ones
}

// entryOverhead bounds the bytes of an entry in a batch besides key and value.
const entryOverhead = 16

// split divides batches among the keyspaces, which find returns, or nil for one that was dropped:
// the operations on it count as written before the drop, and are left out. It returns the bytes of
// all shares.
func (g *group) split(batches [][]byte, find func(base.KeyspaceID) *Keyspace) (bytes int64) {
	g.shares, g.routes, g.next, g.sole = g.shares[:0], g.routes[:0], 0, true
	for _, b := range batches {
		last, only := -1, true
		for it := batchrepr.Read(b); ; {
			id, _, key, value, ok := it.Next()
			if !ok {
				break
			}
			if last < 0 || g.shares[last].space.ID() != id {
				only = only && last < 0
				if last = g.shareOf(id, find); last < 0 {
					only = false
					continue
				}
				g.shares[last].bytes += batchrepr.HeaderLen
			}
			g.shares[last].bytes += int64(len(key) + len(value) + entryOverhead)
			g.shares[last].entries++
		}
		r := route{batch: &b[0]}
		if only {
			r.tree = g.shares[last].space.Tree
		}
		g.routes = append(g.routes, r)
		g.sole = g.sole && only
	}
	g.sole = g.sole && len(g.shares) == 1
	for i := range g.shares {
		bytes += g.shares[i].bytes
	}
	return bytes
}

// shareOf is the index of the share of a keyspace, which it adds; -1: the keyspace was dropped.
func (g *group) shareOf(id base.KeyspaceID, find func(base.KeyspaceID) *Keyspace) int {
	i := slices.IndexFunc(g.shares, func(sh share) bool { return sh.space.ID() == id })
	if i < 0 {
		if k := find(id); k != nil {
			i, g.shares = len(g.shares), append(g.shares, share{space: k})
		}
	}
	return i
}

// leaveOut leaves out a share whose keyspace was dropped after split.
func (g *group) leaveOut(i int) {
	for j := range g.routes {
		if g.routes[j].tree == g.shares[i].space.Tree {
			g.routes[j].tree = nil
		}
	}
	g.shares, g.sole = slices.Delete(g.shares, i, i+1), false
}

// Apply is for write.Target.
func (g *group) Apply(batch []byte, seq base.SeqNum) error {
	for g.routes[g.next].batch != &batch[0] { // the condition of one before did not hold
		g.next++
	}
	if t := g.routes[g.next].tree; t != nil {
		return t.Apply(batch, seq)
	}
	last := -1
	for it := batchrepr.Read(batch); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if last < 0 || g.shares[last].space.ID() != id {
			last = slices.IndexFunc(g.shares, func(sh share) bool { return sh.space.ID() == id })
		}
		if last < 0 {
			continue // it was dropped
		}
		if err := g.shares[last].space.Add(seq, kind, key, value); err != nil {
			return err
		}
	}
}

// boundLogs keeps a tree that is seldom written from keeping logs alive: when they
// have MaxLogs bytes, it seals the memtables that need the oldest one, and looks
// again after a quarter of a write buffer. A log is full at the size of a write
// buffer, so that there is an oldest one to delete.
func (s *Scheduler) boundLogs() error {
	w, o := s.opts.WAL, s.limits.Load()
	if w.Size() > o.WriteBuffer {
		if _, err := s.rotateLogOnce(s.opts.Seqs.Visible()); err != nil {
			return err
		}
	}
	if w.Kept() < o.MaxLogs || w.Bytes() < s.nextLook {
		return nil
	}
	s.nextLook = w.Bytes() + o.WriteBuffer/4
	oldest, pinning := s.pinOldest()
	if oldest == w.Num() {
		return nil
	}
	for _, k := range pinning {
		if err := s.rotate(k, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// pinOldest returns the number of the oldest log that is needed, and the keyspaces whose
// memtables need it. They have no sealed one, which would need an older log.
func (s *Scheduler) pinOldest() (oldest uint64, pinning []*Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest = s.opts.WAL.Num()
	for k := range s.opts.All {
		state := k.Acquire()
		if state == nil {
			continue
		}
		log, any := state.OldestLog(nil)
		sealed := len(state.Sealed) > 0
		state.Unref()
		if k.dropped || !any {
			continue
		}
		if log < oldest {
			oldest, pinning = log, pinning[:0]
		}
		if log == oldest && !sealed {
			pinning = append(pinning, k)
		}
	}
	return oldest, pinning
}

// boundMemory keeps the memtables of all trees together below MaxMemTableBytes, and those of all
// databases below their shared limit. When those that take writes have more than half of it, it
// seals the largest; when all have more, it waits for flushes. It looks again after an eighth of
// a write buffer, or a sixteenth of the bound if that is less. Commit leader only.
func (s *Scheduler) boundMemory(mode write.Mode) error {
	w := s.opts.WAL
	if w.Bytes() < s.nextWeigh {
		return nil
	}
	o := s.limits.Load()
	step := min(o.WriteBuffer/8, o.MaxMemTableBytes/16)
	if s.opts.Account != nil {
		step = min(step, s.opts.Account.Interval())
	}
	s.nextWeigh = w.Bytes() + step
	for {
		active, sealed, largest := s.memTableBytes()
		s.boundSpare(active + sealed)
		if !s.tooMuchMemory(active, sealed) || largest == nil {
			return s.wait(nil, mode)
		}
		if err := s.rotate(largest, 0, 0); err != nil {
			return err
		}
	}
}

// boundSpare frees the memory kept for the next memtable if it is too much in addition to the
// memtables, which have the given bytes. Those of one tree leave room for it: it was one of them.
func (s *Scheduler) boundSpare(memTables int64) {
	if memTables+s.opts.Spare.Bytes() > s.limits.Load().MaxMemTableBytes && s.severalTrees() {
		s.opts.Spare.Trim()
	}
}

// memTableBytes is the memory of the memtables that take writes and of sealed ones, and the
// keyspace of the largest that may be sealed now, or nil. Those of dropped keyspaces do not count.
func (s *Scheduler) memTableBytes() (active, sealed int64, largest *Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memTableBytesLocked()
}

func (s *Scheduler) memTableBytesLocked() (active, sealed int64, largest *Keyspace) {
	most := int64(0)
	for k := range s.opts.All {
		if k.dropped {
			continue
		}
		state := k.Acquire()
		if state == nil {
			continue
		}
		n := state.Mem.MemoryUsage()
		active += n
		for _, m := range state.Sealed {
			sealed += m.Mem.MemoryUsage()
		}
		if n > most && len(state.Sealed) < s.limits.Load().MaxMemTables-1 {
			most, largest = n, k
		}
		state.Unref()
	}
	return active, sealed, largest
}
