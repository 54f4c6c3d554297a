package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// ingestName is the workload with tables from outside and bulk loads.
const ingestName = "ingest"

// ingest adds n batches by tables, or by bulk loads where a batch deletes nothing; where LevelDB's
// format cannot take them, by writes.
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
	if done, err := testkit.BulkLoad(t.db, &lsm.BulkLoadOptions{Memory: 8 << 10}, batch); done {
		return err
	}
	o := t.opts
	o.FS = t.fs
	name := fmt.Sprint("table", t.last)
	if err := testkit.WriteTable(name, &o, batch); err != nil {
		return err
	}
	return t.db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, name)
}

func (t *trial) ingests(n int) func() error { return func() error { return t.ingest(n) } }
