package lsm

import (
	"errors"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/epoch"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

// memoryOnly makes a read answer from memory or fail with ErrWouldBlock.
const memoryOnly = sstable.MemoryOnly

// Get appends the value of key to dst and returns the result; with room in dst
// it allocates nothing. A missing key is ErrNotFound, and dst as it was.
func (db *DB) Get(key, dst []byte) ([]byte, error) {
	return db.get(key, dst, base.MaxSeqNum, 0)
}

// TryGet is Get without I/O: when memtables and cached blocks do not hold the
// answer it fails with ErrWouldBlock.
func (db *DB) TryGet(key, dst []byte) ([]byte, error) {
	return db.get(key, dst, base.MaxSeqNum, memoryOnly)
}

// GetNoFill is Get that leaves the block cache as it is, for reads that will
// not come again.
func (db *DB) GetNoFill(key, dst []byte) ([]byte, error) {
	return db.get(key, dst, base.MaxSeqNum, sstable.NoFill)
}

// Has reports whether key has a value.
func (db *DB) Has(key []byte) (bool, error) {
	return db.has(key, base.MaxSeqNum)
}

// hasBuffers hold the values that Has does not want.
var hasBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxHasBuffer = 64 << 10

func (db *DB) has(key []byte, seq base.SeqNum) (bool, error) {
	buf := hasBuffers.Get().(*[]byte)
	v, err := db.get(key, (*buf)[:0], seq, 0)
	if cap(v) <= maxHasBuffer {
		*buf = v
	}
	hasBuffers.Put(buf)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// get looks the key up at seq; base.MaxSeqNum means the present.
func (db *DB) get(key, dst []byte, seq base.SeqNum, flags sstable.ReadFlags) (value []byte, err error) {
	g := epoch.Enter()
	defer db.leave(g, &err)
	v := db.view.Load()
	if v == nil {
		return dst, ErrClosed
	}
	// After the view: a view that is newer than the sequence number may have
	// lost the entry visible at it to a compaction.
	seq = min(seq, base.SeqNum(db.visible.Load()))
	var hash uint64
	if db.cmp.EqualIsBytewise {
		hash = base.Hash(key)
	}
	if value, t, found := v.memGet(key, hash, seq); found {
		if t.Kind() == base.KindDelete {
			return dst, ErrNotFound
		}
		return append(dst, value...), nil
	}
	value, t, found, err := db.tableGet(v.version, key, hash, seq, flags, dst)
	switch {
	case err != nil:
		return dst, err
	case !found || t.Kind() == base.KindDelete:
		return dst, ErrNotFound
	}
	return value, nil
}

// leave ends a guarded read; a panic below it becomes the read's error.
func (db *DB) leave(g epoch.Guard, err *error) {
	g.Exit()
	if r := recover(); r != nil {
		db.recovered(r, err)
	}
}

// memGet searches the memtables, newest first. The value aliases an arena.
func (v *view) memGet(key []byte, hash uint64, seq base.SeqNum) ([]byte, base.Trailer, bool) {
	if value, t, found := v.mem.Get(key, hash, seq); found {
		return value, t, true
	}
	for _, s := range v.imm {
		if value, t, found := s.table.Get(key, hash, seq); found {
			return value, t, true
		}
	}
	return nil, 0, false
}

// tableGet searches the tables, newest first: every file of level 0 that may
// hold the key, then one file of each deeper level.
func (db *DB) tableGet(v *manifest.Version, key []byte, hash uint64, seq base.SeqNum, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	for _, m := range v.Levels[0].Files {
		if db.cmp.Cmp(key, m.Smallest.User) < 0 || db.cmp.Cmp(key, m.Largest.User) > 0 {
			continue
		}
		value, t, found, err := db.fileGet(m, key, hash, seq, flags, dst)
		if found || err != nil {
			return value, t, found, err
		}
	}
	for i := 1; i < manifest.NumLevels; i++ {
		level := &v.Levels[i]
		if len(level.Files) == 0 {
			continue
		}
		m := db.candidate(level, key, seq)
		if m == nil {
			continue
		}
		value, t, found, err := db.fileGet(m, key, hash, seq, flags, dst)
		if found || err != nil {
			return value, t, found, err
		}
	}
	return dst, 0, false, nil
}

// candidate is the only file of a sorted level that may hold the entry of key
// visible at seq, or nil.
func (db *DB) candidate(level *manifest.Level, key []byte, seq base.SeqNum) *manifest.FileMeta {
	n := level.FindAt(db.cmp, key, base.MakeTrailer(seq, base.KindMax))
	if n >= len(level.Files) || db.cmp.Cmp(key, level.Files[n].Smallest.User) < 0 {
		return nil
	}
	return level.Files[n]
}

func (db *DB) fileGet(m *manifest.FileMeta, key []byte, hash uint64, seq base.SeqNum, flags sstable.ReadFlags, dst []byte) ([]byte, base.Trailer, bool, error) {
	r, err := db.reader(m, flags)
	if err != nil {
		return dst, 0, false, err
	}
	return r.Get(key, hash, seq, flags, dst)
}

// reader returns the open table m, opening it unless flags forbid I/O.
func (db *DB) reader(m *manifest.FileMeta, flags sstable.ReadFlags) (sstable.Reader, error) {
	if flags&sstable.MemoryOnly != 0 {
		r, ok := db.files.OpenNow(m)
		if !ok {
			return nil, ErrWouldBlock
		}
		return r, nil
	}
	return db.files.Reader(m)
}
