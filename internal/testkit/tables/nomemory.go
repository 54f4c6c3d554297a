package tables

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// noMemory writes and reads a table while the i-th allocation fails, for all i:
// what does not fail has every entry.
func (s *suite) noMemory(t *testing.T) {
	const n = 200
	defer offheap.SetFault(nil)
	mem := vfs.NewMem()
	key := func(i int) []byte { return fmt.Appendf(nil, "key%04d", i) }
	write := func(name string) error {
		f, err := mem.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w := s.New(f, sstable.WriterOptions{Comparer: base.Bytewise, BlockSize: 256, BloomBits: 10,
			LevelDBFilter: true})
		defer w.Close()
		for i := range n {
			if err := w.Add(key(i), base.MakeTrailer(1, base.KindSet), base.CodecRaw,
				make([]byte, 100)); err != nil {
				return err
			}
		}
		_, err = w.Finish()
		return err
	}
	read := func(name string, c *cache.Cache) error {
		f, err := mem.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := s.Open(f, Env{Name: name, Cache: c, Comparer: base.Bytewise})
		if err != nil {
			return err
		}
		defer r.Close()
		for i := range n {
			v, _, found, err := r.Get(base.MakeLookup(base.Bytewise, key(i), base.MaxSeqNum), 0,
				nil)
			if err != nil {
				return err
			}
			if !found || len(v) != 100 {
				return fmt.Errorf("%s: found %v", key(i), found)
			}
		}
		got := 0
		src := r.NewSource(0)
		defer src.Close()
		err = base.Scan(src, func(e *base.Chunk) error {
			got += e.Len()
			return nil
		})
		if err == nil && got != n {
			return fmt.Errorf("%d of %d entries", got, n)
		}
		return err
	}
	every := func(f func(at int) error) (trials, passed int) { return failEvery(t, f) }
	before := offheap.InUse()
	trials, _ := every(func(at int) error {
		name := fmt.Sprint("table", at)
		err := write(name)
		if err == nil {
			offheap.SetFault(nil)
			err = read(name, nil)
		}
		return err
	})
	if trials < 10 {
		t.Errorf("writing: only %d trials", trials)
	}
	if err := write("table"); err != nil {
		t.Fatal(err)
	}
	for _, capacity := range []int64{0, 1 << 20} {
		trials, passed := every(func(int) error {
			c := cache.New(capacity)
			defer c.Unref()
			return read("table", c)
		})
		if trials < 5 || capacity > 0 && passed == 0 {
			t.Errorf("reading with a cache of %d: %d trials, %d passed", capacity, trials, passed)
		}
	}
	if got := offheap.InUse(); got != before {
		t.Errorf("%d bytes off the heap before, %d after", before, got)
	}
}

// failEvery calls f again and again, each time with one more allocation that
// succeeds before one fails, and returns how often f succeeded all the same.
func failEvery(t *testing.T, f func(at int) error) (trials, passed int) {
	for at := 1; ; at++ {
		count := 0
		offheap.SetFault(func(int) error {
			if count++; count == at {
				return errors.New("the test refuses")
			}
			return nil
		})
		err := f(at)
		offheap.SetFault(nil)
		if count < at {
			return trials, passed
		}
		trials++
		if err == nil {
			passed++
		} else if !errors.Is(err, base.ErrNoMemory) {
			t.Fatalf("allocation %d: %v", at, err)
		}
	}
}
