package tree

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// walk is the search for the versions of one user key that a sequence number sees in a read
// state, newest first. Every point read is one: Get and MultiGet take the first version, resolver
// takes versions until one ends the lookup, and Newer asks how new the first one is.
//
// The sources are searched in this order: the memtable, the sealed memtables from the newest on,
// the tables of level 0 from the newest on, and of each deeper level the one table that may hold
// the key. All unordered tables of level 0 (FileMeta.Unordered) are one source, see newestOfZero:
// they have sets and deletions alone.
//
// Invariant: what a source has of a user key (versions, and range tombstones over it) is newer
// than what the sources behind it have of that key. Memtables are filled one after the other and
// flushed from the oldest on; a compaction takes with an entry all older ones of its key down to
// the output level (package picker); an ingested table goes above all that it overlaps.
//
//  1. The first version found is the newest one, and the walk may stop at any version: the
//     versions in a source come newest first, and the sources behind have older ones only.
//
//  2. A range tombstone over the key hides all versions with smaller sequence numbers. The sources
//     behind that of the tombstone have no others, so it is the last source. There the versions are
//     compared with the newest such tombstone (covered); one of the same number is of its ingest.
//
//  3. Versions and tombstones newer than Lookup.Seq do not exist for the walk. Each source passes
//     over them by itself. So no source is skipped because it has newer entries of the key.
//
//  4. A walk that looks for versions above since leaves out tables that have none
//     (FileMeta.Newest, which is 0 where that is not known). A sealed memtable without any ends
//     the walk: all that is behind was written before. That fails for ingested tables, which are
//     behind memtables that do not have their keys: where one may be newer than since, no memtable
//     ends the walk.
//
// The walk is a position: it does not hold the read state, which is that of the hold that comes
// with each call. It never moves back, and a version that it returned is returned once. It fills
// one cache line: MultiGet has many.
type walk struct {
	base.Lookup // of package memtable; from the first table on that of package base

	since   base.SeqNum // 0: all versions are wanted
	covered base.SeqNum // the newest range tombstone over the key in the present source; 0: none

	// How many sources were taken: memtables, tables of level 0, and deeper levels.
	mems, zero int32
	level      uint8

	last    bool // no source comes after the present one
	flags   sstable.ReadFlags
	noValue bool // next need not copy the values of memtables
}

// place is where a version was found: hit of table, or where that is nil memHit of mem.
type place struct {
	mem    *memtable.MemTable
	memHit memtable.Hit
	table  *manifest.FileMeta
	hit    sstable.Hit
}

// begin makes w, a zero walk, one over the versions of key that seq sees. It is filled in place: a
// copy would be read before the processor has written all of it.
func (w *walk) begin(t *Tree, key []byte, seq base.SeqNum, flags sstable.ReadFlags) {
	w.Lookup, w.flags = memtable.MakeLookup(t.cmp, key, seq), flags
}

// cover notes the newest range tombstone over the key in the present source; 0: there is none.
func (w *walk) cover(seq base.SeqNum) {
	if seq > 0 {
		w.covered, w.last = seq, true
	}
}

// inMemory searches the memtables that are left. The value aliases an arena; p, unless nil, gets
// its place.
func (w *walk) inMemory(h *hold, p *place) (value []byte, t base.Trailer, found bool) {
	for s := h.state; int(w.mems) <= len(s.Sealed) && !w.last; {
		if w.since > 0 && w.mems > 0 && s.Sealed[w.mems-1].Last <= w.since &&
			!h.tree.mayHaveIngested(w.since) {
			w.last = true
			return nil, 0, false
		}
		m := s.memTable(int(w.mems) - 1)
		w.mems++
		if m.HasRangeDels() {
			w.cover(m.CoveredAt(w.Lookup))
		}
		if value, hit, found := m.Get(w.Lookup); found && hit.Trailer.Seq() >= w.covered {
			if p != nil {
				p.mem, p.memHit = m, hit
			}
			return value, hit.Trailer, true
		}
	}
	w.Lookup = base.MakeLookup(h.tree.cmp, w.Key(), w.Seq)
	return nil, 0, false
}

// nextTable returns the next table that may hold the key, nil after the last one. It comes after
// inMemory found nothing.
func (w *walk) nextTable(h *hold) *manifest.FileMeta {
	cmp, levels := h.tree.cmp, &h.state.Version.Levels
	for files := levels[0].Files; int(w.zero) < len(files) && !w.last; {
		m := files[w.zero]
		w.zero++
		if key := w.Key(); cmp.Cmp(key, m.Smallest.User) >= 0 &&
			cmp.Cmp(key, m.Largest.User) <= 0 && w.wants(m) {
			return m
		}
	}
	if w.last {
		return nil
	}
	for l := int(w.level) + 1; l < manifest.NumLevels; l++ {
		level := &levels[l]
		if len(level.Files) == 0 {
			continue
		}
		key := w.Key()
		if n := level.FindAt(cmp, key, w.Trailer()); n < len(level.Files) {
			m := level.Files[n]
			if cmp.Cmp(key, m.Smallest.User) >= 0 && w.wants(m) {
				w.level = uint8(l)
				return m
			}
		}
	}
	w.last = true
	return nil
}

// wants reports whether a table may have an entry newer than since.
func (w *walk) wants(m *manifest.FileMeta) bool { return w.since == 0 || mayBeNewer(m, w.since) }

