package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// counting counts the open descriptors of a file system, and can refuse.
type counting struct {
	vfs.FS
	open, most, opens atomic.Int64
	limit             atomic.Int64 // EMFILE beyond it; 0: none
	fail              atomic.Pointer[error]
}

type countedFile struct {
	vfs.ReadFile
	c *counting
}

func (c *counting) Open(name string) (vfs.ReadFile, error) {
	if err := c.fail.Load(); err != nil {
		return nil, *err
	}
	n := c.open.Add(1)
	if l := c.limit.Load(); l > 0 && n > l {
		c.open.Add(-1)
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	f, err := c.FS.Open(name)
	if err != nil {
		c.open.Add(-1)
		return nil, err
	}
	c.opens.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.c.open.Add(-1)
	return f.ReadFile.Close()
}

// newPooled makes n files in memory whose descriptors a pool of at most bound holds.
func newPooled(t *testing.T, bound, n int, o *owner) (*counting, *pool, []*file) {
	t.Helper()
	c := &counting{FS: vfs.NewMem()}
	if err := c.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	p := newPool(bound)
	return c, p, makeFiles(t, c, "/db", n, p, o)
}

// makeFiles writes n files of 100 bytes, each full of its number.
func makeFiles(t *testing.T, fsys vfs.FS, dir string, n int, p *pool, o *owner) []*file {
	t.Helper()
	out := make([]*file, n)
	for i := range out {
		path := filepath.Join(dir, fmt.Sprintf("%06d.ldb", i))
		w, err := fsys.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out[i] = &file{fs: fsys, pool: p, owner: o, path: path, size: 100}
	}
	return out
}

func readFile(t *testing.T, f *file, i int) {
	t.Helper()
	var b [10]byte
	if n, err := f.ReadAt(b[:], 50); n != 10 || err != nil {
		t.Errorf("read %s: %d, %v", f.path, n, err)
	}
	if b[0] != byte(i) || b[9] != byte(i) {
		t.Errorf("%s: bytes of another file: %v", f.path, b)
	}
}

// hammer reads the files from many goroutines.
func hammer(t *testing.T, all []*file, goroutines, reads int) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			x := uint32(g + 1)
			for range reads {
				x = x*1664525 + 1013904223
				i := int(x>>16) % len(all)
				readFile(t, all[i], i)
				all[i].Prefetch(0, 10)
			}
		})
	}
	wg.Wait()
}

