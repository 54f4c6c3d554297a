// Package bbolt is the benchmark's driver for bbolt.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package bbolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/bench/peers/settings"
	"github.com/loamdb/loam/internal/workload/store"
	"go.etcd.io/bbolt"
)

// The engine reads through the page cache and has nothing to set.
var table = settings.New([]string{"none"}, "compression", "none")

const file = "data.bolt"

var bucket = []byte("b")

// mapped is how much address space the file gets: while it is enough, a writer
// does not wait for readers to let go of the mapping.
const mapped = 64 << 30

// Driver opens bbolt databases.
type Driver struct{}

func (Driver) Name() string  { return "bbolt" }
func (Driver) Title() string { return "bbolt" }
func (Driver) Version() string {
	return settings.ModuleVersion("go.etcd.io/bbolt")
}
func (Driver) Durability() store.Durability     { return store.SurvivesKill }
func (Driver) Options() []store.Option          { return table.Options() }
func (Driver) Check(s store.Setting) error      { return table.Check(s) }
func (Driver) Destroy(dir string) error         { return os.RemoveAll(dir) }
func (Driver) Codec(string) (store.Codec, bool) { return store.Codec{}, false }

// Notes tells what the figures depend on.
func (Driver) Notes() []string {
	return []string{"NoSync, map freelist written at close only; no compression, no filter, the " +
		"page cache is its cache; batches are its fair write row"}
}

