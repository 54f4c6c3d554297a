package picker

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// Config tells the decisions what the user chose. Zero fields have defaults.
type Config struct {
	Comparer *base.Comparer
	// FileSize is where outputs are split, in bytes. Default 64 MiB.
	FileSize uint64
	// WriteBuffer is the size of a memtable, in bytes. Default 64 MiB.
	WriteBuffer uint64
	// L0Trigger is how many files of level 0 are merged at once. Default 4.
	L0Trigger int
	// L0Stop is how many files of level 0 make writers wait. Default 40.
	L0Stop int
	// MaxSubcompactions is into how many pieces a plan may be cut. Default 1.
	MaxSubcompactions int
	// TombstoneDense reports that so much of a table are deletions, all of them older
	// than every snapshot, that it is worth a compaction. nil: none is.
	TombstoneDense func(*manifest.FileMeta) bool
	// RangeDels are the range tombstones of a table that every snapshot sees, nil if there
	// are none or that is not known now. nil: no tables are dropped for them.
	RangeDels func(*manifest.FileMeta) *rangedel.List
	// Held reports that a snapshot is older than an entry of a table. nil: none is.
	Held func(*manifest.FileMeta) bool
	// Expired is the last deadline, in seconds since 1970, that is over for all readers.
	// 0: nothing has expired.
	Expired uint64

	// Live estimates the bytes of all tables without the entries that newer ones
	// hide, see Live. 0: not known; then the bounds on space are spaceRatio's.
	Live uint64
	// MaxSpace bounds the bytes of all tables, as a multiple of Live, while no
	// writer is fast. Default 1.3.
	MaxSpace float64
	// Values are those of the database that lie in logs and value files; nil: there are none.
	Values *Values
	// Fast reports that the writers keep the background busy: then the bound is
	// fastSpace, if that is larger, as each merge for the sake of space delays them.
	Fast bool
}

const (
	// spaceRatio bounds all runs but the largest: when they are together as many
	// times larger than that, everything is merged. A run holds a key once, so a
	// database without deletions takes at most 1+spaceRatio times its live data,
	// and level 0; TombstoneDense sees to deletions.
	spaceRatio = 2
	// joinRatio: a merge of level 0 takes along a run that is as many times
	// smaller than what it merges anyway.
	joinRatio = 4
	// quickBatches: a merge of as many level-0 batches is done before too many
	// new files have come in. Larger ones leave level 0 and the top run alone, so
	// that those can go on meanwhile.
	quickBatches = 32
	maxHeadroom  = 2
	// crowdedZero is how many files of level 0 weigh as much as the bound on space. The distance
	// between it and L0Stop is for memtables that are flushed during the merge of a large run.
	crowdedZero = 24
	lastLevel   = manifest.NumLevels - 1
)

func (c Config) filled() Config {
	if c.Comparer == nil {
		c.Comparer = base.Bytewise
	}
	if c.FileSize == 0 {
		c.FileSize = 64 << 20
	}
	if c.WriteBuffer == 0 {
		c.WriteBuffer = 64 << 20
	}
	if c.L0Trigger <= 0 {
		c.L0Trigger = 4
	}
	if c.L0Stop <= 0 {
		c.L0Stop = 40
	}
	c.MaxSubcompactions = max(c.MaxSubcompactions, 1)
	if c.MaxSpace == 0 {
		c.MaxSpace = defaultMaxSpace
	}
	return c
}

// picker is one decision.
type picker struct {
	Config
	v          *manifest.Version
	inProgress InProgress
	// runs[l] is the bytes in level l.
	runs [manifest.NumLevels]uint64
	// bottom is the deepest level with files, or the last level.
	bottom int
	// mostBytes of a merge of whole runs, instead of sliceBytes; 0: none.
	mostBytes uint64
}

func newPicker(v *manifest.Version, inProgress InProgress, c Config) *picker {
	p := &picker{Config: c.filled(), v: v, inProgress: inProgress, bottom: bottomLevel(v)}
	for l := range p.runs {
		p.runs[l] = v.Levels[l].Size
	}
	return p
}

