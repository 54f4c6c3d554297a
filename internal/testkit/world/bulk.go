package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loamdb/loam/lsm"
)

// bulk are the steps that bring tables in.
var bulk = []step{
	{"ingest", 25, false, (*World).ingest},
	{"bulk load", 12, false, (*World).load},
}

// table writes a table of keys from:to of a space, and returns what its entries and its range
// deletes do.
func (w *World) table(s *space, from, to int) (name string, ops, ranges []op, err error) {
	name = w.name("table")
	o := w.options(w.fs)
	o.Format, o.Comparer = w.format, s.order.cmp
	t, err := lsm.NewTableWriter(name, o)
	if err != nil {
		return "", nil, nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for i := from; i < to && err == nil; i++ {
		x := op{kind: put, life: s.life, from: i, v: w.value()}
		switch r := w.rng.IntN(10); {
		case r < 5:
			err = t.Put(w.key(s, i), []byte(x.v))
		case r < 6 && w.native() && w.clock.Load() == w.now:
			x.ttl = 1 + int64(w.rng.IntN(20))
			err = t.PutTTL(w.key(s, i), []byte(x.v), time.Duration(x.ttl)*time.Second)
		case r < 7:
			x = op{kind: del, life: s.life, from: i}
			err = t.Delete(w.key(s, i))
		default:
			continue
		}
		ops = append(ops, x)
	}
	for err == nil && w.native() && w.rng.IntN(3) == 0 {
		x := op{kind: delRange, life: s.life, from: from + w.rng.IntN(to-from)}
		x.to = x.from + 1 + w.rng.IntN(to-x.from)
		if x.to == len(s.keys) && to == len(s.keys) && s.order.top == "" {
			x.to--
		}
		if x.to > x.from {
			err = t.DeleteRange(w.key(s, x.from), w.key(s, x.to))
			ranges = append(ranges, x)
		}
	}
	if err == nil && len(ops)+len(ranges) == 0 {
		ops = append(ops, op{kind: put, life: s.life, from: from, v: "only"})
		err = t.Put(w.key(s, from), []byte("only"))
	}
	if err == nil && t.EstimatedSize() > 1<<30 {
		err = errors.New("the size of a table is out of proportion")
	}
	if err == nil {
		err = t.Finish()
	}
	return name, ops, ranges, err
}

// ingest writes some tables, and ingests them, sometimes with an excise.
func (w *World) ingest() error {
	s := w.space()
	var names []string
	var ops, ranges []op
	from, to := w.stretch(s)
	for at := from; at < to && len(names) < 3; {
		end := at + 1 + w.rng.IntN(to-at)
		name, o, r, err := w.table(s, at, end)
		if err != nil {
			return fmt.Errorf("table writer: %w", err)
		}
		names, ops, ranges = append(names, name), append(ops, o...), append(ranges, r...)
		at = end + w.rng.IntN(3)
	}
	o := &lsm.IngestOptions{Move: w.rng.IntN(2) == 0}
	// An excise of nothing changes no key. Whether a transaction takes it for a change is open.
	empty := !slices.ContainsFunc(w.m[s.life][from:max(from, to)], func(v value) bool {
		return v.ok && v.due == 0
	})
	if w.native() && from < to && w.rng.IntN(3) == 0 && !(empty && len(w.txns) > 0) {
		o.Excise = &lsm.Range{Start: w.key(s, from), Limit: w.key(s, to)}
		ranges = append(ranges, op{kind: delRange, life: s.life, from: from, to: to})
	}
	w.log("ingest %d tables into %s: %v %v, excise %v", len(names), s.name, ranges, ops,
		o.Excise != nil)
	err := w.store(s).Ingest(context.Background(), o, names...)
	if errors.Is(err, lsm.ErrNeedsNative) && !w.native() {
		return nil // overlaps a table, or there is a snapshot
	}
	if err != nil {
		return err
	}
	w.dropFeed() // does not hand out what is ingested
	w.wrote(true, append(ranges, ops...)...)
	return nil
}

// load loads entries in any order.
func (w *World) load() error {
	s := w.space()
	var ops []op
	for range w.rng.IntN(20) {
		ops = append(ops, op{kind: put, life: s.life, from: w.rng.IntN(len(s.keys)), v: w.value()})
	}
	w.log("load %s: %v", s.name, ops)
	ctx := context.Background()
	var err error
	if w.rng.IntN(2) == 0 {
		err = w.store(s).BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			for _, x := range ops {
				if !yield(w.key(s, x.from), []byte(x.v)) {
					return
				}
			}
		}, &lsm.BulkLoadOptions{Memory: choose(w.rng, int64(0), 4096)})
	} else {
		var l *lsm.BulkLoader
		if l, err = w.store(s).BulkLoader(nil); err == nil {
			for _, x := range ops {
				err = errors.Join(err, l.Put(w.key(s, x.from), []byte(x.v)))
			}
			if w.rng.IntN(4) == 0 {
				return errors.Join(err, l.Close())
			}
			err = errors.Join(err, l.Finish(ctx), l.Close())
		}
	}
	if errors.Is(err, lsm.ErrNeedsNative) && !w.native() {
		return nil
	}
	if err != nil {
		return err
	}
	w.dropFeed()
	w.wrote(true, slices.Clone(ops)...)
	return nil
}
