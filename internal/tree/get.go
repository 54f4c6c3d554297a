package tree

import (
	"errors"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// hasBuffers hold the values that Has does not want.
var hasBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxHasBuffer = 64 << 10

// Has reports whether key has a value in snap, or at present if that is nil.
func (t *Tree) Has(key []byte, snap *Snapshot) (bool, error) {
	buf := hasBuffers.Get().(*[]byte)
	v, err := t.Get(key, (*buf)[:0], snap, 0)
	if cap(v) <= maxHasBuffer {
		*buf = v
	}
	hasBuffers.Put(buf)
	if errors.Is(err, base.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// hold keeps the read state of a Get alive: by a guard as long as the read looks
// at memory only, by a reference from its first I/O on. So a slow disk keeps
// nothing but that state from being freed.
type hold struct {
	tree    *Tree
	guard   epoch.Guard
	state   *ReadState
	counted bool // by a reference
	over    bool // released
	at      moment
}

// count changes from the guard to a reference.
func (h *hold) count() {
	if !h.counted {
		h.state.ref()
		h.counted = true
		h.guard.Exit()
	}
}

// end gives the read state back.
func (h *hold) end() {
	switch {
	case h.over:
	case h.counted:
		h.state.Unref()
	default:
		h.guard.Exit()
	}
	h.over = true
}

// release ends the read; a panic in it becomes its error.
func (h *hold) release(err *error) {
	h.end()
	if r := recover(); r != nil {
		*err = h.tree.panicked(r)
	}
}

// Get appends the value of key in snap, or at present if that is nil, to dst and
// returns the result. A missing key is base.ErrNotFound, and dst as it was. With
// sstable.MemoryOnly it does no I/O, and fails with base.ErrWouldBlock when
// memtables and cached blocks do not hold the answer.
func (t *Tree) Get(key, dst []byte, snap *Snapshot,
	flags sstable.ReadFlags) (value []byte, err error) {
	if err := t.present(snap, flags); err != nil {
		return dst, err
	}
	h := hold{tree: t, guard: t.shared.Reads.Enter(), at: t.at(snap)}
	defer h.release(&err)
	var seq base.SeqNum
	h.state, seq, err = t.stateFor(h.guard, snap)
	if err != nil {
		return dst, err
	}
	if h.state.hasRangeDels() {
		if value, resolved, err := h.getCovered(key, dst, seq, flags); resolved {
			return value, err
		}
		return t.getResolved(&h, key, dst, seq, flags)
	}
	if value, trailer, found := h.state.memGet(memtable.MakeLookup(t.cmp, key, seq)); found {
		switch trailer.Kind() {
		case base.KindSet:
			return append(dst, value...), nil
		case base.KindDelete:
			return dst, base.ErrNotFound
		case base.KindSetExpiring:
			return h.at.live(append(dst, value...), len(dst))
		}
		return t.getResolved(&h, key, dst, seq, flags)
	}
	value, trailer, found, err := h.tableGet(base.MakeLookup(t.cmp, key, seq), flags, dst)
	if err != nil || !found {
		if err == nil {
			err = base.ErrNotFound
		}
		return dst, err
	}
	switch trailer.Kind() {
	case base.KindSet:
		return value, nil
	case base.KindDelete:
		return dst, base.ErrNotFound
	case base.KindSetExpiring:
		return h.at.live(value, len(dst))
	}
	return t.getResolved(&h, key, dst, seq, flags)
}

// memGet searches the memtables, newest first. The value aliases an arena.
func (s *ReadState) memGet(l base.Lookup) ([]byte, base.Trailer, bool) {
	if value, t, found := s.Mem.Get(l); found {
		return value, t, true
	}
	for _, m := range s.Sealed {
		if value, t, found := m.Mem.Get(l); found {
			return value, t, true
		}
	}
	return nil, 0, false
}

// tableGet searches the tables, newest first. What it searches in vain counts as
// sought.
func (h *hold) tableGet(l base.Lookup, flags sstable.ReadFlags,
	dst []byte) ([]byte, base.Trailer, bool, error) {
	var sought, last uint32
	tree, next := h.tree, candidates{version: h.state.Version}
	for m := next.file(tree, l); m != nil; m = next.file(tree, l) {
		value, hit, found, err := h.fileGet(m, l, flags, dst)
		if found || err != nil {
			tree.soughtInVain(sought)
			return value, hit.Trailer, found, err
		}
		if hit.Searched > 0 {
			last = hit.Searched
			sought += last
		}
	}
	tree.soughtInVain(sought - last) // one run would have been searched, too
	return dst, 0, false, nil
}

// candidates are the files that may hold a key, newest first: those of level 0, then one
// of each deeper level.
type candidates struct {
	version *manifest.Version
	zero    int // files of level 0 looked at
	level   int // looked at
}

// file returns the next candidate, nil after the last one.
func (c *candidates) file(t *Tree, l base.Lookup) *manifest.FileMeta {
	for files := c.version.Levels[0].Files; c.zero < len(files); {
		m := files[c.zero]
		c.zero++
		if key := l.Key(); t.cmp.Cmp(key, m.Smallest.User) >= 0 &&
			t.cmp.Cmp(key, m.Largest.User) <= 0 {
			return m
		}
	}
	for c.level < manifest.NumLevels-1 {
		c.level++
		if level := &c.version.Levels[c.level]; len(level.Files) > 0 {
			if m := t.candidate(level, l); m != nil {
				return m
			}
		}
	}
	return nil
}

// candidate is the only file of a sorted level that may hold the entry that l
// asks for, or nil.
func (t *Tree) candidate(level *manifest.Level, l base.Lookup) *manifest.FileMeta {
	key := l.Key()
	n := level.FindAt(t.cmp, key, l.Trailer())
	if n >= len(level.Files) || t.cmp.Cmp(key, level.Files[n].Smallest.User) < 0 {
		return nil
	}
	return level.Files[n]
}

// fileGet searches one table: in memory first, so that nothing is done inside
// the guard that may wait for a disk.
func (h *hold) fileGet(m *manifest.FileMeta, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) ([]byte, sstable.Hit, bool, error) {
	r, ok := h.tree.shared.Files.OpenNow(m)
	switch {
	case ok && !h.counted:
		value, hit, found, err := r.Get(l, flags|sstable.MemoryOnly, dst)
		if err == nil || flags&sstable.MemoryOnly != 0 || !errors.Is(err, base.ErrWouldBlock) {
			return value, hit, found, err
		}
		h.count()
		return r.GetAt(hit.Position, l, flags, dst)
	case !ok && flags&sstable.MemoryOnly != 0:
		return dst, sstable.Hit{}, false, base.ErrWouldBlock
	case !ok:
		h.count()
		var err error
		if r, err = h.tree.shared.Files.Reader(m); err != nil {
			return dst, sstable.Hit{}, false, err
		}
	}
	return r.Get(l, flags, dst)
}
