// Package pebble is the benchmark's driver for Pebble.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/loamdb/loam/bench/peers/settings"
	"github.com/loamdb/loam/internal/workload/store"
)

var table = settings.New([]string{"none", "snappy", "zstd"},
	"write_buffer_size", "4MiB", "cache_size", "8MiB", "block_size", "4096",
	"block_restart_interval", "16", "max_file_size", "2MiB", "max_open_files", "1000",
	"max_background_jobs", "1", "compression", "snappy", "bloom_bits", "0", "large_value", "0")

var profiles = map[string]*sstable.CompressionProfile{
	"none": sstable.NoCompression, "snappy": sstable.SnappyCompression,
	"zstd": sstable.ZstdCompression,
}

// Driver opens Pebble databases.
type Driver struct{}

func (Driver) Name() string  { return "pebble" }
func (Driver) Title() string { return "Pebble" }
func (Driver) Version() string {
	return settings.ModuleVersion("github.com/cockroachdb/pebble/v2")
}
func (Driver) Durability() store.Durability     { return store.InProcess }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Notes tells what the figures depend on.
func (Driver) Notes() []string {
	n := []string{"newest format (columnar blocks), filters on all levels, 4 memtables; with " +
		"large_value blob files, rewritten at once when a fifth of them is garbage"}
	if !cgo {
		n = append(n, "built without cgo: its cache lies on the Go heap")
	}
	return n
}

// quiet drops the engine's messages.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// Open makes the newest format, with every level set alike.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	v, err := table.Read(c.Settings)
	if err != nil {
		return nil, err
	}
	d := new(database)
	cache := pebble.NewCache(v.Number("cache_size"))
	defer cache.Unref()
	jobs := max(v.Int("max_background_jobs"), 1)
	o := &pebble.Options{
		Cache:                       cache,
		MemTableSize:                uint64(v.Number("write_buffer_size")),
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                v.Int("max_open_files"),
		FormatMajorVersion:          pebble.FormatNewest,
		ErrorIfNotExists:            c.MustExist,
		Logger:                      quiet{},
		CompactionConcurrencyRange:  func() (int, int) { return 1, jobs },
		EventListener: &pebble.EventListener{
			WriteStallBegin: func(pebble.WriteStallBeginInfo) {
				d.stallBegin.Store(int64(time.Since(epoch)))
			},
			WriteStallEnd: func() { d.stalled.Add(int64(time.Since(epoch)) - d.stallBegin.Load()) },
		},
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = v.Int("block_size")
		l.BlockRestartInterval = v.Int("block_restart_interval")
		l.Compression = func() *sstable.CompressionProfile { return profiles[v["compression"]] }
		if bits := v.Int("bloom_bits"); bits > 0 {
			l.FilterPolicy = bloom.FilterPolicy(bits)
		}
	}
	if n := v.Int("large_value"); n > 0 {
		policy := pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: n,
			MaxBlobReferenceDepth: 10, TargetGarbageRatio: 0.2}
		o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
			return policy
		}
	}
	o.TargetFileSizes[0] = v.Number("max_file_size")
	if c.Counters {
		o.Merger = adder
	}
	if d.db, err = pebble.Open(dir, o); err != nil {
		return nil, err
	}
	d.reader, d.options = reader{d.db}, o
	return d, nil
}

var epoch = time.Now()

type reader struct{ r pebble.Reader }

func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	v, closer, err := r.r.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return dst, false, nil
		}
		return dst, false, err
	}
	dst = append(dst, v...)
	return dst, true, closer.Close()
}

// pinned is a value until its closer is called.
type pinned struct {
	v      []byte
	closer io.Closer
}

func (p *pinned) Bytes() []byte { return p.v }
func (p *pinned) Close()        { p.Release() }

func (p *pinned) Release() {
	if p.closer != nil {
		_ = p.closer.Close()
	}
	p.v, p.closer = nil, nil
}

func (d *database) NewPinned() store.Pinned { return new(pinned) }

