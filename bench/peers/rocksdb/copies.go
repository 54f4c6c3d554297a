//go:build cgo && rocksdb

package rocksdb

/*
#cgo noescape kv_table_put
#cgo nocallback kv_table_put
#include "copies.h"
*/
import "C"

import (
	"unsafe"

	"github.com/loamdb/loam/internal/workload/store"
)

// Checkpoint flushes before, if there is anything in the log, as RocksDB's default is.
func (d *database) Checkpoint(dir string) error {
	to := C.CString(dir)
	defer C.free(unsafe.Pointer(to))
	var msg *C.char
	c := C.rocksdb_checkpoint_object_create(d.db, &msg)
	if err := failure(msg); err != nil {
		return err
	}
	defer C.rocksdb_checkpoint_object_destroy(c)
	C.rocksdb_checkpoint_create(c, to, 0, &msg)
	return failure(msg)
}

// Backup flushes before; tables are shared by their checksums, as is the default of RocksDB's
// engine.
func (d *database) Backup(dir string) error {
	return d.backups(dir, func(b *C.rocksdb_backup_engine_t, msg **C.char) {
		C.rocksdb_backup_engine_create_new_backup_flush(b, d.db, 1, msg)
	})
}

// RestoreBackup restores the newest one.
func (d *database) RestoreBackup(dir, to string) error {
	path := C.CString(to)
	defer C.free(unsafe.Pointer(path))
	o := C.rocksdb_restore_options_create()
	defer C.rocksdb_restore_options_destroy(o)
	return d.backups(dir, func(b *C.rocksdb_backup_engine_t, msg **C.char) {
		C.rocksdb_backup_engine_restore_db_from_latest_backup(b, path, path, o, msg)
	})
}

func (d *database) backups(dir string, do func(b *C.rocksdb_backup_engine_t, msg **C.char)) error {
	path := C.CString(dir)
	defer C.free(unsafe.Pointer(path))
	var msg *C.char
	b := C.rocksdb_backup_engine_open(d.options, path, &msg)
	if err := failure(msg); err != nil {
		return err
	}
	defer C.rocksdb_backup_engine_close(b)
	do(b, &msg)
	return failure(msg)
}

// NewTable begins a table with the database's options.
func (d *database) NewTable(file string) (store.Sink, error) {
	path := C.CString(file)
	defer C.free(unsafe.Pointer(path))
	env := C.rocksdb_envoptions_create()
	t := &outsideTable{env, C.rocksdb_sstfilewriter_create(env, d.options)}
	var msg *C.char
	C.rocksdb_sstfilewriter_open(t.w, path, &msg)
	if err := failure(msg); err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

type outsideTable struct {
	env *C.rocksdb_envoptions_t
	w   *C.rocksdb_sstfilewriter_t
}

func (t *outsideTable) Put(key, value []byte) error {
	k, kn := bytesOf(key)
	v, vn := bytesOf(value)
	return failure(C.kv_table_put(t.w, k, kn, v, vn))
}

// Finish syncs the file.
func (t *outsideTable) Finish() error {
	var msg *C.char
	C.rocksdb_sstfilewriter_finish(t.w, &msg)
	return failure(msg)
}

func (t *outsideTable) Close() error {
	C.rocksdb_sstfilewriter_destroy(t.w)
	C.rocksdb_envoptions_destroy(t.env)
	return nil
}

// Ingest takes the files away.
func (d *database) Ingest(files []string) error {
	names := make([]*C.char, len(files))
	for i, f := range files {
		names[i] = C.CString(f)
		defer C.free(unsafe.Pointer(names[i]))
	}
	o := C.rocksdb_ingestexternalfileoptions_create()
	defer C.rocksdb_ingestexternalfileoptions_destroy(o)
	C.rocksdb_ingestexternalfileoptions_set_move_files(o, 1)
	var msg *C.char
	C.rocksdb_ingest_external_file(d.db, unsafe.SliceData(names), C.size_t(len(names)), o, &msg)
	return failure(msg)
}

// Changes reads the logs, those in the archive too.
func (d *database) Changes() (store.Changes, error) {
	var msg *C.char
	it := C.rocksdb_get_updates_since(d.db, 1, nil, &msg)
	if err := failure(msg); err != nil {
		return nil, err
	}
	return changes{it}, nil
}

type changes struct{ it *C.rocksdb_wal_iterator_t }

// Next looks at each operation, by the engine's callbacks, in C.
func (c changes) Next(limit int) (batches, operations, bytes int64, err error) {
	s := C.kv_changes(c.it, C.int64_t(limit))
	return int64(s.batches), int64(s.operations), int64(s.bytes), failure(s.err)
}

func (c changes) Close() error {
	C.rocksdb_wal_iter_destroy(c.it)
	return nil
}

// OpenFollower opens a secondary instance, which has to keep all files open.
func (Driver) OpenFollower(dir, own string, c store.Config) (store.Follower, error) {
	d, err := configure(dir, c, nil)
	if err != nil {
		return nil, err
	}
	C.rocksdb_options_set_max_open_files(d.options, -1)
	path, second := C.CString(dir), C.CString(own)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(second))
	var msg *C.char
	d.db = C.rocksdb_open_as_secondary(d.options, path, second, &msg)
	if err := failure(msg); err != nil {
		d.release()
		return nil, err
	}
	d.ro = readOptions(nil)
	return &follower{d}, nil
}

type follower struct{ d *database }

func (f *follower) CatchUp() error {
	var msg *C.char
	C.rocksdb_try_catch_up_with_primary(f.d.db, &msg)
	return failure(msg)
}

func (f *follower) Get(key, dst []byte) ([]byte, bool, error) { return f.d.Get(key, dst) }

func (f *follower) Close() error {
	C.rocksdb_close(f.d.db)
	C.rocksdb_readoptions_destroy(f.d.ro)
	f.d.release()
	return nil
}
