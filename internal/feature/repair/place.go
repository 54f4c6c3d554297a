package repair

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/files"
)

// place gives the tables of the MANIFEST their levels and sequence numbers, and returns those that
// are its tables. A file that has the name of another table, maybe of a dead one, is written anew
// in the place of that one, or set aside if it is none of them: its entries would be invented.
func (r *repair) place(tables, dead []*table) (placed []*table, err error) {
	if r.known.from == "" {
		return tables, nil
	}
	taken := make(map[uint64]bool) // tables of the MANIFEST that were found
	stays := func(t *table) {
		if num := t.meta.Num; !taken[num] && t.fits(r.live[num]) {
			t.placed, taken[num] = num, true
		}
	}
	keep := func(t *table) {
		if r.placeOne(t, taken) {
			placed = append(placed, t)
			return
		}
		r.aside[t.name] = true
		r.report.drop(t.name, 0, int64(t.meta.Size), "the MANIFEST has another table")
	}
	var moved, damaged []*table
	for _, t := range tables {
		switch {
		case !t.live:
			placed = append(placed, t)
			continue
		case t.damage != "":
			damaged = append(damaged, t)
			continue
		}
		if stays(t); t.placed != 0 {
			keep(t)
		} else {
			moved = append(moved, t)
		}
	}
	for _, t := range moved {
		keep(t)
	}
	for _, t := range dead {
		if len(taken) == len(r.live) {
			break
		}
		known, err := r.spaceOfLive(t)
		if known && err == nil {
			known, err = r.checkTable(t)
		}
		if err != nil {
			return nil, err
		}
		if known && t.damage == "" && r.placeOne(t, taken) {
			placed = append(placed, t)
		}
	}
	for _, t := range damaged {
		stays(t)
		keep(t)
	}
	slices.SortStableFunc(placed, func(a, b *table) int {
		return cmp.Compare(a.meta.Num, b.meta.Num)
	})
	return placed, nil
}

// placeOne gives a file the place of the table that it is. It reports false if it is none.
func (r *repair) placeOne(t *table, taken map[uint64]bool) bool {
	if t.placed == 0 {
		if t.placed = r.nameOf(t, taken); t.placed == 0 {
			return false
		}
		taken[t.placed] = true
		t.damage = fmt.Sprintf("the MANIFEST has it as table %06d", t.placed)
	}
	said := r.live[t.placed]
	t.level, t.space, t.meta.GlobalSeq = said.Level, said.space, said.Meta.GlobalSeq
	if t.damage == "" {
		t.meta.Facts = said.Meta.Facts
	}
	if t.outside {
		t.setSeq(said.Meta.GlobalSeq)
	}
	return true
}

// nameOf returns the number of the table that this file is, which has another one's name; 0: of
// none, or it cannot be told.
func (r *repair) nameOf(t *table, taken map[uint64]bool) (num uint64) {
	for n, said := range r.live {
		if taken[n] || !t.fits(said) {
			continue
		}
		if num != 0 {
			return 0
		}
		num = n
	}
	return num
}

// fits reports whether the file may be the table that the MANIFEST describes.
func (t *table) fits(said liveTable) bool {
	m, c := said.Meta, t.space.cmp
	switch {
	case t.space != said.space && !(t.unnamed && t.recorded != 0 && c == said.space.cmp),
		t.fileNum != 0 && t.fileNum != m.Num:
		return false
	case t.damage != "":
		return t.fileNum != 0 || t.meta.Num == m.Num
	case m.HasChecksum && t.recorded != 0 && t.recorded != m.Checksum:
		return false
	case !t.native && m.HasChecksum, t.outside != (m.GlobalSeq > 0):
		return false
	}
	return t.meta.Size == m.Size && c.Cmp(t.meta.Smallest.User, m.Smallest.User) == 0 &&
		c.Cmp(t.meta.Largest.User, m.Largest.User) == 0 &&
		(m.Entries == 0 || m.Entries == t.entries) &&
		(t.native || t.meta.Smallest.Trailer == m.Smallest.Trailer &&
			t.meta.Largest.Trailer == m.Largest.Trailer)
}