// Open turns syncing off: a write that asks for it calls Sync.
func (Driver) Open(dir string, c store.Config) (store.Store, error) {
	if _, err := table.Read(c.Settings); err != nil {
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
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{
		NoSync: true, NoGrowSync: true, NoFreelistSync: true,
		FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapped,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &database{db: db}, nil
}

type database struct {
	db     *bbolt.DB
	spaces [][]byte // buckets of OpenKeyspaces
}

// OpenKeyspaces makes a bucket of each.
func (d *database) OpenKeyspaces(n int) error {
	d.spaces = nil
	return d.db.Update(func(tx *bbolt.Tx) error {
		for i := range n {
			name := fmt.Appendf(nil, "keyspace%d", i)
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
			d.spaces = append(d.spaces, name)
		}
		return nil
	})
}

func (d *database) PutIn(b store.Batch, keyspace int, key, value []byte) {
	own := b.(*batch)
	own.Put(key, value)
	own.ops[len(own.ops)-1].in = d.spaces[keyspace]
}

// Begin waits for the end of all other writes: there is one writer at a time.
func (d *database) Begin(store.Txn) (store.Txn, error) {
	tx, err := d.db.Begin(true)
	if err != nil {
		return nil, err
	}
	return update{transaction{tx, tx.Bucket(bucket)}, d.db}, nil
}

// update is a transaction that writes.
type update struct {
	transaction
	db *bbolt.DB
}

func (u update) GetForUpdate(key, dst []byte) ([]byte, bool, error) { return u.Get(key, dst) }

// Put copies the value: the engine holds on to it.
func (u update) Put(key, value []byte) error { return u.b.Put(key, append([]byte{}, value...)) }
func (u update) Delete(key []byte) error     { return u.b.Delete(key) }
func (u update) Rollback() error             { return u.tx.Rollback() }

func (u update) Commit(sync bool) error {
	err := u.tx.Commit()
	if err == nil && sync {
		err = u.db.Sync()
	}
	return err
}

// view runs f in a read transaction.
func (d *database) view(f func(r transaction) error) error {
	tx, err := d.db.Begin(false)
	if err != nil {
		return err
	}
	return errors.Join(f(transaction{tx, tx.Bucket(bucket)}), tx.Rollback())
}

// Get does without a closure: it is called for every read.
func (d *database) Get(key, dst []byte) ([]byte, bool, error) {
	tx, err := d.db.Begin(false)
	if err != nil {
		return dst, false, err
	}
	dst, found, _ := transaction{tx, tx.Bucket(bucket)}.Get(key, dst)
	return dst, found, tx.Rollback()
}

func (d *database) Has(key []byte) (found bool, err error) {
	err = d.view(func(r transaction) error {
		found, err = r.Has(key)
		return err
	})
	return found, err
}

func (*database) NewValues() store.Values { return new(settings.Answers) }

// MultiGet reads all keys in one transaction.
func (d *database) MultiGet(keys [][]byte, v store.Values) error {
	return d.view(func(r transaction) error { return r.MultiGet(keys, v) })
}

// NewIterator gives the iterator a transaction of its own.
func (d *database) NewIterator() (store.Iterator, error) {
	tx, err := d.db.Begin(false)
	if err != nil {
		return nil, err
	}
	return &cursor{c: tx.Bucket(bucket).Cursor(), end: tx.Rollback}, nil
}

func (d *database) Snapshot() (store.Snapshot, error) {
	tx, err := d.db.Begin(false)
	if err != nil {
		return nil, err
	}
	return transaction{tx, tx.Bucket(bucket)}, nil
}

// transaction reads in one read transaction.
type transaction struct {
	tx *bbolt.Tx
	b  *bbolt.Bucket
}

func (r transaction) Get(key, dst []byte) ([]byte, bool, error) {
	v := r.b.Get(key)
	return append(dst, v...), v != nil, nil
}

func (r transaction) Has(key []byte) (bool, error) { return r.b.Get(key) != nil, nil }
func (r transaction) NewValues() store.Values      { return new(settings.Answers) }
func (r transaction) Close() error                 { return r.tx.Rollback() }

func (r transaction) MultiGet(keys [][]byte, v store.Values) error {
	a, ok := v.(*settings.Answers)
	if !ok {
		return errors.New("values of another store")
	}
	return a.Fill(keys, r.Get)
}

func (r transaction) NewIterator() (store.Iterator, error) {
	return &cursor{c: r.b.Cursor(), end: func() error { return nil }}, nil
}

type cursor struct {
	c          *bbolt.Cursor
	end        func() error
	key, value []byte
}

func (c *cursor) at(key, value []byte) bool {
	c.key, c.value = key, value
	return key != nil
}

func (c *cursor) First() bool            { return c.at(c.c.First()) }
func (c *cursor) Last() bool             { return c.at(c.c.Last()) }
func (c *cursor) Next() bool             { return c.at(c.c.Next()) }
func (c *cursor) Prev() bool             { return c.at(c.c.Prev()) }
func (c *cursor) SeekGE(key []byte) bool { return c.at(c.c.Seek(key)) }
func (c *cursor) Valid() bool            { return c.key != nil }
func (c *cursor) Key() []byte            { return c.key }
func (c *cursor) Value() []byte          { return c.value }
func (c *cursor) Err() error             { return nil }
func (c *cursor) Close() error           { return c.end() }

func (c *cursor) SeekLT(key []byte) bool {
	if c.SeekGE(key) {
		return c.Prev()
	}
	return c.Last()
}

func (d *database) update(sync bool, f func(b *bbolt.Bucket) error) error {
	err := d.db.Update(func(tx *bbolt.Tx) error { return f(tx.Bucket(bucket)) })
	if err == nil && sync {
		err = d.db.Sync()
	}
	return err
}

func (d *database) Put(key, value []byte, sync bool) error {
	return d.update(sync, func(b *bbolt.Bucket) error { return b.Put(key, value) })
}

func (d *database) Delete(key []byte, sync bool) error {
	return d.update(sync, func(b *bbolt.Bucket) error { return b.Delete(key) })
}

// batch keeps its writes for one transaction.
type batch struct {
	data []byte
	ops  []op
}

type op struct {
	key, end int    // where the key starts in data, and the value ends
	value    int    // where the value starts; negative: a deletion
	in       []byte // its bucket, nil for that of the database
}

func (b *batch) Put(key, value []byte) {
	o := op{key: len(b.data), value: len(b.data) + len(key)}
	b.data = append(append(b.data, key...), value...)
	o.end = len(b.data)
	b.ops = append(b.ops, o)
}

func (b *batch) Delete(key []byte) {
	o := op{key: len(b.data), value: -1}
	b.data = append(b.data, key...)
	o.end = len(b.data)
	b.ops = append(b.ops, o)
}

func (b *batch) Clear() { b.data, b.ops = b.data[:0], b.ops[:0] }

func (d *database) NewBatch() store.Batch { return new(batch) }

func (d *database) Write(b store.Batch, sync bool) error {
	own, ok := b.(*batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	return d.update(sync, func(home *bbolt.Bucket) error {
		for _, o := range own.ops {
			var err error
			b := home
			if o.in != nil {
				b = home.Tx().Bucket(o.in)
			}
			if o.value < 0 {
				err = b.Delete(own.data[o.key:o.end])
			} else {
				err = b.Put(own.data[o.key:o.value], own.data[o.value:o.end])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Checkpoint copies the file, and syncs the copy.
func (d *database) Checkpoint(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = d.db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(out)
		return err
	})
	return errors.Join(err, out.Sync(), out.Close())
}

func (d *database) Flush() error   { return nil } // nothing waits in memory
func (d *database) Compact() error { return nil } // updates are in place

// Close writes the freelist once: opening a database without one reads all its
// pages, and a cold read would then find them in the page cache.
func (d *database) Close() error {
	d.db.NoFreelistSync = false
	err := d.db.Update(func(*bbolt.Tx) error { return nil })
	return errors.Join(err, d.db.Close())
}

func (d *database) Property(name string) (string, bool) {
	if name == "leveldb.stats" {
		return fmt.Sprintf("%+v\n", d.db.Stats()), true
	}
	return "", false
}

func (d *database) Metrics() store.Metrics {
	m := store.UnknownMetrics()
	m.Debt, m.Stall = 0, 0
	info, err := os.Stat(d.db.Path())
	if err == nil {
		m.DiskSize, m.Tables = info.Size(), 1
	} else if errors.Is(err, fs.ErrNotExist) {
		m.DiskSize, m.Tables = 0, 0
	}
	return m
}
