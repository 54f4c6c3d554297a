package metamorphic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/lsm"
)

// ingester is what DB and Keyspace have for tables and loads.
type ingester interface {
	Ingest(ctx context.Context, o *lsm.IngestOptions, paths ...string) error
	BulkLoader(o *lsm.BulkLoadOptions) (*lsm.BulkLoader, error)
}

func (w *world) ingester(sp *space) ingester {
	if sp.ks != nil {
		return sp.ks
	}
	return w.db
}

// native reports whether the database is in the native format.
func (w *world) native() bool { return w.setup.Keyspaces || w.setup.Format == lsm.FormatNative }

// refused passes over what LevelDB's format cannot hold. done says that the entries are there.
func (w *world) refused(err error) (done bool, _ error) {
	if !w.native() && errors.Is(err, lsm.ErrNeedsNative) {
		return false, nil
	}
	return err == nil, err
}

// ingest writes the operations into tables, of which each has the keys of a range, and ingests
// these. The range deletions come before all else: they delete what was there. With some n the
// tables excise all that is between their ends.
func (w *world) ingest(o *op) error {
	sp := w.space(o)
	points, ranges := w.tableEntries(sp, o)
	if len(points)+len(ranges) == 0 {
		return nil
	}
	var files []string
	cut := 1 + o.n%4
	for i, at := 0, 0; i < cut; i++ {
		n := (len(points) - at) / (cut - i)
		end := at + n
		if i == cut-1 || len(ranges) > 0 { // a range may span several
			end = len(points)
		}
		if end == at && len(ranges) == 0 {
			continue
		}
		// Absolute: a table writer makes it so, on a file system that it does not know.
		name := fmt.Sprintf("/%s-table%d", w.dir, i)
		files = append(files, name)
		if err := w.writeTable(sp, name, points[at:end], ranges); err != nil {
			return err
		}
		if at = end; at == len(points) {
			break
		}
	}
	slices.Reverse(files)
	how := &lsm.IngestOptions{Move: o.n&8 == 0}
	if o.n&48 == 0 && len(points) > 1 && len(ranges) == 0 {
		how.Excise = &lsm.Range{Start: points[0].key,
			Limit: append(bytes.Clone(points[len(points)-1].key), 0)}
		if sp.cmp.Compare(how.Excise.Start, how.Excise.Limit) >= 0 ||
			sp.cmp.Compare(points[len(points)-1].key, how.Excise.Limit) >= 0 {
			how.Excise = nil // in the opposite order
		}
	}
	done, err := w.refused(w.ingester(sp).Ingest(context.Background(), how, files...))
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := w.fs.Remove(name); (err == nil) == (done && how.Move) {
			return fmt.Errorf("%s was moved: %v; done %v, move %v", name, err, done, how.Move)
		}
	}
	if !done {
		return nil
	}
	if how.Excise != nil {
		sp.model.DeleteRange(how.Excise.Start, how.Excise.Limit)
	}
	for _, r := range ranges {
		sp.model.DeleteRange(r.key, r.limit)
	}
	for _, p := range points {
		if p.kind == opDelete {
			sp.model.Delete(p.key)
		} else {
			sp.model.Put(p.key, p.value.append(nil))
		}
	}
	return nil
}

// tableEntries are the operations on single keys, in order, the last one of each key, and those on
// ranges that the format has.
func (w *world) tableEntries(sp *space, o *op) (points, ranges []op) {
	last := map[string]op{}
	for _, s := range o.sub {
		switch {
		case s.kind != opDeleteRange:
			last[string(s.key)] = s
		case w.native():
			if sp.cmp.Compare(s.key, s.limit) > 0 {
				s.key, s.limit = s.limit, s.key
			}
			if sp.cmp.Compare(s.key, s.limit) < 0 {
				ranges = append(ranges, s)
			}
		}
	}
	for _, s := range last {
		points = append(points, s)
	}
	slices.SortFunc(points, func(a, b op) int { return sp.cmp.Compare(a.key, b.key) })
	return points, ranges
}

func (w *world) writeTable(sp *space, name string, points, ranges []op) error {
	o := w.setup.options(len(points))
	o.FS, o.Comparer, o.Format = w.fs, (*lsm.Comparer)(sp.cmp), lsm.FormatLevelDB
	if w.native() {
		o.Format = lsm.FormatNative
	}
	t, err := lsm.NewTableWriter(name, o)
	if err != nil {
		return err
	}
	defer t.Close()
	for i, p := range points {
		if i == len(points)/2 {
			for _, r := range ranges {
				err = errors.Join(err, t.DeleteRange(r.key, r.limit))
			}
		}
		if p.kind == opDelete {
			err = errors.Join(err, t.Delete(p.key))
		} else {
			err = errors.Join(err, t.Put(p.key, p.value.append(nil)))
		}
		if e := t.Put(p.key, nil); !errors.Is(e, lsm.ErrInvalidArgument) {
			err = errors.Join(err, fmt.Errorf("a key comes twice: %v", e))
		}
	}
	if len(points) == 0 {
		for _, r := range ranges {
			err = errors.Join(err, t.DeleteRange(r.key, r.limit))
		}
	}
	return errors.Join(err, t.Finish())
}

// load loads the operations in their order.
func (w *world) load(o *op) error {
	sp := w.space(o)
	l, err := w.ingester(sp).BulkLoader(nil)
	if err != nil {
		return err
	}
	defer l.Close()
	for _, s := range o.sub {
		w.scratch = s.value.append(w.scratch[:0])
		if err := l.Put(s.key, w.scratch); err != nil {
			return err
		}
	}
	done, err := w.refused(l.Finish(context.Background()))
	if !done || err != nil {
		return err
	}
	for _, s := range o.sub {
		sp.model.Put(s.key, s.value.append(nil))
	}
	return nil
}
