package vfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestLogAllocatesAhead(t *testing.T) {
	const ahead = 64 << 10
	name := filepath.Join(t.TempDir(), "log")
	f, err := Default.CreateLog(name, ahead)
	must(t, err)
	l := f.(*osLog)
	if l.alloc.Load() == 0 {
		t.Skip("no fallocate here, or no space")
	}
	for i := range 3000 {
		must(t, l.Append(make([]byte, 141)))
		l.grow.Wait()
		st, err := Default.Stat(name)
		must(t, err)
		least := int64(ahead / 2)
		if l.off < firstStep {
			least = firstStep / 2 // the steps grow
		}
		if left := st.Size() - l.off; left < least-141-pageSize || left > 3*ahead/2+141 {
			t.Fatalf("after %d appends %d bytes are left of the allocation", i+1, left)
		}
	}
	must(t, l.Close())
	st, err := Default.Stat(name)
	must(t, err)
	if st.Size() != 3000*141 {
		t.Errorf("closed with %d bytes", st.Size())
	}
}

// newWindowed returns a log that stores, at its name in a directory of its
// own, or skips the test where the file system or the kernel lacks the means.
func newWindowed(t *testing.T, ahead int64) (*osLog, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log")
	f, err := Default.CreateLog(name, ahead)
	must(t, err)
	l := f.(*osLog)
	if !mappable(l.fd) || l.alloc.Load() == 0 {
		t.Skip("no stores into files of this file system, or no space")
	}
	page, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|
		unix.MAP_ANONYMOUS)
	must(t, err)
	defer unix.Munmap(page)
	if err := unix.Madvise(page, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skip("the kernel cannot make pages writable ahead: ", err)
	}
	for i := range windowBegin {
		if l.windowFor(1) {
			t.Fatalf("append %d of a new log is stored", i)
		}
	}
	if !l.windowFor(1) {
		t.Fatal("the log does not store where it could")
	}
	return l, name
}

// TestLogWindow mixes stores, pwrites and syncs, and compares the file while
// it is open, as a process that died would leave it, and when it is closed. In
// every other thousand appends the file is always allocated ahead, so that most
// of those are stored. The clock stands, as slow appends are not stored.
func TestLogWindow(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock = func() time.Time { return now }
	defer func() { clock = time.Now }()
	for _, ahead := range []int64{16 << 10, 1 << 20} {
		l, name := newWindowed(t, ahead)
		rng := rand.New(rand.NewPCG(uint64(ahead), 1))
		var want []byte
		stored := 0
		for i := range 20000 {
			n := 1 + rng.IntN(300)
			if i%97 == 0 {
				n = rng.IntN(3 * windowMax)
			}
			if i%2000 == 1999 {
				must(t, l.Sync())
			}
			p := make([]byte, n)
			for j := range p {
				p[j] = byte(rng.Uint32() | 1)
			}
			must(t, l.Append(p))
			want = append(want, p...)
			if i/1000%2 == 0 {
				l.grow.Wait()
				if l.window.ready > 0 && n <= windowMax {
					stored++
				}
			}
			if i%4000 == 0 {
				got, err := os.ReadFile(name)
				must(t, err)
				if !bytes.Equal(got[:len(want)], want) ||
					len(bytes.Trim(got[len(want):], "\x00")) > 0 {
					t.Fatalf("after %d appends the file differs", i+1)
				}
			}
		}
		must(t, l.Close())
		got, err := os.ReadFile(name)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("closed with %d bytes, want %d, or others", len(got), len(want))
		}
		if stored < 5000 {
			t.Errorf("only %d of 10000 appends were stored", stored)
		}
	}
}

