package runner

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// tableBytes is how many bytes of keys and values a table gets that is written outside of the
// database.
const tableBytes = 64 << 20

// putTables is put into tables, in key order, which the database takes in at the end.
func (t *thread) putTables() {
	db, dir := t.db.(store.Ingester), t.r.Dir+"-kvbench-tables"
	defer os.RemoveAll(dir)
	if !t.away(func() error {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		return os.Mkdir(dir, 0o700)
	}) {
		return
	}
	pick := t.picker(workload.Sequential)
	var files []string
	for t.done < t.ops {
		file := filepath.Join(dir, fmt.Sprintf("%06d.table", len(files)+1))
		table, err := db.NewTable(file)
		if err != nil {
			t.fail(err)
			return
		}
		if !t.sink(table, &pick, tableBytes) {
			return
		}
		files = append(files, file)
	}
	if err := db.Ingest(files); err != nil {
		t.fail(err)
	}
}

// bulkLoad is put by a load.
func (t *thread) bulkLoad(spec *workload.Spec) {
	load, err := t.db.(store.BulkLoader).BulkLoad()
	if err != nil {
		t.fail(err)
		return
	}
	pick := t.picker(spec.Order)
	t.sink(load, &pick, 0)
}

// sink puts entries into s until it has so many bytes, or all of them if most is 0, finishes and
// closes it. It reports whether to go on.
func (t *thread) sink(s store.Sink, pick *pick, most int64) bool {
	limit, more := t.bytes+most, true
	for more && t.done < t.ops && (most == 0 || t.bytes < limit) {
		n := pick.next(&t.rand)
		key, value := t.keys.Present(n), t.value(n)
		if err := s.Put(key, value); err != nil {
			t.fail(err)
			break
		}
		t.bytes += int64(len(key) + len(value))
		more = t.tick()
	}
	if t.err == nil && more {
		if err := s.Finish(); err != nil {
			t.fail(err)
		}
	}
	if err := s.Close(); err != nil && t.err == nil {
		t.fail(err)
	}
	return t.err == nil && more
}

// stream is how many batches of a feed are read at once, unless each is timed.
const stream = 256

// changes fills the database, each value a batch, and reads these batches. Only that is measured.
func (t *thread) changes(spec *workload.Spec) {
	if !t.away(func() error { return t.fillForChanges(spec) }) {
		return
	}
	feed, err := t.db.(store.Changing).Changes()
	if err != nil {
		t.fail(err)
		return
	}
	limit := int64(stream)
	if t.hist != nil {
		limit = 1
	}
	t.asked = t.ops
	for more := true; more && t.done < t.ops; {
		batches, operations, bytes, err := feed.Next(int(min(limit, t.ops-t.done)))
		if err != nil {
			t.fail(err)
			break
		}
		if batches == 0 {
			break // the check of the entries fails
		}
		t.found += operations
		t.bytes += bytes
		more = t.ticks(batches)
	}
	if err := feed.Close(); err != nil && t.err == nil {
		t.fail(err)
	}
}

func (t *thread) fillForChanges(spec *workload.Spec) error {
	pick := t.picker(spec.Order)
	for range t.ops {
		n := pick.next(&t.rand)
		if err := t.db.Put(t.keys.Present(n), t.value(n), false); err != nil {
			return err
		}
		if t.stop.Load() {
			return nil
		}
	}
	return t.db.Flush()
}
