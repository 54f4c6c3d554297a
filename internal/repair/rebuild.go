package repair

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/files"
	"github.com/loamdb/loam/internal/iters"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

// rebuild writes the new tables and says what the database consists of.
func (r *repair) rebuild(tables []*table, logs []*logFile) (*manifest.State, error) {
	levels := r.known.levels && inOrder(tables, logs)
	var kept []*table
	damagedTop := false
	for _, t := range tables {
		if t.damage == "" {
			kept = append(kept, t)
			continue
		}
		out, err := r.salvageTable(t)
		if err != nil {
			return nil, err
		}
		kept = append(kept, out...)
		damagedTop = damagedTop || t.level == 0
		r.aside[t.name] = true
		r.report.Rewritten = append(r.report.Rewritten, Rewrite{File: t.name, Reason: t.damage})
	}
	if levels && damagedTop {
		// In level 0 a higher number means newer, which is not so of tables
		// just written: without overlap it does not matter.
		var err error
		if kept, err = r.mergeTop(kept); err != nil {
			return nil, err
		}
	}
	fresh, err := r.convertLogs(logs)
	if err != nil {
		return nil, err
	}
	kept = append(kept, fresh...)
	if levels {
		_, err := manifest.NewVersion(r.o.Comparer, byLevel(kept))
		levels = err == nil
	}
	if !levels {
		r.report.LevelsLost = true
		if kept, err = r.flatten(kept); err != nil {
			return nil, err
		}
	}
	return r.state(kept, levels), nil
}

// inOrder reports whether the logs ascend and are newer than the tables, as they are
// unless files of several databases were mixed.
func inOrder(tables []*table, logs []*logFile) bool {
	last := base.SeqNum(0)
	for _, t := range tables {
		last = max(last, t.maxSeq)
	}
	for _, l := range logs {
		if l.entries == 0 {
			continue
		}
		if !l.ascending || l.minSeq <= last {
			return false
		}
		last = l.maxSeq
	}
	return true
}

func byLevel(tables []*table) (levels [manifest.NumLevels][]*manifest.FileMeta) {
	for _, t := range tables {
		levels[t.level] = append(levels[t.level], t.meta)
	}
	return levels
}

// state is the database of these tables.
func (r *repair) state(tables []*table, levels bool) *manifest.State {
	k := &r.known.st
	st := &manifest.State{LastSeq: max(k.LastSeq, r.maxSeq), HasLastSeq: true}
	st.Comparer, st.HasComparer = r.o.Comparer.Name, true
	st.Files = make(map[uint64]manifest.AddedFile)
	if levels {
		st.Pointers = k.Pointers
	}
	if k.NextFile < maxNum {
		r.next = max(r.next, k.NextFile)
	}
	// The existing logs have smaller numbers, so none of them is replayed.
	st.LogNum, st.HasLogNum = r.newNum(), true
	st.NextFile, st.HasNextFile = r.next, true
	for _, t := range tables {
		st.Files[t.meta.Num] = manifest.AddedFile{Level: t.level, Meta: t.meta}
		r.report.Entries += t.entries
	}
	r.report.Tables = len(tables)
	return st
}

// mergeTop replaces the tables of level 0 by ones that do not overlap.
func (r *repair) mergeTop(tables []*table) ([]*table, error) {
	var top, rest []*table
	for _, t := range tables {
		if t.level == 0 {
			top = append(top, t)
		} else {
			rest = append(rest, t)
		}
	}
	merged, err := r.mergeOverlaps(top, 0)
	return append(rest, merged...), err
}

// flatten makes one sorted run of all tables: the deepest level, since nothing
// older is left.
func (r *repair) flatten(tables []*table) ([]*table, error) {
	return r.mergeOverlaps(tables, manifest.NumLevels-1)
}

// mergeOverlaps merges tables that overlap, leaves the others as they are, and
// puts all into a level.
func (r *repair) mergeOverlaps(tables []*table, level int) ([]*table, error) {
	c := r.o.Comparer
	slices.SortStableFunc(tables, func(a, b *table) int {
		return c.CompareInternal(a.meta.Smallest.User, a.meta.Smallest.Trailer, b.meta.Smallest.User, b.meta.Smallest.Trailer)
	})
	var out []*table
	for len(tables) > 0 {
		n, end := 1, tables[0].meta.Largest.User
		for n < len(tables) && c.Cmp(tables[n].meta.Smallest.User, end) <= 0 {
			if c.Cmp(tables[n].meta.Largest.User, end) > 0 {
				end = tables[n].meta.Largest.User
			}
			n++
		}
		merged := tables[:1]
		if n > 1 {
			var err error
			if merged, err = r.merge(tables[:n], level); err != nil {
				return nil, err
			}
		}
		for _, t := range merged {
			t.level = level
		}
		out, tables = append(out, merged...), tables[n:]
	}
	return out, nil
}

// merge writes the entries of all tables to new ones, every version of every
// key.
func (r *repair) merge(tables []*table, level int) ([]*table, error) {
	set := files.New(files.Options{FS: r.o.FS, Dir: r.o.Dir, Comparer: r.o.Comparer, MaxDecoded: r.o.MaxDecoded})
	o := output{r: r, level: level}
	err := r.mergeInto(&o, set, tables)
	merged, err := o.finish(err)
	if err = errors.Join(err, set.Close()); err != nil {
		return nil, err
	}
	for _, t := range tables {
		if !t.made {
			r.aside[t.name] = true
			continue
		}
		if err := r.o.FS.Remove(r.path(t.name)); err != nil {
			return nil, err
		}
		r.made = slices.DeleteFunc(r.made, func(n uint64) bool { return n == t.meta.Num })
	}
	return merged, nil
}

func (r *repair) mergeInto(o *output, set *files.Set, tables []*table) error {
	open := func(m *manifest.FileMeta) (base.Source, error) {
		reader, err := set.Reader(m)
		if err != nil {
			return nil, err
		}
		return reader.NewSource(sstable.Private | sstable.Scan), nil
	}
	var sources []base.Source
	for _, run := range sortedRuns(r.o.Comparer, tables) {
		sources = append(sources, iters.NewLevel(r.o.Comparer, run, open))
	}
	m := iters.NewMerge(r.o.Comparer, sources, nil, nil)
	defer m.Close()
	read, want := uint64(0), uint64(0)
	for _, t := range tables {
		want += t.entries
	}
	err := m.First()
	for err == nil && m.Valid() {
		e, i, end := m.NextSpan()
		read += uint64(end - i)
		for ; err == nil && i < end; i++ {
			err = o.add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i))
		}
		if err == nil {
			err = m.Advance(end)
		}
	}
	if err == nil && read != want {
		err = fmt.Errorf("the tables to merge have %d entries, %d were read", want, read)
	}
	return err
}

// sortedRuns distributes tables, which are sorted by their smallest keys, over
// sorted runs, greedily: each goes to the first run that it does not overlap. So a
// merge has few tables open at a time.
func sortedRuns(c *base.Comparer, tables []*table) [][]*manifest.FileMeta {
	var runs [][]*manifest.FileMeta
next:
	for _, t := range tables {
		for i, run := range runs {
			if last := run[len(run)-1]; c.Cmp(last.Largest.User, t.meta.Smallest.User) < 0 {
				runs[i] = append(run, t.meta)
				continue next
			}
		}
		runs = append(runs, []*manifest.FileMeta{t.meta})
	}
	return runs
}