// GetPinned is Pebble's Get.
func (d *database) GetPinned(key []byte, v store.Pinned) (bool, error) {
	p, ok := v.(*pinned)
	if !ok {
		return false, errors.New("value of another store")
	}
	p.Release()
	var err error
	if p.v, p.closer, err = d.db.Get(key); errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (r reader) Has(key []byte) (bool, error) {
	_, found, err := r.Get(key, nil)
	return found, err
}

func (reader) NewValues() store.Values { return new(settings.Answers) }

func (r reader) MultiGet(keys [][]byte, v store.Values) error {
	a, ok := v.(*settings.Answers)
	if !ok {
		return errors.New("values of another store")
	}
	return a.Fill(keys, r.Get)
}

func (r reader) NewIterator() (store.Iterator, error) {
	it, err := r.r.NewIter(nil)
	if err != nil {
		return nil, err
	}
	return cursor{it}, nil
}

type cursor struct{ *pebble.Iterator }

func (c cursor) Err() error { return c.Error() }

type database struct {
	reader
	db         *pebble.DB
	options    *pebble.Options
	stallBegin atomic.Int64
	stalled    atomic.Int64 // nanoseconds
}

func mode(sync bool) *pebble.WriteOptions {
	if sync {
		return pebble.Sync
	}
	return pebble.NoSync
}

// adder is the merge operator that adds numbers of 64 bits, little-endian.
var adder = &pebble.Merger{
	Name: "kvbench.uint64add",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		s := new(sum)
		return s, s.MergeNewer(value)
	},
}

type sum struct{ n uint64 }

func (s *sum) MergeNewer(value []byte) error {
	if len(value) != 8 {
		return fmt.Errorf("a counter of %d bytes", len(value))
	}
	s.n += binary.LittleEndian.Uint64(value)
	return nil
}

func (s *sum) MergeOlder(value []byte) error { return s.MergeNewer(value) }

func (s *sum) Finish(bool) ([]byte, io.Closer, error) {
	return binary.LittleEndian.AppendUint64(nil, s.n), nil, nil
}

// Add fails in a database that was not opened for counters.
func (d *database) Add(key []byte, n uint64, sync bool) error {
	var operand [8]byte
	binary.LittleEndian.PutUint64(operand[:], n)
	return d.db.Merge(key, operand[:], mode(sync))
}

func (d *database) DeleteRange(start, limit []byte, sync bool) error {
	return d.db.DeleteRange(start, limit, mode(sync))
}

func (d *database) Put(key, value []byte, sync bool) error {
	return d.db.Set(key, value, mode(sync))
}
func (d *database) Delete(key []byte, sync bool) error { return d.db.Delete(key, mode(sync)) }
func (d *database) NewBatch() store.Batch              { return &batch{d.db.NewBatch()} }
func (d *database) Flush() error                       { return d.db.Flush() }
func (d *database) Close() error                       { return d.db.Close() }

// Compact covers all keys that benchmarks write: they are ASCII.
func (d *database) Compact() error {
	return d.db.Compact(context.Background(), []byte{0}, []byte{0xff, 0xff}, true)
}

type batch struct{ b *pebble.Batch }

// The errors of these are impossible on a batch that is not closed.
func (b *batch) Put(key, value []byte) { _ = b.b.Set(key, value, nil) }
func (b *batch) Delete(key []byte)     { _ = b.b.Delete(key, nil) }
func (b *batch) Clear()                { b.b.Reset() }

// Write leaves a batch that was applied to Clear: one may be committed once.
func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	return d.db.Apply(own.b, mode(sync))
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s := d.db.NewSnapshot()
	return snapshot{reader{s}, s}, nil
}

type snapshot struct {
	reader
	s *pebble.Snapshot
}

func (s snapshot) Close() error { return s.s.Close() }

func (d *database) Property(name string) (string, bool) {
	if name == "leveldb.stats" {
		return d.db.Metrics().String(), true
	}
	return "", false
}

func (d *database) Metrics() store.Metrics {
	p := d.db.Metrics()
	m := store.Metrics{
		WALBytes:    int64(p.WAL.BytesWritten),
		Stall:       time.Duration(d.stalled.Load()),
		CacheHits:   p.BlockCache.Hits,
		CacheMisses: p.BlockCache.Misses,
		Debt:        int64(p.Compact.EstimatedDebt),
		DiskSize:    int64(p.BlobFiles.LiveSize),
	}
	for i := range p.Levels {
		l := &p.Levels[i]
		m.FlushBytes += int64(l.TableBytesFlushed + l.BlobBytesFlushed)
		m.CompactionBytes += int64(l.TableBytesCompacted + l.BlobBytesCompacted)
		m.DiskSize += l.TablesSize
		m.Tables += l.TablesCount
		m.Levels = append(m.Levels, l.TablesSize)
	}
	return m
}
