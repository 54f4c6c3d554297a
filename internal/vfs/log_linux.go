package vfs

import (
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pageSize = 4096
	// maxWrite is what one pwrite is asked to write: Linux cuts larger ones
	// just below 2 GiB.
	maxWrite = 1 << 30
	// slowSync is the duration from which a sync says that the device is busy,
	// so that even a write into the page cache may have to wait.
	slowSync = 20 * time.Millisecond
)

// osLog appends at an offset of its own and keeps the file allocated, and its
// size grown, ahead of that: a sync then has no size to make durable. Close
// cuts the rest off; after a crash it reads as zeros.
//
// Small appends between which nobody syncs are stores into a window, all
// others are pwrite: the page cache is the same, whichever way it is reached.
type osLog struct {
	f      *os.File
	fd     int
	off    int64 // end of what was appended
	window window
	// growAt is the offset from which the next Append starts an allocation;
	// it belongs to the appender.
	growAt int64
	ahead  int64
	torn   bool // a failed Append left something after off

	// calm says that the last sync was fast and that none is running.
	calm  atomic.Bool
	syncs atomic.Uint32 // how many began
	alloc atomic.Int64  // end of the last allocation that succeeded

	growing atomic.Bool // an allocation is running
	grow    sync.WaitGroup
}

func newLog(f *os.File, ahead int64, plain bool) *osLog {
	l := &osLog{f: f, fd: int(f.Fd()), ahead: ahead}
	l.window = window{never: plain || ahead <= 0 || !mappable(l.fd), quiet: windowQuiet}
	l.calm.Store(true)
	l.growAt = math.MaxInt64
	if ahead > 0 {
		l.allocate(0)
		l.growAt = ahead / 2
	}
	return l
}

// allocate grows the file to end at from+ahead, or gives up allocating ahead:
// nothing depends on it. It keeps off the last of the disk's space, which
// belongs to data.
func (l *osLog) allocate(from int64) {
	var st unix.Statfs_t
	err := unix.Fstatfs(l.fd, &st)
	if err != nil || int64(st.Bavail) < 8*l.ahead/max(int64(st.Bsize), 1) {
		return
	}
	if unix.Fallocate(l.fd, 0, from, l.ahead) == nil {
		l.alloc.Store(from + l.ahead)
	}
}

// startAllocate allocates the next stretch on a goroutine of its own. Called
// by the appender when it is about to have less than half a stretch left; an
// allocation that failed is tried again after as much.
func (l *osLog) startAllocate() {
	if l.growing.Swap(true) {
		l.growAt = l.off + l.ahead/2
		return
	}
	from := max(l.alloc.Load(), l.off)
	l.growAt = from + l.ahead/2
	l.grow.Go(func() {
		l.allocate(from)
		l.growing.Store(false)
	})
}

// Append writes p. A write that stays inside the page where the last one
// ended meets a page that is already there and dirty: it does not block, and
// goes without telling the scheduler about the system call.
func (l *osLog) Append(p []byte) error {
	if l.windowFor(len(p)) {
		if err := l.window.store(l.off, p); err != nil {
			return l.failAppend(len(p), err)
		}
		l.off += int64(len(p))
		if l.off >= l.growAt {
			l.startAllocate()
		}
		return nil
	}
	if in := int(l.off & (pageSize - 1)); in != 0 && in+len(p) <= pageSize && l.calm.Load() {
		n, err := pwriteNow(l.fd, p, l.off)
		if n != len(p) {
			return l.failAppend(n, err)
		}
		l.off += int64(n)
		return nil
	}
	return l.appendSlow(p)
}

func (l *osLog) appendSlow(p []byte) error {
	end := l.off
	for len(p) > 0 {
		n, err := unix.Pwrite(l.fd, p[:min(len(p), maxWrite)], end)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != min(len(p), maxWrite) {
			return l.failAppend(int(end-l.off)+max(n, 0), err)
		}
		p = p[n:]
		end += int64(n)
	}
	l.off = end
	if l.off >= l.growAt {
		l.startAllocate()
	}
	return nil
}

func (l *osLog) failAppend(written int, err error) error {
	l.torn = l.torn || written > 0
	if err == nil {
		err = io.ErrShortWrite
	}
	return &os.PathError{Op: "append", Path: l.f.Name(), Err: err}
}

func (l *osLog) Sync() error {
	l.syncs.Add(1)
	l.calm.Store(false)
	start := time.Now()
	if err := fdatasync(l.fd); err != nil {
		return &os.PathError{Op: "fdatasync", Path: l.f.Name(), Err: err}
	}
	l.calm.Store(time.Since(start) < slowSync)
	return nil
}

// Close cuts off what was allocated ahead and what a failed Append left.
func (l *osLog) Close() error {
	l.grow.Wait()
	l.window.close()
	var err error
	if l.torn || l.ahead > 0 {
		err = l.f.Truncate(l.off)
	}
	if cerr := l.f.Close(); err == nil {
		err = cerr
	}
	return err
}
