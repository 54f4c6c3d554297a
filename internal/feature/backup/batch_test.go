package backup

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// batchCase is what happens to one file of a batch.
type batchCase struct{ sync, close, then error }

// tracked is a file that records the calls on it.
type tracked struct {
	vfs.WriteFile
	batchCase
	panics      bool
	open        *atomic.Int64
	synced      bool
	closed      bool
	told        int
	durable     bool
	beforeClose bool // then was called before Close
}

func (f *tracked) Sync() error {
	if f.synced = true; f.panics {
		panic("sync")
	}
	return errors.Join(f.batchCase.sync, f.WriteFile.Sync())
}

func (f *tracked) Close() error {
	f.closed = true
	f.open.Add(-1)
	return errors.Join(f.batchCase.close, f.WriteFile.Close())
}

// then is that of written.
func (f *tracked) then(err error) error {
	f.told++
	f.durable, f.beforeClose = err == nil, !f.closed
	if err == nil {
		err = f.batchCase.then
	}
	return err
}

// run adds files from several goroutines as a copy does, until one fails, and returns the first
// error, all files that were added, and how many were open at most.
func (b *batch) run(t *testing.T, n int,
	what func(i int) (c batchCase, panics bool)) (all []*tracked, most int64, err error) {
	t.Helper()
	fsys := vfs.NewMem()
	var mu sync.Mutex
	var open, peak atomic.Int64
	err = each(n, func(i int, _ []byte) error {
		out, err := fsys.Create(fmt.Sprint(i))
		if err == nil {
			_, err = io.WriteString(out, "contents")
		}
		if err != nil {
			return err
		}
		f := &tracked{WriteFile: out, open: &open}
		f.batchCase, f.panics = what(i)
		now := open.Add(1)
		mu.Lock()
		all = append(all, f)
		peak.Store(max(peak.Load(), now))
		mu.Unlock()
		return b.add(written{f, f.then})
	})
	if err == nil {
		err = b.finish(func() error { return nil })
	}
	b.abandon()
	for i, f := range all {
		if !f.closed || f.told != 1 || f.beforeClose || f.durable && !f.synced {
			t.Errorf("file %d: %+v", i, f)
		}
	}
	if open.Load() != 0 {
		t.Errorf("%d files are open", open.Load())
	}
	return all, peak.Load(), err
}

// TestBatch: each file is synced, closed and told of once, whatever fails, and few are open at a
// time.
func TestBatch(t *testing.T) {
	failure := syscall.EIO
	for _, n := range []int{0, 1, 2, batchFiles - 1, batchFiles, batchFiles + 1, 5*batchFiles + 3} {
		all, most, err := new(batch).run(t, n, func(int) (batchCase, bool) {
			return batchCase{}, false
		})
		if err != nil || len(all) != n || most > 2*batchFiles+workers {
			t.Errorf("%d files: %d were added, %d open: %v", n, len(all), most, err)
		}
		for i, f := range all {
			if !f.durable {
				t.Errorf("file %d of %d is not durable", i, n)
			}
		}
		for at := range min(n, 2*batchFiles) {
			for name, c := range map[string]batchCase{"sync": {sync: failure},
				"close": {close: failure}, "then": {then: failure}, "panic": {}} {
				all, _, err := new(batch).run(t, n, func(i int) (batchCase, bool) {
					if i != at {
						return batchCase{}, false
					}
					return c, name == "panic"
				})
				if p := (*base.Panic)(nil); name == "panic" && !errors.As(err, &p) ||
					name != "panic" && !errors.Is(err, failure) {
					t.Errorf("%s fails for file %d of %d: %v", name, at, n, err)
				}
				for _, f := range all {
					if bad := f.batchCase != (batchCase{}) ||
						f.panics; bad && f.durable && name != "then" {
						t.Errorf("%s fails for file %d of %d, which is durable", name, at, n)
					}
				}
			}
		}
	}
}

// TestBatchStops: nothing is synced after the end of the run.
func TestBatchStops(t *testing.T) {
	fsys := vfs.NewMem()
	b, open, over := new(batch), new(atomic.Int64), errors.New("over")
	var all []*tracked
	for i := range batchFiles - 1 {
		out, err := fsys.Create(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		f := &tracked{WriteFile: out, open: open}
		open.Add(1)
		all = append(all, f)
		if err := b.add(written{f, f.then}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.finish(func() error { return over }); !errors.Is(err, over) {
		t.Error(err)
	}
	for i, f := range all {
		if f.synced || !f.closed || f.told != 1 || f.durable {
			t.Errorf("file %d: %+v", i, f)
		}
	}
}
