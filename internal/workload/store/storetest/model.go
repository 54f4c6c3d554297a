// Package storetest has what tests of store drivers need: Model, an in-memory
// store that does nothing clever, and Run, the suite that every driver passes.
//
// A model may be used by several goroutines; its iterators by one each.
package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/workload/store"
)

// Model is a driver whose databases live in memory, by directory name, and
// outlive Close.
type Model struct {
	mu  sync.Mutex
	dbs map[string]*Table
	// Fail, when set, is asked before every read and write ("get", "put",
	// "delete", "write", "next", "open", "compact").
	Fail func(op string) error
}

// Table is the contents of a database and what it was opened with.
type Table struct {
	mu     sync.Mutex
	m      map[string]string
	sorted []string       // nil: to be made
	writes map[string]int // of each key, for transactions
	// operations and bytes of each batch, if the database was opened for changes
	log    [][2]int64
	Config store.Config
	Opens  int
	Syncs  int
}

// NewModel returns a driver without databases.
func NewModel() *Model { return &Model{dbs: map[string]*Table{}} }

// Table returns the database in dir, nil if there is none.
func (m *Model) Table(dir string) *Table {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dbs[dir]
}

// Dirs are the directories that hold a database.
func (m *Model) Dirs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.dbs))
}

// Empty removes all entries directly, without the open database.
func (t *Table) Empty() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.m)
	t.sorted = nil
}

// Contents is a copy of what the database holds.
func (t *Table) Contents() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.m)
}

func (m *Model) fail(op string) error {
	if m.Fail == nil {
		return nil
	}
	return m.Fail(op)
}

func (*Model) Name() string                 { return "model" }
func (*Model) Title() string                { return "Model" }
func (*Model) Version() string              { return "1.0" }
func (*Model) Durability() store.Durability { return store.InProcess }

func (*Model) Options() []store.Option {
	var all []store.Option
	for _, n := range []string{"write_buffer_size", "cache_size", "block_size", "max_file_size",
		"max_open_files", "compression", "bloom_bits"} {
		all = append(all, store.Option{Name: n, Doc: "of no effect", Default: "0"})
	}
	return all
}

func (*Model) Check(s store.Setting) error {
	if s.Value == "" || strings.Contains(s.Value, "bad") {
		return fmt.Errorf("option %s: want something good", s.Name)
	}
	return nil
}

func (m *Model) Open(dir string, c store.Config) (store.Store, error) {
	if err := m.fail("open"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.dbs[dir]
	if t == nil {
		if c.MustExist {
			return nil, errors.New("no database there")
		}
		t = &Table{m: map[string]string{}}
		m.dbs[dir] = t
	}
	t.Config = c
	t.Opens++
	return &modelStore{modelReader{m, t}}, nil
}

func (m *Model) Destroy(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.dbs, dir)
	return nil
}

// Codec has a checksum and, as "snappy", a codec that halves what is doubled.
func (*Model) Codec(name string) (store.Codec, bool) {
	switch name {
	case "crc32c":
		table := crc32.MakeTable(crc32.Castagnoli)
		return store.Codec{Encode: func(dst, src []byte) []byte {
			c := crc32.Checksum(src, table)
			return append(dst, byte(c), byte(c>>8), byte(c>>16), byte(c>>24))
		}}, true
	case "snappy":
		return store.Codec{
			Encode: func(dst, src []byte) []byte { return append(dst, src...) },
			Decode: func(dst, src []byte) ([]byte, error) { return append(dst, src...), nil },
		}, true
	}
	return store.Codec{}, false
}

type modelReader struct {
	m *Model
	t *Table
}

func (r modelReader) Get(key, dst []byte) ([]byte, bool, error) {
	if err := r.m.fail("get"); err != nil {
		return dst, false, err
	}
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	v, ok := r.t.m[string(key)]
	return append(dst, v...), ok, nil
}

