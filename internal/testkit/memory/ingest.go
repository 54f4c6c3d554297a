package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// ingestName is the workload with tables from outside and bulk loads.
const ingestName = "ingest"

// ingest adds n batches by tables, or by bulk loads where a batch deletes nothing; where LevelDB's format
// cannot take them, by writes.
func (t *trial) ingest(n int) error {
	for range n {
		t.last++
		err := t.ingestBatch(t.ledger.Batch(t.last))
		if errors.Is(err, lsm.ErrNeedsNative) {
			err = t.writeBatch(lsm.NoStall)
		}
		t.okay[t.last] = err == nil
		if err := short("ingest", err); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) ingestBatch(batch []testkit.Write) error {
	if !slices.ContainsFunc(batch, func(w testkit.Write) bool { return w.Delete }) {
		l, err := t.db.BulkLoader(&lsm.BulkLoadOptions{Memory: 8 << 10})
		if err != nil {
			return err
		}
		defer l.Close()
		for _, w := range batch {
			if err := l.Put([]byte(w.Key), []byte(w.Value)); err != nil {
				return err
			}
		}
		return l.Finish(context.Background())
	}
	batch = slices.Clone(batch) // it is the ledger's
	slices.Reverse(batch)       // the last one of each key counts, and comes first
	slices.SortStableFunc(batch, func(a, b testkit.Write) int { return cmp.Compare(a.Key, b.Key) })
	batch = slices.CompactFunc(batch, func(a, b testkit.Write) bool { return a.Key == b.Key })
	o := t.opts
	o.FS = t.fs
	name := fmt.Sprint("table", t.last)
	w, err := lsm.NewTableWriter(name, &o)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, e := range batch {
		if e.Delete {
			err = w.Delete([]byte(e.Key))
		} else {
			err = w.Put([]byte(e.Key), []byte(e.Value))
		}
		if err != nil {
			return err
		}
	}
	if err := w.Finish(); err != nil {
		return err
	}
	return t.db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, name)
}

func (t *trial) ingests(n int) func() error { return func() error { return t.ingest(n) } }
