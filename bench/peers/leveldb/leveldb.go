//go:build cgo && leveldb

// Package leveldb is the benchmark's driver for LevelDB, through its C
// interface.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package leveldb

/*
#cgo LDFLAGS: -lleveldb
#cgo noescape kv_get
#cgo nocallback kv_get
#cgo noescape kv_put
#cgo nocallback kv_put
#cgo noescape kv_delete
#cgo nocallback kv_delete
#cgo noescape kv_write
#cgo nocallback kv_write
#cgo noescape kv_fetch
#cgo nocallback kv_fetch
#cgo noescape kv_multi_get
#cgo nocallback kv_multi_get
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/loamdb/loam/bench/peers/crun"
	"github.com/loamdb/loam/bench/peers/settings"
	"github.com/loamdb/loam/internal/workload/store"
)

var table = settings.New([]string{"none", "snappy"},
	"write_buffer_size", "4MiB", "cache_size", "8MiB", "block_size", "4096",
	"block_restart_interval", "16", "max_file_size", "2MiB", "max_open_files", "1000",
	"compression", "snappy", "bloom_bits", "0")

// Driver opens LevelDB databases.
type Driver struct{}

func (Driver) Name() string                     { return "leveldb" }
func (Driver) Title() string                    { return "LevelDB" }
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Version is that of the library loaded.
func (Driver) Version() string {
	return fmt.Sprintf("%d.%d", C.leveldb_major_version(), C.leveldb_minor_version())
}

// Notes tells what the figures depend on.
func (Driver) Notes() []string {
	return []string{"through cgo: about 40 ns a call; scans cross the boundary 16 entries at a " +
		"time, long ones 128; checksums verified"}
}

func bytesOf(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

// failure takes over a message; nil is none.
func failure(msg *C.char) error {
	if msg == nil {
		return nil
	}
	defer C.leveldb_free(unsafe.Pointer(msg))
	return errors.New(C.GoString(msg))
}

// Open verifies the checksums of blocks on every read from a file.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	v, err := table.Read(c.Settings)
	if err != nil {
		return nil, err
	}
	d := &database{dir: dir, options: C.leveldb_options_create()}
	o := d.options
	if !c.MustExist {
		C.leveldb_options_set_create_if_missing(o, 1)
	}
	C.leveldb_options_set_write_buffer_size(o, C.size_t(v.Number("write_buffer_size")))
	C.leveldb_options_set_max_open_files(o, C.int(v.Int("max_open_files")))
	C.leveldb_options_set_block_size(o, C.size_t(v.Number("block_size")))
	C.leveldb_options_set_block_restart_interval(o, C.int(v.Int("block_restart_interval")))
	C.leveldb_options_set_max_file_size(o, C.size_t(v.Number("max_file_size")))
	compression := C.int(C.leveldb_snappy_compression)
	if v["compression"] == "none" {
		compression = C.leveldb_no_compression
	}
	C.leveldb_options_set_compression(o, compression)
	d.cache = C.leveldb_cache_create_lru(C.size_t(v.Number("cache_size")))
	C.leveldb_options_set_cache(o, d.cache)
	if bits := v.Int("bloom_bits"); bits > 0 {
		d.filter = C.leveldb_filterpolicy_create_bloom(C.int(bits))
		C.leveldb_options_set_filter_policy(o, d.filter)
	}
	name := C.CString(dir)
	defer C.free(unsafe.Pointer(name))
	var msg *C.char
	d.db = C.leveldb_open(o, name, &msg)
	if err := failure(msg); err != nil {
		d.release()
		return nil, err
	}
	d.ro = readOptions(nil)
	d.wo[0], d.wo[1] = C.leveldb_writeoptions_create(), C.leveldb_writeoptions_create()
	C.leveldb_writeoptions_set_sync(d.wo[1], 1)
	return d, nil
}

func readOptions(s *C.leveldb_snapshot_t) *C.leveldb_readoptions_t {
	ro := C.leveldb_readoptions_create()
	C.leveldb_readoptions_set_verify_checksums(ro, 1)
	if s != nil {
		C.leveldb_readoptions_set_snapshot(ro, s)
	}
	return ro
}

type reader struct {
	db *C.leveldb_t
	ro *C.leveldb_readoptions_t
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	k, kn := bytesOf(key)
	free := dst[len(dst):cap(dst)]
	p, room := bytesOf(free)
	g := C.kv_get(r.db, r.ro, k, kn, p, room)
	switch {
	case g.err != nil:
		return dst, false, failure(g.err)
	case g.n < 0:
		return dst, false, nil
	case g.big != nil:
		dst = append(dst, unsafe.Slice((*byte)(unsafe.Pointer(g.big)), int(g.n))...)
		C.leveldb_free(unsafe.Pointer(g.big))
		return dst, true, nil
	}
	return dst[:len(dst)+int(g.n)], true, nil
}

func (r *reader) Has(key []byte) (bool, error) {
	_, found, err := r.Get(key, nil)
	return found, err
}

func (*reader) NewValues() store.Values { return new(crun.Answers) }

// MultiGet reads the keys one by one, within one call.
func (r *reader) MultiGet(keys [][]byte, v store.Values) error {
	return crun.MultiGet(keys, v, func(a *crun.Answers) (int, error) {
		p, _ := bytesOf(a.Keys)
		out, room := bytesOf(a.Data)
		m := C.kv_multi_get(r.db, r.ro, p, C.int64_t(len(keys)), out, room,
			(*C.uint64_t)(unsafe.SliceData(a.Ends)), (*C.uint8_t)(unsafe.SliceData(a.Found)))
		return int(m.need), failure(m.err)
	})
}

func (r *reader) NewIterator() (store.Iterator, error) {
	return crun.NewCursor(iterator{C.leveldb_create_iterator(r.db, r.ro)}), nil
}

type iterator struct{ it *C.leveldb_iterator_t }

func (i iterator) Fetch(op crun.Op, key []byte, backward bool, limit int,
	buf []byte) (n, used, need int) {
	k, kn := bytesOf(key)
	p, room := bytesOf(buf)
	back := C.int(0)
	if backward {
		back = 1
	}
	r := C.kv_fetch(i.it, C.int(op), k, kn, back, C.int64_t(limit), p, room)
	return int(r.n), int(r.used), int(r.need)
}

func (i iterator) Err() error {
	var msg *C.char
	C.leveldb_iter_get_error(i.it, &msg)
	return failure(msg)
}

func (i iterator) Close() error {
	C.leveldb_iter_destroy(i.it)
	return nil
}

type database struct {
	reader
	dir     string
	options *C.leveldb_options_t
	cache   *C.leveldb_cache_t
	filter  *C.leveldb_filterpolicy_t
	wo      [2]*C.leveldb_writeoptions_t // without and with sync
}

func (d *database) release() {
	C.leveldb_options_destroy(d.options)
	C.leveldb_cache_destroy(d.cache)
	if d.filter != nil {
		C.leveldb_filterpolicy_destroy(d.filter)
	}
}

func (d *database) mode(sync bool) *C.leveldb_writeoptions_t {
	if sync {
		return d.wo[1]
	}
	return d.wo[0]
}

func (d *database) Put(key, value []byte, sync bool) error {
	k, kn := bytesOf(key)
	v, vn := bytesOf(value)
	return failure(C.kv_put(d.db, d.mode(sync), k, kn, v, vn))
}

func (d *database) Delete(key []byte, sync bool) error {
	k, kn := bytesOf(key)
	return failure(C.kv_delete(d.db, d.mode(sync), k, kn))
}

// batch is packed here and made the engine's own when it is written.
type batch struct {
	crun.Batch
	own *C.leveldb_writebatch_t
}

func (d *database) NewBatch() store.Batch {
	b := &batch{own: C.leveldb_writebatch_create()}
	runtime.AddCleanup(b, func(own *C.leveldb_writebatch_t) {
		C.leveldb_writebatch_destroy(own)
	}, b.own)
	return b
}

func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	p, _ := bytesOf(own.Data)
	err := failure(C.kv_write(d.db, d.mode(sync), own.own, p, C.int64_t(own.N)))
	runtime.KeepAlive(own)
	return err
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s := C.leveldb_create_snapshot(d.db)
	return &snapshot{reader{d.db, readOptions(s)}, s}, nil
}

type snapshot struct {
	reader
	s *C.leveldb_snapshot_t
}

func (s *snapshot) Close() error {
	C.leveldb_readoptions_destroy(s.ro)
	C.leveldb_release_snapshot(s.db, s.s)
	return nil
}

// Flush goes through a compaction of the range of one key that no benchmark writes: it writes the
// memtable first, and then finds nothing to compact.
func (d *database) Flush() error {
	k, kn := bytesOf([]byte{0})
	C.leveldb_compact_range(d.db, k, kn, k, kn)
	return nil
}

func (d *database) Compact() error {
	C.leveldb_compact_range(d.db, nil, 0, nil, 0)
	return nil
}

func (d *database) Close() error {
	C.leveldb_close(d.db)
	C.leveldb_readoptions_destroy(d.ro)
	C.leveldb_writeoptions_destroy(d.wo[0])
	C.leveldb_writeoptions_destroy(d.wo[1])
	d.release()
	return nil
}

func (d *database) Property(name string) (string, bool) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	v := C.leveldb_property_value(d.db, n)
	if v == nil {
		return "", false
	}
	defer C.leveldb_free(unsafe.Pointer(v))
	return C.GoString(v), true
}

// Metrics reads the sizes of levels from the engine's table, which is in
// megabytes.
func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	m.DiskSize, m.Tables = settings.DirSize(d.dir, ".ldb", ".sst")
	text, ok := d.Property("leveldb.stats")
	if !ok {
		return m
	}
	m.Levels = make([]int64, 7)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		level, err := strconv.Atoi(f[0])
		size, serr := strconv.ParseFloat(f[2], 64)
		if err == nil && serr == nil && level >= 0 && level < len(m.Levels) {
			m.Levels[level] = int64(size * (1 << 20))
		}
	}
	return m
}