func closeAll(t *testing.T, c *counting, p *pool, all []*file) {
	t.Helper()
	for _, f := range all {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := c.open.Load(); n != 0 {
		t.Errorf("%d descriptors left open", n)
	}
	if p.open != 0 || len(p.ring) != 0 {
		t.Errorf("the pool counts %d open, %d in the ring", p.open, len(p.ring))
	}
}

func TestPoolKeepsItsBound(t *testing.T) {
	for _, bound := range []int{1, 3, 10} {
		c, p, all := newPooled(t, bound, 30, &owner{})
		hammer(t, all, 8, 2000)
		if m := c.most.Load(); m > int64(bound) {
			t.Errorf("bound %d: %d descriptors were open", bound, m)
		}
		closeAll(t, c, p, all)
	}
}

func TestOwnersBound(t *testing.T) {
	o := &owner{bound: bound{max: 2}}
	c, p, all := newPooled(t, 100, 20, o)
	hammer(t, all, 6, 1000)
	if m := c.most.Load(); m > 2 {
		t.Errorf("%d descriptors were open", m)
	}
	closeAll(t, c, p, all)
	if o.open != 0 {
		t.Errorf("owner counts %d", o.open)
	}
}

// CLOCK keeps the descriptor that is read between any two others.
func TestPoolKeepsTheHotOne(t *testing.T) {
	c, p, all := newPooled(t, 5, 40, &owner{})
	for round := range 10 {
		for i := 1; i < len(all); i++ {
			readFile(t, all[0], 0)
			readFile(t, all[i], i)
			if round > 0 && all[0].state.Load()&fileOpen == 0 {
				t.Fatal("the descriptor in constant use was closed")
			}
		}
	}
	closeAll(t, c, p, all)
}

// Lowering the bound closes descriptors as others are asked for.
func TestBoundLowered(t *testing.T) {
	c, p, all := newPooled(t, 20, 30, &owner{})
	for i := range 20 {
		readFile(t, all[i], i)
	}
	p.mu.Lock()
	p.max = 4
	p.mu.Unlock()
	readFile(t, all[25], 25)
	if n := c.open.Load(); n > 4 {
		t.Errorf("%d open", n)
	}
	hammer(t, all, 4, 500)
	closeAll(t, c, p, all)
}

// When the system has fewer descriptors than the pool may use, reads go on
// with those it has.
func TestSystemOutOfDescriptors(t *testing.T) {
	c, p, all := newPooled(t, 100, 30, &owner{})
	c.limit.Store(5)
	for round := range 3 {
		for i := range all {
			readFile(t, all[i], i)
		}
		if round == 0 && c.opens.Load() < 30 {
			t.Error("the files were not opened")
		}
	}
	c.limit.Store(0)
	closeAll(t, c, p, all)
}

func TestErrorsAreNotSticky(t *testing.T) {
	c, p, all := newPooled(t, 2, 3, &owner{})
	eio := error(&fs.PathError{Op: "open", Path: "x", Err: syscall.EIO})
	c.fail.Store(&eio)
	var b [1]byte
	for range 5 {
		if _, err := all[0].ReadAt(b[:], 0); !errors.Is(err, syscall.EIO) ||
			errors.Is(err, base.ErrCorruption) {
			t.Fatalf("got %v, want EIO", err)
		}
	}
	if p.open != 0 {
		t.Fatalf("failures hold %d descriptors", p.open)
	}
	c.fail.Store(nil)
	hammer(t, all, 3, 100)
	closeAll(t, c, p, all)
}

// A file that has become shorter is found when its descriptor is opened again.
func TestShorterFile(t *testing.T) {
	c, p, all := newPooled(t, 2, 1, &owner{})
	all[0].size = 101
	var b [1]byte
	_, err := all[0].ReadAt(b[:], 0)
	var damage *base.Corruption
	if !errors.As(err, &damage) || damage.File != "000000.ldb" {
		t.Fatalf("got %v", err)
	}
	if !bytes.Contains([]byte(err.Error()), []byte("100")) ||
		!bytes.Contains([]byte(err.Error()), []byte("101")) {
		t.Errorf("the error does not name both sizes: %v", err)
	}
	closeAll(t, c, p, all)
}

func TestReservationWaitsForAPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, all := newPooled(t, 1, 2, &owner{})
		if err := all[0].acquire(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			readFile(t, all[1], 1)
			close(done)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a second descriptor was opened while the only one was pinned")
		default:
		}
		all[0].release()
		<-done
		closeAll(t, c, p, all)
	})
}

func TestMaxOpenFor(t *testing.T) {
	for limit, want := range map[uint64]int{0: 4, 20: 4, 64: 21, 256: 117, 1024: 501,
		1 << 20: 16384, 1<<64 - 1: 16384} {
		if got := maxOpenFor(limit); got != want {
			t.Errorf("maxOpenFor(%d) = %d, want %d", limit, got, want)
		}
	}
}

// TestVictimsDiskIsBlocked: a set that takes the descriptor of another one does not wait for its
// disk.
func TestVictimsDiskIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		blocked := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpClose {
				<-open
			}
			return vfs.Outcome{}
		})
		c, p, own := newPooled(t, 2, 4, &owner{})
		if err := blocked.MkdirAll("/db"); err != nil {
			t.Fatal(err)
		}
		close(open) // while its files are made
		foreign := makeFiles(t, blocked, "/db", 2, p, &owner{})
		open = make(chan struct{})
		for i, f := range foreign {
			readFile(t, f, i)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for i, f := range own {
				readFile(t, f, i)
			}
		}()
		synctest.Wait()
		select {
		case <-read:
		default:
			t.Error("reads wait for the disk of another set")
		}
		close(open)
		<-read
		for _, f := range foreign {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		closeAll(t, c, p, own)
	})
}