// Pick chooses the next compaction, nil when there is no work, or none that can run in parallel to
// the plans in flight.
//
// Shape: level 0 takes the flushed tables. Each deeper level is one sorted run;
// the oldest lies deepest. A full level 0 becomes a new run in the deepest level
// that is empty and has nothing but empty ones above it, at no cost but its own
// bytes. When all levels are taken, some of the youngest runs are merged into
// one: as many as cost the fewest bytes per level set free. With k levels, an
// entry is so rewritten m times before C(k+m, k) level-0 batches have come.
func Pick(v *manifest.Version, inProgress InProgress, c Config) *Plan {
	p := newPicker(v, inProgress, c)
	first, second := p.levelZero, p.space
	if p.spaceFirst() {
		first, second = second, first
	}
	third, fourth := p.makeRoom, p.values
	if p.valuesFirst() {
		first, second, third, fourth = p.values, first, second, p.makeRoom
	}
	for _, decide := range []func() *Plan{p.covered, p.expired, first, second, third, fourth,
		p.dense} {
		if plan := decide(); plan != nil {
			return plan
		}
	}
	return nil
}

// bottomLevel is the deepest level with files, or the last level when only
// level 0 has any.
func bottomLevel(v *manifest.Version) int {
	for l := lastLevel; l > 0; l-- {
		if len(v.Levels[l].Files) > 0 {
			return l
		}
	}
	return lastLevel
}

// FlushLevel is the level for a memtable with user keys from smallest to largest:
// the bottom one when nothing in any level overlaps it or is about to, else 0.
// (A level in between could take it too, but would then be taken by very little.)
// Until the flush is installed, FlushPlan of the level, when it is not 0, must be
// in InProgress.
func FlushLevel(v *manifest.Version, inProgress InProgress, cmp *base.Comparer, smallest,
	largest []byte) int {
	smallest, largest = closed(smallest), closed(largest)
	if inProgress.meets(cmp, 0, lastLevel, smallest, largest) {
		return 0
	}
	for l := range v.Levels {
		if len(v.Levels[l].Overlaps(cmp, smallest, largest)) > 0 {
			return 0
		}
	}
	return bottomLevel(v)
}

// Debt estimates the bytes that compactions must read before Pick finds nothing
// to do, as if none was in flight.
func Debt(v *manifest.Version, c Config) uint64 {
	p := newPicker(v, nil, c)
	var debt uint64
	if plan := p.levelZero(); plan != nil {
		debt += plan.InputBytes
	}
	if p.bloated() {
		return debt + sum(p.runs[2:p.bottom+1])
	}
	if from, to, ok := p.crowd(2, p.bottom); ok {
		debt += sum(p.runs[from : to+1])
	}
	return debt
}

// levelZero merges a full level 0 into the runs below.
func (p *picker) levelZero() *Plan {
	files := p.v.Levels[0].Files
	if len(files) < p.L0Trigger {
		return nil
	}
	all := span(p.Comparer, files)
	limit := p.bottom
	for limit > 0 && p.inProgress.meets(p.Comparer, 0, limit, all.lo, all.hi) {
		limit--
	}
	if limit == 0 {
		return nil
	}
	// over[l] is what overlaps level 0 in level l.
	var over [manifest.NumLevels]uint64
	for l := 1; l <= lastLevel; l++ {
		over[l] = size(p.v.Levels[l].Overlaps(p.Comparer, all.lo, all.hi))
	}
	total := p.runs[0]
	to := 0
	for l := 1; l <= limit && over[l] <= total/joinRatio; l++ {
		total += over[l]
		to = l
	}
	reason := "level 0 is full"
	if to == 0 {
		if plan := p.moveDown(); plan != nil {
			return plan
		}
		if len(files) < p.patience() {
			return nil
		}
		to = cheapest(over, 1, limit)
		if sum(over[2:to+1]) > quickBatches*p.batch() {
			to = 1 // makeRoom sees to the others
		}
		for to > 1 && !p.fits(p.runs[0]+sum(over[1:to+1])) {
			to--
		}
		if to == 1 && !p.fits(p.runs[0]+over[1]) && over[1] > 2*p.batch() &&
			len(files) < p.L0Stop*3/4 {
			return nil // space sees to it
		}
		reason = "level 0 is full, no level is free"
	}
	return p.planZero(files, to, reason)
}

