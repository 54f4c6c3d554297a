//go:build cgo && lmdb

// Package lmdb is the benchmark's driver for LMDB, through its C interface.
//
// The driver and its stores are safe for concurrent use, as package store asks.
// A snapshot and its iterators belong to one goroutine.
package lmdb

/*
#cgo LDFLAGS: -llmdb
#cgo noescape kv_get
#cgo nocallback kv_get
#cgo noescape kv_multi_get
#cgo nocallback kv_multi_get
#cgo noescape kv_put
#cgo nocallback kv_put
#cgo noescape kv_delete
#cgo nocallback kv_delete
#cgo noescape kv_write
#cgo nocallback kv_write
#cgo noescape kv_iter_open
#cgo nocallback kv_iter_open
#cgo noescape kv_iter_close
#cgo nocallback kv_iter_close
#cgo noescape kv_fetch
#cgo nocallback kv_fetch
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/loamdb/loam/bench/peers/crun"
	"github.com/loamdb/loam/bench/peers/settings"
	"github.com/loamdb/loam/internal/workload/store"
)

// The engine reads through the page cache and has nothing to set.
var table = settings.New([]string{"none"}, "compression", "none")

const (
	file    = "data.mdb"
	mapped  = 64 << 30 // address space of the map, which bounds the database
	readers = 8192     // read transactions at once
)

// Driver opens LMDB databases.
type Driver struct{}

func (Driver) Name() string                     { return "lmdb" }
func (Driver) Title() string                    { return "LMDB" }
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Version is that of the library loaded.
func (Driver) Version() string {
	var major, minor, patch C.int
	C.mdb_version(&major, &minor, &patch)
	return fmt.Sprintf("%d.%d.%d", major, minor, patch)
}

// Notes tells what the figures depend on.
func (Driver) Notes() []string {
	return []string{
		"through cgo: about 40 ns a call; scans cross the boundary 16 entries at a time, long " +
			"ones 128",
		"MDB_NOSYNC: a durable write calls mdb_env_sync after its commit, and a crash of the " +
			"system between syncs may damage the database; no WRITEMAP",
		"read transactions are renewed, not begun; no checksums, no compression, no filter, the " +
			"page cache is its cache; batches are its fair write row",
	}
}

func bytesOf(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

func failure(code C.int) error {
	if code == 0 {
		return nil
	}
	return errors.New(C.GoString(C.mdb_strerror(code)))
}

func flag(on bool) C.int {
	if on {
		return 1
	}
	return 0
}

// Open turns syncing at commits off: a write that asks for it syncs.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	if _, err := table.Read(c.Settings); err != nil {
		return nil, err
	}
	if c.MustExist {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := C.CString(dir)
	defer C.free(unsafe.Pointer(name))
	d := &database{dir: dir}
	if err := failure(C.kv_open(name, mapped, readers, &d.env)); err != nil {
		return nil, err
	}
	return d, nil
}

// reader reads the newest state when txn is nil.
type reader struct {
	env *C.kv_env
	txn *C.MDB_txn
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	k, kn := bytesOf(key)
	p, room := bytesOf(dst[len(dst):cap(dst)])
	g := C.kv_get(r.env, r.txn, k, kn, p, room)
	switch {
	case g.rc == C.MDB_NOTFOUND:
		return dst, false, nil
	case g.rc != 0:
		return dst, false, failure(g.rc)
	case g.big != nil:
		dst = append(dst, unsafe.Slice((*byte)(unsafe.Pointer(g.big)), int(g.n))...)
		C.free(unsafe.Pointer(g.big))
		return dst, true, nil
	}
	return dst[:len(dst)+int(g.n)], true, nil
}

func (r *reader) Has(key []byte) (bool, error) {
	_, found, err := r.Get(key, nil)
	return found, err
}

func (*reader) NewValues() store.Values { return new(crun.Answers) }

// MultiGet reads the keys one by one, within one call and one transaction.
func (r *reader) MultiGet(keys [][]byte, v store.Values) error {
	return crun.MultiGet(keys, v, func(a *crun.Answers) (int, error) {
		p, _ := bytesOf(a.Keys)
		out, room := bytesOf(a.Data)
		m := C.kv_multi_get(r.env, r.txn, p, C.int64_t(len(keys)), out, room,
			(*C.uint64_t)(unsafe.SliceData(a.Ends)), (*C.uint8_t)(unsafe.SliceData(a.Found)))
		return int(m.need), failure(m.rc)
	})
}

func (r *reader) NewIterator() (store.Iterator, error) {
	var it *C.kv_iter
	if err := failure(C.kv_iter_open(r.env, r.txn, &it)); err != nil {
		return nil, err
	}
	return crun.NewCursor(iterator{it}), nil
}

type iterator struct{ it *C.kv_iter }

func (i iterator) Fetch(op crun.Op, key []byte, backward bool, limit int,
	buf []byte) (n, used, need int) {
	k, kn := bytesOf(key)
	p, room := bytesOf(buf)
	r := C.kv_fetch(i.it, C.int(op), k, kn, flag(backward), C.int64_t(limit), p, room)
	return int(r.n), int(r.used), int(r.need)
}

func (i iterator) Err() error { return failure(C.kv_iter_error(i.it)) }

func (i iterator) Close() error {
	C.kv_iter_close(i.it)
	return nil
}

type database struct {
	reader
	dir string
}

func (d *database) Put(key, value []byte, sync bool) error {
	k, kn := bytesOf(key)
	v, vn := bytesOf(value)
	return failure(C.kv_put(d.env, flag(sync), k, kn, v, vn))
}

func (d *database) Delete(key []byte, sync bool) error {
	k, kn := bytesOf(key)
	return failure(C.kv_delete(d.env, flag(sync), k, kn))
}

func (d *database) NewBatch() store.Batch { return new(crun.Batch) }

// Write applies the batch in one transaction.
func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*crun.Batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	p, _ := bytesOf(own.Data)
	return failure(C.kv_write(d.env, flag(sync), p, C.int64_t(own.N)))
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s := &snapshot{reader{env: d.env}}
	if err := failure(C.kv_snapshot(d.env, &s.txn)); err != nil {
		return nil, err
	}
	return s, nil
}

type snapshot struct{ reader }

func (s *snapshot) Close() error {
	C.mdb_txn_abort(s.txn)
	return nil
}

func (d *database) Flush() error   { return nil } // nothing waits in memory
func (d *database) Compact() error { return nil } // updates are in place

// Close requires that iterators and snapshots are closed.
func (d *database) Close() error {
	C.kv_close(d.env)
	return nil
}

func (d *database) Property(name string) (string, bool) {
	var s C.MDB_stat
	if name != "leveldb.stats" || C.kv_stat(d.env, &s) != 0 {
		return "", false
	}
	return fmt.Sprintf("page size %d, depth %d, pages: %d branch, %d leaf, %d overflow; %d "+
		"entries\n",
		s.ms_psize, s.ms_depth, s.ms_branch_pages, s.ms_leaf_pages, s.ms_overflow_pages,
		s.ms_entries), true
}

func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	m.Debt, m.Stall = 0, 0
	m.DiskSize, m.Tables = settings.DirSize(d.dir, filepath.Ext(file))
	return m
}
