package vfs

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// CrashOptions says which unsynced state survives a crash. The zero value
// drops all of it. The functions are called in an order that depends only on
// the file system's contents; they must not use the Mem.
type CrashOptions struct {
	// KeepData says whether a 4 KiB block of a file that holds bytes, or
	// allocated zeros, that were not synced is kept; nil: none is. Bytes of the
	// block that were synced are there in any case. Where a block is lost and a
	// later one kept, zeros stand in its place.
	KeepData func(name string, block int) bool
	// KeepEntry says whether a change of a directory, or the cut of an
	// allocated tail, that was not synced is kept; nil: none is.
	KeepEntry func(op DirOp) bool
	// Torn says how many of the n unsynced bytes of the last append to a file
	// are kept, provided that KeepData keeps their blocks; nil: all.
	Torn func(name string, n int) int
}

// KeepAll is the state that a killed process leaves: nothing is lost.
func KeepAll() CrashOptions {
	return CrashOptions{
		KeepData:  func(string, int) bool { return true },
		KeepEntry: func(DirOp) bool { return true },
	}
}

// DropAll is the least that a power cut leaves: all that is unsynced is lost.
func DropAll() CrashOptions { return CrashOptions{} }

// RandomBlocks keeps each block and each directory change with probability
// one half, and tears half of the last appends anywhere.
func RandomBlocks(rng *rand.Rand) CrashOptions {
	return CrashOptions{
		KeepData:  func(string, int) bool { return rng.Uint32()&1 == 0 },
		KeepEntry: func(DirOp) bool { return rng.Uint32()&1 == 0 },
		Torn: func(_ string, n int) int {
			if rng.Uint32()&1 == 0 {
				return n
			}
			return rng.IntN(n + 1)
		},
	}
}

// DirOpKind is a kind of change that needs a sync to last.
type DirOpKind uint8

// The kinds of DirOp.
const (
	DirCreate   DirOpKind = iota // Name was created in Dir
	DirMkdir                     // directory Name was made in Dir
	DirRename                    // Name in Dir became NewName in NewDir
	DirRemove                    // Name was removed from Dir
	DirTruncate                  // the allocated tail of Name was cut off; needs a Sync of the file
	DirLink                      // Name in Dir became another name of a file
)

// DirOp is a change that a crash keeps or loses as a whole.
type DirOp struct {
	Kind            DirOpKind
	Dir, Name       string
	NewDir, NewName string // DirRename only
}

// pendingOp is a change of one directory's entries since its last sync.
type pendingOp struct {
	op            DirOp
	node          *memNode
	fate          *fate
	adds, removes bool // what it does to this directory
}

// fate is shared by the two halves of a rename from one directory to another.
// synced says that one of them was synced.
type fate struct{ synced bool }

func (n *memNode) added(op DirOp, child *memNode) {
	n.pending = append(n.pending, pendingOp{op: op, node: child, fate: new(fate), adds: true})
}

func (n *memNode) removed(op DirOp, child *memNode) {
	n.pending = append(n.pending, pendingOp{op: op, node: child, fate: new(fate), removes: true})
}

// syncEntries makes the directory's present entries durable.
func (n *memNode) syncEntries() {
	for _, p := range n.pending {
		p.fate.synced = true
		p.apply(n.synced)
	}
	n.pending = nil
}

func (p *pendingOp) apply(entries map[string]*memNode) {
	if p.removes && entries[p.op.Name] == p.node {
		delete(entries, p.op.Name)
	}
	switch {
	case p.adds && p.op.Kind == DirRename:
		entries[p.op.NewName] = p.node
	case p.adds:
		entries[p.op.Name] = p.node
	}
}

// CrashClone returns a file system in a state that a crash at this instant
// could leave. All of it is durable there.
func (m *Mem) CrashClone(o CrashOptions) *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := crasher{o: o, done: make(map[*memNode]*memNode), fates: make(map[*fate]bool)}
	return &Mem{root: c.node(m.root, "/"), locks: make(map[string]int)}
}

type crasher struct {
	o     CrashOptions
	done  map[*memNode]*memNode
	fates map[*fate]bool
}