// patience is how many files level 0 may have while no level is free for them:
// twice the trigger, as each merge then costs more than the files' own bytes,
// but always below the number at which writers wait.
func (p *picker) patience() int {
	return max(p.L0Trigger, min(2*p.L0Trigger, (p.L0Trigger+p.L0Stop)/2))
}

// Force is Pick for a writer that waits for level 0 while nothing runs: it takes
// whatever level 0 has. It is nil only if a plan in flight is in the way or level
// 0 is empty.
func Force(v *manifest.Version, inProgress InProgress, c Config) *Plan {
	c.L0Trigger, c.L0Stop = 1, 1
	return newPicker(v, inProgress, c).levelZero()
}

// planZero plans to merge level 0 into the runs down to a level, or to move it
// there when nothing overlaps.
func (p *picker) planZero(files []*manifest.FileMeta, to int, reason string) *Plan {
	plan := p.plan(0, files, to, reason)
	if plan != nil && plan.NumFiles() == len(files) && disjoint(p.Comparer, files) {
		return plan.moves()
	}
	return plan
}

// moves makes the plan a trivial move.
func (p *Plan) moves() *Plan {
	p.TrivialMove, p.MaxPieces = true, 1
	return p
}

// batch is the bytes that level 0 brings at a time.
func (p *picker) batch() uint64 {
	return max(p.runs[0], uint64(p.L0Trigger)*p.WriteBuffer/2)
}

// cheapest is the level that the runs of levels from on are best merged into:
// the one with the fewest bytes to read per level that becomes free, counting
// the next batch's. Among equals the deepest.
func cheapest(sizes [manifest.NumLevels]uint64, from, limit int) int {
	best, bestCost := from, uint64(0)
	total := uint64(0)
	for l := from; l <= limit; l++ {
		total += sizes[l]
		cost := total / worth(l-from+1)
		if l == from || cost <= bestCost {
			best, bestCost = l, cost
		}
	}
	return best
}

// bloated reports that the runs are too large beside the largest of them.
func (p *picker) bloated() bool {
	if p.Live > 0 {
		return p.spaceUsed() > p.spaceLimit()
	}
	return p.bloatedBy(spaceRatio)
}

func (p *picker) bloatedBy(ratio uint64) bool {
	all, largest := sum(p.runs[1:]), slices.Max(p.runs[1:])
	return all-largest > ratio*largest && all > p.batch()
}

// space merges everything when bloated. What overlaps nothing only moves.
func (p *picker) space() *Plan {
	above := 0
	if p.Live > 0 || p.bloatedBy(2*spaceRatio) {
		above = p.inProgressDownTo()
	}
	if !p.bloated() || above >= p.bottom || above == 0 && p.limit() < p.bottom {
		return nil
	}
	for l := p.bottom - 1; l > above; l-- {
		if plan := p.moveToBottom(l); plan != nil {
			return plan
		}
	}
	if p.Live > 0 {
		return p.merge(max(p.lead(), above+1), p.bottom, "too much space")
	}
	from, to := p.bloat()
	return p.merge(max(from, above+1), to, "too much space")
}

// lead is the first level of a merge of all runs: not the first one, which is left
// to level 0, unless it has most of what lies above the bottom.
func (p *picker) lead() int {
	if p.bottom > 2 && p.runs[1] <= sum(p.runs[2:p.bottom]) {
		return 2
	}
	return 1
}

// bloat is what to merge when bloated: all runs, unless that takes too long for
// the empty levels that there are; then all but the bottom one first.
func (p *picker) bloat() (from, to int) {
	from, to = p.empty()+1, p.bottom
	if p.empty() < p.headroom(sum(p.runs[from:to+1])) && from < to-1 {
		to--
		for p.runs[to] == 0 {
			to--
		}
	}
	if from == 1 && to > 2 {
		from = 2
	}
	return from, to
}

// empty is how many levels from the first on have no files.
func (p *picker) empty() (n int) {
	for n < p.bottom-1 && p.runs[n+1] == 0 {
		n++
	}
	return n
}

// limit is the deepest level that no plan in flight works on or below.
func (p *picker) limit() int {
	limit := p.bottom
	for _, b := range p.inProgress {
		if b.NumFiles() > 0 {
			limit = min(limit, max(b.firstLevel(), 1)-1)
		}
	}
	return limit
}