// next returns the newest version in the sources behind the present one, with its value appended
// to dst. p, unless nil, gets its place. What is searched in vain counts as sought.
func (h *hold) next(w *walk, dst []byte, p *place) (value []byte, t base.Trailer, found bool,
	err error) {
	if value, t, found := w.inMemory(h, p); found {
		if w.noValue {
			return dst, t, true, nil
		}
		return append(dst, value...), t, true, nil
	}
	var sought, last uint32
	for m := w.nextTable(h); m != nil; m = w.nextTable(h) {
		if m.RangeDels > 0 {
			r, err := h.open(m, w.flags)
			if err != nil {
				return dst, 0, false, err
			}
			w.cover(r.RangeDels().Newest(w.Key(), w.Seq))
		}
		value, hit, found, err := h.tableGet(m, w.Lookup, w.flags, dst)
		if err == nil && found && w.unordered(h, m) {
			value, hit, m, err = h.newestOfZero(w, value, hit, m, len(dst))
		}
		if err != nil || found {
			h.tree.soughtInVain(sought)
			if p != nil {
				p.table, p.hit = m, hit
			}
			return value, hit.Trailer, found && hit.Trailer.Seq() >= w.covered, err
		}
		if hit.Searched > 0 {
			last = hit.Searched
			sought += last
		}
	}
	h.tree.soughtInVain(sought - last) // one run would have been searched, too
	return dst, 0, false, nil
}

// unordered reports whether tables of level 0 behind m, which nextTable returned, may have newer
// entries of the key than m.
func (w *walk) unordered(h *hold, m *manifest.FileMeta) bool {
	return m.Unordered && w.level == 0 && int(w.zero) < len(h.state.Version.Levels[0].Files)
}

// newestOfZero compares what m has of the key, which is in value from from on, with what the other
// unordered tables of level 0 have, and returns the newest version, and its table.
func (h *hold) newestOfZero(w *walk, value []byte, hit sstable.Hit, m *manifest.FileMeta,
	from int) ([]byte, sstable.Hit, *manifest.FileMeta, error) {
	var scratch []byte
	for w.unordered(h, m) {
		other := w.nextTable(h)
		if other == nil || w.level > 0 {
			w.last = true // what is deeper is older
			break
		}
		v, theirs, found, err := h.tableGet(other, w.Lookup, w.flags, scratch[:0])
		if err != nil {
			return value, hit, m, err
		}
		if scratch = v; found && theirs.Trailer > hit.Trailer {
			value, hit, m = append(value[:from], v...), theirs, other
		}
	}
	return value, hit, m, nil
}

// older is next, but begins with what is left in the source of the version at p, which next or
// older returned last.
func (h *hold) older(w *walk, dst []byte, p *place) (value []byte, t base.Trailer, found bool,
	err error) {
	if p.table == nil {
		value, p.memHit, found = p.mem.GetNext(p.memHit, w.Lookup)
		value, t = append(dst, value...), p.memHit.Trailer
	} else {
		value, p.hit, found, err = h.tableGetNext(p.table, p.hit, w.Lookup, w.flags, dst)
		t = p.hit.Trailer
	}
	switch {
	case err != nil || found && t.Seq() < w.covered:
		return dst, 0, false, err
	case found:
		return value, t, true, nil
	}
	return h.next(w, dst, p)
}

// open returns the reader of a table, in memory if that is possible.
func (h *hold) open(m *manifest.FileMeta, flags sstable.ReadFlags) (sstable.Reader, error) {
	if r, ok := h.tree.shared.Files.OpenNow(m); ok {
		return r, nil
	}
	return h.openFile(m, flags)
}

func (h *hold) openFile(m *manifest.FileMeta, flags sstable.ReadFlags) (sstable.Reader, error) {
	if flags&sstable.MemoryOnly != 0 {
		return nil, base.ErrWouldBlock
	}
	h.addRef()
	return h.tree.shared.Files.Reader(m)
}

// tableGet searches one table: in memory first, so that nothing is done inside the guard that may
// wait for a disk.
func (h *hold) tableGet(m *manifest.FileMeta, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) ([]byte, sstable.Hit, bool, error) {
	r, err := h.open(m, flags)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	if h.hasRef {
		return r.Get(l, flags, dst)
	}
	value, hit, found, err := r.Get(l, flags|sstable.MemoryOnly, dst)
	if err == nil || flags&sstable.MemoryOnly != 0 || !errors.Is(err, base.ErrWouldBlock) {
		return value, hit, found, err
	}
	h.addRef()
	return r.GetAt(hit.Position, l, flags, dst)
}

// tableGetNext goes on with the version that is next older than prev, in memory first like
// tableGet.
func (h *hold) tableGetNext(m *manifest.FileMeta, prev sstable.Hit, l base.Lookup,
	flags sstable.ReadFlags, dst []byte) ([]byte, sstable.Hit, bool, error) {
	r, err := h.open(m, flags)
	if err != nil {
		return dst, sstable.Hit{}, false, err
	}
	if !h.hasRef {
		value, hit, found, err := r.GetNext(prev, l, flags|sstable.MemoryOnly, dst)
		if flags&sstable.MemoryOnly != 0 || !errors.Is(err, base.ErrWouldBlock) {
			return value, hit, found, err
		}
		h.addRef()
	}
	return r.GetNext(prev, l, flags, dst)
}
