// Package badger is the benchmark's driver for Badger.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package badger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/loamdb/loam/bench/peers/settings"
	"github.com/loamdb/loam/internal/workload/store"
)

var table = settings.New([]string{"none", "snappy", "zstd"},
	"write_buffer_size", "64MiB", "cache_size", "256MiB", "block_size", "4096",
	"max_file_size", "2MiB", "max_background_jobs", "4", "compression", "snappy",
	"large_value", "0", "encryption", "none")

var codecs = map[string]options.CompressionType{"none": options.None, "snappy": options.Snappy,
	"zstd": options.ZSTD}

// Driver opens Badger databases.
type Driver struct{}

func (Driver) Name() string  { return "badger" }
func (Driver) Title() string { return "Badger" }
func (Driver) Version() string {
	return settings.ModuleVersion("github.com/dgraph-io/badger/v4")
}
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Notes tells what the figures depend on.
func (Driver) Notes() []string {
	return []string{"logs are mapped files, which the count of bytes written misses; filters of " +
		"1 % are always on; indexes are cached in half the size of the block cache besides; " +
		"conflict detection on for transactions only; encryption is AES-CTR without tags; with " +
		"large_value its value log has files of 64 MiB, which are looked at every second and " +
		"collected when half of one is garbage; without, values of 1 MiB are there all the same"}
}

// Open checks blocks as they are read, like the other engines.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	v, err := table.Read(c.Settings)
	if err != nil {
		return nil, err
	}
	if c.MustExist {
		if _, err := os.Stat(filepath.Join(dir, "MANIFEST")); err != nil {
			return nil, err
		}
	}
	cache := v.Number("cache_size")
	o := badger.DefaultOptions(dir).
		WithLogger(nil).
		WithMetricsEnabled(false).
		WithMemTableSize(v.Number("write_buffer_size")).
		WithBlockCacheSize(cache).
		WithIndexCacheSize(cache / 2).
		WithBlockSize(v.Int("block_size")).
		WithBaseTableSize(v.Number("max_file_size")).
		WithNumCompactors(max(v.Int("max_background_jobs"), 2)).
		WithCompression(codecs[v["compression"]]).
		WithBloomFalsePositive(0.01).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithEncryptionKey(v.Key()).
		WithDetectConflicts(c.Transactions)
	if cache == 0 && v["compression"] != "none" {
		o = o.WithBlockCacheSize(1 << 20) // it refuses compression without a cache
	}
	large := v.Number("large_value")
	if large > 0 {
		o = o.WithValueThreshold(large).WithValueLogFileSize(64 << 20)
	}
	db, err := badger.Open(o)
	if err != nil {
		return nil, err
	}
	d := database{db, o, make(chan struct{}), make(chan struct{})}
	go d.collect(large > 0)
	if c.Transactions && !c.Locks {
		return &transactional{d}, nil
	}
	return &d, nil
}

// collect collects the garbage of the value log, if it is to, which the engine leaves to its users,
// until the database is closed.
func (d *database) collect(large bool) {
	defer close(d.collected)
	if !large {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-d.closing:
			return
		case <-tick.C:
		}
		for d.db.RunValueLogGC(0.5) == nil { // until there is nothing to collect
		}
	}
}

// transactional is a database whose transactions find conflicts.
type transactional struct{ database }

func (d *transactional) Begin(store.Txn) (store.Txn, error) {
	return update{transaction{d.db.NewTransaction(true)}, d.db}, nil
}

// update is a transaction that writes. All its reads are for update: it is serializable.
type update struct {
	transaction
	db *badger.DB
}

func (u update) GetForUpdate(key, dst []byte) ([]byte, bool, error) { return u.Get(key, dst) }

// Put copies: the engine's transaction keeps its arguments.
func (u update) Put(key, value []byte) error {
	return u.tx.Set(bytes.Clone(key), append([]byte{}, value...))
}

// Delete copies, too.
func (u update) Delete(key []byte) error { return u.tx.Delete(bytes.Clone(key)) }

func (u update) Commit(sync bool) error {
	err := u.tx.Commit()
	if errors.Is(err, badger.ErrConflict) {
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	if err == nil && sync {
		err = u.db.Sync()
	}
	return err
}

func (u update) Rollback() error {
	u.tx.Discard()
	return nil
}

type database struct {
	db      *badger.DB
	options badger.Options
	// of collect
	closing, collected chan struct{}
}

func (d *database) snapshot() transaction { return transaction{d.db.NewTransaction(false)} }

func (d *database) Get(key, dst []byte) ([]byte, bool, error) {
	s := d.snapshot()
	defer s.tx.Discard()
	return s.Get(key, dst)
}

func (d *database) Has(key []byte) (bool, error) {
	s := d.snapshot()
	defer s.tx.Discard()
	return s.Has(key)
}

func (*database) NewValues() store.Values { return new(settings.Answers) }

func (d *database) MultiGet(keys [][]byte, v store.Values) error {
	s := d.snapshot()
	defer s.tx.Discard()
	return s.MultiGet(keys, v)
}

func (d *database) NewIterator() (store.Iterator, error) {
	s := d.snapshot()
	return &cursor{tx: s.tx, end: s.tx.Discard}, nil
}

func (d *database) Snapshot() (store.Snapshot, error) { return d.snapshot(), nil }

// transaction reads in one read transaction.
type transaction struct{ tx *badger.Txn }

func (r transaction) Get(key, dst []byte) ([]byte, bool, error) {
	item, err := r.tx.Get(key)
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			return dst, false, nil
		}
		return dst, false, err
	}
	err = item.Value(func(v []byte) error {
		dst = append(dst, v...)
		return nil
	})
	return dst, err == nil, err
}