// inProgressDownTo is the deepest level that the plans in flight work on, 0 without any.
// Merges below it can go on beside them. They normally wait, as fewer and larger
// merges cost less; but level 0 always has something to merge while writers are
// fast, so what is urgent does not wait for the end of that.
func (p *picker) inProgressDownTo() (level int) {
	for _, b := range p.inProgress {
		level = max(level, b.OutputLevel)
	}
	return level
}

// headroom is how many empty levels a merge of so many bytes should find above
// it, so that level 0 can be merged cheaply while it lasts. A merge that needs
// none is left to level 0 to do on its way.
func (p *picker) headroom(bytes uint64) (levels int) {
	for most := quickBatches * p.batch(); bytes > most && levels < maxHeadroom; most *= 4 {
		levels++
	}
	return levels
}

// worth is how many level-0 batches n free levels take, none being merged more
// than twice: C(n+2, 2)-1.
func worth(n int) uint64 { return uint64(n * (n + 3) / 2) }

// crowd is the range of runs between two levels that are best merged to free
// levels: the one with the fewest bytes per level set free. ok is false while it is
// too early.
func (p *picker) crowd(first, limit int) (from, to int, ok bool) {
	var best float64
	for f := max(p.empty()+1, first); f < limit; f++ {
		if p.runs[f] == 0 {
			continue
		}
		total, freed := p.runs[f], 0
		for t := f + 1; t <= limit; t++ {
			total += p.runs[t]
			freed++
			if cost := float64(total) / float64(worth(freed)); p.runs[t] > 0 &&
				(!ok || cost <= best) {
				from, to, best, ok = f, t, cost, true
			}
		}
	}
	if !ok {
		return 0, 0, false
	}
	need := p.headroom(sum(p.runs[from : to+1]))
	return from, to, need > 0 && p.empty() <= need
}

// makeRoom frees levels before level 0 needs them.
func (p *picker) makeRoom() *Plan {
	first, limit := 2, p.limit()
	if above := p.inProgressDownTo(); limit < 2 && above < p.bottom &&
		p.runs[1] > quickBatches*p.batch() {
		first, limit = above+1, p.bottom
	}
	if limit < 2 || len(p.v.Levels[0].Files) <= p.L0Trigger/2 {
		return nil
	}
	if p.empty() < maxHeadroom {
		if plan := p.moveDown(); plan != nil {
			return plan
		}
	}
	if from, to, ok := p.crowd(first, limit); ok {
		return p.merge(from, to, "few levels are free")
	}
	return nil
}

// moveDown moves a run down to an empty level below it.
func (p *picker) moveDown() *Plan {
	to := lastLevel
	if limit := p.limit(); limit < p.bottom {
		to = limit
	}
	for ; to > 1; to-- {
		if p.runs[to] > 0 {
			continue
		}
		from := to - 1
		for from > 0 && p.runs[from] == 0 {
			from--
		}
		if from == 0 {
			return nil
		}
		if plan := p.plan(from, p.v.Levels[from].Files, to, "to a free level"); plan != nil {
			return plan.moves()
		}
	}
	return nil
}

// moveToBottom moves those files of a level to the bottom run that overlap nothing
// there or in between.
func (p *picker) moveToBottom(level int) *Plan {
	files := p.v.Levels[level].Files
	for i := 0; i < len(files); i++ {
		// The longest stretch of such files from i on.
		n := i
		for n < len(files) && p.free(level, files[n]) {
			n++
		}
		if n == i {
			continue
		}
		// A user key split over two files: the older part must not stay above.
		if plan := p.plan(level, files[i:n], p.bottom, "overlaps nothing"); plan != nil &&
			plan.NumFiles() == n-i {
			return plan.moves()
		}
		i = n
	}
	return nil
}

// free reports whether nothing below overlaps a file of a level.
func (p *picker) free(level int, f *manifest.FileMeta) bool {
	for l := level + 1; l <= p.bottom; l++ {
		if p.touches(l, f) {
			return false
		}
	}
	return true
}

