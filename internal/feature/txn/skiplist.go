package txn

import (
	"math"
	"math/rand/v2"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// maxHeight is enough for lists of 4^12 nodes; larger ones become slower by and by.
const maxHeight = 12

// newest and oldest are limits for find: before the newest entry of a key, and behind
// its oldest one.
const (
	newest = math.MaxUint64
	oldest = 0
)

// node is an entry in a list. A link to node 0, the head, is the end.
type node struct {
	off        uint32 // of the entry in the batch
	next, prev uint32
	tower      uint32 // of a node with links above level 0: where they are, else 0
}

// skipList is the entries of a keyspace, sorted by key, then by descending offset. Nodes are in the
// order of their entries, so that the last entries of a batch are the last nodes.
type skipList struct {
	cmp   *base.Comparer
	nodes []node // the first is the head
	// towers[t] is how many links a node with tower t has above level 0; they follow.
	towers []uint32
	heads  [maxHeight]uint32 // the first node on each level above 0
	height int               // levels in use
}

func (l *skipList) init(c *base.Comparer) {
	l.cmp = c
	l.nodes = append(l.nodes[:0], node{})
	l.towers = append(l.towers[:0], 0)
	l.heads = [maxHeight]uint32{}
	l.height = 1
}

// entryAt reads the entry at an offset of a batch that was made by this package.
func entryAt(repr []byte, off uint32) (kind base.Kind, key, value []byte) {
	it := batchrepr.ReadAt(repr, int(off))
	_, kind, key, value, _ = it.Next()
	return kind, key, value
}

func (l *skipList) key(repr []byte, n uint32) []byte {
	_, key, _ := entryAt(repr, l.nodes[n].off)
	return key
}

// link is the node behind n on a level that n reaches.
func (l *skipList) link(n uint32, level int) uint32 {
	switch {
	case level == 0:
		return l.nodes[n].next
	case n == 0:
		return l.heads[level]
	}
	return l.towers[l.nodes[n].tower+uint32(level)]
}

func (l *skipList) setLink(n uint32, level int, to uint32) {
	switch {
	case level == 0:
		l.nodes[n].next = to
	case n == 0:
		l.heads[level] = to
	default:
		l.towers[l.nodes[n].tower+uint32(level)] = to
	}
}

// find returns the last node before the entries of key whose offsets are below limit,
// and the like on each level in before, unless that is nil.
func (l *skipList) find(repr, key []byte, limit uint64, before *[maxHeight]uint32) uint32 {
	n, seen := uint32(0), uint32(0)
	for level := l.height - 1; level >= 0; level-- {
		for {
			next := l.link(n, level)
			if next == 0 || next == seen {
				break
			}
			if c := l.cmp.Cmp(l.key(repr, next), key); c > 0 || c == 0 &&
				uint64(l.nodes[next].off) < limit {
				seen = next // not before, on lower levels neither
				break
			}
			n = next
		}
		if before != nil {
			before[level] = n
		}
	}
	return n
}

// add inserts the entry at off, which is the last one of the batch.
func (l *skipList) add(repr []byte, off uint32, key []byte) {
	var before [maxHeight]uint32
	l.find(repr, key, newest, &before)
	n := uint32(len(l.nodes))
	l.nodes = append(l.nodes, node{off: off})
	height := 1
	for r := rand.Uint32(); r&3 == 0 && height < maxHeight; r >>= 2 {
		height++
	}
	if height > 1 {
		l.nodes[n].tower = uint32(len(l.towers))
		l.towers = append(append(l.towers, uint32(height-1)), make([]uint32, height-1)...)
	}
	l.height = max(l.height, height)
	for level := range height {
		l.setLink(n, level, l.link(before[level], level))
		l.setLink(before[level], level, n)
	}
	l.nodes[n].prev = before[0]
	l.nodes[l.nodes[n].next].prev = n
}

// removeLast removes the entry that was added last. It is the newest of its key, so that
// on each level it is the first node that is not before the key.
func (l *skipList) removeLast(repr []byte) {
	n := uint32(len(l.nodes) - 1)
	var before [maxHeight]uint32
	l.find(repr, l.key(repr, n), newest, &before)
	height := 1
	if t := l.nodes[n].tower; t != 0 {
		height += int(l.towers[t])
	}
	for level := range height {
		l.setLink(before[level], level, l.link(n, level))
	}
	l.nodes[l.nodes[n].next].prev = before[0]
	if t := l.nodes[n].tower; t != 0 {
		l.towers = l.towers[:t]
	}
	l.nodes = l.nodes[:n]
}

// first returns the newest node of key whose offset is below limit, 0 if there is none.
func (l *skipList) first(repr, key []byte, limit uint64) uint32 {
	n := l.nodes[l.find(repr, key, limit, nil)].next
	if n == 0 || l.cmp.Cmp(l.key(repr, n), key) != 0 {
		return 0
	}
	return n
}

// groupSteps is how many versions of a key are passed one by one before a search goes
// over the rest.
const groupSteps = 8

// behind is the first node with a larger key than that of n.
func (l *skipList) behind(repr []byte, n uint32) uint32 {
	key := l.key(repr, n)
	for range groupSteps {
		n = l.nodes[n].next
		if n == 0 || l.cmp.Cmp(l.key(repr, n), key) != 0 {
			return n
		}
	}
	return l.nodes[l.find(repr, key, oldest, nil)].next
}

// start is the newest node with the key of n.
func (l *skipList) start(repr []byte, n uint32) uint32 {
	key := l.key(repr, n)
	if p := l.nodes[n].prev; p == 0 || l.cmp.Cmp(l.key(repr, p), key) != 0 {
		return n
	}
	return l.nodes[l.find(repr, key, newest, nil)].next
}
