package metamorphic

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// space is a keyspace and its model.
type space struct {
	name  string
	ks    *lsm.Keyspace // nil: the default one
	cmp   *base.Comparer
	model *model.Model
	// ranges says that there are range deletions; otherwise their first key is deleted.
	ranges bool
	merge  *lsm.MergeOperator // nil: the format has no merges
}

// Both operators do what model.JoinByComma does. Without Partial, operands of a key wait
// side by side.
var (
	appends   = lsm.MergeOperatorNamed("append")
	noPartial = &lsm.MergeOperator{Name: "test.NoPartial", Full: appends.Full}
)

// spaces returns the keyspaces of a history: the default one, and with Keyspaces one
// in the opposite order and a bytewise one.
func (s Setup) spaces(cmp *base.Comparer) []space {
	list := []space{{name: base.DefaultKeyspaceName, cmp: cmp, model: model.New(cmp),
		ranges: s.Format == lsm.FormatNative || s.Keyspaces}}
	if s.Keyspaces || s.Format == lsm.FormatNative {
		list[0].merge = appends
	}
	if !s.Keyspaces {
		return list
	}
	other := base.ReverseBytewise
	if cmp == other {
		other = base.Bytewise
	}
	return append(list, space{name: "other", cmp: other, model: model.New(other), ranges: true,
		merge: noPartial},
		space{name: "third", cmp: base.Bytewise, model: model.New(base.Bytewise), ranges: true,
			merge: appends})
}

// index counts the keyspace of an operation round and round those there are.
func (w *world) index(o *op) int { return o.space % len(w.spaces) }

func (w *world) space(o *op) *space { return &w.spaces[w.index(o)] }

// openSpaces opens the keyspaces, or makes them; n decides which call names the comparer of an
// existing keyspace.
func (w *world) openSpaces(n int) error {
	for i := range w.spaces[1:] {
		sp := &w.spaces[i+1]
		c := (*lsm.Comparer)(sp.cmp)
		if n>>i&1 == 1 && slices.Contains(w.db.Keyspaces(), sp.name) {
			c = nil
		}
		var err error
		if sp.ks, err = w.db.Keyspace(sp.name,
			&lsm.KeyspaceOptions{Comparer: c, MergeOperator: sp.merge}); err != nil {
			return fmt.Errorf("opening keyspace %s: %w", sp.name, err)
		}
	}
	if got := len(w.db.Keyspaces()); w.setup.Keyspaces && got != len(w.spaces) {
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
	if err := w.db.DropKeyspace(old.name); err != nil {
		return err
	}
	w.batch.Clear()
	w.batch.In(old.ks).Put([]byte("k"), []byte("v"))
	_, err := old.ks.Get([]byte("k"), nil)
	for what, err := range map[string]error{
		"a batch": w.db.Write(w.batch, lsm.NoSync),
		"a put":   old.ks.Put([]byte("k"), nil, lsm.NoSync), "a read": err,
	} {
		if !errors.Is(err, lsm.ErrNoKeyspace) {
			return fmt.Errorf("%s of a keyspace that was dropped: %v", what, err)
		}
	}
	for s := range w.snaps {
		if snap := &w.snaps[s]; snap.s != nil {
			snap.gone, snap.atSeq = append(snap.gone, old), append(snap.atSeq, snap.seqs[i])
			snap.seqs[i] = 0
		}
	}
	w.spaces[i].model = model.New(old.cmp)
	delete(w.options, old.name)
	return w.openSpaces(0)
}

// scanSnapshot compares a keyspace in a snapshot, and those that were dropped since.
func (w *world) scanSnapshot(o *op, s snapshot) error {
	sp := w.space(o)
	if err := compareScan(w.iter(sp, &lsm.IterOptions{Snapshot: s.s}), sp.model,
		s.seqs[w.index(o)]); err != nil {
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

// fill adds a put or merge of value, or a deletion, to a batch and to the model. The batch names
// the keyspace, if sp has one.
func (sp *space) fill(b *lsm.Batch, o *op, value []byte) {
	var in interface {
		Put(key, value []byte)
		Merge(key, operand []byte)
		Delete(key []byte)
		DeleteRange(start, limit []byte)
	} = b
	if sp.ks != nil {
		in = b.In(sp.ks)
	}
	if o.kind == opDeleteRange && !sp.ranges {
		w := *o
		w.kind = opDelete
		o = &w
	}
	if o.kind == opDeleteRange {
		start, limit := o.key, o.limit
		if sp.cmp.Compare(start, limit) > 0 { // they are in another keyspace's order
			start, limit = limit, start
		}
		in.DeleteRange(start, limit)
		sp.model.DeleteRange(start, limit)
		return
	}
	switch {
	case o.kind == opDelete:
		in.Delete(o.key)
		sp.model.Delete(o.key)
	case o.kind == opMerge && sp.merge != nil:
		in.Merge(o.key, value)
		sp.model.Merge(o.key, value)
	default:
		in.Put(o.key, value)
		sp.model.Put(o.key, value)
	}
}

func (w *world) reader(sp *space, snap *lsm.Snapshot) reader {
	switch {
	case snap != nil && sp.ks == nil:
		return snap
	case snap != nil:
		return snap.In(sp.ks)
	}
	return w.store(sp)
}

// store is what DB and Keyspace have in common, as far as operations need it.
type store interface {
	lsm.Store
	TryGet(key, dst []byte) ([]byte, error)
	Put(key, value []byte, mode lsm.WriteMode) error
	Delete(key []byte, mode lsm.WriteMode) error
	Flush() error
	CompactRange(start, limit []byte) error
	All(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte]
	Backward(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte]
	Prefix(prefix []byte, err *error) iter.Seq2[[]byte, []byte]
}

func (w *world) store(sp *space) store {
	if sp.ks != nil {
		return sp.ks
	}
	return w.db
}

func (w *world) iter(sp *space, o *lsm.IterOptions) *lsm.Iterator { return w.store(sp).Iter(o) }

func (w *world) flush(sp *space) error { return w.store(sp).Flush() }

func (w *world) compact(sp *space, start, limit []byte) error {
	return w.store(sp).CompactRange(start, limit)
}

// all ranges over the entries that an operation asks for.
func (w *world) all(sp *space, o *op, err *error) iter.Seq2[[]byte, []byte] {
	switch o.kind {
	case opBackward:
		return w.store(sp).Backward(o.key, o.limit, err)
	case opPrefix:
		return w.store(sp).Prefix(o.prefix, err)
	}
	return w.store(sp).All(o.key, o.limit, err)
}
