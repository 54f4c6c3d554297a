package replicate

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/lsm"
)

// batchBytes is the size from which on no further change is put into the same batch.
const batchBytes = 256 << 10

// applier writes segments into a restored database, whose keyspaces have other numbers.
type applier struct {
	db   *lsm.DB
	pos  uint64              // the last sequence number that is applied
	made map[uint32]restored // keyspaces by their number in the segments
	gone map[uint32]bool     // dropped by the list of the segment
	repr []byte
}

// restored is a keyspace, as the last list describes it, and its number in the restored database.
type restored struct {
	space
	id base.KeyspaceID
	// foreign: its merge operator is not known, so that the restored one may have another.
	foreign bool
}

func newApplier(db *lsm.DB, w whole) (*applier, error) {
	a := &applier{db: db, pos: w.Sequence, made: map[uint32]restored{}, repr: batchrepr.Init(nil)}
	return a, a.list(w.Spaces)
}

// list makes the keyspaces those of a list.
func (a *applier) list(spaces []space) error {
	a.gone = map[uint32]bool{}
	for id, k := range a.made {
		if slices.ContainsFunc(spaces, func(s space) bool { return s.ID == id }) {
			continue
		}
		if err := a.db.DropKeyspace(k.Name); err != nil {
			return err
		}
		delete(a.made, id)
		a.gone[id] = true
	}
	for _, s := range spaces {
		was := a.made[s.ID].space
		if was == s {
			continue
		}
		k, err := a.open(s, was.Merge)
		if err != nil {
			return fmt.Errorf("keyspace %q: %w", s.Name, err)
		}
		foreign := s.Merge != "" && a.db.Inside().Place().Merges(s.Merge) == nil
		a.made[s.ID] = restored{s, base.KeyspaceID(k.ID()), foreign}
	}
	return nil
}

// open opens or creates a keyspace. Operands of the operator before are folded first, as they were
// when the keyspace got the other one.
func (a *applier) open(s space, before string) (*lsm.Keyspace, error) {
	place := a.db.Inside().Place()
	o := &lsm.KeyspaceOptions{Comparer: (*lsm.Comparer)(place.Comparers(s.Comparer))}
	if o.Comparer == nil {
		return nil, fmt.Errorf("%w: comparer %.200q is none that Open was given",
			lsm.ErrComparerMismatch, s.Comparer)
	}
	if op := place.Merges(s.Merge); op != nil && s.Merge != "" && place.Native() {
		o.MergeOperator = (*lsm.MergeOperator)(op)
		if before != "" && before != s.Merge {
			k, err := a.db.Keyspace(s.Name, nil)
			if err == nil {
				err = k.CompactRange(nil, nil)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return a.db.Keyspace(s.Name, o)
}

// apply writes what a segment has behind a.pos. Whole changes share a batch.
func (a *applier) apply(p *parsed) error {
	a.gone = map[uint32]bool{}
	if p.head.Spaces != nil {
		if err := a.list(p.head.Spaces); err != nil {
			return err
		}
	}
	for _, b := range p.batches {
		if err := a.add(p, b); err != nil {
			return err
		}
		if len(a.repr) >= batchBytes {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
	return a.flush()
}

// add puts the operations of a change that are behind a.pos into the batch.
func (a *applier) add(p *parsed, change []byte) error {
	if len(a.repr)+len(change) > batchrepr.MaxLen-batchBytes {
		if err := a.flush(); err != nil {
			return err
		}
	}
	seq := uint64(batchrepr.Seq(change))
	for it := batchrepr.Read(change); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			break
		}
		if seq <= a.pos {
			continue
		}
		k, there := a.made[uint32(id)]
		switch {
		case there && k.foreign && kind == base.KindMerge:
			return fmt.Errorf("%w: keyspace %.200q has operands of %.200q, which Open lacks",
				lsm.ErrNoMergeOperator, k.Name, k.Merge)
		case there:
			a.repr = batchrepr.AppendEntry(a.repr, k.id, kind, key, value)
		case a.gone[uint32(id)], slices.Contains(p.head.Dropped, uint32(id)):
		default:
			return damaged(p.name, "operation %d is in keyspace %d, which is not known", seq, id)
		}
	}
	a.pos = max(a.pos, seq-1)
	return nil
}

func (a *applier) flush() error {
	if batchrepr.Count(a.repr) == 0 {
		return nil
	}
	err := a.db.WriteBytes(a.repr, lsm.NoSync)
	a.repr = batchrepr.Init(a.repr)
	return err
}
