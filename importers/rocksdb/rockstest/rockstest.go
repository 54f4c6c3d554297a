//go:build cgo && rocksdb

// Package rockstest makes directories of RocksDB for tests, which have no cgo.
package rockstest

/*
#cgo LDFLAGS: -lrocksdb
#include <rocksdb/c.h>
#include <stdlib.h>

// Makes a database with an entry in a table and one in a log, of two column families.
static char *fill(const char *dir, const char *family) {
	char *error = NULL;
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_t *db = rocksdb_open(o, dir, &error);
	if (error) return error;
	rocksdb_column_family_handle_t *f = rocksdb_create_column_family(db, o, family, &error);
	if (error) return error;
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
	rocksdb_put(db, w, "a", 1, "1", 1, &error);
	if (!error) rocksdb_put(db, w, "gone", 4, "2", 1, &error);
	if (!error) rocksdb_flush(db, flush, &error);
	if (!error) rocksdb_delete(db, w, "gone", 4, &error);
	if (!error) rocksdb_put_cf(db, w, f, "b", 1, "\0", 1, &error);
	rocksdb_column_family_handle_destroy(f);
	rocksdb_close(db);
	rocksdb_flushoptions_destroy(flush);
	rocksdb_writeoptions_destroy(w);
	rocksdb_options_destroy(o);
	return error;
}

// Adds an operand to the key a, which is in a log.
static char *operand(const char *dir) {
	char *error = NULL;
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_uint64add_merge_operator(o);
	rocksdb_t *db = rocksdb_open(o, dir, &error);
	if (error) return error;
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_merge(db, w, "a", 1, "\1\0\0\0\0\0\0\0", 8, &error);
	rocksdb_close(db);
	rocksdb_writeoptions_destroy(w);
	rocksdb_options_destroy(o);
	return error;
}

// Makes a database with an entry in a table and one in a log of another directory.
static char *apart(const char *dir, const char *logs) {
	char *error = NULL;
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_wal_dir(o, logs);
	rocksdb_t *db = rocksdb_open(o, dir, &error);
	if (error) return error;
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
	rocksdb_put(db, w, "a", 1, "1", 1, &error);
	if (!error) rocksdb_flush(db, flush, &error);
	if (!error) rocksdb_put(db, w, "b", 1, "2", 1, &error);
	rocksdb_close(db);
	rocksdb_flushoptions_destroy(flush);
	rocksdb_writeoptions_destroy(w);
	rocksdb_options_destroy(o);
	return error;
}

// Makes a database with an entry in a log, and leaves it open.
static rocksdb_t *hold(const char *dir, char **error) {
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_t *db = rocksdb_open(o, dir, error);
	rocksdb_options_destroy(o);
	if (*error) return NULL;
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	rocksdb_put(db, w, "a", 1, "1", 1, error);
	rocksdb_writeoptions_destroy(w);
	return db;
}
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Fill makes a database in dir: the entry "a", "1" in the default column family and "b", one zero,
// in another one.
func Fill(dir, family string) error {
	at, name := C.CString(dir), C.CString(family)
	defer C.free(unsafe.Pointer(at))
	defer C.free(unsafe.Pointer(name))
	return failure(C.fill(at, name))
}

// Operand makes a database in dir with an operand of a merge.
func Operand(dir string) error {
	at := C.CString(dir)
	defer C.free(unsafe.Pointer(at))
	return failure(C.operand(at))
}

// Apart makes a database in dir whose logs are in another directory: the entry "a", "1" is in a
// table, and "b", "2" in a log.
func Apart(dir, logs string) error {
	at, other := C.CString(dir), C.CString(logs)
	defer C.free(unsafe.Pointer(at))
	defer C.free(unsafe.Pointer(other))
	return failure(C.apart(at, other))
}

// Hold has a database in dir open until release is called: the entry "a", "1" is in it.
func Hold(dir string) (release func(), err error) {
	at := C.CString(dir)
	defer C.free(unsafe.Pointer(at))
	var message *C.char
	db := C.hold(at, &message)
	return func() { C.rocksdb_close(db) }, failure(message)
}

func failure(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(message))
	return errors.New(C.GoString(message))
}
