// Package loam is the benchmark's driver for Loam itself.
//
// The driver and its stores are safe for concurrent use, as package store asks.
package loam

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/lsm"
)

// Driver opens Loam databases: new ones in a format, or in the one that the settings
// say, "" being the engine's default.
type Driver struct{ format string }

// Drivers are those of the engine's formats, the default one first, whose settings may
// name another.
func Drivers() []store.Driver {
	def, other := lsm.FormatLevelDB.String(), lsm.FormatNative.String()
	for _, d := range lsm.OptionDocs() {
		if d.Name == formatOption && d.Default == other {
			other = def
		}
	}
	return []store.Driver{Driver{}, Driver{other}}
}

const formatOption = "format"

func (d Driver) Name() string {
	if d.format == "" {
		return "loam"
	}
	return "loam-" + d.format
}

func (d Driver) Title() string {
	if d.format == "" {
		return "Loam"
	}
	return "Loam (" + d.format + ")"
}

func (Driver) Durability() store.Durability { return store.SurvivesKill }

// Version is the module's version as the build recorded it.
func (Driver) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, m := range info.Deps { // when the program is another module's
		if m.Path == "github.com/loamdb/loam" {
			version = m.Version
		}
	}
	if version == "" {
		return "unknown"
	}
	return strings.TrimPrefix(strings.Trim(version, "()"), "v")
}

// Options are those of the engine's own table.
func (d Driver) Options() []store.Option {
	var all []store.Option
	for _, row := range lsm.OptionDocs() {
		if row.Name == formatOption && d.format != "" {
			continue
		}
		all = append(all, store.Option{Name: row.Name, Doc: row.Doc, Default: row.Default})
	}
	return all
}

func (Driver) Check(s store.Setting) error { return new(lsm.Options).Set(s.Name, s.Value) }

func (d Driver) options(c store.Config) (*lsm.Options, error) {
	o := &lsm.Options{ErrorIfMissing: c.MustExist}
	if d.format != "" {
		if err := o.Set(formatOption, d.format); err != nil {
			return nil, err
		}
	}
	for _, s := range c.Settings {
		if err := o.Set(s.Name, s.Value); err != nil {
			return nil, err
		}
	}
	if c.Comparisons != nil {
		o.Comparer = counting(c.Comparisons)
	}
	if c.Counters && o.MergeOperator == nil {
		o.MergeOperator = lsm.MergeOperatorNamed("uint64add")
	}
	if c.Changes && o.WALRetentionBytes == 0 {
		o.WALRetentionBytes = 1 << 40
	}
	return o, nil
}

func (d Driver) Open(dir string, c store.Config) (store.Store, error) {
	o, err := d.options(c)
	if err != nil {
		return nil, err
	}
	return open(dir, o, c)
}

func open(dir string, o *lsm.Options, c store.Config) (store.Store, error) {
	db, err := lsm.Open(dir, o)
	if err != nil {
		return nil, err
	}
	s := database{reader: reader{db}, db: db, options: *o, txn: lsm.TxnOptions{Lock: c.Locks}}
	if _, err := db.Keyspace("keyspace0", &lsm.KeyspaceOptions{ErrorIfMissing: true}); errors.Is(
		err, lsm.ErrNeedsNative) {
		s.options.Format = lsm.FormatLevelDB
		return &s, nil
	}
	s.options.Format = lsm.FormatNative
	return &native{database: s}, nil
}

// counting is the default order, every comparison made by a call. The engine
// then leaves out what it knows of the default order: abbreviated keys.
func counting(n *atomic.Int64) *lsm.Comparer {
	b := lsm.BytewiseComparer
	return &lsm.Comparer{
		Name:            b.Name,
		Separator:       b.Separator,
		Successor:       b.Successor,
		EqualIsBytewise: b.EqualIsBytewise,
		Compare: func(x, y []byte) int {
			n.Add(1)
			return b.Compare(x, y)
		},
	}
}

func (Driver) Destroy(dir string) error {
	err := lsm.Destroy(dir, nil)
	if errors.Is(err, lsm.ErrDoesNotExist) {
		return nil
	}
	return err
}

