package vfs

import (
	"cmp"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
)

const (
	pageSize = 4096
	// maxWrite is the limit of one pwrite in bytes: Linux cuts larger ones
	// just below 2 GiB.
	maxWrite = 1 << 30
	// firstStep is how much a new log allocates. The log of a small database,
	// and what a killed process leaves of it, stays small.
	firstStep   = recordBlock
	recordBlock = 32 << 10 // of the log's format, see package record
)

// osLog appends at an offset of its own and keeps the file allocated, and its
// size grown, ahead of that: a sync then has no size to make durable. Close
// cuts the rest off; after a crash it reads as zeros.
//
// Small appends, as long as no Sync comes between them, are stores into a window. All
// others use pwrite. Both write to the same page cache.
type osLog struct {
	f      *os.File
	fd     int
	off    int64 // end of what was appended
	window window
	// growAt is the offset from which the next Append starts an allocation,
	// step the size of the last one. Both belong to the appender.
	growAt int64
	step   int64
	ahead  int64 // the largest step, 0 for no allocations
	torn   bool  // a failed Append left something after off
	reused bool  // a former life may have

	syncs atomic.Uint32 // how many began
	alloc atomic.Int64  // end of the last allocation that succeeded

	growing atomic.Bool // an allocation is running
	grow    sync.WaitGroup
}

func newLog(f *os.File, ahead int64, plain bool) *osLog {
	l := openLog(f, ahead, plain)
	if ahead > 0 {
		l.step = min(firstStep, ahead)
		l.allocate(0, l.step)
		l.growAt = l.step / 2
	}
	return l
}

// reusedLog is newLog for a file that has size bytes of a former life, all of them
// allocated.
func reusedLog(f *os.File, ahead, size int64, plain bool) *osLog {
	l := openLog(f, ahead, plain)
	l.reused = true
	l.alloc.Store(size)
	if ahead > 0 {
		l.step = min(max(size, firstStep), ahead)
		l.growAt = max(size-l.step/2, 0)
	}
	return l
}

func openLog(f *os.File, ahead int64, plain bool) *osLog {
	l := &osLog{f: f, fd: int(f.Fd()), ahead: ahead}
	l.window = window{never: plain || ahead <= 0 || !mappable(l.fd),
		quiet: windowQuiet - windowBegin, look: pageSize, step: 2 * pageSize}
	l.growAt = math.MaxInt64
	return l
}

// allocate grows the file from from by a step, or gives up allocating ahead:
// nothing depends on it. It keeps off the last of the disk's space, which
// belongs to data. The file ends with a block of the log's format, so that
// LevelDB, which may append to it (reuse_logs), reads on behind the zeros.
func (l *osLog) allocate(from, step int64) {
	var st unix.Statfs_t
	err := unix.Fstatfs(l.fd, &st)
	if err != nil || int64(st.Bavail) < 8*step/max(int64(st.Bsize), 1) {
		return
	}
	end := from + step
	if step >= recordBlock {
		end = (end + recordBlock - 1) &^ (recordBlock - 1)
	}
	if unix.Fallocate(l.fd, 0, from, end-from) == nil {
		l.alloc.Store(end)
	}
}

// startAllocate allocates the next step, twice as long as the last one, on a
// goroutine of its own. The appender calls it when less than half a step is left; a
// failed allocation is tried again after another half.
func (l *osLog) startAllocate() {
	if l.growing.Swap(true) {
		l.growAt = l.off + l.step/2
		return
	}
	step := min(2*l.step, l.ahead)
	from := max(l.alloc.Load(), l.off)
	l.step, l.growAt = step, from+step/2
	l.grow.Go(func() {
		l.allocate(from, step)
		l.growing.Store(false)
	})
}

// Append writes p, by a store into the window or by a system call. Every write may
// block, one within a dirty page too: its file's time stamp changes, and the journal
// may be writing that block. So each system call tells Go's scheduler of itself
// (60 ns of 350); a thread that blocked without would hold up all that stops the world.
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
	return l.write(p)
}

// write appends p by system calls. A full disk cuts a write short without a reason: the
// next one has the error.
func (l *osLog) write(p []byte) error {
	end := l.off
	for len(p) > 0 {
		n, err := unix.Pwrite(l.fd, p[:min(len(p), maxWrite)], end)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return l.failAppend(int(end-l.off), err)
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
	return base.Classify(&os.PathError{Op: "append", Path: l.f.Name(), Err: err})
}

// Truncate cuts the file, and with it what was allocated ahead. The next
// Append allocates again.
func (l *osLog) Truncate(size int64) error {
	l.grow.Wait()
	l.window.close()
	if err := l.f.Truncate(size); err != nil {
		return base.Classify(err)
	}
	l.off, l.torn = size, false
	l.alloc.Store(0)
	if l.ahead > 0 {
		l.growAt = size
	}
	return nil
}

func (l *osLog) Sync() error {
	l.syncs.Add(1)
	if err := fdatasync(l.fd); err != nil {
		return base.Classify(&os.PathError{Op: "fdatasync", Path: l.f.Name(), Err: err})
	}
	return nil
}

// Close cuts off what was allocated ahead and what a failed Append or a former life left.
func (l *osLog) Close() error {
	l.grow.Wait()
	l.window.close()
	var err error
	if l.torn || l.reused || l.ahead > 0 {
		err = l.f.Truncate(l.off)
	}
	return base.Classify(cmp.Or(err, closeFile(l.f)))
}
