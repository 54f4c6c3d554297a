package values

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// counting counts the reads of logs and value files, and their hints.
type counting struct {
	vfs.FS
	reads, hints atomic.Int64
}

type countedFile struct {
	vfs.ReadFile
	fs *counting
}

func (c *counting) Open(name string) (vfs.ReadFile, error) {
	f, err := c.FS.Open(name)
	if ext := filepath.Ext(name); err == nil && (ext == ".wal" || ext == ".val") {
		return countedFile{f, c}, nil
	}
	return f, err
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads.Add(1)
	return f.ReadFile.ReadAt(p, off)
}

func (f countedFile) Prefetch(off, n int64) {
	f.fs.hints.Add(1)
	f.ReadFile.Prefetch(off, n)
}

// took is what f read, and resets the counters.
func (c *counting) took(f func()) (reads, hints int64) {
	c.reads.Store(0)
	c.hints.Store(0)
	f()
	return c.reads.Load(), c.hints.Load()
}

// TestReadsAhead counts the reads of iterators and of MultiGet.
func TestReadsAhead(t *testing.T) {
	fsys := &counting{FS: vfs.NewMem()}
	d := open(t, fsys, nil, nil)
	var keys [][]byte
	for i := range 200 { // in the order of the keys, and after them others that lie apart
		keys = append(keys, fmt.Appendf(nil, "in order %03d", i))
		d.put(string(keys[i]), valueOf(i, 1000))
	}
	for i := range 100 {
		d.put(fmt.Sprintf("mixed %03d", i*37%100), valueOf(i, 1000))
		d.must(d.Put([]byte("zz"), valueOf(i, 5000), lsm.NoSync))
	}
	d.must(d.Delete([]byte("zz"), lsm.NoSync))
	d.must(d.Flush())
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)

	it := d.Iter(nil)
	defer it.Close()
	seek := func(n int, key string, move func() bool) (reads, hints int64) {
		return fsys.took(func() {
			ok := it.SeekGE([]byte(key))
			for range n - 1 {
				ok = ok && move()
			}
			if !ok {
				t.Fatal(it.Err())
			}
		})
	}
	if reads, hints := seek(1, "in order 050", it.Next); reads != 1 || hints != 0 {
		t.Errorf("a seek reads %d times, %d hints", reads, hints)
	}
	if reads, hints := seek(2, "in order 050", it.Next); reads != 2 || hints != 0 {
		t.Errorf("a seek and a move read %d times, %d hints", reads, hints)
	}
	if reads, _ := seek(120, "in order 050", it.Next); reads > 12 {
		t.Errorf("120 neighbours: %d reads", reads)
	}
	if reads, _ := seek(120, "in order 150", it.Prev); reads > 12 {
		t.Errorf("120 neighbours backward: %d reads", reads)
	}
	if reads, hints := seek(100, "mixed 000", it.Next); reads < 50 || hints < reads/2 {
		t.Errorf("100 values that lie apart: %d reads, %d hints", reads, hints)
	}
	only := d.Iter(&lsm.IterOptions{KeysOnly: true})
	defer only.Close()
	if reads, hints := fsys.took(func() {
		for ok := only.First(); ok; ok = only.Next() {
		}
	}); reads+hints > 0 {
		t.Errorf("keys alone: %d reads, %d hints", reads, hints)
	}
	var m lsm.MultiResult
	for i := range keys {
		j := i * 77 % len(keys)
		keys[i], keys[j] = keys[j], keys[i]
	}
	if reads, _ := fsys.took(func() { d.must(d.MultiGet(keys, &m)) }); reads > 8 {
		t.Errorf("MultiGet of neighbours: %d reads", reads)
	}
	for i := 0; i < len(keys); i += 3 { // the values before are read ahead in vain
		d.put(string(keys[i]), valueOf(1000+i, 1000))
	}
	d.must(d.Flush())
	check(t, d, d.want)
	d.must(it.Close())
	d.must(only.Close())
	d.must(d.Close())
}
