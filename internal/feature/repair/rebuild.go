package repair

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/tree/iters"
)

// rebuild writes the new tables and says what the database consists of.
func (r *repair) rebuild(tables []*table, logs []*logFile) (*manifest.State, error) {
	kept, damagedTop, err := r.salvageTables(tables)
	if err != nil {
		return nil, err
	}
	levels := make(map[*keyspace]bool)
	var merged []*table
	stored := operands{r: r, tables: make(map[*keyspace][]*table),
		sets: make(map[*keyspace]*files.Set), hidden: make(map[*keyspace]*keySet)}
	for _, s := range r.sorted() {
		mine := s.of(kept)
		levels[s] = r.known.levels && s.inOrder(tables, logs)
		if levels[s] && damagedTop[s] {
			// In level 0 a higher number means newer, which is not so of tables
			// just written: without overlap it does not matter.
			if mine, err = r.mergeTop(s, mine); err != nil {
				return nil, err
			}
		}
		if !levels[s] {
			stored.of(s, mine)
		}
		merged = append(merged, mine...)
	}
	fresh, err := func() (fresh []*table, err error) {
		defer func() { err = errors.Join(err, stored.close()) }()
		return r.convertLogs(logs, &stored)
	}()
	if err != nil {
		return nil, err
	}
	kept = append(merged, fresh...)
	var all []*table
	for _, s := range r.sorted() {
		mine := s.of(kept)
		if levels[s] {
			_, err := manifest.NewVersion(s.cmp, byLevel(mine))
			levels[s] = err == nil
		}
		if !levels[s] {
			r.report.LevelsLost = true
			s.pointers = [manifest.NumLevels]base.InternalKey{}
			// One sorted run in the deepest level, since nothing older is left.
			if mine, err = r.mergeOverlaps(s, mine, manifest.NumLevels-1); err != nil {
				return nil, err
			}
		}
		all = append(all, mine...)
	}
	return r.state(all), nil
}

// salvageTables replaces the damaged tables by new ones with what can be read of them. damagedTop
// has the keyspaces of those that were in level 0.
func (r *repair) salvageTables(tables []*table) (kept []*table, damagedTop map[*keyspace]bool,
	err error) {
	damagedTop = make(map[*keyspace]bool)
	for _, t := range tables {
		if t.refers && t.damage == "" {
			t.damage = "its values lie in logs"
		}
		if t.damage == "" {
			kept = append(kept, t)
			continue
		}
		out, err := r.salvageTable(t)
		if err != nil {
			return nil, nil, err
		}
		kept = append(kept, out...)
		if t.level == 0 {
			damagedTop[t.space] = true
		}
		r.aside[t.name] = true
		r.report.Rewritten = append(r.report.Rewritten, Rewrite{File: t.name, Reason: t.damage})
	}
	return kept, damagedTop, nil
}

// inOrder reports whether the logs ascend and are newer than the tables, as they are
// unless files of several databases were mixed.
func (s *keyspace) inOrder(tables []*table, logs []*logFile) bool {
	last := s.lastOf(tables)
	for _, l := range logs {
		span := l.spans[s]
		if span == nil {
			continue
		}
		if !span.ascending || span.minSeq <= last {
			return false
		}
		last = span.maxSeq
	}
	return true
}

// lastOf is the largest sequence number in the tables of the keyspace.
func (s *keyspace) lastOf(tables []*table) (last base.SeqNum) {
	for _, t := range s.of(tables) {
		last = max(last, t.maxSeq)
	}
	return last
}

// oldLog reports whether a log of LevelDB's format, which does not record its number, has entries
// that are not newer than the tables. Then an obsolete log has its name: a read would prefer its
// entries to newer ones in tables.
func (r *repair) oldLog(tables []*table, logs []*logFile) bool {
	s := r.spaces[base.DefaultKeyspace]
	last := s.lastOf(tables)
	return r.format == base.LevelDB && slices.ContainsFunc(logs, func(l *logFile) bool {
		return l.spans[s] != nil && l.spans[s].minSeq <= last
	})
}

func byLevel(tables []*table) (levels [manifest.NumLevels][]*manifest.FileMeta) {
	for _, t := range tables {
		levels[t.level] = append(levels[t.level], t.meta)
	}
	return levels
}

