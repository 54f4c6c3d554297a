package testkit

import (
	"cmp"
	"context"
	"slices"

	"github.com/loamdb/loam/lsm"
)

// BulkLoad puts a batch into db by a bulk load, unless it deletes something: then done is false.
func BulkLoad(db *lsm.DB, o *lsm.BulkLoadOptions, batch []Write) (done bool, err error) {
	if slices.ContainsFunc(batch, func(w Write) bool { return w.Delete }) {
		return false, nil
	}
	l, err := db.BulkLoader(o)
	if err != nil {
		return true, err
	}
	defer l.Close()
	for _, w := range batch {
		if err := l.Put([]byte(w.Key), []byte(w.Value)); err != nil {
			return true, err
		}
	}
	return true, l.Finish(context.Background())
}

// WriteTable writes the table of a batch, of which the last write of each key counts, in the order
// of bytes.
func WriteTable(path string, o *lsm.Options, batch []Write) error {
	t, err := lsm.NewTableWriter(path, o)
	if err != nil {
		return err
	}
	defer t.Close()
	batch = slices.Clone(batch) // it is the ledger's
	slices.Reverse(batch)       // the last one of each key comes first
	slices.SortStableFunc(batch, func(a, b Write) int { return cmp.Compare(a.Key, b.Key) })
	batch = slices.CompactFunc(batch, func(a, b Write) bool { return a.Key == b.Key })
	for _, w := range batch {
		if w.Delete {
			err = t.Delete([]byte(w.Key))
		} else {
			err = t.Put([]byte(w.Key), []byte(w.Value))
		}
		if err != nil {
			return err
		}
	}
	return t.Finish()
}
