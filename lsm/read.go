package lsm

import (
	"errors"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/epoch"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/sstable"
)

// memoryOnly makes a read answer from memory or fail with ErrWouldBlock.
const memoryOnly = sstable.MemoryOnly

// Get appends the value of key to dst and returns the result; with room in dst
// it allocates nothing. A missing key is ErrNotFound, and dst as it was.
func (db *DB) Get(key, dst []byte) ([]byte, error) {
	return db.get(key, dst, nil, 0)
}

// TryGet is Get without I/O: when memtables and cached blocks do not hold the
// answer it fails with ErrWouldBlock.
func (db *DB) TryGet(key, dst []byte) ([]byte, error) {
	return db.get(key, dst, nil, memoryOnly)
}

// GetNoFill is Get that leaves the block cache as it is, for reads that will
// not come again.
func (db *DB) GetNoFill(key, dst []byte) ([]byte, error) {
	return db.get(key, dst, nil, sstable.NoFill)
}

// Has reports whether key has a value.
func (db *DB) Has(key []byte) (bool, error) {
	return db.has(key, nil)
}

// hasBuffers hold the values that Has does not want.
var hasBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxHasBuffer = 64 << 10

func (db *DB) has(key []byte, snap *Snapshot) (bool, error) {
	buf := hasBuffers.Get().(*[]byte)
	v, err := db.get(key, (*buf)[:0], snap, 0)
	if cap(v) <= maxHasBuffer {
		*buf = v
	}
	hasBuffers.Put(buf)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// hold keeps a point read's view alive: by a guard as long as the read only
// looks at memory, by a reference from its first I/O on. So a slow disk keeps
// nothing but that view from being freed.
type hold struct {
	db      *DB
	guard   epoch.Guard
	view    *view
	counted bool // by a reference
}

// count changes from the guard to a reference.
func (h *hold) count() {
	if !h.counted {
		h.view.ref()
		h.counted = true
		h.guard.Exit()
	}
}

// release ends the read; a panic in it becomes its error.
func (h *hold) release(err *error) {
	if h.counted {
		h.view.unref()
	} else {
		h.guard.Exit()
	}
	if r := recover(); r != nil {
		h.db.recovered(r, err)
	}
}

// get looks the key up in snap, or at present if that is nil.
func (db *DB) get(key, dst []byte, snap *Snapshot, flags sstable.ReadFlags) (value []byte, err error) {
	h := hold{db: db, guard: db.reads.Enter()}
	defer h.release(&err)
	h.view = db.view.Load()
	seq, err := db.seqAfter(h.view, snap)
	if err != nil {
		return dst, err
	}
	if value, t, found := h.view.memGet(memtable.MakeLookup(db.cmp, key, seq)); found {
		if t.Kind() == base.KindDelete {
			return dst, ErrNotFound
		}
		return append(dst, value...), nil
	}
	value, t, found, err := h.tableGet(base.MakeLookup(db.cmp, key, seq), flags, dst)
	switch {
	case err != nil:
		return dst, err
	case !found || t.Kind() == base.KindDelete:
		return dst, ErrNotFound
	}
	return value, nil
}

// seqAfter is the sequence number to read v at, in snap or at present if that is
// nil. It is called after v was loaded: a view that is newer than the sequence
// number may have lost the entry visible at it to a compaction, and so may a
// view that is newer than the snapshot's Close.
func (db *DB) seqAfter(v *view, snap *Snapshot) (base.SeqNum, error) {
	if v == nil {
		return 0, ErrClosed
	}
	seq := base.SeqNum(db.visible.Load())
	if snap != nil {
		if snap.closed.Load() {
			return 0, ErrClosed
		}
		seq = min(seq, snap.seq)
	}
	return seq, nil
}

// memGet searches the memtables, newest first. The value aliases an arena.
func (v *view) memGet(l base.Lookup) ([]byte, base.Trailer, bool) {
	if value, t, found := v.mem.Get(l); found {
		return value, t, true
	}
	for _, s := range v.imm {
		if value, t, found := s.table.Get(l); found {
			return value, t, true
		}
	}
	return nil, 0, false
}

// tableGet searches the tables, newest first: every file of level 0 that may
// hold the key, then one file of each deeper level.
func (h *hold) tableGet(l base.Lookup, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	db, v, key := h.db, h.view.version, l.Key()
	for _, m := range v.Levels[0].Files {
		if db.cmp.Cmp(key, m.Smallest.User) < 0 || db.cmp.Cmp(key, m.Largest.User) > 0 {
			continue
		}
		value, t, found, err := h.fileGet(m, l, flags, dst)
		if found || err != nil {
			return value, t, found, err
		}
	}
	for i := 1; i < manifest.NumLevels; i++ {
		level := &v.Levels[i]
		if len(level.Files) == 0 {
			continue
		}
		m := db.candidate(level, l)
		if m == nil {
			continue
		}
		value, t, found, err := h.fileGet(m, l, flags, dst)
		if found || err != nil {
			return value, t, found, err
		}
	}
	return dst, 0, false, nil
}

// candidate is the only file of a sorted level that may hold the entry that l
// asks for, or nil.
func (db *DB) candidate(level *manifest.Level, l base.Lookup) *manifest.FileMeta {
	key := l.Key()
	n := level.FindAt(db.cmp, key, l.Trailer())
	if n >= len(level.Files) || db.cmp.Cmp(key, level.Files[n].Smallest.User) < 0 {
		return nil
	}
	return level.Files[n]
}

// fileGet searches one table: in memory first, so that nothing is done inside
// the guard that may wait for a disk.
func (h *hold) fileGet(m *manifest.FileMeta, l base.Lookup, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	r, ok := h.db.files.OpenNow(m)
	switch {
	case ok && !h.counted:
		value, t, found, err := r.Get(l, flags|memoryOnly, dst)
		if err == nil || flags&memoryOnly != 0 || !errors.Is(err, ErrWouldBlock) {
			return value, t, found, err
		}
		h.count()
		return r.GetAt(int(t), l, flags, dst)
	case !ok && flags&memoryOnly != 0:
		return dst, 0, false, ErrWouldBlock
	case !ok:
		h.count()
		var err error
		if r, err = h.db.files.Reader(m); err != nil {
			return dst, 0, false, err
		}
	}
	return r.Get(l, flags, dst)
}