// setSeq gives all that is in an ingested table its sequence number.
func (t *table) setSeq(seq base.SeqNum) {
	t.minSeq, t.maxSeq = seq, seq
	t.meta.SetGlobalSeq(seq)
}

// orderIngested gives ingested tables that no MANIFEST has a sequence number. Tables that were
// written later record it. Without them the true number, S, is lost. It was
//
//   - above those of all tables with smaller numbers, and of ingested ones that overlap;
//   - no entry's in a log, and none's in the range of the table.
//
// The smallest number of which this holds is at most S. So the table is older than what was
// written after the ingest, and newer than all that it replaced, as long as no compaction wrote
// that anew. No entry of the same key has the same number.
func (r *repair) orderIngested(tables []*table, logs []*logFile) error {
	last := base.SeqNum(0)
	for i, t := range tables {
		if in, ok := r.ingested[t.meta.Num]; ok && t.outside && t.meta.GlobalSeq == 0 {
			t.setSeq(in.Seq)
			r.maxSeq = max(r.maxSeq, in.Seq)
		}
		if !t.outside || t.meta.GlobalSeq > 0 {
			last = max(last, t.maxSeq)
			continue
		}
		seq := last + 1
		for _, o := range tables[:i] {
			if o.outside && o.overlaps(t) {
				seq = max(seq, o.maxSeq+1)
			}
		}
		seq, err := r.unused(seq, t, tables, logs)
		if err != nil {
			return err
		}
		t.setSeq(seq)
		r.maxSeq = max(r.maxSeq, seq)
	}
	return nil
}

// overlaps reports whether tables may have a key in common.
func (t *table) overlaps(o *table) bool {
	if t.space != o.space {
		return false
	}
	if t.damage != "" || o.damage != "" { // their ends are not known
		return true
	}
	return t.space.cmp.Cmp(t.meta.Smallest.User, o.meta.Largest.User) <= 0 &&
		t.space.cmp.Cmp(o.meta.Smallest.User, t.meta.Largest.User) <= 0
}

// unused returns the first sequence number from seq on that no entry has, of the logs or in the
// range of t.
func (r *repair) unused(seq base.SeqNum, t *table, tables []*table,
	logs []*logFile) (base.SeqNum, error) {
	const window = 1 << 16 // numbers of one pass over the tables
	for taken := make([]bool, window); ; seq += window {
		clear(taken)
		mark := func(s base.SeqNum) {
			if s >= seq && s-seq < window {
				taken[s-seq] = true
			}
		}
		for _, l := range logs {
			for _, q := range l.seqs {
				for s := max(q.first, seq); s < min(q.end, seq+window); s++ {
					mark(s)
				}
			}
		}
		for _, o := range tables {
			if o == t || o.outside || o.maxSeq < seq || !o.overlaps(t) {
				continue
			}
			if err := r.eachSeq(o, t, mark); err != nil {
				return 0, err
			}
		}
		if i := slices.Index(taken, false); i >= 0 {
			return seq + base.SeqNum(i), nil
		}
	}
}

// eachSeq calls f with the sequence numbers of what table o has in the range of t, up to damage.
func (r *repair) eachSeq(o, t *table, f func(base.SeqNum)) error {
	file, ok, err := r.open(o.name)
	if !ok {
		return err
	}
	defer file.Close()
	reader, err := files.OpenTable(file, r.tableOptions(o))
	if err == nil {
		c, low, high := t.space.cmp, t.meta.Smallest.User, t.meta.Largest.User
		whole := t.damage != ""
		for _, d := range reader.RangeDels().Fragments() {
			if whole || c.Cmp(d.Start, high) <= 0 && c.Cmp(low, d.Limit) < 0 {
				for _, s := range d.Seqs {
					f(s)
				}
			}
		}
		src := reader.NewSource(sstable.Private | sstable.Scan)
		err = base.Scan(src, func(e *base.Chunk) error {
			for i := range e.Len() {
				if key := e.Key(i); whole || c.Cmp(low, key) <= 0 && c.Cmp(key, high) <= 0 {
					f(e.Trailers[i].Seq())
				}
			}
			return nil
		})
		src.Close()
		err = errors.Join(err, reader.Close())
	}
	if errors.Is(err, base.ErrCorruption) {
		err = nil
	}
	return err
}
