//go:build cgo && rocksdb

// Package rocksdb reads directories of RocksDB for importers, by librocksdb. A column family
// becomes the keyspace of its name. It is built with the tag rocksdb.
package rocksdb

/*
#cgo LDFLAGS: -lrocksdb
#include <rocksdb/c.h>
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/loamdb/loam/importers"
)

type source struct {
	db       *C.rocksdb_t
	options  *C.rocksdb_options_t
	read     *C.rocksdb_readoptions_t
	names    importers.Names
	families map[string]*C.rocksdb_column_family_handle_t
	scratch  string   // a directory for the library's own log
	lock     *os.File // nil: there is none
}

// Open opens the directory at path. It is an importers.Open, and fails while another process has
// the directory open for writing; until Close none can open it so. Keys must be ordered by their
// bytes; operands of a merge operator cannot be read without the operator. It fails where the last
// record of a log is not whole, as a power cut leaves it: open the database once with RocksDB then.
func Open(path string, o importers.Options) (importers.Source, error) {
	if err := importers.Directory(path); err != nil {
		return nil, err
	}
	if err := logsElsewhere(path); err != nil && !o.Lossy {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	scratch, err := os.MkdirTemp("", "loam-import-")
	if err != nil {
		return nil, err
	}
	s := &source{scratch: scratch, families: map[string]*C.rocksdb_column_family_handle_t{},
		options: C.rocksdb_options_create(), read: C.rocksdb_readoptions_create()}
	C.rocksdb_readoptions_set_fill_cache(s.read, 0)
	if s.lock, err = lock(filepath.Join(path, "LOCK")); err == nil {
		err = s.open(path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s, nil
}

// logsElsewhere fails where the newest OPTIONS name another directory for logs, and path has none:
// the library would take what is only in them for missing. Which of them belong to a copy, as a
// checkpoint is, nothing tells. Some versions name the directory of the database itself, which it
// may since have left.
func logsElsewhere(path string) error {
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	newest, number := "", uint64(0)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".log") {
			return nil
		}
		digits, is := strings.CutPrefix(f.Name(), "OPTIONS-")
		n, err := strconv.ParseUint(digits, 10, 64)
		if is && err == nil && n >= number { // others are not finished
			newest, number = f.Name(), n
		}
	}
	if newest == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(path, newest))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		dir, found := strings.CutPrefix(strings.TrimSpace(line), "wal_dir=")
		if !found || dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err == nil {
			continue // of a database
		}
		return importers.Unsupported("%s says that the logs are in %s; copy them into this "+
			"directory, or leave them out with --lossy", newest, dir)
	}
	return nil
}

// failure takes the message of a call.
func failure(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(message))
	return errors.New(C.GoString(message))
}

func (s *source) open(path string) error {
	dir, logs := C.CString(path), C.CString(s.scratch)
	defer C.free(unsafe.Pointer(dir))
	defer C.free(unsafe.Pointer(logs))
	C.rocksdb_options_set_db_log_dir(s.options, logs)
	// Else a record of a log that cannot be read, an operand without its operator for instance,
	// would end the log without an error.
	C.rocksdb_options_set_wal_recovery_mode(s.options, C.rocksdb_absolute_consistency_recovery)
	var message *C.char
	var n C.size_t
	list := C.rocksdb_list_column_families(s.options, dir, &n, &message)
	if err := failure(message); err != nil {
		return err
	}
	defer C.rocksdb_list_column_families_destroy(list, n)
	families := unsafe.Slice(list, n)
	options := make([]*C.rocksdb_options_t, n)
	for i := range options {
		options[i] = s.options
	}
	handles := make([]*C.rocksdb_column_family_handle_t, n)
	s.db = C.rocksdb_open_for_read_only_column_families(s.options, dir, C.int(n), list, &options[0],
		&handles[0], 0, &message)
	if err := failure(message); err != nil {
		s.db = nil
		return err
	}
	for i, family := range families {
		name, err := importers.Name([]byte(C.GoString(family)))
		if err == nil {
			err = s.names.Add(name)
		}
		if err != nil {
			C.rocksdb_column_family_handle_destroy(handles[i])
			for _, later := range handles[i+1:] {
				C.rocksdb_column_family_handle_destroy(later)
			}
			return err
		}
		s.families[name] = handles[i]
	}
	return nil
}

func (s *source) Spaces() []string { return s.names.All }

func (s *source) Each(space string, visit func(importers.Entry) error) error {
	it := C.rocksdb_create_iterator_cf(s.db, s.read, s.families[space])
	defer C.rocksdb_iter_destroy(it)
	var n C.size_t
	for C.rocksdb_iter_seek_to_first(it); C.rocksdb_iter_valid(it) != 0; C.rocksdb_iter_next(it) {
		key := bytesOf(C.rocksdb_iter_key(it, &n), &n)
		value := bytesOf(C.rocksdb_iter_value(it, &n), &n)
		if err := visit(importers.Entry{Key: key, Value: value}); err != nil {
			return err
		}
	}
	var message *C.char
	C.rocksdb_iter_get_error(it, &message)
	return failure(message)
}

// bytesOf is memory of the library, valid until the iterator moves.
func bytesOf(at *C.char, n *C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(at)), *n)
}

func (s *source) Close() error {
	for _, h := range s.families {
		C.rocksdb_column_family_handle_destroy(h)
	}
	if s.db != nil {
		C.rocksdb_close(s.db)
	}
	C.rocksdb_readoptions_destroy(s.read)
	C.rocksdb_options_destroy(s.options)
	err := os.RemoveAll(s.scratch)
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
