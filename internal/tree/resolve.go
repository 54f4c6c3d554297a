package tree

import (
	"errors"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// A point read has a fast path, in Get and MultiGet: the newest visible entry of the key
// is a set or a deletion and ends the lookup. All else is resolved here: resolver goes over
// the visible versions of the key, newest first, in the memtables and then in the tables,
// and collects operands until a version ends the lookup. Then the merge operator makes the
// value of them.

// resolver is the slow path of one point read.
type resolver struct {
	key   []byte
	seq   base.SeqNum
	flags sstable.ReadFlags
	fold  *mergeop.Fold
	found bool // the key has a value, or operands
	// covered is the sequence number of the newest range tombstone over the key, in the
	// sources looked at so far; 0: there is none.
	covered base.SeqNum
	// deadline is that of the version that ended the lookup, if it expires.
	deadline uint64
	err      error // a version is damaged
}

func newResolver(key []byte, seq base.SeqNum, flags sstable.ReadFlags) resolver {
	return resolver{key: key, seq: seq, flags: flags, fold: mergeop.New()}
}

// version takes the next older version; buf is fold.Buffer() with its value appended. It
// reports whether the lookup goes on.
func (r *resolver) version(t base.Trailer, buf []byte, at *moment) (more bool) {
	if t.Seq() < r.covered {
		return false
	}
	switch t.Kind() {
	case base.KindMerge:
		r.fold.Operand(buf)
		r.found = true
		return true
	case base.KindSet:
		r.fold.Existing(buf, len(r.fold.Buffer()))
		r.found = true
	case base.KindSetExpiring:
		from := len(r.fold.Buffer())
		user, deadline, ok := base.CutDeadline(buf[from:])
		if !ok {
			r.err = base.NoDeadline()
		} else if !at.expired(deadline) {
			r.fold.Existing(buf[:from+len(user)], from)
			r.found, r.deadline = true, deadline
		}
	}
	return false
}

// collect calls version for all visible versions of the key.
func (r *resolver) collect(h *hold) error {
	s, t := h.state, h.tree
	take := func(value []byte, t base.Trailer) bool {
		return r.version(t, append(r.fold.Buffer(), value...), &h.at)
	}
	l := memtable.MakeLookup(t.cmp, r.key, r.seq)
	for i := -1; i < len(s.Sealed); i++ {
		m := s.memTable(i)
		r.covered = m.CoveredAt(l)
		if !m.Versions(l, take) || r.covered > 0 {
			return r.err // or a tombstone hides what is in older sources
		}
	}
	l = base.MakeLookup(t.cmp, r.key, r.seq)
	next := candidates{version: s.Version}
	for m := next.file(t, l); m != nil; m = next.file(t, l) {
		var err error
		if r.covered, err = h.covered(m, l, r.flags); err != nil {
			return err
		}
		buf, hit, found, err := h.fileGet(m, l, r.flags, r.fold.Buffer())
		for found && err == nil {
			if !r.version(hit.Trailer, buf, &h.at) {
				return r.err
			}
			buf, hit, found, err = h.fileGetNext(m, hit, l, r.flags, r.fold.Buffer())
		}
		if err != nil || r.covered > 0 {
			return err
		}
	}
	return nil
}

// Folds counts what merge operators did in all trees of a database.
type Folds struct {
	Operands atomic.Uint64 // that became part of a value, in reads, flushes and compactions
	Failures atomic.Uint64 // calls of operators that failed
}

// CountFold counts a fold of n operands that a read did.
func (t *Tree) CountFold(n int, err error) {
	if err != nil {
		t.shared.Folds.Failures.Add(1)
		return
	}
	t.shared.Folds.Operands.Add(uint64(n))
	if n <= t.opts.MaxOperands || t.opts.LongChains == nil {
		return
	}
	// A compaction merges runs that reads have paid for: an operand counts as a search.
	t.addRunsSought(uint64(n))
	s := t.Acquire()
	if s == nil {
		return
	}
	entries := s.Mem.Len()
	s.Unref()
	if t.overlong.Add(int64(n)) >= int64(max(entries, overlongFactor*t.opts.MaxOperands)) {
		t.overlong.Store(0)
		t.opts.LongChains(t)
	}
}

// overlongFactor times Options.MaxOperands operands are folded again and again before
// a small memtable is flushed for it.
const overlongFactor = 64

// value appends what the collected versions amount to to dst.
func (r *resolver) value(t *Tree, dst []byte) ([]byte, error) {
	switch {
	case !r.found:
		return dst, base.ErrNotFound
	case r.fold.Len() == 0:
		return append(dst, r.fold.Only()...), nil
	}
	value, err := r.fold.Value(t.Merge(), r.key, true)
	t.CountFold(r.fold.Len(), err)
	if err != nil {
		return dst, err
	}
	return append(dst, value...), nil
}

// getResolved is the slow path of Get. It ends the read before it calls the merge
// operator, which may block.
func (t *Tree) getResolved(h *hold, key, dst []byte, seq base.SeqNum,
	flags sstable.ReadFlags) ([]byte, error) {
	r := newResolver(key, seq, flags)
	defer r.fold.Free()
	if err := r.collect(h); err != nil {
		return dst, err
	}
	h.end()
	return r.value(t, dst)
}

// fileGetNext goes on with the version of the key that is next older than the one found in
// a table, in memory first like fileGet.
func (h *hold) fileGetNext(m *manifest.FileMeta, prev sstable.Hit, l base.Lookup,
	flags sstable.ReadFlags, dst []byte) ([]byte, sstable.Hit, bool, error) {
	r, ok := h.tree.shared.Files.OpenNow(m)
	if !ok && flags&sstable.MemoryOnly != 0 {
		return dst, sstable.Hit{}, false, base.ErrWouldBlock
	}
	if ok && !h.counted {
		value, hit, found, err := r.GetNext(prev, l, flags|sstable.MemoryOnly, dst)
		if flags&sstable.MemoryOnly != 0 || !errors.Is(err, base.ErrWouldBlock) {
			return value, hit, found, err
		}
	}
	h.count()
	if !ok {
		var err error
		if r, err = h.tree.shared.Files.Reader(m); err != nil {
			return dst, sstable.Hit{}, false, err
		}
	}
	return r.GetNext(prev, l, flags, dst)
}
