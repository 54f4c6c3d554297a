//go:build linux || darwin

package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func mappedKey(i int) []byte { return fmt.Appendf(nil, "key%09d", i) }

func mappedValue(i int) (v []byte) {
	for j := range 6 {
		v = fmt.Appendf(v, "%x,", uint64(i+1)*uint64(j+1)*0x9e3779b97f4a7c15)
	}
	return v
}

// mappedDB opens a database whose tables are mapped and whose cache is next to nothing, and
// fills it with n entries that are all read once.
func mappedDB(t *testing.T, dir string, n int, o Options) *DB {
	t.Helper()
	o.Mmap, o.CacheSize, o.MaxFileSize, o.WriteBufferSize = MmapOn, 64<<10, 512<<10, 512<<10
	db, err := Open(dir, &o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := db.Put(mappedKey(i), mappedValue(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if v, err := db.Get(mappedKey(i), nil); err != nil || !bytes.Equal(v, mappedValue(i)) {
			t.Fatalf("entry %d: %q, %v", i, v, err)
		}
	}
	if got := db.Metrics().MappedBytes; got != int64(db.Metrics().DiskBytes) {
		t.Fatalf("%d bytes of tables are mapped, of %d", got, db.Metrics().DiskBytes)
	}
	return db
}

// tableFiles are the paths of the tables of either format, two at least.
func tableFiles(t *testing.T, dir string) []string {
	t.Helper()
	var tables []string
	for _, pattern := range []string{"*.ldb", "*.loam"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, found...)
	}
	if len(tables) < 2 {
		t.Fatal(tables)
	}
	return tables
}

// TestCutTables: while Gets, MultiGets and iterators read mapped tables, another program cuts
// the tables off. Each answer is the right value or an error that names a file, never a
// missing key, never a signal.
func TestCutTables(t *testing.T) {
	dirs := map[string]string{"disk": t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "lsm"); err == nil {
		defer os.RemoveAll(shm)
		dirs["tmpfs"] = shm
	}
	for where, parent := range dirs {
		for _, f := range []Format{FormatLevelDB, FormatNative} {
			for _, c := range []Compression{NoCompression, SnappyCompression} {
				name := f.String() + "-" + c.String()
				t.Run(where+"/"+name, func(t *testing.T) {
					cutTables(t, filepath.Join(parent, name), Options{Format: f, Compression: c})
				})
			}
		}
	}
}

// cutReaders are the readers of tables that are cut short: of Get, of MultiGet, of an iterator.
type cutReaders struct {
	t        *testing.T
	table    string // how the name of a table ends
	failures [3]atomic.Int64
	looks    [3]atomic.Int64
	until    [3]atomic.Int64 // how many looks there are to be; 0: nobody waits
	reached  chan struct{}   // has an element for each of until that there is
	stop     atomic.Bool
	stopped  chan struct{} // closed with stop
}

func newCutReaders(t *testing.T, table string) *cutReaders {
	return &cutReaders{t: t, table: filepath.Ext(table), reached: make(chan struct{}, 3),
		stopped: make(chan struct{})}
}

func (r *cutReaders) end() {
	if !r.stop.Swap(true) {
		close(r.stopped)
	}
}

// look returns when each kind of reader has looked n times, or the readers are at their end.
func (r *cutReaders) look(n int64) {
	for how := range r.until {
		r.until[how].Store(r.looks[how].Load() + n)
	}
	for range r.until {
		select {
		case <-r.reached:
		case <-r.stopped:
		}
	}
}

// check looks at what a reader found as entry i.
func (r *cutReaders) check(how, i int, v []byte, err error) {
	until := &r.until[how]
	if n, want := r.looks[how].Add(1), until.Load(); want > 0 && n >= want &&
		until.CompareAndSwap(want, 0) {
		r.reached <- struct{}{}
	}
	switch {
	case err == nil && bytes.Equal(v, mappedValue(i)):
	case err == nil:
		r.t.Errorf("reader %d: entry %d is %q", how, i, v)
		r.end()
	case errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), r.table):
		r.t.Errorf("reader %d: entry %d: %v", how, i, err)
		r.end()
	default:
		r.failures[how].Add(1)
	}
}

func (r *cutReaders) noticed() bool {
	return r.failures[0].Load() > 100 && r.failures[1].Load() > 100 && r.failures[2].Load() > 10
}

func cutTables(t *testing.T, dir string, o Options) {
	n := 30000
	if testing.Short() {
		n = 8000
	}
	db := mappedDB(t, dir, n, o)
	defer db.Close()
	tables := tableFiles(t, dir)
	r := newCutReaders(t, tables[0])
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			var buf []byte
			for !r.stop.Load() {
				i := rng.IntN(n)
				var err error
				buf, err = db.Get(mappedKey(i), buf[:0])
				r.check(0, i, buf, err)
			}
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(9, 1))
		var result MultiResult
		for !r.stop.Load() {
			var keys [][]byte
			var is []int
			for range 40 {
				is = append(is, rng.IntN(n))
				keys = append(keys, mappedKey(is[len(is)-1]))
			}
			err := db.MultiGet(keys, &result)
			for k, i := range is {
				v, found := result.Value(k)
				if err == nil && !found {
					err = ErrNotFound
				}
				r.check(1, i, v, err)
			}
		}
	})
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(10, 1))
		for !r.stop.Load() {
			it := db.Iter(nil)
			for i := rng.IntN(n - 100); !r.stop.Load() && i < n-1; i += rng.IntN(300) {
				if ok := it.SeekGE(mappedKey(i)); !ok {
					r.check(2, i, nil, errors.Join(it.Err()))
					break
				}
				r.check(2, i, it.Value(), nil)
				if i++; it.Next() {
					r.check(2, i, it.Value(), nil)
				}
			}
			it.Close()
		}
	})
	rng := rand.New(rand.NewPCG(11, 1))
	for _, name := range tables {
		r.look(100)
		st, err := os.Stat(name)
		if err == nil {
			err = os.Truncate(name, st.Size()*int64(rng.IntN(100))/100)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for range 1000 {
		if r.look(1000); r.noticed() {
			break
		}
	}
	r.end()
	wg.Wait()
	for how := range r.failures {
		if r.failures[how].Load() == 0 {
			t.Errorf("reader %d noticed nothing", how)
		}
	}
	if err := db.Metrics().ReadOnly; err != nil {
		t.Error(err)
	}
}
