//go:build cgo && sqlite

// Package sqlite is the benchmark's driver for SQLite, through its C interface: one table with
// keys and values, in WAL mode.
//
// The driver and its stores are safe for concurrent use, as package store asks.
// A snapshot and its iterators belong to one goroutine.
package sqlite

/*
#cgo LDFLAGS: -lsqlite3
#cgo noescape sq_get
#cgo nocallback sq_get
#cgo noescape sq_multi_get
#cgo nocallback sq_multi_get
#cgo noescape sq_put
#cgo nocallback sq_put
#cgo noescape sq_delete
#cgo nocallback sq_delete
#cgo noescape sq_write
#cgo nocallback sq_write
#cgo noescape sq_iter_open
#cgo nocallback sq_iter_open
#cgo noescape sq_iter_close
#cgo nocallback sq_iter_close
#cgo noescape sq_fetch
#cgo nocallback sq_fetch
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

var table = settings.New([]string{"none"}, "compression", "none", "cache_size", "64MiB",
	"write_buffer_size", "64MiB")

const (
	file = "data.sqlite"
	page = 4 << 10 // bytes, as is SQLite's default
)

// Driver opens SQLite databases.
type Driver struct{}

func (Driver) Name() string                     { return "sqlite" }
func (Driver) Title() string                    { return "SQLite" }
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Version is that of the library loaded.
func (Driver) Version() string { return C.GoString(C.sqlite3_libversion()) }

// Notes tells what the figures depend on.
func (Driver) Notes() []string {
	return []string{
		"through cgo: about 40 ns a call; scans cross the boundary 16 entries at a time, long " +
			"ones 128",
		"WAL mode, one table WITHOUT ROWID with a BLOB as its key, prepared statements, files " +
			"mapped up to 2 GiB; a connection for each reader at a time, one for writes with " +
			"synchronous=NORMAL, one with FULL for durable ones",
		"write_buffer_size is the log from which on a commit moves its pages into the database, " +
			"cache_size the page cache of each connection; no compression, no filter; batches " +
			"are its fair write row",
	}
}

func bytesOf(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

func failure(code C.int) error {
	if code == 0 {
		return nil
	}
	return errors.New(C.GoString(C.sqlite3_errstr(code)))
}

func flag(on bool) C.int {
	if on {
		return 1
	}
	return 0
}

// Open opens two connections, for writes that are durable and for others.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	v, err := table.Read(c.Settings)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, file)
	if c.MustExist {
		if _, err := os.Stat(name); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := C.CString(name)
	defer C.free(unsafe.Pointer(path))
	d := &database{dir: dir}
	if err := failure(C.sq_open(path, C.int(v.Int("cache_size")>>10),
		C.int(v.Int("write_buffer_size")/page), &d.env)); err != nil {
		return nil, err
	}
	return d, nil
}

// reader reads the newest state when in is nil.
type reader struct {
	env *C.sq_env
	in  *C.sq_conn
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	k, kn := bytesOf(key)
	p, room := bytesOf(dst[len(dst):cap(dst)])
	g := C.sq_get(r.env, r.in, k, kn, p, room)
	switch {
	case g.rc == C.SQLITE_NOTFOUND:
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
		m := C.sq_multi_get(r.env, r.in, p, C.int64_t(len(keys)), out, room,
			(*C.uint64_t)(unsafe.SliceData(a.Ends)), (*C.uint8_t)(unsafe.SliceData(a.Found)))
		return int(m.need), failure(m.rc)
	})
}

func (r *reader) NewIterator() (store.Iterator, error) {
	var it *C.sq_iter
	if err := failure(C.sq_iter_open(r.env, r.in, &it)); err != nil {
		return nil, err
	}
	return crun.NewCursor(iterator{it}), nil
}

type iterator struct{ it *C.sq_iter }

func (i iterator) Fetch(op crun.Op, key []byte, backward bool, limit int,
	buf []byte) (n, used, need int) {
	k, kn := bytesOf(key)
	p, room := bytesOf(buf)
	r := C.sq_fetch(i.it, C.int(op), k, kn, flag(backward), C.int64_t(limit), p, room)
	return int(r.n), int(r.used), int(r.need)
}

func (i iterator) Err() error { return failure(C.sq_iter_error(i.it)) }

func (i iterator) Close() error {
	C.sq_iter_close(i.it)
	return nil
}

type database struct {
	reader
	dir string
}

func (d *database) Put(key, value []byte, sync bool) error {
	k, kn := bytesOf(key)
	v, vn := bytesOf(value)
	return failure(C.sq_put(d.env, flag(sync), k, kn, v, vn))
}

func (d *database) Delete(key []byte, sync bool) error {
	k, kn := bytesOf(key)
	return failure(C.sq_delete(d.env, flag(sync), k, kn))
}

func (d *database) NewBatch() store.Batch { return new(crun.Batch) }

// Write applies the batch in one transaction.
func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*crun.Batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	p, _ := bytesOf(own.Data)
	return failure(C.sq_write(d.env, flag(sync), p, C.int64_t(own.N)))
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s := &snapshot{reader{env: d.env}}
	if err := failure(C.sq_snapshot(d.env, &s.in)); err != nil {
		return nil, err
	}
	return s, nil
}

type snapshot struct{ reader }

func (s *snapshot) Close() error {
	return failure(C.sq_snapshot_close(s.env, s.in))
}

func (d *database) Flush() error   { return nil } // nothing waits in memory
func (d *database) Compact() error { return nil } // updates are in place

// Checkpoint copies the database by SQLite's online backup, in one step.
func (d *database) Checkpoint(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return copied(d.env, "", filepath.Join(dir, file))
}

// Backup makes a further file in the folder: SQLite's backups share nothing.
func (d *database) Backup(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	return copied(d.env, "", filepath.Join(dir, fmt.Sprintf("%06d.sqlite", len(all))))
}

// RestoreBackup copies the newest one in the same way.
func (d *database) RestoreBackup(dir, to string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return os.ErrNotExist
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	return copied(nil, filepath.Join(dir, all[len(all)-1].Name()), filepath.Join(to, file))
}

// copied makes a durable copy, of the file from if env is nil.
func copied(env *C.sq_env, from, to string) error {
	a, b := C.CString(from), C.CString(to)
	defer C.free(unsafe.Pointer(a))
	defer C.free(unsafe.Pointer(b))
	if err := failure(C.sq_copy(env, a, b)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Close requires that iterators and snapshots are closed.
func (d *database) Close() error { return failure(C.sq_close(d.env)) }

// Property knows none.
func (d *database) Property(string) (string, bool) { return "", false }

func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	m.Debt, m.Stall = 0, 0
	m.DiskSize, m.Tables = settings.DirSize(d.dir, filepath.Ext(file))
	return m
}
