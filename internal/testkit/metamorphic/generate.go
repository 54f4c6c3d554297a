package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// weights is how often each kind comes up before the history's own bias.
var weights = [numKinds]int{
	opPut: 300, opDelete: 80, opDeleteRange: 4, opMerge: 80, opBatch: 60, opGet: 120, opHas: 30,
	opTryGet: 30, opMultiGet: 20, opSnapshot: 12, opCloseSnapshot: 10, opSnapshotGet: 30,
	opSnapshotMultiGet: 8, opSnapshotScan: 2, opIter: 25, opCloseIter: 15, opFirst: 15, opLast: 15,
	opSeekGE: 50, opSeekLT: 40, opNext: 90, opPrev: 80, opSetBounds: 8, opNextBlock: 12,
	opPrevBlock: 12, opAll: 2, opBackward: 2, opPrefix: 3, opFlush: 1, opCompact: 1, opPause: 1,
	opResume: 2, opReopen: 1, opOpenTwice: 1, opCheckpoint: 1, opDump: 1, opIngest: 3, opLoad: 1,
	opSizes: 2, opSetOption: 2, opDrop: 1, opCheck: 1,
}

// generator draws the operations of one history.
type generator struct {
	rng      *rand.Rand
	cmp      *base.Comparer
	weights  [numKinds]int
	total    int
	keySpace int
	style    int // of keys
	maxValue int
	seeds    uint32

	shape      shape
	head, tail int // of the queue: where the next put and deletion are
}

// shape is how puts and deletions follow each other. Where they are not anywhere, they leave many
// deleted keys side by side.
type shape int

const (
	anywhere shape = iota
	queue          // what was put first is deleted first
	stack          // what was put last is deleted first
	windows        // batches delete keys side by side
	numShapes
)

// generate returns the history of a seed: n operations and the comparer. The
// seed also picks the bias: which operations are frequent, what keys look
// like, how large values are.
func generate(seed int64, n int) ([]op, *base.Comparer) {
	return draw(rand.New(rand.NewPCG(uint64(seed), 0x6c6f616d)), n)
}

// draw is generate with the choices that rng makes.
func draw(rng *rand.Rand, n int) ([]op, *base.Comparer) {
	g := &generator{rng: rng, cmp: base.Bytewise, style: rng.IntN(4)}
	if rng.IntN(4) == 0 {
		g.cmp = base.ReverseBytewise
	}
	g.keySpace = []int{8, 100, 1000, 5000}[rng.IntN(4)]
	g.maxValue = []int{16, 100, 400, 3000}[rng.IntN(4)]
	for k, w := range weights {
		g.weights[k] = w * []int{1, 1, 2, 6}[rng.IntN(4)]
		if k != int(opPut) && rng.IntN(8) == 0 {
			g.weights[k] = 0
		}
		g.total += g.weights[k]
	}
	if rng.IntN(3) == 0 {
		g.beginShape(shape(1 + rng.IntN(int(numShapes)-1)))
	}
	ops := make([]op, 0, n+1)
	for range n {
		ops = append(ops, g.op())
	}
	return append(ops, op{kind: opCheck}), g.cmp
}

// beginShape makes deletions as frequent as puts.
func (g *generator) beginShape(s shape) {
	g.shape, g.style = s, 0 // keys in the order of their numbers
	g.keySpace = max(g.keySpace, 1000)
	g.total -= g.weights[opDelete]
	g.weights[opDelete] = g.weights[opPut]
	g.total += g.weights[opDelete]
}

// side is the key of a put or deletion in a queue or stack, and false in other shapes.
func (g *generator) side(k kind) (key []byte, ok bool) {
	if g.shape != queue && g.shape != stack || k != opPut && k != opDelete || g.rng.IntN(16) == 0 {
		return nil, false
	}
	i := &g.head
	switch {
	case k == opPut:
		*i++
		return g.keyAt(*i - 1), true
	case g.tail >= g.head:
		return nil, false
	case g.shape == stack:
		*i--
		return g.keyAt(*i), true
	}
	g.tail++
	return g.keyAt(g.tail - 1), true
}

// window is the deletions of keys side by side.
func (g *generator) window() (ops []op) {
	from, space := g.rng.IntN(g.keySpace), g.rng.IntN(maxSpaces)
	for i := range 1 + g.rng.IntN(200) {
		ops = append(ops, op{kind: opDelete, slot: -1, from: -1, space: space,
			key: g.keyAt(from + i)})
	}
	return ops
}

func (g *generator) kind() kind {
	x := g.rng.IntN(g.total)
	for k, w := range g.weights {
		if x -= w; x < 0 {
			return kind(k)
		}
	}
	return opPut
}

