package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// ingest adds n batches by way of tables, or of loads where a batch deletes nothing; where
// LevelDB's format cannot take them, by a synced write.
func (s *session) ingest(n int) error {
	for range n {
		s.last++
		s.begun.Store(int64(s.last))
		err := s.ingestBatch(s.last)
		if errors.Is(err, lsm.ErrNeedsNative) {
			err = s.writeBatch(s.last, lsm.Sync)
		}
		if err != nil {
			if err := s.fail("ingest", s.last, err); err != nil {
				return err
			}
			continue
		}
		s.synced.Store(int64(s.last))
		if s.acked != nil {
			s.acked(s.last, true)
		}
	}
	return nil
}

func (s *session) ingestBatch(i int) error {
	batch := s.ledger.Batch(i)
	if done, err := testkit.BulkLoad(s.db, nil, batch); done {
		return err
	}
	name := fmt.Sprintf("table%d", i)
	o := s.opts
	o.FS, o.Comparer = s.fs, nil
	if err := testkit.WriteTable(name, &o, batch); err != nil {
		return err
	}
	s.tableFiles().add(tableFile{name, i})
	return s.db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, name)
}

// ingestWorkloads ingest tables and load, into a new database, over memtables, tables and logs.
var ingestWorkloads = []workload{
	{name: "ingest", maxValue: 400, verify: verifyTables, failed: noteFailed,
		run: func(s *session) error {
			s.extra = func() any { return s.tableFiles().all() }
			return steps(s.open,
				func() error { return s.ingest(1) },
				func() error { return s.write(6, 0) },
				func() error { return s.ingest(3) },
				func() error { return s.write(4, 3) }, s.flush,
				func() error { return s.ingest(2) }, s.reopen,
				func() error { return s.ingest(1) },
				func() error { return s.write(3, 0) }, s.compact,
				func() error { return s.ingest(2) }, s.read,
				func() error { return s.write(3, 2) }, s.close)
		}},
	{name: "load", maxValue: 50000, verify: verifyTables, failed: noteFailed,
		run: func(s *session) error {
			s.extra = func() any { return s.tableFiles().all() } // of more than fits into memory
			return steps(s.open,
				func() error { return s.ingest(6) },
				func() error { return s.write(2, 0) },
				func() error { return s.ingest(3) }, s.close)
		}},
}

// tableFile is a table outside of the database, which is going to be moved into it.
type tableFile struct {
	name  string
	batch int // what it has
}

// tableFiles are the tables that are durable.
type tableFiles struct {
	mu   sync.Mutex
	list []tableFile
}

func (f *tableFiles) all() []tableFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

func (f *tableFiles) add(t tableFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, t)
}

// filesOf are those of sessions.
var filesOf sync.Map

func (s *session) tableFiles() *tableFiles {
	f, _ := filesOf.LoadOrStore(s, &tableFiles{})
	return f.(*tableFiles)
}

// noteFailed notes what may be in the database of an ingest that failed, and wants nothing visible.
func noteFailed(t *trial, op string, batch int, err error) {
	if op != "ingest" {
		return
	}
	t.bad[batch], t.last = true, err
	t.mu.Lock()
	// the MANIFEST, or the log of a synced write, may have it
	t.limbo[batch] = t.limbo[batch] || t.other || t.log
	t.mu.Unlock()
	if db := t.session.db; db != nil {
		if has, err := db.Has(fmt.Appendf(nil, "n%06d", batch)); err == nil && has {
			t.broken = fmt.Errorf("batch %d was reported failed (%w) and is visible", batch, t.last)
		}
	}
}

func init() { more = ingestWorkloads }

// checkTables wants each table that was durable, and whose batch the database does not have, to be
// there and whole.
func checkTables(s state) error {
	o := options()
	o.FS = s.fs
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return err
	}
	last, err := testkit.Last(db)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	tables, _ := s.extra.([]tableFile) // nil: within a recovery
	for _, f := range tables {
		if f.batch <= last {
			continue
		}
		o.Format = lsm.FormatNative
		db, err := lsm.Open("fresh", &o)
		if err != nil {
			return err
		}
		err = db.Ingest(context.Background(), nil, f.name)
		if errors.Is(err, lsm.ErrInvalidArgument) { // it is in LevelDB's format
			_, err = s.fs.Stat(f.name)
		}
		err = errors.Join(err, db.Close(), lsm.Destroy("fresh", &o))
		if err != nil {
			return fmt.Errorf("%s, of batch %d, beside a database with %d: %w", f.name, f.batch,
				last, err)
		}
	}
	return nil
}

// verifyTables is checkTables after a trial: no table of a failed ingest is lost.
func verifyTables(t *trial, mem *vfs.Mem) error {
	for _, f := range t.session.tableFiles().all() {
		if _, err := mem.Stat(f.name); err != nil && !t.okay[f.batch] && !t.limbo[f.batch] {
			return fmt.Errorf("%s, of batch %d, which is not in the database: %w", f.name, f.batch,
				err)
		}
	}
	return nil
}

// TestIngestStates: a crash at any call of an ingest or a load leaves all of it or nothing, and the
// tables unharmed that are not in the database.
func TestIngestStates(t *testing.T) {
	for i := range ingestWorkloads {
		w := &ingestWorkloads[i]
		t.Run(w.name, func(t *testing.T) {
			testkit.EachFormat(t, func(t *testing.T, share int) {
				takeStates(t, 1, func(seed int64) (Result, error) {
					return explore(w, seed, int64(testkit.Scale(24, 12*share, 1)), checkTables)
				})
			})
		})
	}
}

// TestIngestFaults fails the calls of ingests and loads.
func TestIngestFaults(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		takeFaults(t, testkit.Scale(40, 36*share, 2), "ingest", "load")
	})
}