func (r modelReader) Has(key []byte) (bool, error) {
	_, ok, err := r.Get(key, nil)
	return ok, err
}

type modelValues struct{ v []*string }

func (v *modelValues) Value(i int) ([]byte, bool) {
	if v.v[i] == nil {
		return nil, false
	}
	return []byte(*v.v[i]), true
}

func (modelReader) NewValues() store.Values { return &modelValues{} }

func (r modelReader) MultiGet(keys [][]byte, vs store.Values) error {
	out, ok := vs.(*modelValues)
	if !ok {
		return errors.New("values of another store")
	}
	out.v = out.v[:0]
	for _, k := range keys {
		v, found, err := r.Get(k, nil)
		if err != nil {
			return err
		}
		out.v = append(out.v, nil)
		if found {
			s := string(v)
			out.v[len(out.v)-1] = &s
		}
	}
	return nil
}

func (r modelReader) NewIterator() (store.Iterator, error) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted == nil {
		t.sorted = make([]string, 0, len(t.m))
		for k := range t.m {
			t.sorted = append(t.sorted, k)
		}
		sort.Strings(t.sorted)
	}
	return &modelIterator{r: r, keys: t.sorted, i: -1}, nil
}

type modelStore struct{ modelReader }

func (s *modelStore) edit(op string, sync bool, f func(t *Table)) error {
	if err := s.m.fail(op); err != nil {
		return err
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if sync {
		s.t.Syncs++
	}
	f(s.t)
	return nil
}

func (t *Table) put(k, v string) {
	if _, ok := t.m[k]; !ok {
		t.sorted = nil
	}
	t.m[k] = v
	t.written(k)
}

func (t *Table) written(k string) {
	if t.writes == nil {
		t.writes = map[string]int{}
	}
	t.writes[k]++
}

func (t *Table) delete(k string) {
	t.written(k)
	delete(t.m, k)
	t.sorted = nil
}

func (s *modelStore) Put(key, value []byte, sync bool) error {
	return s.edit("put", sync, func(t *Table) {
		t.put(string(key), string(value))
		t.committed(1, len(key)+len(value))
	})
}

// PutTTL is Put: nothing lives so long here that it expires.
func (s *modelStore) PutTTL(key, value []byte, _ time.Duration, sync bool) error {
	return s.Put(key, value, sync)
}

func (s *modelStore) Delete(key []byte, sync bool) error {
	return s.edit("delete", sync, func(t *Table) { t.delete(string(key)) })
}

type modelBatch struct{ ops []func(*Table) }

func (b *modelBatch) Put(key, value []byte) {
	k, v := string(key), string(value)
	b.ops = append(b.ops, func(t *Table) { t.put(k, v) })
}

func (b *modelBatch) Delete(key []byte) {
	k := string(key)
	b.ops = append(b.ops, func(t *Table) { t.delete(k) })
}

func (b *modelBatch) Clear() { b.ops = b.ops[:0] }

func (s *modelStore) NewBatch() store.Batch { return &modelBatch{} }

func (s *modelStore) Write(b store.Batch, sync bool) error {
	batch, ok := b.(*modelBatch)
	if !ok {
		return errors.New("batch of another store")
	}
	return s.edit("write", sync, func(t *Table) {
		for _, op := range batch.ops {
			op(t)
		}
		t.committed(len(batch.ops), 0)
	})
}

func (s *modelStore) DeleteRange(start, limit []byte, sync bool) error {
	return s.edit("deleterange", sync, func(t *Table) {
		for k := range t.m {
			if k >= string(start) && k < string(limit) {
				t.delete(k)
			}
		}
	})
}

func (s *modelStore) Add(key []byte, n uint64, sync bool) error {
	return s.edit("add", sync, func(t *Table) {
		if old := t.m[string(key)]; len(old) == 8 {
			n += binary.LittleEndian.Uint64([]byte(old))
		}
		t.put(string(key), string(binary.LittleEndian.AppendUint64(nil, n)))
	})
}

// modelTxn is optimistic, and knows only what it has read.
type modelTxn struct {
	s     *modelStore
	reads map[string]int // writes of each key until then
	own   map[string]string
	gone  map[string]bool // deleted, and not put again
}

func (s *modelStore) Begin(store.Txn) (store.Txn, error) {
	return &modelTxn{s, map[string]int{}, map[string]string{}, map[string]bool{}}, nil
}

func (x *modelTxn) GetForUpdate(key, dst []byte) ([]byte, bool, error) {
	if v, ok := x.own[string(key)]; ok {
		return append(dst, v...), true, nil
	}
	if x.gone[string(key)] {
		return dst, false, nil
	}
	x.s.t.mu.Lock()
	if _, again := x.reads[string(key)]; !again {
		x.reads[string(key)] = x.s.t.writes[string(key)]
	}
	x.s.t.mu.Unlock()
	return x.s.Get(key, dst)
}

func (x *modelTxn) Put(key, value []byte) error {
	x.own[string(key)] = string(value)
	delete(x.gone, string(key))
	return nil
}

func (x *modelTxn) Delete(key []byte) error {
	x.gone[string(key)] = true
	delete(x.own, string(key))
	return nil
}

func (x *modelTxn) Commit(sync bool) (err error) {
	failed := x.s.edit("commit", sync, func(t *Table) {
		for k, n := range x.reads {
			if t.writes[k] != n {
				err = store.ErrConflict
				return
			}
		}
		for k, v := range x.own {
			t.put(k, v)
		}
		for k := range x.gone {
			t.delete(k)
		}
	})
	return errors.Join(failed, err)
}

func (x *modelTxn) Rollback() error { return nil }

type modelSnapshot struct{ modelReader }

func (modelSnapshot) Close() error { return nil }

func (s *modelStore) Snapshot() (store.Snapshot, error) {
	return modelSnapshot{modelReader{s.m, &Table{m: s.t.Contents()}}}, nil
}

func (s *modelStore) Flush() error   { return nil }
func (s *modelStore) Compact() error { return s.m.fail("compact") }
func (s *modelStore) Close() error   { return nil }

func (s *modelStore) Property(name string) (string, bool) {
	return fmt.Sprintf("%d entries\n", len(s.t.Contents())), name == "leveldb.stats"
}

func (s *modelStore) Metrics() store.Metrics { return store.UnknownMetrics() }

// modelIterator walks the keys of its creation.
type modelIterator struct {
	r    modelReader
	keys []string
	i    int
	err  error
}

func (it *modelIterator) at(i int) bool {
	it.i = i
	if it.err == nil {
		it.err = it.r.m.fail("next")
	}
	return it.Valid()
}

func (it *modelIterator) Valid() bool { return it.err == nil && it.i >= 0 && it.i < len(it.keys) }
func (it *modelIterator) First() bool { return it.at(0) }
func (it *modelIterator) Last() bool  { return it.at(len(it.keys) - 1) }
func (it *modelIterator) Next() bool  { return it.at(min(it.i+1, len(it.keys))) }
func (it *modelIterator) Prev() bool  { return it.at(max(it.i-1, -1)) }

func (it *modelIterator) SeekGE(key []byte) bool {
	i, _ := slices.BinarySearch(it.keys, string(key))
	return it.at(i)
}

func (it *modelIterator) SeekLT(key []byte) bool {
	i, _ := slices.BinarySearch(it.keys, string(key))
	return it.at(i - 1)
}

func (it *modelIterator) Key() []byte { return []byte(it.keys[it.i]) }

func (it *modelIterator) Value() []byte {
	it.r.t.mu.Lock()
	defer it.r.t.mu.Unlock()
	return bytes.Clone([]byte(it.r.t.m[it.keys[it.i]]))
}

func (it *modelIterator) Err() error   { return it.err }
func (it *modelIterator) Close() error { return nil }
