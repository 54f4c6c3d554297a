package pebble

import (
	"context"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/loamdb/loam/internal/workload/store"
)

// Checkpoint copies the log, after a write of what Pebble has in memory for it.
func (d *database) Checkpoint(dir string) error {
	return d.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// NewTable begins a table as the deepest level has them.
func (d *database) NewTable(file string) (store.Sink, error) {
	f, err := vfs.Default.Create(file, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f),
		d.options.MakeWriterOptions(6, d.db.TableFormat()))
	return &sink{w: w}, nil
}

// sink is a table of level 6, the seventh.
type sink struct {
	w    *sstable.Writer
	done bool
}

func (t *sink) Put(key, value []byte) error { return t.w.Set(key, value) }

// Finish syncs the file.
func (t *sink) Finish() error {
	t.done = true
	return t.w.Close()
}

func (t *sink) Close() error {
	if t.done {
		return nil
	}
	return t.w.Close()
}

// Ingest takes the files away.
func (d *database) Ingest(files []string) error { return d.db.Ingest(context.Background(), files) }