// state is the database of these tables.
func (r *repair) state(tables []*table) *manifest.State {
	k := &r.known.st
	st := &manifest.State{LastSeq: max(k.LastSeq, r.maxSeq), HasLastSeq: true,
		LevelDBBelow: k.LevelDBBelow, MaxKeyspace: k.MaxKeyspace, Clock: k.Clock}
	if k.NextFile < maxNum {
		r.next = max(r.next, k.NextFile)
	}
	// The existing logs have smaller numbers, so none of them is replayed.
	st.LogNum, st.HasLogNum = r.newNum(), true
	st.NextFile, st.HasNextFile = r.next, true
	st.Others = make(map[base.KeyspaceID]*manifest.KeyspaceState)
	for _, s := range r.sorted() {
		part := manifest.KeyspaceState{ID: s.id, Name: s.names.Name, Comparer: s.names.Comparer,
			HasComparer: true, MergeOperator: s.merge,
			Pointers: s.pointers, Files: make(map[uint64]manifest.AddedFile)}
		if r.format == base.Native {
			part.FirstLog = st.LogNum
		}
		for _, t := range s.of(tables) {
			part.Files[t.meta.Num] = manifest.AddedFile{Level: t.level, Meta: t.meta}
			r.report.Entries += t.entries
		}
		if s.id == base.DefaultKeyspace {
			part.Comparer = r.o.Comparer.Name
			st.KeyspaceState = part
			continue
		}
		st.MaxKeyspace = max(st.MaxKeyspace, s.id)
		st.Others[s.id] = &part
	}
	r.report.Tables = len(tables)
	return st
}

// mergeTop replaces the tables of level 0 by ones that do not overlap.
func (r *repair) mergeTop(s *keyspace, tables []*table) ([]*table, error) {
	var top, rest []*table
	for _, t := range tables {
		if t.level == 0 {
			top = append(top, t)
		} else {
			rest = append(rest, t)
		}
	}
	merged, err := r.mergeOverlaps(s, top, 0)
	return append(rest, merged...), err
}

// mergeOverlaps merges tables that overlap, leaves the others as they are, and
// puts all into a level.
func (r *repair) mergeOverlaps(s *keyspace, tables []*table, level int) ([]*table, error) {
	c := s.cmp
	slices.SortStableFunc(tables, func(a, b *table) int {
		return c.CompareInternal(a.meta.Smallest.User, a.meta.Smallest.Trailer,
			b.meta.Smallest.User, b.meta.Smallest.Trailer)
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
			if merged, err = r.merge(s, tables[:n], level); err != nil {
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

// merge writes the entries of all tables to new ones, every version of every key.
func (r *repair) merge(s *keyspace, tables []*table, level int) ([]*table, error) {
	set := files.New(files.Options{FS: r.o.FS, Dir: r.o.Dir, Format: r.format, Comparer: s.cmp,
		MaxDecoded: r.o.MaxDecoded})
	o := output{r: r, space: s, level: level}
	merged, err := func() (merged []*table, err error) {
		defer func() { err = errors.Join(err, o.close(), set.Close()) }()
		return o.finish(r.mergeInto(&o, set, tables))
	}()
	if err != nil {
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
	if err := o.mergeRangeDels(set, tables); err != nil {
		return err
	}
	var sources []base.Source
	for _, run := range sortedRuns(o.space.cmp, tables) {
		sources = append(sources, iters.NewLevel(o.space.cmp, run, open))
	}
	m := iters.NewMerge(o.space.cmp, sources, nil, nil)
	defer m.Close()
	read, want := uint64(0), uint64(0)
	for _, t := range tables {
		want += t.entries
	}
	var last operand
	err := m.First()
	for err == nil && m.Valid() {
		e, i, end := m.NextSpan()
		read += uint64(end - i)
		for ; err == nil && i < end; i++ {
			if err = last.flush(o, e.Key(i), e.Trailers[i]); err != nil {
				break
			}
			if e.Trailers[i].Kind() == base.KindMerge {
				last.hold(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i))
				continue
			}
			err = o.add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i))
		}
		if err == nil {
			err = m.Advance(end)
		}
	}
	if err == nil {
		err = last.flush(o, nil, 0)
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
