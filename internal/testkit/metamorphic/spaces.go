package metamorphic

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/preview"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// space is a keyspace and its model.
type space struct {
	name  string
	ks    preview.Keyspace // nil: the default one
	cmp   *base.Comparer
	model *model.Model
}

// spaces returns the keyspaces of a history: the default one, and with Keyspaces one
// in the opposite order and a bytewise one.
func (s Setup) spaces(cmp *base.Comparer) []space {
	list := []space{{name: base.DefaultKeyspaceName, cmp: cmp, model: model.New(cmp)}}
	if !s.Keyspaces {
		return list
	}
	other := base.ReverseBytewise
	if cmp == other {
		other = base.Bytewise
	}
	return append(list, space{name: "other", cmp: other, model: model.New(other)},
		space{name: "third", cmp: base.Bytewise, model: model.New(base.Bytewise)})
}

// index counts the keyspace of an operation round and round those there are.
func (w *world) index(o *op) int { return o.space % len(w.spaces) }

func (w *world) space(o *op) *space { return &w.spaces[w.index(o)] }

// openSpaces opens the keyspaces, or makes them; n decides who names the comparer of
// one that exists.
func (w *world) openSpaces(n int) error {
	for i := range w.spaces[1:] {
		sp := &w.spaces[i+1]
		c := sp.cmp
		if n>>i&1 == 1 && slices.Contains(preview.Keyspaces.List(w.db), sp.name) {
			c = nil
		}
		var err error
		if sp.ks, err = preview.Keyspaces.Open(w.db, sp.name, c); err != nil {
			return fmt.Errorf("opening keyspace %s: %w", sp.name, err)
		}
	}
	if got := len(preview.Keyspaces.List(w.db)); w.setup.Keyspaces && got != len(w.spaces) {
		return fmt.Errorf("%d keyspaces, want %d", got, len(w.spaces))
	}
	return nil
}

func (w *world) openSnapshot(slot int) {
	s := snapshot{s: w.db.Snapshot()}
	for i := range w.spaces {
		s.seqs[i] = w.spaces[i].model.Now()
	}
	w.snaps[slot] = s
}

// drop drops a keyspace and makes it again under its name, where it is empty, in
// older snapshots too. Of the old one, iterators go on, and so do snapshots.
func (w *world) drop(o *op) error {
	i := w.index(o)
	if i == 0 {
		return nil
	}
	old := w.spaces[i]
	if err := preview.Keyspaces.Drop(w.db, old.name); err != nil {
		return err
	}
	w.batch.Clear()
	old.ks.Put(w.batch, []byte("k"), []byte("v"))
	if err := w.db.Write(w.batch, lsm.NoSync); err == nil {
		return errors.New("a keyspace that was dropped takes a write")
	}
	if _, err := old.ks.Get([]byte("k"), nil, nil); err == nil || errors.Is(err, lsm.ErrNotFound) {
		return fmt.Errorf("a keyspace that was dropped is read: %v", err)
	}
	for s := range w.snaps {
		if snap := &w.snaps[s]; snap.s != nil {
			snap.gone, snap.atSeq = append(snap.gone, old), append(snap.atSeq, snap.seqs[i])
			snap.seqs[i] = 0
		}
	}
	w.spaces[i].model = model.New(old.cmp)
	return w.openSpaces(0)
}

// scanSnapshot compares a keyspace in a snapshot, and those that were dropped since.
func (w *world) scanSnapshot(o *op, s snapshot) error {
	sp := w.space(o)
	if err := compareScan(w.iter(sp, &lsm.IterOptions{Snapshot: s.s}), sp.model, s.seqs[w.index(o)]); err != nil {
		return err
	}
	for i := range s.gone {
		it := w.iter(&s.gone[i], &lsm.IterOptions{Snapshot: s.s})
		if err := compareScan(it, s.gone[i].model, s.atSeq[i]); err != nil {
			return fmt.Errorf("keyspace %s, dropped since: %w", s.gone[i].name, err)
		}
	}
	return nil
}

// fill adds a put of value, or a deletion, to a batch and to the model.
func (sp *space) fill(b *lsm.Batch, o *op, value []byte) {
	switch {
	case o.kind == opDelete && sp.ks == nil:
		b.Delete(o.key)
	case o.kind == opDelete:
		sp.ks.Delete(b, o.key)
	case sp.ks == nil:
		b.Put(o.key, value)
	default:
		sp.ks.Put(b, o.key, value)
	}
	if o.kind == opDelete {
		sp.model.Delete(o.key)
	} else {
		sp.model.Put(o.key, value)
	}
}

// spaceReader reads a keyspace in a snapshot, or at present if that is nil.
type spaceReader struct {
	ks   preview.Keyspace
	snap *lsm.Snapshot
}

func (r spaceReader) Get(key, dst []byte) ([]byte, error) { return r.ks.Get(key, dst, r.snap) }

func (r spaceReader) TryGet(key, dst []byte) ([]byte, error) { return r.ks.TryGet(key, dst, r.snap) }

func (r spaceReader) Has(key []byte) (bool, error) { return r.ks.Has(key, r.snap) }

func (r spaceReader) MultiGet(keys [][]byte, m *lsm.MultiResult) error {
	return r.ks.MultiGet(keys, r.snap, m)
}

func (w *world) reader(sp *space, snap *lsm.Snapshot) reader {
	switch {
	case sp.ks != nil:
		return spaceReader{sp.ks, snap}
	case snap != nil:
		return snap
	}
	return w.db
}

func (w *world) iter(sp *space, o *lsm.IterOptions) *lsm.Iterator {
	if sp.ks != nil {
		return sp.ks.Iter(o).(*lsm.Iterator)
	}
	return w.db.Iter(o)
}

func (w *world) flush(sp *space) error {
	if sp.ks != nil {
		return sp.ks.Flush()
	}
	return w.db.Flush()
}

func (w *world) compact(sp *space, start, limit []byte) error {
	if sp.ks != nil {
		return sp.ks.CompactRange(start, limit)
	}
	return w.db.CompactRange(start, limit)
}

// all ranges over the entries that an operation asks for.
func (w *world) all(sp *space, o *op, err *error) iter.Seq2[[]byte, []byte] {
	switch {
	case sp.ks == nil && o.kind == opBackward:
		return w.db.Backward(o.key, o.limit, err)
	case sp.ks == nil && o.kind == opPrefix:
		return w.db.Prefix(o.prefix, err)
	case sp.ks == nil:
		return w.db.All(o.key, o.limit, err)
	}
	opts := &lsm.IterOptions{Lower: o.key, Upper: o.limit}
	if o.kind == opPrefix {
		opts = &lsm.IterOptions{Prefix: o.prefix}
	}
	first, next := (*lsm.Iterator).First, (*lsm.Iterator).Next
	if o.kind == opBackward {
		first, next = (*lsm.Iterator).Last, (*lsm.Iterator).Prev
	}
	return func(yield func(k, v []byte) bool) {
		it := w.iter(sp, opts)
		defer func() { *err = it.Close() }()
		for ok := first(it); ok && yield(it.Key(), it.Value()); ok = next(it) {
		}
	}
}