// TestSpareOfAGroup: a descriptor that stays open counts for the group, too, while it is open, and
// not afterwards.
func TestSpareOfAGroup(t *testing.T) {
	g := &Group{}
	c, p, all := newPooled(t, 100, 6, &owner{group: g})
	g.set(p, 4)
	o := all[0].owner
	for round := range 3 {
		for range 2 {
			if !p.reserveSpare(o) {
				t.Fatalf("round %d: half of the group's descriptors are free and refused", round)
			}
		}
		if p.reserveSpare(o) {
			t.Errorf("round %d: a third one of 4 is not refused", round)
		}
		if g.open != 2 {
			t.Errorf("round %d: the group counts %d descriptors, want 2", round, g.open)
		}
		p.unreserve(o)
		p.unreserve(o)
	}
	for i, f := range all {
		readFile(t, f, i)
	}
	if m := c.most.Load(); m != 4 {
		t.Errorf("%d descriptors were open, the group may have 4", m)
	}
	closeAll(t, c, p, all)
	if g.open != 0 {
		t.Errorf("the group counts %d descriptors after the end", g.open)
	}
}

// TestVictimPanics: a file system that panics when a set takes the descriptor of another one ends
// nothing; the other set is told.
func TestVictimPanics(t *testing.T) {
	mem := vfs.NewMem()
	told := make(chan error, 1)
	c, p, own := newPooled(t, 1, 1, &owner{})
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	foreign := makeFiles(t, panicky{mem}, "/db", 1, p, &owner{fail: func(err error) {
		told <- err
	}})
	readFile(t, foreign[0], 0)
	readFile(t, own[0], 0)
	var panicked *base.Panic
	if err := <-told; !errors.As(err, &panicked) {
		t.Errorf("told is %v, want the panic", err)
	}
	closeAll(t, c, p, own)
}

// panicky is a file system whose open files panic when they are closed.
type panicky struct{ vfs.FS }

func (p panicky) Open(name string) (vfs.ReadFile, error) {
	f, err := p.FS.Open(name)
	return panickyFile{f}, err
}

type panickyFile struct{ vfs.ReadFile }

func (panickyFile) Close() error { panic("out of order") }

// ending is a file system that panics or ends its goroutine, in one kind of call, while on is set.
type ending struct {
	vfs.FS
	on    bool
	reads bool // or else when files are opened
	act   func()
}

func (e *ending) Open(name string) (vfs.ReadFile, error) {
	if e.on && !e.reads {
		e.act()
	}
	f, err := e.FS.Open(name)
	return endingFile{f, e}, err
}

type endingFile struct {
	vfs.ReadFile
	e *ending
}

func (f endingFile) ReadAt(p []byte, off int64) (int, error) {
	if f.e.on {
		f.e.act()
	}
	return f.ReadFile.ReadAt(p, off)
}

// TestCallsThatEndHoldNoDescriptor: of a file system that panics, or ends its goroutine, when it
// opens or reads a file, no descriptor stays reserved or pinned: files of others are read.
func TestCallsThatEndHoldNoDescriptor(t *testing.T) {
	for name, act := range map[string]func(){"panic": func() { panic("out of order") },
		"Goexit": runtime.Goexit} {
		for _, reads := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, p, own := newPooled(t, 2, 2, &owner{})
				e := &ending{FS: vfs.NewMem(), reads: reads, act: act}
				if err := e.MkdirAll("/db"); err != nil {
					t.Fatal(err)
				}
				foreign := makeFiles(t, e, "/db", 2, p, &owner{})
				e.on = true
				for range 3 {
					for _, f := range foreign {
						err := base.Alone(func() error {
							_, err := f.ReadAt(make([]byte, 10), 0)
							return err
						})
						var panicked *base.Panic
						if !errors.As(err, &panicked) {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
				e.on = false
				for i := range own { // in the bubble a wait that nothing ends fails the test
					readFile(t, own[i], i)
				}
				for i, f := range foreign {
					readFile(t, f, i)
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait() // for descriptors that were taken for others
				closeAll(t, c, p, own)
			})
		}
	}
}
