package vfs

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// windowSize is how much of a log is mapped at a time. It bounds what an
	// idle log keeps resident.
	windowSize = 512 << 10
	// windowStep is how much of it is made ready at a time, at most. A sync writes the
	// rest of a step out as zeros.
	windowStep = 64 << 10
	// windowTime is how far ahead of the appends pages are made ready. In that time
	// the kernel may write a page back and protect it again.
	windowTime = time.Millisecond
	// slowPage is the time for a page of appends from which on they are not stored, and for
	// which pages count as ready.
	slowPage = 2 * time.Millisecond
	// windowMax is the longest append that is stored: a longer one is not
	// cheaper than the system call.
	windowMax = 4 << 10
	// windowQuiet is how many appends use pwrite after a sync, which write-protects pages, or a
	// slow page.
	windowQuiet = 256
	windowBegin = 8 // how many do at a log's beginning: one that gets no more has no window
	// windowTimed of them, the last ones, tell how much is made ready at first, up to
	// windowFirst: a small database has no second step then.
	windowTimed = 4
	windowFirst = 4 * pageSize
)

// window is a part of a log's file, mapped for writing. A store costs a fifth of a
// pwrite and is as safe: the page cache survives the process. It belongs to the
// appender.
//
// A store into a mapped file reports a failure by a signal. So the window lies where
// fallocate has succeeded, so that a full disk cannot fail it, and its pages are made
// writable by a system call that returns errors. Three causes are left: another program
// cuts the file off, a memory cell is bad, or the file system turned read-only since the last sync.
// That fault is caught and becomes the append's error. A file that was cut gets no zeros: they
// would bring its pages back.
//
// Nor may a store wait for the file system: Go's scheduler knows nothing of a page fault, and a
// goroutine that waits in one holds up the garbage collector and all else that stops the world.
// A page that was made ready just now does not fault, unless the kernel wrote it back meanwhile. So
// pages are made ready for windowTime ahead, by calls that may wait, and slow appends are not
// stored, whether they wait or come seldom. After a pause pages are made ready anew: a file system
// that was frozen meanwhile has protected them, and stores wait until it is thawed.
type window struct {
	never bool   // stores are not for this file
	mem   []byte // nil: nothing is mapped
	from  int64  // file offset of mem[0]
	ready int64  // file offset up to which pages are writable; 0: none

	lease *time.Timer // runs from the time at which pages were made ready; nil: none were
	stale atomic.Bool // it has run out

	syncs uint32 // osLog.syncs as of the last append
	quiet int    // appends since then or since a slow page, up to windowQuiet

	// timed is when windowTimed appends were left before the first store, from timedFrom on
	timed     time.Time
	timedFrom int64

	step int64 // how much is made ready next
	look int64 // file offset at which the clock is read next
	// when it was read last, zero in the first page: a log may wait for its first appends
	looked time.Time
}

// clock is what window reads the time from.
var clock = time.Now

// mappable tells whether the file system keeps fallocate's promise for stores.
func mappable(fd int) bool { return !mayCompress(fd) }

// windowFor tells whether the next n bytes are to be stored in the window, and
// has it ready for them.
func (l *osLog) windowFor(n int) bool {
	w := &l.window
	if n > windowMax || w.never {
		return false
	}
	if s := l.syncs.Load(); s != w.syncs {
		w.syncs, w.quiet, w.ready = s, 0, 0
	}
	if l.off >= w.look {
		w.pace(l.off)
	}
	if w.quiet < windowQuiet {
		if w.quiet++; w.quiet == windowQuiet-windowTimed {
			w.timed, w.timedFrom = clock(), l.off
		}
		return false
	}
	if w.stale.Load() {
		w.ready = 0
	}
	return l.off+int64(n) <= w.ready || w.advance(l.fd, l.off, int64(n), l.alloc.Load())
}

// pace looks how long the appends took to fill the last page, or several. off is the
// end of the log.
func (w *window) pace(off int64) {
	now := clock()
	page := now.Sub(w.looked) / time.Duration(1+(off-w.look)/pageSize)
	slow := page >= slowPage && !w.looked.IsZero()
	w.looked, w.look = now, off&^(pageSize-1)+pageSize
	if slow {
		w.quiet, w.ready = 0, 0
		return
	}
	w.step = stepFor(page)
}

// stepFor is how much is made ready for appends that fill a page in this time.
func stepFor(page time.Duration) int64 {
	return min(max(int64(windowTime/max(page, 1)), 2)*pageSize, windowStep)
}

// advance makes ready the pages from off on, n bytes at least, if the file is
// allocated there.
func (w *window) advance(fd int, off, n, alloc int64) bool {
	alloc &^= pageSize - 1
	if off+n > alloc {
		return false
	}
	page := off &^ (pageSize - 1)
	if off < w.from || off+n > w.from+int64(len(w.mem)) {
		w.close()
		mem, err := unix.Mmap(fd, page, windowSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			w.never = true
			return false
		}
		if w.looked.IsZero() { // the clock of pages has not begun
			took := clock().Sub(w.timed) * pageSize / time.Duration(max(off-w.timedFrom, 1))
			w.step = max(w.step, min(stepFor(took), windowFirst))
		}
		w.mem, w.from = mem, page
		// Or a fault brings in, and a sync writes, a folio of 2 MiB.
		_ = unix.Madvise(mem, unix.MADV_RANDOM)
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Size < alloc {
		return true // the store faults
	}
	begin := max(page, w.ready)
	end := min(max(begin+w.step, off+n), w.from+int64(len(w.mem)), alloc)
	if populate(fd, begin, max(begin, (off+pageSize-1)&^(pageSize-1)),
		w.mem[begin-w.from:end-w.from]) != nil {
		w.close() // an old kernel, or what the append by pwrite will say
		w.never = true
		return false
	}
	w.ready = end
	w.stale.Store(false)
	if w.lease == nil {
		w.lease = time.AfterFunc(slowPage, func() { w.stale.Store(true) })
	} else {
		w.lease.Reset(slowPage)
	}
	return true
}

// zeros is written to bring pages into being.
var zeros [windowStep]byte

// populate makes the pages of mem, mapped from offset begin on, writable. From
// empty on, where nothing is appended yet, it writes zeros first: one call
// that allocates pages together halves the cost of faulting them in one by one.
func populate(fd int, begin, empty int64, mem []byte) error {
	if n := begin + int64(len(mem)) - empty; n > 0 {
		if _, err := unix.Pwrite(fd, zeros[:n], empty); err != nil {
			return err
		}
	}
	return unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
}

// store writes p at off, page after page. So if it is interrupted, what it has written
// is a prefix of p.
func (w *window) store(off int64, p []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, fault := r.(interface{ Addr() uintptr }); fault {
				r = "the system cannot write the page"
			}
			err = fmt.Errorf("%w: storing into the mapped log: %v", unix.EIO, r)
		}
	}()
	for len(p) > 0 {
		n := min(len(p), pageSize-int(off&(pageSize-1)))
		copy(w.mem[off-w.from:], p[:n])
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// close unmaps. The log may be appended to, and mapped again.
func (w *window) close() {
	_ = unix.Munmap(w.mem) // EINVAL of nil
	w.mem, w.from, w.ready = nil, 0, 0
}