func (c *crasher) node(n *memNode, name string) *memNode {
	if done := c.done[n]; done != nil {
		return done
	}
	if !n.isDir() {
		c.done[n] = c.file(n, name)
		return c.done[n]
	}
	out := newMemDir(name)
	c.done[n] = out
	left := make(map[string]*memNode, len(n.synced))
	maps.Copy(left, n.synced)
	for i := range n.pending {
		if p := &n.pending[i]; c.keeps(p) {
			p.apply(left)
		}
	}
	for _, elem := range sortedNames(left) {
		child := c.node(left[elem], path.Join(name, elem))
		out.entries[elem], out.synced[elem] = child, child
	}
	return out
}

func (c *crasher) keeps(p *pendingOp) bool {
	if p.fate.synced {
		return true
	}
	keep, decided := c.fates[p.fate]
	if !decided {
		keep = c.o.KeepEntry != nil && c.o.KeepEntry(p.op)
		c.fates[p.fate] = keep
	}
	return keep
}

// blockSize is the unit in which unsynced data survives.
const blockSize = 4096

// file makes what is left of a file.
func (c *crasher) file(n *memNode, name string) *memNode {
	if b := n.beforeCut; b != nil && !c.keepsCut(name) {
		n = b
	}
	// Bytes [syncedData, end) and zeros up to limit are what may be kept.
	end, limit := int64(len(n.data)), n.size
	if start := max(n.lastOff, n.syncedData); c.o.Torn != nil && start < end {
		kept := min(max(c.o.Torn(name, int(end-start)), 0), int(end-start))
		if limit == end {
			limit = start + int64(kept)
		}
		end = start + int64(kept)
	}
	data, size := n.data[:n.syncedData:n.syncedData], n.syncedSize
	if n.size < n.syncedSize && c.keepsCut(name) {
		size = n.size
	}
	if c.o.KeepData != nil && (n.syncedData < end || n.syncedSize < limit) {
		for b := n.syncedData / blockSize; b*blockSize < limit; b++ {
			if !c.o.KeepData(name, int(b)) {
				continue
			}
			lo, hi := max(b*blockSize, n.syncedData), min((b+1)*blockSize, limit)
			if to := min(hi, end); to > lo {
				data = extend(data, n.data, lo, to)
			}
			size = max(size, hi)
		}
	}
	size = max(size, int64(len(data)))
	if n.former != nil {
		return c.reused(n, name, end, size)
	}
	return &memNode{
		name: name, data: slices.Clip(data), size: size, lastOff: int64(len(data)),
		syncedData: int64(len(data)), syncedSize: size,
	}
}

// reused is file for a log that was another one before: the former bytes stand where new
// ones are lost. The first end bytes were appended.
func (c *crasher) reused(n *memNode, name string, end, size int64) *memNode {
	data := make([]byte, size)
	copy(data, n.former)
	copy(data, n.data[:n.syncedData])
	for b := n.syncedData / blockSize; c.o.KeepData != nil && b*blockSize < min(end, size); b++ {
		lo, hi := max(b*blockSize, n.syncedData), min((b+1)*blockSize, end, size)
		if lo < hi && c.o.KeepData(name, int(b)) {
			copy(data[lo:hi], n.data[lo:hi])
		}
	}
	return &memNode{name: name, data: data, size: size, lastOff: size, syncedData: size,
		syncedSize: size}
}

// keepsCut decides about the unsynced cut of a file's end.
func (c *crasher) keepsCut(name string) bool {
	return c.o.KeepEntry != nil &&
		c.o.KeepEntry(DirOp{Kind: DirTruncate, Dir: path.Dir(name), Name: path.Base(name)})
}

// extend sets data[lo:hi] from src, with zeros before it where data is
// shorter. As long as data is a prefix of src the two share memory.
func extend(data, src []byte, lo, hi int64) []byte {
	if int64(len(data)) == lo && (lo == 0 || &data[0] == &src[0]) {
		return src[:hi:hi]
	}
	if gap := lo - int64(len(data)); gap > 0 {
		data = append(data, make([]byte, gap)...)
	}
	return append(data, src[lo:hi]...)
}
