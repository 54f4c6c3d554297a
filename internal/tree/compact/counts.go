package compact

import (
	"errors"
	"fmt"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Entries are counted on every way from one place to another, in all builds: a
// flush writes or drops what its memtable has, a compaction what its inputs have.
// A wrong count is errCount, and nothing is installed: the inputs stay.
var errCount = errors.New("entries were lost on the way, the inputs are kept")

func countError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCount, fmt.Sprintf(format, args...))
}

// inputRead is what one piece of a plan read of one input table.
type inputRead struct {
	num   uint64
	known bool // the source counts
	sstable.Coverage
}

// countedSource notes in reads, when it is closed, what was read.
type countedSource struct {
	base.Source
	num   uint64
	reads *[]inputRead
}

func (s *countedSource) Close() {
	r := inputRead{num: s.num}
	if c, ok := s.Source.(sstable.Covered); ok {
		r.Coverage, r.known = c.Coverage(), true
	}
	*s.reads = append(*s.reads, r)
	s.Source.Close()
}

// checkReads makes sure that the pieces of a plan together read every block of every input, and
// as many entries as the inputs have where that is known: from the tables, or by
// counting what a piece read when that was all of a table.
func checkReads(p *picker.Plan, results []Result) error {
	reads := map[uint64][]inputRead{}
	read := uint64(0)
	for _, r := range results {
		read += r.EntriesIn
		for _, in := range r.reads {
			reads[in.num] = append(reads[in.num], in)
		}
	}
	total, known := uint64(0), true
	var err error
	p.Files(func(_ int, m *manifest.FileMeta) {
		n, ok, e := entriesOf(m.Num, reads[m.Num])
		total += n
		known = known && ok
		err = errors.Join(err, e)
	})
	if err == nil && known && read != total {
		err = countError("the inputs have %d entries, %d were read", total, read)
	}
	return err
}

// entriesOf is how many entries table num has, given what the pieces read of it,
// if that is known.
func entriesOf(num uint64, reads []inputRead) (n uint64, known bool, err error) {
	if len(reads) == 0 {
		return 0, false, countError("table %06d was not read", num)
	}
	sort.Slice(reads, func(i, j int) bool { return reads[i].From < reads[j].From })
	first, to := reads[0], 0
	for _, r := range reads {
		switch {
		case !r.known:
			return 0, false, nil
		case r.From > to:
			return 0, false, countError("table %06d: blocks %d to %d were not read", num, to,
				r.From-1)
		}
		to = max(to, r.To)
	}
	if to != first.Blocks {
		return 0, false, countError("table %06d: %d of %d blocks were read", num, to, first.Blocks)
	}
	whole := first.From == 0 && first.To == first.Blocks
	if whole && first.Total != 0 && first.Entries != first.Total {
		return 0, false, base.Corruptf("table", "%06d has %d entries, its properties say %d", num,
			first.Entries, first.Total)
	}
	if first.Total != 0 {
		return first.Total, true, nil
	}
	return first.Entries, whole, nil
}