// touches reports whether a level has keys in the range of a file.
func (p *picker) touches(level int, f *manifest.FileMeta) bool {
	return len(p.v.Levels[level].Overlaps(p.Comparer, closed(f.Smallest.User),
		closed(f.Largest.User))) > 0
}

// above is the deepest level down to which level 1 and those below it have no
// keys in the range; it is 1 when level 1 has some.
func (p *picker) above(r keyRange) int {
	l := 1
	for l < p.bottom && len(p.v.Levels[l].Overlaps(p.Comparer, r.lo, r.hi)) == 0 &&
		len(p.v.Levels[l+1].Overlaps(p.Comparer, r.lo, r.hi)) == 0 {
		l++
	}
	return l
}

// dense compacts a table that is full of deletions into the next run below, or
// in place when there is none. In level 0 the older tables go along. Where a table has few
// deletions for what it would be merged with, it is left to the other decisions, see pays.
func (p *picker) dense() *Plan {
	if p.TombstoneDense == nil {
		return nil
	}
	if plan := p.denseZero(); plan != nil {
		return plan
	}
	for l := 1; l <= lastLevel; l++ {
		for _, f := range p.v.Levels[l].Files {
			if !p.unreadable(l, f) {
				continue
			}
			to := l
			for d := l + 1; d <= lastLevel; d++ {
				if p.touches(d, f) {
					to = d
					break
				}
			}
			plan := p.plan(l, []*manifest.FileMeta{f}, to, "full of deletions")
			if plan != nil && (plan.pays() || !p.TombstoneDense(f)) {
				return plan
			}
		}
	}
	return nil
}

// unreadable reports whether much of a table is worth nothing to readers.
func (p *picker) unreadable(level int, f *manifest.FileMeta) bool {
	return p.TombstoneDense(f) || p.settles(level, f) || p.allExpired(f)
}

func (p *picker) denseZero() *Plan {
	for _, f := range p.v.Levels[0].Files {
		if !p.unreadable(0, f) {
			continue
		}
		files := p.withOlder([]*manifest.FileMeta{f})
		plan := p.plan(0, files, p.firstBelow(span(p.Comparer, files)), "full of deletions")
		if plan != nil && (plan.pays() || !p.TombstoneDense(f)) {
			return plan
		}
	}
	return nil
}

// firstBelow is the first level with keys in r, or the bottom if there is none.
func (p *picker) firstBelow(r keyRange) int {
	for l := 1; l <= lastLevel; l++ {
		if len(p.v.Levels[l].Overlaps(p.Comparer, r.lo, r.hi)) > 0 {
			return l
		}
	}
	return p.bottom
}

const (
	// denseShare: a compaction for the sake of deletions reads at most so many entries for each.
	denseShare = 4
	// guessedEntry is how many bytes an entry takes in a table that does not say how many it has.
	guessedEntry = 100
)

// pays reports whether the inputs have enough deletions for a merge of them all, or none says that
// it has any.
func (p *Plan) pays() bool {
	var deletes, entries uint64
	p.Files(func(_ int, m *manifest.FileMeta) {
		deletes += m.Deletes
		if entries += m.Entries; m.Entries == 0 {
			entries += m.Size / guessedEntry
		}
	})
	return deletes == 0 || denseShare*deletes >= entries
}

// PickRange plans to merge everything that holds user keys from start to limit,
// nil being open, down to the deepest level that has such keys. It is nil when
// that is one level only, or when a plan in flight is in the way.
func PickRange(v *manifest.Version, inProgress InProgress, c Config, start, limit []byte) *Plan {
	p := newPicker(v, inProgress, c)
	first, deepest := -1, 0
	for l := 0; l <= lastLevel; l++ {
		if len(p.v.Levels[l].Overlaps(p.Comparer, start, limit)) > 0 {
			if first < 0 {
				first = l
			}
			deepest = l
		}
	}
	if first < 0 || first == deepest && first > 0 {
		return nil
	}
	files := v.Levels[first].Overlaps(p.Comparer, start, limit)
	if first == 0 {
		files = p.withOlder(files)
		if deepest == 0 {
			deepest = p.above(span(p.Comparer, files))
		}
	}
	return p.planWithin(first, files, deepest, "manual", &keyRange{lo: start, hi: limit})
}