func (g *generator) op() (o op) {
	o = op{kind: g.kind(), slot: g.rng.IntN(slots), from: -1}
	defer func(space int) { o.space = space }(g.rng.IntN(maxSpaces))
	switch o.kind {
	case opPut, opDelete, opMerge, opDeleteRange:
		o = g.write(o.kind)
		o.sync = g.rng.IntN(20) == 0
	case opBatch:
		if g.shape == windows && g.rng.IntN(2) == 0 {
			o.sub = g.window()
			break
		}
		for range g.rng.IntN(1 << g.rng.IntN(8)) {
			k := opPut
			switch g.rng.IntN(8) {
			case 0, 1:
				k = opDelete
			case 2, 3:
				k = opMerge
			}
			if g.rng.IntN(64) == 0 {
				k = opDeleteRange
			}
			w := g.write(k)
			w.space = g.rng.IntN(maxSpaces)
			o.sub = append(o.sub, w)
		}
		o.n = g.rng.IntN(3) // how the batch is put together
		o.sync = g.rng.IntN(10) == 0
	case opIngest, opLoad:
		for range g.rng.IntN(1 << g.rng.IntN(9)) {
			k := opPut
			switch x := g.rng.IntN(32); {
			case o.kind == opLoad:
			case x < 8:
				k = opDelete
			case x == 8:
				k = opDeleteRange
			}
			o.sub = append(o.sub, g.write(k))
		}
		o.n = g.rng.IntN(1 << 20)
	case opMultiGet, opSnapshotMultiGet:
		for range g.rng.IntN(70) {
			o.sub = append(o.sub, op{kind: opGet, key: g.key()})
		}
	case opIter:
		o.key, o.limit = g.bounds()
		o.keysOnly = g.rng.IntN(5) == 0
		if g.rng.IntN(3) == 0 {
			o.from = g.rng.IntN(slots)
		}
		if g.cmp == base.Bytewise && g.rng.IntN(5) == 0 {
			o.prefix = g.prefix()
		}
	case opSetBounds, opAll, opBackward, opCompact, opSizes:
		o.key, o.limit = g.bounds()
	case opNext, opPrev:
		o.n = 1 + g.rng.IntN(1<<g.rng.IntN(6))
	case opNextBlock, opPrevBlock:
		o.n, o.bytes = 1+g.rng.IntN(40), 1<<g.rng.IntN(16)
	case opPrefix:
		o.prefix = g.prefix()
	case opReopen, opCheckpoint, opDump, opSetOption:
		o.n = g.rng.IntN(1 << 20)
	default:
		o.key = g.key()
	}
	return o
}

func (g *generator) write(k kind) op {
	o := op{kind: k, slot: -1, from: -1}
	if key, ok := g.side(k); ok {
		o.key = key
	} else {
		o.key = g.key()
	}
	if k == opDeleteRange {
		o.limit = g.limit(o.key)
	}
	if k == opMerge { // values grow until a put or a deletion
		g.seeds++
		o.value = value{seed: g.seeds, size: g.rng.IntN(40)}
	}
	if k == opPut {
		g.seeds++
		size := g.rng.IntN(g.maxValue + 1)
		switch g.rng.IntN(400) {
		case 0:
			size = 0
		case 1:
			size = 5000 + g.rng.IntN(20000)
		case 2:
			if g.rng.IntN(20) == 0 {
				size = 70000 + g.rng.IntN(200000) // above the smallest write buffer
			}
		}
		o.value = value{seed: g.seeds, size: size}
	}
	return o
}

// key draws from a fixed space of g.keySpace keys.
func (g *generator) key() []byte { return g.keyAt(g.rng.IntN(g.keySpace)) }

// keyAt is key i of the space, which is gone through again and again.
func (g *generator) keyAt(i int) []byte {
	i %= g.keySpace
	switch g.style {
	case 0:
		return fmt.Appendf(nil, "key%05d", i)
	case 1: // shared prefixes longer than eight bytes, and extensions of one another
		k := fmt.Appendf(nil, "a-long-common-prefix/%d/", i%7)
		return append(k, slices.Repeat([]byte{byte(i)}, i%20)...)
	case 2: // any bytes, the empty key, keys that differ in trailing zeros
		r := rand.New(rand.NewPCG(uint64(i), 7))
		k := make([]byte, r.IntN(12))
		for j := range k {
			k[j] = []byte{0, 0, 1, 0x7f, 0x80, 0xfe, 0xff, 'x'}[r.IntN(8)]
		}
		return k
	default: // lengths of all orders
		return append(fmt.Appendf(nil, "%04d", i), slices.Repeat([]byte("k"), i*i%(1+i%997))...)
	}
}

// limit is where a range that starts with key ends: near it mostly.
func (g *generator) limit(key []byte) []byte {
	for range g.rng.IntN(20) {
		l := g.key()
		if g.cmp.Compare(l, key) > 0 && g.rng.IntN(3) == 0 {
			return l
		}
	}
	if g.rng.IntN(4) == 0 {
		return key // nothing
	}
	return append(append([]byte(nil), key...), 0)
}

func (g *generator) prefix() []byte {
	k := g.key()
	return k[:min(len(k), 1+g.rng.IntN(8))]
}

// bounds are open, ordered, equal or the wrong way round.
func (g *generator) bounds() (lower, upper []byte) {
	if g.rng.IntN(2) == 0 {
		lower = g.key()
	}
	if g.rng.IntN(2) == 0 {
		upper = g.key()
	}
	if lower != nil && upper != nil && g.cmp.Compare(lower, upper) > 0 && g.rng.IntN(8) > 0 {
		lower, upper = upper, lower
	}
	return lower, upper
}
