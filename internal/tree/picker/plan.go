package picker

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// Plan is one compaction. Its inputs must stay in the version it was picked
// from until it is installed or given up; the caller holds a reference on that
// version meanwhile.
type Plan struct {
	// Inputs by level, each in its level's order.
	Inputs      [manifest.NumLevels][]*manifest.FileMeta
	OutputLevel int
	// MaxPieces is into how many pieces Cut may cut the work, which can run at the same
	// time.
	MaxPieces int
	// Subranges are the user keys, ascending, at which Cut has cut it.
	Subranges [][]byte
	// TrivialMove: nothing needs to be merged. Edit alone does the work.
	TrivialMove bool
	// Drop: nobody can read anything in the inputs any more. Edit alone deletes them.
	Drop bool
	// Reason says why it was picked, for the log.
	Reason string
	// Smallest and Largest are the user keys that inputs, and so outputs, span.
	Smallest, Largest []byte
	InputBytes        uint64
	FileSize          uint64            // of outputs, in bytes
	Version           *manifest.Version // that it was picked from
}

// Pieces is how many pieces of work there are, each of which is run once.
func (p *Plan) Pieces() int { return len(p.Subranges) + 1 }

// Bounds are the user keys [lower, upper) of a piece; nil is open.
func (p *Plan) Bounds(piece int) (lower, upper []byte) {
	if piece > 0 {
		lower = p.Subranges[piece-1]
	}
	if piece < len(p.Subranges) {
		upper = p.Subranges[piece]
	}
	return lower, upper
}

// Files calls f for every input.
func (p *Plan) Files(f func(level int, m *manifest.FileMeta)) {
	for level, files := range p.Inputs {
		for _, m := range files {
			f(level, m)
		}
	}
}

// IsDeepest reports whether nothing older than the inputs is left of their keys once they
// are merged, and no range tombstone is among them: it would be newer than sequence number 0.
func (p *Plan) IsDeepest(cmp *base.Comparer) bool {
	if p.OutputLevel == 0 {
		return false
	}
	for level := p.OutputLevel + 1; level < manifest.NumLevels; level++ {
		if len(p.Version.Levels[level].Overlaps(cmp, p.Smallest, p.Largest)) > 0 {
			return false
		}
	}
	tombstones := false
	p.Files(func(_ int, m *manifest.FileMeta) { tombstones = tombstones || m.RangeDels > 0 })
	return !tombstones
}

// NumFiles is how many inputs there are.
func (p *Plan) NumFiles() (n int) {
	for _, files := range p.Inputs {
		n += len(files)
	}
	return n
}

// Edit is the change to install when the tables that were added are what all pieces
// wrote. A trivial move and a Drop write none.
func (p *Plan) Edit(added []manifest.AddedFile) *manifest.Edit {
	e := new(manifest.Edit)
	p.Files(func(level int, m *manifest.FileMeta) {
		if p.TrivialMove && level == p.OutputLevel {
			return
		}
		e.Delete(level, m.Num)
		if p.TrivialMove {
			e.Add(p.OutputLevel, m)
		}
	})
	newest := p.newest()
	for _, a := range added {
		a.Meta.Newest = newest
	}
	e.Added = append(e.Added, added...)
	return e
}

// newest is a sequence number that no entry of the inputs is above, 0 if that is not
// known of all.
func (p *Plan) newest() (newest base.SeqNum) {
	known := true
	p.Files(func(_ int, m *manifest.FileMeta) {
		known = known && m.Newest > 0
		newest = max(newest, m.Newest)
	})
	if !known {
		return 0
	}
	return newest
}

// InProgress is what decisions must know of the work in flight: the plans that were
// picked, and the FlushPlan of a flush to a level below 0, until they are
// installed or given up. No decision takes files of, or puts keys into or past,
// the levels that one of them works on, where the key ranges meet.
type InProgress []*Plan

// FlushPlan stands for a running flush in InProgress. It has no inputs.
func FlushPlan(level int, smallest, largest []byte) *Plan {
	return &Plan{OutputLevel: level, Smallest: smallest, Largest: largest, Reason: "flush"}
}

// firstLevel is the shallowest level with inputs.
func (p *Plan) firstLevel() int {
	for level, files := range p.Inputs {
		if len(files) > 0 {
			return level
		}
	}
	return p.OutputLevel
}

// meets reports whether a plan in flight works on user keys of [smallest,
// largest] in levels from to to.
func (b InProgress) meets(cmp *base.Comparer, from, to int, smallest, largest []byte) bool {
	for _, p := range b {
		if p.firstLevel() <= to && p.OutputLevel >= from && cmp.Cmp(p.Smallest, largest) <= 0 &&
			cmp.Cmp(p.Largest, smallest) >= 0 {
			return true
		}
	}
	return false
}
