//go:build cgo && rocksdb

// Package rocksdb is the benchmark's driver for RocksDB, through its C
// interface.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package rocksdb

/*
#cgo LDFLAGS: -lrocksdb -ldl
#cgo noescape kv_get
#cgo nocallback kv_get
#cgo noescape kv_put
#cgo nocallback kv_put
#cgo noescape kv_delete
#cgo nocallback kv_delete
#cgo noescape kv_write
#cgo nocallback kv_write
#cgo noescape kv_delete_range
#cgo nocallback kv_delete_range
#cgo noescape kv_add
#cgo nocallback kv_add
#cgo noescape kv_fetch
#cgo nocallback kv_fetch
#cgo noescape kv_multi_get
#cgo nocallback kv_multi_get
#include "shim.h"

const char* kv_version(void); // version.cc
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

var table = settings.New([]string{"none", "snappy", "zstd", "lz4"},
	"write_buffer_size", "64MiB", "cache_size", "32MiB", "block_size", "4096",
	"block_restart_interval", "16", "max_file_size", "64MiB", "max_open_files", "1000000",
	"max_background_jobs", "2", "compression", "snappy", "bloom_bits", "0", "prefix_length", "0",
	"compaction_direct_io", "0", "deletion_window", "0", "large_value", "0")

var codecs = map[string]C.int{
	"none": C.rocksdb_no_compression, "snappy": C.rocksdb_snappy_compression,
	"zstd": C.rocksdb_zstd_compression, "lz4": C.rocksdb_lz4_compression,
}

// Driver opens RocksDB databases.
type Driver struct{}

func (Driver) Name() string                     { return "rocksdb" }
func (Driver) Title() string                    { return "RocksDB" }
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Version is that of the library loaded.
func (Driver) Version() string { return C.GoString(C.kv_version()) }

// Notes tells what the figures depend on, the library's build among it.
func (Driver) Notes() []string {
	n := []string{"through cgo: about 40 ns a call; scans cross the boundary 16 entries at a " +
		"time, long ones 128; 2 memtables; transactions without a snapshot, as is its default, " +
		"their objects used again; with large_value blob files, not compressed and collected, as " +
		"are their defaults"}
	if C.kv_locks() == 0 {
		n = append(n, "no locks: this library gives C no way to the database below its "+
			"TransactionDB")
	}
	if C.kv_clock() == 0 {
		n = append(n, "LRU cache: this library offers no HyperClock cache to C")
	}
	return append(n, library()...)
}

func bytesOf(b []byte) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b))
}

// failure takes over a message; nil is none.
func failure(msg *C.char) error {
	if msg == nil {
		return nil
	}
	defer C.rocksdb_free(unsafe.Pointer(msg))
	return errors.New(C.GoString(msg))
}

// configure makes the options of a database; share, unless nil, has its cache.
func configure(dir string, c store.Config, share *share) (*database, error) {
	v, err := table.Read(c.Settings)
	if err != nil {
		return nil, err
	}
	d := &database{dir: dir, options: C.rocksdb_options_create(),
		table: C.rocksdb_block_based_options_create()}
	if c.Counters {
		C.rocksdb_options_set_uint64add_merge_operator(d.options)
	}
	o, t := d.options, d.table
	if !c.MustExist {
		C.rocksdb_options_set_create_if_missing(o, 1)
	}
	C.rocksdb_options_set_write_buffer_size(o, C.size_t(v.Number("write_buffer_size")))
	C.rocksdb_options_set_max_write_buffer_number(o, 2)
	C.rocksdb_options_set_max_open_files(o, C.int(v.Int("max_open_files")))
	C.rocksdb_options_set_max_background_jobs(o, C.int(v.Int("max_background_jobs")))
	C.rocksdb_options_set_target_file_size_base(o, C.uint64_t(v.Number("max_file_size")))
	C.rocksdb_options_set_compression(o, codecs[v["compression"]])
	C.rocksdb_block_based_options_set_block_size(t, C.size_t(v.Number("block_size")))
	C.rocksdb_block_based_options_set_block_restart_interval(t,
		C.int(v.Int("block_restart_interval")))
	if share != nil {
		share.join(d)
	} else {
		d.cache = C.kv_cache(C.size_t(v.Number("cache_size")))
	}
	C.rocksdb_block_based_options_set_block_cache(t, d.cache)
	if bits := v.Int("bloom_bits"); bits > 0 { // the table takes the filter over
		C.rocksdb_block_based_options_set_filter_policy(t,
			C.rocksdb_filterpolicy_create_bloom_full(C.double(bits)))
	}
	if n := v.Int("prefix_length"); n > 0 { // the options take the extractor over
		C.rocksdb_options_set_prefix_extractor(o,
			C.rocksdb_slicetransform_create_fixed_prefix(C.size_t(n)))
	}
	if v.Int("compaction_direct_io") > 0 {
		C.rocksdb_options_set_use_direct_io_for_flush_and_compaction(o, 1)
	}
	if n := v.Int("deletion_window"); n > 0 {
		C.rocksdb_options_add_compact_on_deletion_collector_factory(o, C.size_t(n),
			C.size_t((n+1)/2))
	}
	if n := v.Number("large_value"); n > 0 {
		C.rocksdb_options_set_enable_blob_files(o, 1)
		C.rocksdb_options_set_min_blob_size(o, C.uint64_t(n))
		C.rocksdb_options_set_enable_blob_gc(o, 1)
	}
	if c.Changes { // logs are kept for a day
		C.rocksdb_options_set_WAL_ttl_seconds(o, 24*3600)
	}
	C.rocksdb_options_set_block_based_table_factory(o, t)
	d.txns.init()
	return d, nil
}

// Open verifies the checksums of blocks on every read from a file.
func (Driver) Open(dir string, c store.Config) (store.Store, error) { return open(dir, c, nil) }

func open(dir string, c store.Config, share *share) (store.Store, error) {
	d, err := configure(dir, c, share)
	if err != nil {
		return nil, err
	}
	if err := d.open(dir, c.Needs); err != nil {
		d.release()
		return nil, err
	}
	noteLog(dir)
	d.ro, d.prefix = readOptions(nil), readOptions(nil)
	C.rocksdb_readoptions_set_total_order_seek(d.prefix, 0)
	C.rocksdb_readoptions_set_prefix_same_as_start(d.prefix, 1)
	d.wo[0], d.wo[1] = C.rocksdb_writeoptions_create(), C.rocksdb_writeoptions_create()
	C.rocksdb_writeoptions_set_sync(d.wo[1], 1)
	if d.txns.locking != nil || d.txns.optimistic != nil {
		return transactional{d}, nil
	}
	return d, nil
}

func readOptions(s *C.rocksdb_snapshot_t) *C.rocksdb_readoptions_t {
	ro := C.rocksdb_readoptions_create()
	C.rocksdb_readoptions_set_verify_checksums(ro, 1)
	C.rocksdb_readoptions_set_total_order_seek(ro, 1) // whatever prefixes filters hold
	if s != nil {
		C.rocksdb_readoptions_set_snapshot(ro, s)
	}
	return ro
}

type reader struct {
	db *C.rocksdb_t
	cf *C.rocksdb_column_family_handle_t
	ro *C.rocksdb_readoptions_t
}

func (r *reader) Get(key, dst []byte) ([]byte, bool, error) {
	k, kn := bytesOf(key)
	free := dst[len(dst):cap(dst)]
	p, room := bytesOf(free)
	g := C.kv_get(r.db, r.ro, k, kn, p, room)
	if g.err != nil {
		return dst, false, failure(g.err)
	}
	dst, found := answer(g, dst)
	return dst, found, nil
}

// answer appends what was got to dst, where it stands already if there was room.
func answer(g C.got, dst []byte) ([]byte, bool) {
	switch {
	case g.n < 0:
		return dst, false
	case g.big != nil:
		dst = append(dst, unsafe.Slice((*byte)(unsafe.Pointer(g.big)), int(g.n))...)
		C.rocksdb_free(unsafe.Pointer(g.big))
		return dst, true
	}
	return dst[:len(dst)+int(g.n)], true
}

func (r *reader) Has(key []byte) (bool, error) {
	_, found, err := r.Get(key, nil)
	return found, err
}

func (*reader) NewValues() store.Values { return new(crun.Answers) }

// MultiGet is one call of the engine's own.
func (r *reader) MultiGet(keys [][]byte, v store.Values) error {
	return crun.MultiGet(keys, v, func(a *crun.Answers) (int, error) {
		p, _ := bytesOf(a.Keys)
		out, room := bytesOf(a.Data)
		m := C.kv_multi_get(r.db, r.cf, r.ro, p, C.int64_t(len(keys)), out, room,
			(*C.uint64_t)(unsafe.SliceData(a.Ends)), (*C.uint8_t)(unsafe.SliceData(a.Found)))
		return int(m.need), failure(m.err)
	})
}

func (r *reader) NewIterator() (store.Iterator, error) {
	return crun.NewCursor(iterator{C.rocksdb_create_iterator(r.db, r.ro)}), nil
}

// NewPrefixIterator goes by prefix_length: the scan begins with the prefix.
func (d *database) NewPrefixIterator([]byte) (store.Iterator, error) {
	return crun.NewCursor(iterator{C.rocksdb_create_iterator(d.db, d.prefix)}), nil
}

type iterator struct{ it *C.rocksdb_iterator_t }

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
	C.rocksdb_iter_get_error(i.it, &msg)
	return failure(msg)
}

func (i iterator) Close() error {
	C.rocksdb_iter_destroy(i.it)
	return nil
}

type database struct {
	reader
	dir     string
	prefix  *C.rocksdb_readoptions_t // of scans within a prefix
	options *C.rocksdb_options_t
	table   *C.rocksdb_block_based_table_options_t
	cache   *C.rocksdb_cache_t
	share   *share                       // whose the cache is; nil: its own
	wo      [2]*C.rocksdb_writeoptions_t // without and with sync
	handles []*C.rocksdb_column_family_handle_t
	names   []string                            // of handles; the first is "default"
	spaces  []*C.rocksdb_column_family_handle_t // of OpenKeyspaces
	txns    transactions
}

func (d *database) release() {
	d.txns.release()
	C.rocksdb_options_destroy(d.options)
	C.rocksdb_block_based_options_destroy(d.table)
	if d.share != nil {
		d.share.leave()
		return
	}
	C.rocksdb_cache_destroy(d.cache)
}

func (d *database) mode(sync bool) *C.rocksdb_writeoptions_t {
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
	own *C.rocksdb_writebatch_t
}

func (d *database) NewBatch() store.Batch {
	b := &batch{own: C.rocksdb_writebatch_create()}
	runtime.AddCleanup(b, func(own *C.rocksdb_writebatch_t) {
		C.rocksdb_writebatch_destroy(own)
	}, b.own)
	return b
}

func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	p, _ := bytesOf(own.Data)
	err := failure(C.kv_write(d.db, d.mode(sync), own.own, unsafe.SliceData(d.spaces), p,
		C.int64_t(own.N)))
	runtime.KeepAlive(own)
	return err
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s := C.rocksdb_create_snapshot(d.db)
	return &snapshot{reader{d.db, d.cf, readOptions(s)}, s}, nil
}

type snapshot struct {
	reader
	s *C.rocksdb_snapshot_t
}

func (s *snapshot) Close() error {
	C.rocksdb_readoptions_destroy(s.ro)
	C.rocksdb_release_snapshot(s.db, s.s)
	return nil
}

// Flush waits until the memtable is in a table.
func (d *database) Flush() error {
	o := C.rocksdb_flushoptions_create()
	defer C.rocksdb_flushoptions_destroy(o)
	C.rocksdb_flushoptions_set_wait(o, 1)
	var msg *C.char
	C.rocksdb_flush(d.db, o, &msg)
	return failure(msg)
}

func (d *database) Compact() error {
	C.rocksdb_compact_range(d.db, nil, 0, nil, 0)
	return nil
}

func (d *database) Close() error {
	d.txns.end()
	for _, h := range d.handles {
		C.rocksdb_column_family_handle_destroy(h)
	}
	d.close()
	C.rocksdb_readoptions_destroy(d.ro)
	C.rocksdb_readoptions_destroy(d.prefix)
	C.rocksdb_writeoptions_destroy(d.wo[0])
	C.rocksdb_writeoptions_destroy(d.wo[1])
	d.release()
	return nil
}

func (d *database) Property(name string) (string, bool) {
	n := C.CString("rocksdb." + strings.TrimPrefix(name, "leveldb."))
	defer C.free(unsafe.Pointer(n))
	v := C.rocksdb_property_value(d.db, n)
	if v == nil {
		return "", false
	}
	defer C.rocksdb_free(unsafe.Pointer(v))
	return C.GoString(v), true
}

func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	number := func(text string, ok bool) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !ok {
			return store.Unknown
		}
		return n
	}
	m.Debt = number(d.Property("leveldb.estimate-pending-compaction-bytes"))
	m.DiskSize, m.Tables = settings.DirSize(d.dir, ".sst", ".blob")
	m.Levels = levels(d.Property("leveldb.levelstats"))
	return m
}

// levels reads the property of three columns: level, files and megabytes.
func levels(text string, ok bool) []int64 {
	if !ok {
		return nil
	}
	var all []int64
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != strconv.Itoa(len(all)) {
			continue
		}
		if size, err := strconv.ParseFloat(f[2], 64); err == nil {
			all = append(all, int64(size*(1<<20)))
		}
	}
	return all
}