func (r transaction) Has(key []byte) (bool, error) {
	_, err := r.tx.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (r transaction) NewValues() store.Values { return new(settings.Answers) }

func (r transaction) MultiGet(keys [][]byte, v store.Values) error {
	a, ok := v.(*settings.Answers)
	if !ok {
		return errors.New("values of another store")
	}
	return a.Fill(keys, r.Get)
}

func (r transaction) NewIterator() (store.Iterator, error) {
	return &cursor{tx: r.tx, end: func() {}}, nil
}

func (r transaction) Close() error {
	r.tx.Discard()
	return nil
}

// cursor has an iterator for each direction: the engine's go one way only.
type cursor struct {
	tx       *badger.Txn
	end      func()
	iter     [2]*badger.Iterator // forward, backward
	backward bool
	value    []byte
	err      error
}

func (c *cursor) use(backward bool) *badger.Iterator {
	c.backward = backward
	i := 0
	if backward {
		i = 1
	}
	if c.iter[i] == nil {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false // values lie beside the keys
		o.Reverse = backward
		c.iter[i] = c.tx.NewIterator(o)
	}
	return c.iter[i]
}

func (c *cursor) First() bool {
	c.use(false).Rewind()
	return c.Valid()
}

func (c *cursor) Last() bool {
	c.use(true).Rewind()
	return c.Valid()
}

func (c *cursor) SeekGE(key []byte) bool {
	c.use(false).Seek(key)
	return c.Valid()
}

// SeekLT: a backward iterator seeks to the last key that is not larger.
func (c *cursor) SeekLT(key []byte) bool {
	it := c.use(true)
	it.Seek(key)
	if it.Valid() && bytes.Equal(it.Item().Key(), key) {
		it.Next()
	}
	return c.Valid()
}

func (c *cursor) Next() bool { return c.step(false) }
func (c *cursor) Prev() bool { return c.step(true) }

func (c *cursor) step(backward bool) bool {
	if c.backward != backward && c.Valid() {
		key := c.current().Item().KeyCopy(nil)
		c.use(backward).Seek(key)
	}
	it := c.use(backward)
	if it.Valid() {
		it.Next()
	}
	return it.Valid()
}

func (c *cursor) current() *badger.Iterator { return c.use(c.backward) }
func (c *cursor) Valid() bool               { return c.current().Valid() }
func (c *cursor) Key() []byte               { return c.current().Item().Key() }

func (c *cursor) Value() []byte {
	err := c.current().Item().Value(func(v []byte) error {
		c.value = v // valid until the iterator moves
		return nil
	})
	if err != nil && c.err == nil {
		c.err = err
	}
	return c.value
}

func (c *cursor) Err() error { return c.err }

func (c *cursor) Close() error {
	for _, it := range c.iter {
		if it != nil {
			it.Close()
		}
	}
	c.end()
	return nil
}

// update commits one transaction, and makes it durable if asked to.
func (d *database) update(sync bool, f func(tx *badger.Txn) error) error {
	tx := d.db.NewTransaction(true)
	defer tx.Discard()
	err := f(tx)
	if err == nil {
		err = tx.Commit()
	}
	if err == nil && sync {
		err = d.db.Sync()
	}
	return err
}

func (d *database) Put(key, value []byte, sync bool) error {
	return d.update(sync, func(tx *badger.Txn) error { return tx.Set(key, value) })
}

func (d *database) Delete(key []byte, sync bool) error {
	return d.update(sync, func(tx *badger.Txn) error { return tx.Delete(key) })
}

// batch keeps copies: a transaction keeps its arguments.
type batch struct{ ops []op }

type op struct {
	key, value []byte
	delete     bool
}

func (b *batch) Put(key, value []byte) {
	b.ops = append(b.ops, op{key: bytes.Clone(key), value: append([]byte{}, value...)})
}

func (b *batch) Delete(key []byte) {
	b.ops = append(b.ops, op{key: bytes.Clone(key), delete: true})
}

func (b *batch) Clear() { b.ops = b.ops[:0] }

func (d *database) NewBatch() store.Batch { return new(batch) }

// Write fails on a batch that is too large for a transaction: split, it would
// not be atomic.
func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	return d.update(sync, func(tx *badger.Txn) error {
		for _, o := range own.ops {
			var err error
			if o.delete {
				err = tx.Delete(o.key)
			} else {
				err = tx.Set(o.key, o.value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Flush: the engine offers none, its memtables are flushed when it is closed.
func (d *database) Flush() error   { return nil }
func (d *database) Compact() error { return d.db.Flatten(2) }

func (d *database) Close() error {
	close(d.closing)
	<-d.collected
	return d.db.Close()
}

func (d *database) Property(name string) (string, bool) {
	if name == "leveldb.stats" {
		return d.db.LevelsToString(), true
	}
	return "", false
}

func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	m.DiskSize, m.Tables = 0, 0
	for _, l := range d.db.Levels() {
		m.DiskSize += l.Size
		m.Tables += int64(l.NumTables)
		m.Levels = append(m.Levels, l.Size)
	}
	return m
}
