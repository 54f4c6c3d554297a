// Package metamorphic runs random histories of all operations of the lsm API
// against a model. One history runs under several option sets, each of which
// must give the model's answers. A failing history is shrunk to the few
// operations that still fail.
//
// A history is data: operations address snapshots, iterators and the batch by
// slot, and an operation on an empty slot does nothing, so that any part of a
// history is a history. Runs of different histories may go on at once.
package metamorphic

import (
	"fmt"
	"strings"
)

// kind is an operation of the API.
type kind uint8

const (
	opPut kind = iota
	opDelete
	opDeleteRange
	opMerge // a put where the format has no merges
	opBatch // Sub holds the four above
	opGet
	opHas
	opTryGet
	opMultiGet // Sub holds the keys
	opSnapshot
	opCloseSnapshot
	opSnapshotGet
	opSnapshotMultiGet
	opSnapshotScan
	opIter
	opCloseIter
	opFirst
	opLast
	opSeekGE
	opSeekLT
	opNext
	opPrev
	opSetBounds
	opNextBlock
	opPrevBlock
	opAll
	opBackward
	opPrefix
	opFlush
	opCompact
	opPause
	opResume
	opReopen
	opOpenTwice
	opCheckpoint // the history goes on in it
	opDump       // what is dumped is loaded into a new database, in which the history goes on
	opIngest     // of tables with the writes of Sub; n says how
	opLoad       // of the puts of Sub
	opSizes
	opSetOption
	opDrop // of a keyspace, which is made again under its name
	opCheck
	numKinds
)

var kindNames = [numKinds]string{
	"put", "delete", "delete-range", "merge", "batch", "get", "has", "tryget", "multiget",
	"snapshot", "close-snapshot", "snapshot-get", "snapshot-multiget", "snapshot-scan", "iter",
	"close-iter", "first", "last", "seek-ge", "seek-lt", "next", "prev", "set-bounds", "next-block",
	"prev-block", "all", "backward", "prefix", "flush", "compact", "pause", "resume", "reopen",
	"open-twice", "checkpoint", "dump", "ingest", "load", "sizes", "set-option", "drop", "check",
}

// maxSpaces is how many keyspaces a database has at most.
const maxSpaces = 3

// slots is how many snapshots and how many iterators are open at most.
const slots = 4

// op is one step of a history. Which fields count depends on the kind.
type op struct {
	kind       kind
	space      int    // of the keyspaces there are, counted round and round
	slot, from int    // of the snapshot or iterator; from: of the iterator's snapshot, -1 for none
	key, limit []byte // key, or bounds; nil is open
	prefix     []byte
	value      value
	n          int // entries, steps, or an option set's number
	bytes      int
	sync       bool
	keysOnly   bool
	sub        []op
}

// value is a value's recipe.
type value struct {
	seed uint32
	size int
}

// append makes the bytes: the seed, then text that packs to about half.
func (v value) append(dst []byte) []byte {
	x := v.seed*2654435761 + 1
	for i := 0; i < v.size; i++ {
		if i&7 == 0 {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
		}
		if i&8 == 0 {
			dst = append(dst, byte(x>>(i&7*4)))
		} else {
			dst = append(dst, 'a'+byte(v.seed%16))
		}
	}
	return dst
}

func (o op) String() string {
	var b strings.Builder
	b.WriteString(kindNames[o.kind])
	if o.space != 0 {
		fmt.Fprintf(&b, " k%d", o.space)
	}
	switch o.kind {
	case opPut, opMerge:
		fmt.Fprintf(&b, " %q %d*%d", o.key, o.value.seed, o.value.size)
	case opDelete, opGet, opHas, opTryGet:
		fmt.Fprintf(&b, " %q", o.key)
	case opBatch, opMultiGet, opSnapshotMultiGet, opIngest, opLoad:
		fmt.Fprintf(&b, " s%d %v", o.slot, o.sub)
	case opSnapshot, opCloseSnapshot, opSnapshotScan, opCloseIter, opFirst, opLast:
		fmt.Fprintf(&b, " s%d", o.slot)
	case opSnapshotGet, opSeekGE, opSeekLT:
		fmt.Fprintf(&b, " s%d %q", o.slot, o.key)
	case opIter:
		fmt.Fprintf(&b, " s%d [%s,%s) prefix %s snapshot s%d keysonly %v", o.slot, bound(o.key),
			bound(o.limit), bound(o.prefix), o.from, o.keysOnly)
	case opNext, opPrev:
		fmt.Fprintf(&b, " s%d x%d", o.slot, o.n)
	case opSetBounds:
		fmt.Fprintf(&b, " s%d [%s,%s)", o.slot, bound(o.key), bound(o.limit))
	case opNextBlock, opPrevBlock:
		fmt.Fprintf(&b, " s%d %d entries %d bytes", o.slot, o.n, o.bytes)
	case opAll, opBackward, opCompact, opSizes, opDeleteRange:
		fmt.Fprintf(&b, " [%s,%s)", bound(o.key), bound(o.limit))
	case opPrefix:
		fmt.Fprintf(&b, " %q", o.prefix)
	case opReopen, opCheckpoint, opDump, opSetOption:
		fmt.Fprintf(&b, " options %d", o.n)
	}
	if o.sync {
		b.WriteString(" sync")
	}
	return b.String()
}

func bound(b []byte) string {
	if b == nil {
		return "open"
	}
	return fmt.Sprintf("%q", b)
}
