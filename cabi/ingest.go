//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"math"
	"sync"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/cabi/internal/replay"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/lsm"
)

// tableWriter is what a kindTableWriter handle stands for.
type tableWriter struct {
	mu sync.Mutex // held by calls
	*lsm.TableWriter
	uses *refs.Shared // what the options brought
}

// close gives up a table that was not finished.
func (w *tableWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.uses.Release()
	return w.TableWriter.Close()
}

// bulkLoad is what a kindBulkLoad handle stands for. Its user of db.uses is the handle.
type bulkLoad struct {
	mu sync.Mutex // held by calls
	*lsm.BulkLoader
	db *database
}

func (l *bulkLoad) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.db.uses.Release()
	return l.BulkLoader.Close()
}

//export loamgo_table_writer_create
func loamgo_table_writer_create(path *C.char, opts C.uint64_t, out *C.uint64_t,
	message **C.char) status {
	return withOptions(message, opts, func(o *settings.Settings) error {
		w, err := lsm.NewTableWriter(C.GoString(path), &o.Options)
		if err != nil {
			o.Uses.Release()
			return err
		}
		t := &tableWriter{TableWriter: w, uses: o.Uses}
		return publishOr(kindTableWriter, t, out, t.close)
	})
}

// withTable is run of what needs the table writer of a handle.
func withTable(message **C.char, h C.uint64_t, f func(w *lsm.TableWriter) error) status {
	return with(message, h, kindTableWriter, func(w *tableWriter) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return f(w.TableWriter)
	})
}

//export loamgo_table_writer_write
func loamgo_table_writer_write(h C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t,
	value unsafe.Pointer, valueLen C.size_t, seconds C.uint64_t, message **C.char) status {
	return withTable(message, h, func(w *lsm.TableWriter) error {
		switch op {
		case C.LOAM_OP_PUT:
			return w.Put(span(key, keyLen), span(value, valueLen))
		case C.LOAM_OP_PUT_TTL:
			ttl, err := lifetime(seconds)
			if err != nil {
				return err
			}
			return w.PutTTL(span(key, keyLen), span(value, valueLen), ttl)
		case C.LOAM_OP_DELETE_RANGE:
			return w.DeleteRange(span(key, keyLen), span(value, valueLen))
		}
		return w.Delete(span(key, keyLen))
	})
}

// loamgo_table_writer_add adds the operations of a batch.
//
//export loamgo_table_writer_add
func loamgo_table_writer_add(h C.uint64_t, data unsafe.Pointer, n C.size_t,
	message **C.char) status {
	return withTable(message, h, func(w *lsm.TableWriter) error {
		return replay.IntoTable(w, span(data, n))
	})
}

//export loamgo_table_writer_size
func loamgo_table_writer_size(h C.uint64_t, size *C.uint64_t, message **C.char) status {
	return withTable(message, h, func(w *lsm.TableWriter) error {
		*size = C.uint64_t(w.EstimatedSize())
		return nil
	})
}

//export loamgo_table_writer_finish
func loamgo_table_writer_finish(h C.uint64_t, message **C.char) status {
	return withTable(message, h, (*lsm.TableWriter).Finish)
}

// loamgo_ingest ingests tables, as a job if out is not NULL.
//
//export loamgo_ingest
func loamgo_ingest(db, flags C.uint64_t, start unsafe.Pointer, startLen C.size_t,
	stop unsafe.Pointer, stopLen C.size_t, n C.size_t, paths **C.char, out *C.uint64_t,
	message **C.char) status {
	return withLive(message, db, func(d *database) error {
		o := lsm.IngestOptions{Move: flags&C.LOAM_INGEST_MOVE != 0}
		if flags&C.LOAM_INGEST_EXCISE != 0 {
			// The caller's memory is not ours once a job has started.
			o.Excise = &lsm.Range{Start: append([]byte{}, span(start, startLen)...),
				Limit: append([]byte{}, span(stop, stopLen)...)}
		}
		names := make([]string, n)
		for i, p := range unsafe.Slice(paths, n) {
			names[i] = pathOf(p, out)
		}
		return perform(out, nil, nil, func(ctx context.Context) (string, error) {
			return "", d.Ingest(ctx, &o, names...)
		})
	})
}

//export loamgo_bulk_load_begin
func loamgo_bulk_load_begin(db, memory C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := held(db)
		if err != nil {
			return err
		}
		loader, err := d.BulkLoader(&lsm.BulkLoadOptions{Memory: int64(min(memory, math.MaxInt64))})
		if err != nil {
			d.uses.Release()
			return err
		}
		l := &bulkLoad{BulkLoader: loader, db: d}
		return publishOr(kindBulkLoad, l, out, l.close)
	})
}

// withBulkLoad is run of what needs the load of a handle.
func withBulkLoad(message **C.char, h C.uint64_t, f func(l *lsm.BulkLoader) error) status {
	return with(message, h, kindBulkLoad, func(l *bulkLoad) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return f(l.BulkLoader)
	})
}

//export loamgo_bulk_load_put
func loamgo_bulk_load_put(h C.uint64_t, key unsafe.Pointer, keyLen C.size_t, value unsafe.Pointer,
	valueLen C.size_t, message **C.char) status {
	return withBulkLoad(message, h, func(l *lsm.BulkLoader) error {
		return l.Put(span(key, keyLen), span(value, valueLen))
	})
}

//export loamgo_bulk_load_add
func loamgo_bulk_load_add(h C.uint64_t, data unsafe.Pointer, n C.size_t, message **C.char) status {
	return withBulkLoad(message, h, func(l *lsm.BulkLoader) error {
		return replay.IntoBulkLoad(l, span(data, n))
	})
}

// loamgo_bulk_load_finish finishes a load, as a job if out is not NULL.
//
//export loamgo_bulk_load_finish
func loamgo_bulk_load_finish(h C.uint64_t, out *C.uint64_t, message **C.char) status {
	return with(message, h, kindBulkLoad, func(l *bulkLoad) error {
		return perform(out, nil, nil, func(ctx context.Context) (string, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return "", l.Finish(ctx)
		})
	})
}
