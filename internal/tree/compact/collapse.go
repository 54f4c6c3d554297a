package compact

import (
	"bytes"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// collapse decides, entry by entry in internal order, what survives.
//
// Snapshots cut the sequence numbers into stripes: two entries are in one
// stripe when every snapshot sees both or neither. Of a user key's entries, only
// the newest of each stripe can ever be read. For example, with snapshots 5 and 9:
//
//	k#12 set  keep (newest of the stripe above 9)
//	k#10 set  drop (hidden by #12 from everybody)
//	k#8  set  keep (what snapshot 9 reads)
//	k#4  del  keep, or drop when no deeper level can hold k: it is in the
//	          last stripe, so nothing that it hides can be left in the inputs
//	k#3  set  drop (hidden by #4)
//
// Where no deeper level can hold any of the keys, a set of the last stripe is the oldest
// entry of its key that is left, and every reader sees it. Its sequence number then says
// nothing, and becomes 0 if zeroSeqs was called: columns of zeros take no space.
type collapse struct {
	cmp       *base.Comparer
	snapshots []base.SeqNum // ascending
	deeper    deeper
	zeroUpTo  base.SeqNum // sets up to this sequence number get 0; 0: none

	// The entry before, when there was one. last aliases its chunk or buf.
	any     bool
	last    []byte
	lastSeq base.SeqNum
	ended   bool // it, or one before it of its key and stripe, ends lookups
	buf     []byte
}

// stripe is how many snapshots are older than an entry of sequence s.
func (c *collapse) stripe(s base.SeqNum) int {
	n, _ := slices.BinarySearch(c.snapshots, s)
	return n
}

func (c *collapse) isLast(key []byte) bool {
	if !c.any {
		return false
	}
	if c.cmp.EqualIsBytewise {
		return bytes.Equal(c.last, key)
	}
	return c.cmp.Cmp(c.last, key) == 0
}

// keep reports whether entry (key, t) survives; first is set if its user key differs from the
// previous entry's. It retains key until the next call or leave.
func (c *collapse) keep(key []byte, t base.Trailer) (keep, first bool) {
	seq := t.Seq()
	first = !c.isLast(key)
	hidden := !first && c.ended && (len(c.snapshots) == 0 || c.stripe(c.lastSeq) == c.stripe(seq))
	c.any, c.last, c.lastSeq, c.ended = true, key, seq, hidden || t.Kind().EndsLookup()
	if hidden {
		return false, first
	}
	return !c.elides(key, t), first
}

// elides reports whether an unhidden entry is a tombstone that hides no other entry any more.
func (c *collapse) elides(key []byte, t base.Trailer) bool {
	return t.Kind().IsTombstone() && c.stripe(t.Seq()) == 0 && !c.deeper.mayHold(key)
}

// aboveSnapshots reports whether no snapshot sees an entry of sequence seq.
func (c *collapse) aboveSnapshots(seq base.SeqNum) bool {
	n := len(c.snapshots)
	return n == 0 || c.snapshots[n-1] < seq
}

// zeroSeqs has withZeroSeq write zeros. REQUIRES: no file that is not an input, and no range
// tombstone, has entries of the keys that are older than the inputs'.
func (c *collapse) zeroSeqs() {
	c.zeroUpTo = base.MaxSeqNum
	if len(c.snapshots) > 0 {
		c.zeroUpTo = c.snapshots[0]
	}
}

// withZeroSeq is the trailer to write for an entry that survives with trailer t.
func (c *collapse) withZeroSeq(t base.Trailer) base.Trailer {
	if t.Seq() <= c.zeroUpTo && t.Kind().IsValue() {
		return base.MakeTrailer(0, t.Kind())
	}
	return t
}

// pass records a set that is known to survive without a look at the others.
func (c *collapse) pass(key []byte, t base.Trailer) {
	c.any, c.last, c.lastSeq, c.ended = true, key, t.Seq(), true
}

// leave must be called before the chunk that the last key came from goes away.
func (c *collapse) leave() {
	if c.any {
		c.buf = append(c.buf[:0], c.last...)
		c.last = c.buf
	}
}
