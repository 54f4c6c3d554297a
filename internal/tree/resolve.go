package tree

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/sstable"
)

// A point read has a fast path, in Get and MultiGet: the newest visible version of the key
// is a set or a deletion and ends the lookup. All else is resolved here: resolver walks over the
// versions and collects operands until a version ends the lookup. Then the merge operator makes
// the value of them.

// resolver is the slow path of one point read.
type resolver struct {
	fold  *mergeop.Fold
	found bool // the key has a value, or operands
	// deadline is that of the version that ended the lookup, if it expires.
	deadline uint64
	err      error // a version is damaged
}

// version takes the next older version; buf is fold.Buffer() with its value appended. It
// reports whether the lookup goes on.
func (r *resolver) version(h *hold, t base.Trailer, buf []byte,
	flags sstable.ReadFlags) (more bool) {
	switch t.Kind() {
	case base.KindMerge:
		r.fold.Operand(buf)
		r.found = true
		return true
	case base.KindSet, base.KindValueHandle:
		r.existing(h, t, buf, flags)
	case base.KindSetExpiring, base.KindExpiringHandle:
		from := len(r.fold.Buffer())
		user, deadline, ok := base.CutDeadline(buf[from:])
		if !ok {
			r.err = base.NoDeadline()
		} else if !h.at.expired(deadline) {
			r.deadline = deadline
			r.existing(h, t, buf[:from+len(user)], flags)
		}
	}
	return false
}

// existing takes the value that ends the lookup, or the handle of it, without its deadline.
func (r *resolver) existing(h *hold, t base.Trailer, buf []byte, flags sstable.ReadFlags) {
	from := len(r.fold.Buffer())
	if t.Kind().Refers() {
		buf, r.err = h.large(buf, from, flags)
	}
	if r.err == nil {
		r.fold.Existing(buf, from)
		r.found = true
	}
}

// collect calls version for the versions of key that seq sees.
func (r *resolver) collect(h *hold, key []byte, seq base.SeqNum, flags sstable.ReadFlags) error {
	var w walk
	var p place
	w.begin(h.tree, key, seq, flags)
	buf, t, found, err := h.next(&w, r.fold.Buffer(), &p)
	for found && r.version(h, t, buf, flags) {
		buf, t, found, err = h.older(&w, r.fold.Buffer(), &p)
	}
	if err != nil {
		return err
	}
	return r.err
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
		t.opts.LongChains()
	}
}

// overlongFactor times Options.MaxOperands operands are folded again and again before
// a small memtable is flushed for it.
const overlongFactor = 64

// value appends what the collected versions of key amount to to dst.
func (r *resolver) value(h *hold, key, dst []byte) ([]byte, error) {
	switch {
	case !r.found:
		return dst, base.ErrNotFound
	case r.fold.Len() == 0:
		return append(dst, r.fold.Only()...), nil
	}
	value, err := r.fold.Value(h.state.merge, key, true)
	h.tree.CountFold(r.fold.Len(), err)
	if err != nil {
		return dst, err
	}
	return append(dst, value...), nil
}

// getResolved is the slow path of Get. It ends the read before it calls the merge
// operator, which may block.
func (t *Tree) getResolved(h *hold, key, dst []byte, seq base.SeqNum,
	flags sstable.ReadFlags) ([]byte, error) {
	r := resolver{fold: mergeop.New()}
	defer r.fold.Free()
	if err := r.collect(h, key, seq, flags); err != nil {
		return dst, err
	}
	h.end()
	return r.value(h, key, dst)
}