// TestLogWindowBegins: as much is made ready at first as the last appends before the first store
// tell, so that a hundred small ones need no second call.
func TestLogWindowBegins(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock = func() time.Time { return now }
	defer func() { clock = time.Now }()
	for each, want := range map[time.Duration]int64{
		0: 4, 5 * time.Microsecond: 4, 20 * time.Microsecond: 2, time.Millisecond: 2,
	} {
		newWindowed(t, 1<<20) // or skip
		f, err := Default.CreateLog(filepath.Join(t.TempDir(), "log"), 1<<20)
		must(t, err)
		l := f.(*osLog)
		for i := range windowBegin + 1 {
			if i == 2 {
				now = now.Add(time.Minute) // in which the log waited for its first append
			}
			must(t, l.Append(make([]byte, 128)))
			now = now.Add(each)
		}
		if got := l.window.ready / pageSize; got != want {
			t.Errorf("%v an append: %d pages are ready, want %d", each, got, want)
		}
		must(t, l.Close())
	}
}

// TestLogStoresOnlyFastAppends has the clock say how long each page of appends takes. In the bubble
// no page that was made ready becomes stale.
func TestLogStoresOnlyFastAppends(t *testing.T) { synctest.Test(t, testLogStoresOnlyFastAppends) }

func testLogStoresOnlyFastAppends(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock = func() time.Time { return now }
	defer func() { clock = time.Now }()
	l, _ := newWindowed(t, 1<<20)
	l.grow.Wait()
	appendPages := func(pages int, each time.Duration) {
		for range pages * pageSize / 128 {
			must(t, l.Append(make([]byte, 128)))
			now = now.Add(each / (pageSize / 128))
			l.grow.Wait()
		}
	}
	stores := func() bool { return l.window.ready > l.off }
	ahead := func() int64 { return (l.window.ready - l.off) / pageSize }

	now = now.Add(time.Minute) // in which the log waited for its first append
	appendPages(3, 10*time.Microsecond)
	if !stores() {
		t.Error("the first appends are not stored")
	}
	appendPages(18, 10*time.Microsecond)
	if !stores() {
		t.Error("fast appends are not stored")
	}
	appendPages(34, 500*time.Microsecond)
	if !stores() || ahead() > 2 {
		t.Errorf("appends of medium speed have %d pages ready", ahead())
	}
	appendPages(5, slowPage)
	if stores() {
		t.Error("slow appends are stored")
	}
	appendPages(windowQuiet*128/pageSize-2, 10*time.Microsecond)
	if stores() {
		t.Error("appends are stored soon after slow ones")
	}
	appendPages(4, 10*time.Microsecond)
	if !stores() {
		t.Error("appends that are fast again are not stored")
	}
	now = now.Add(time.Second) // one append waited
	appendPages(1, 0)
	if stores() {
		t.Error("appends are stored after one that took long")
	}
	must(t, l.Close())
}

// TestLogWindowFault lets a stranger cut the file off under the window.
func TestLogWindowFault(t *testing.T) {
	for _, pause := range []time.Duration{0, slowPage} {
		synctest.Test(t, func(t *testing.T) {
			l, name := newWindowed(t, 1<<20)
			for range 100 {
				must(t, l.Append(make([]byte, 141)))
			}
			time.Sleep(pause)
			synctest.Wait()
			must(t, os.Truncate(name, 0))
			if err := l.Append(make([]byte, 141)); !errors.Is(err, unix.EIO) {
				t.Errorf("Append to a file that was cut off, pause %v: %v", pause, err)
			}
			must(t, l.Close())
		})
	}
}

// TestLogWindowAfterPause: pages are made ready anew after a pause, and nothing is stored into
// pages that cannot be made ready.
func TestLogWindowAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newWindowed(t, 1<<20)
		must(t, l.Append(make([]byte, 141)))
		time.Sleep(slowPage)
		synctest.Wait()
		must(t, unix.Mprotect(l.window.mem, unix.PROT_READ))
		if err := l.Append(make([]byte, 141)); err != nil {
			t.Errorf("Append after a pause in which pages were protected: %v", err)
		}
		must(t, l.Close())
	})
}

func TestPlainLog(t *testing.T) {
	l, err := OS{PlainLog: true}.CreateLog(filepath.Join(t.TempDir(), "log"), 1<<20)
	must(t, err)
	for range 3 * windowQuiet {
		must(t, l.Append(make([]byte, 141)))
	}
	if l.(*osLog).window.mem != nil {
		t.Error("stores although told not to")
	}
	must(t, l.Close())
}
