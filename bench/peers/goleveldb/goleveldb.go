// Package goleveldb is the benchmark's driver for goleveldb.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package goleveldb

import (
	"errors"
	"fmt"
	"os"

	"github.com/loamdb/loam/bench/peers/settings"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

var table = settings.New([]string{"none", "snappy"},
	"write_buffer_size", "4MiB", "cache_size", "8MiB", "block_size", "4096",
	"block_restart_interval", "16", "max_file_size", "2MiB", "max_open_files", "500", "compression",
	"snappy", "bloom_bits", "0")

// Driver opens goleveldb databases.
type Driver struct{}

func (Driver) Name() string  { return "goleveldb" }
func (Driver) Title() string { return "goleveldb" }
func (Driver) Version() string {
	return settings.ModuleVersion("github.com/syndtr/goleveldb")
}
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Open verifies the checksums of blocks, as the other engines do.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	v, err := table.Read(c.Settings)
	if err != nil {
		return nil, err
	}
	o := &opt.Options{
		WriteBuffer:            v.Int("write_buffer_size"),
		BlockCacheCapacity:     v.Int("cache_size"),
		BlockSize:              v.Int("block_size"),
		BlockRestartInterval:   v.Int("block_restart_interval"),
		CompactionTableSize:    v.Int("max_file_size"),
		OpenFilesCacheCapacity: v.Int("max_open_files"),
		Compression:            opt.SnappyCompression,
		ErrorIfMissing:         c.MustExist,
		Strict:                 opt.DefaultStrict | opt.StrictBlockChecksum,
	}
	if v["compression"] == "none" {
		o.Compression = opt.NoCompression
	}
	if bits := v.Int("bloom_bits"); bits > 0 {
		o.Filter = filter.NewBloomFilter(bits)
	}
	if o.BlockCacheCapacity == 0 {
		o.BlockCacheCapacity = -1 // zero means the default
	}
	db, err := leveldb.OpenFile(dir, o)
	if err != nil {
		return nil, err
	}
	return &database{reader: reader{db}, db: db}, nil
}

// source is what a database and a snapshot have in common.
type source interface {
	Get(key []byte, ro *opt.ReadOptions) ([]byte, error)
	Has(key []byte, ro *opt.ReadOptions) (bool, error)
	NewIterator(slice *util.Range, ro *opt.ReadOptions) iterator.Iterator
}

type reader struct{ s source }

func (r reader) Get(key, dst []byte) ([]byte, bool, error) {
	v, err := r.s.Get(key, nil)
	if err != nil {
		if errors.Is(err, leveldb.ErrNotFound) {
			return dst, false, nil
		}
		return dst, false, err
	}
	return append(dst, v...), true, nil
}

func (r reader) Has(key []byte) (bool, error) { return r.s.Has(key, nil) }
func (reader) NewValues() store.Values        { return new(settings.Answers) }

func (r reader) MultiGet(keys [][]byte, v store.Values) error {
	a, ok := v.(*settings.Answers)
	if !ok {
		return errors.New("values of another store")
	}
	return a.Fill(keys, r.Get)
}

func (r reader) NewIterator() (store.Iterator, error) {
	return cursor{r.s.NewIterator(nil, nil)}, nil
}

type cursor struct{ iterator.Iterator }

func (c cursor) SeekGE(key []byte) bool { return c.Seek(key) }
func (c cursor) Err() error             { return c.Error() }

func (c cursor) SeekLT(key []byte) bool {
	if c.Seek(key) {
		return c.Prev()
	}
	return c.Last()
}

func (c cursor) Close() error {
	c.Release()
	return nil
}

type database struct {
	reader
	db *leveldb.DB
}

var synced = &opt.WriteOptions{Sync: true}

func mode(sync bool) *opt.WriteOptions {
	if sync {
		return synced
	}
	return nil
}

func (d *database) Put(key, value []byte, sync bool) error {
	return d.db.Put(key, value, mode(sync))
}
func (d *database) Delete(key []byte, sync bool) error { return d.db.Delete(key, mode(sync)) }
func (d *database) NewBatch() store.Batch              { return batch{new(leveldb.Batch)} }
func (d *database) Compact() error                     { return d.db.CompactRange(util.Range{}) }
func (d *database) Close() error                       { return d.db.Close() }

// Flush goes through a transaction without writes, which begins when the memtable is in a table. A
// compaction of a range writes the memtable only if there are keys of the range in it.
func (d *database) Flush() error {
	tx, err := d.db.OpenTransaction()
	if err != nil {
		return err
	}
	tx.Discard()
	return nil
}

type batch struct{ *leveldb.Batch }

func (b batch) Clear() { b.Reset() }

func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	return d.db.Write(own.Batch, mode(sync))
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s, err := d.db.GetSnapshot()
	if err != nil {
		return nil, err
	}
	return snapshot{reader{s}, s}, nil
}

type snapshot struct {
	reader
	s *leveldb.Snapshot
}

func (s snapshot) Close() error {
	s.s.Release()
	return nil
}

func (d *database) Property(name string) (string, bool) {
	v, err := d.db.GetProperty(name)
	return v, err == nil
}

func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	var s leveldb.DBStats
	if d.db.Stats(&s) != nil {
		return m
	}
	m.Stall = s.WriteDelayDuration
	m.DiskSize, m.Tables = 0, 0
	for i, n := range s.LevelSizes {
		m.DiskSize += n
		m.Tables += int64(s.LevelTablesCounts[i])
		m.Levels = append(m.Levels, n)
	}
	return m
}