// source is what a database and a snapshot have in common.
type source interface {
	Get(key, dst []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	MultiGet(keys [][]byte, r *lsm.MultiResult) error
	Iter(o *lsm.IterOptions) *lsm.Iterator
}

type reader struct{ s source }

func (r reader) Get(key, dst []byte) (value []byte, found bool, err error) {
	value, err = r.s.Get(key, dst)
	return answer(value, dst, err)
}

func answer(value, dst []byte, err error) ([]byte, bool, error) {
	switch {
	case err == nil:
		return value, true, nil
	case err == lsm.ErrNotFound || errors.Is(err, lsm.ErrNotFound):
		return dst, false, nil
	}
	return dst, false, err
}

func (r reader) Has(key []byte) (bool, error) { return r.s.Has(key) }

func (reader) NewValues() store.Values { return new(lsm.MultiResult) }

func (r reader) MultiGet(keys [][]byte, v store.Values) error {
	m, ok := v.(*lsm.MultiResult)
	if !ok {
		return errors.New("values of another store")
	}
	return r.s.MultiGet(keys, m)
}

func (r reader) NewIterator() (store.Iterator, error) { return r.s.Iter(nil), nil }

type database struct {
	reader
	db      *lsm.DB
	options lsm.Options // that db was opened with, and its format
	txn     lsm.TxnOptions
}

// NewPrefixIterator is an iterator whose bounds are those of the prefix.
func (d *database) NewPrefixIterator(prefix []byte) (store.Iterator, error) {
	return d.db.Iter(&lsm.IterOptions{Prefix: prefix}), nil
}

// Get goes to the database without the detour over its interface.
func (d *database) Get(key, dst []byte) (value []byte, found bool, err error) {
	value, err = d.db.Get(key, dst)
	return answer(value, dst, err)
}

// pinned is a value that the database shows.
type pinned struct{ lsm.PinnedValue }

func (p *pinned) Close() { p.Release() }

func (d *database) NewPinned() store.Pinned { return new(pinned) }

// GetPinned gets the value where it lies.
func (d *database) GetPinned(key []byte, v store.Pinned) (bool, error) {
	p, ok := v.(*pinned)
	if !ok {
		return false, errors.New("value of another store")
	}
	_, found, err := answer(nil, nil, d.db.GetPinned(key, &p.PinnedValue))
	return found, err
}

func mode(sync bool) lsm.WriteMode {
	if sync {
		return lsm.Sync
	}
	return lsm.NoSync
}

func (d *database) Put(key, value []byte, sync bool) error {
	return d.db.Put(key, value, mode(sync))
}
func (d *database) Delete(key []byte, sync bool) error { return d.db.Delete(key, mode(sync)) }
func (d *database) NewBatch() store.Batch              { return lsm.NewBatch() }
func (d *database) Flush() error                       { return d.db.Flush() }
func (d *database) Compact() error                     { return d.db.CompactRange(nil, nil) }
func (d *database) Close() error                       { return d.db.Close() }

func (d *database) Property(name string) (string, bool) { return d.db.Property(name) }

func (d *database) Write(b store.Batch, sync bool) error {
	batch, ok := b.(*lsm.Batch)
	if !ok {
		return fmt.Errorf("batch of another store: %T", b)
	}
	return d.db.Write(batch, mode(sync))
}

func (d *database) Snapshot() (store.Snapshot, error) {
	s := d.db.Snapshot()
	return snapshot{reader{s}, s}, nil
}

type snapshot struct {
	reader
	s *lsm.Snapshot
}

func (s snapshot) Close() error { return s.s.Close() }

// Metrics are those of the database. Tables and what compactions have still to do are those of all
// keyspaces.
func (d *database) Metrics() store.Metrics {
	m := d.db.Metrics()
	all := []lsm.Metrics{m}
	for _, name := range d.db.Keyspaces() {
		k, err := d.db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if err == nil && name != "default" {
			all = append(all, k.Metrics())
		}
	}
	var disk, debt uint64
	var tables int
	levels := make([]int64, len(m.Levels))
	for _, of := range all {
		disk, debt = disk+of.DiskBytes, debt+uint64(of.CompactionDebt)
		for i, l := range of.Levels {
			tables += l.Files
			levels[i] += int64(l.Bytes)
		}
	}
	return store.Metrics{
		WALBytes:        m.WALBytesWritten,
		FlushBytes:      int64(m.Flush.BytesOut),
		CompactionBytes: int64(m.Compact.BytesOut),
		Stall:           m.StallTime,
		CacheHits:       int64(m.Cache.Hits),
		CacheMisses:     int64(m.Cache.Misses),
		DiskSize:        int64(disk),
		Tables:          int64(tables),
		Debt:            int64(debt),
		Levels:          levels,
	}
}
