// Package leak looks for resources that grow and for activity in idle databases: file
// descriptors, goroutines, threads and off-heap memory over many openings,
// writes and processor time of an idle database, and a Close that hangs.
//
// It measures the whole process: no other test may run in parallel.
package leak

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

// Usage is what the process holds. -1 where the system does not tell.
type Usage struct {
	Descriptors, Threads, Goroutines int
	OffHeap                          int64
}

func (u Usage) String() string {
	return fmt.Sprintf("%d descriptors, %d threads, %d goroutines, %d bytes off the heap",
		u.Descriptors, u.Threads, u.Goroutines, u.OffHeap)
}

// Now measures, after what runs in the background has come to an end.
func Now() Usage {
	u := usage()
	// Goroutines that are done need a moment to vanish: what stays the same for
	// 100 ms, or 2, those of a test, is not of that kind.
	for same := 0; u.Goroutines > 2 && same < 100; same++ {
		time.Sleep(time.Millisecond)
		if n := runtime.NumGoroutine(); n != u.Goroutines {
			u.Goroutines, same = n, 0
		}
	}
	return usage()
}

func usage() Usage {
	return Usage{entries("/proc/self/fd"), entries("/proc/self/task"), runtime.NumGoroutine(),
		offheap.InUse()}
}

func entries(dir string) int {
	list, err := os.ReadDir(dir)
	if err != nil {
		return -1
	}
	return len(list)
}

// Cycle opens the database in dir, writes and reads a little, and closes it.
// Every tenth time it flushes and compacts as well, and leaves a snapshot open.
func Cycle(dir string, l *testkit.Ledger, i int) error {
	db, err := lsm.Open(dir, &lsm.Options{WriteBufferSize: 64 << 10, CacheSize: 1 << 20})
	if err != nil {
		return err
	}
	defer db.Close()
	if i > 1 {
		if last, err := testkit.Last(db); err != nil || last != i-1 {
			return fmt.Errorf("opening %d: newest batch %d, %v", i, last, err)
		}
	}
	b := lsm.NewBatch()
	l.Fill(b, i)
	if err := db.Write(b, lsm.NoSync); err != nil {
		return err
	}
	if i%10 == 0 {
		db.Snapshot()
		if err := db.Flush(); err != nil {
			return err
		}
		if err := db.CompactRange(nil, nil); err != nil {
			return err
		}
		if _, err := testkit.Dump(db); err != nil {
			return err
		}
	}
	return db.Close()
}

// Openings runs n cycles in dir and reports what the later ones added to what
// the process held after the first few.
func Openings(dir string, seed int64, n int) (before, after Usage, err error) {
	l := &testkit.Ledger{Seed: seed}
	for i := 1; i <= n; i++ {
		if err := Cycle(dir, l, i); err != nil {
			return before, after, err
		}
		if i == min(20, n/2) {
			before = Now()
		}
	}
	// What ends takes a moment to vanish.
	hang.Until(func() bool { after = usage(); return !after.more(before) })
	return before, after, nil
}

// more reports whether u is more than before, but for a few threads: the runtime makes one when all
// it has are in system calls.
func (u Usage) more(before Usage) bool {
	return u.Descriptors > before.Descriptors || u.Goroutines > before.Goroutines ||
		u.OffHeap > before.OffHeap || u.Threads > before.Threads+4
}

// Idle opens a database with some data in dir, lets it settle, and counts the
// file-system calls and the processor time of a period. What opening and
// writing left to do may take any time: the least of up to 20 periods counts.
func Idle(dir string, period time.Duration) (calls int64, cpu time.Duration, err error) {
	var n atomic.Int64
	fs := vfs.NewFault(vfs.Default, func(vfs.Op) vfs.Outcome {
		n.Add(1)
		return vfs.Outcome{}
	})
	db, err := lsm.Open(dir, &lsm.Options{FS: fs, WriteBufferSize: 256 << 10})
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	b := lsm.NewBatch()
	l := &testkit.Ledger{Seed: 1, MaxValue: 2000}
	for i := 1; i <= 500; i++ {
		l.Fill(b, i)
		if err := db.Write(b, lsm.NoSync); err != nil {
			return 0, 0, err
		}
	}
	runtime.GC()
	calls, cpu = math.MaxInt64, math.MaxInt64
	for range 20 {
		c, p := n.Load(), hang.ProcessorTime()
		time.Sleep(period)
		calls, cpu = min(calls, n.Load()-c), min(cpu, hang.ProcessorTime()-p)
		if calls == 0 && cpu <= 25*time.Millisecond {
			break
		}
	}
	return calls, cpu, db.Close()
}

// CloseBusy fills a database until compactions have much to do and measures
// how much processor time Close takes then.
func CloseBusy(dir string, entries int) (time.Duration, error) {
	var once sync.Once
	begun := make(chan struct{})
	db, err := lsm.Open(dir, &lsm.Options{WriteBufferSize: 1 << 20, MaxFileSize: 1 << 20,
		Events: &lsm.EventListener{
			CompactionBegin: func(c lsm.CompactionInfo) {
				if c.Reason == "manual" {
					once.Do(func() { close(begun) })
				}
			},
		}})
	if err != nil {
		return 0, err
	}
	value := make([]byte, 200)
	for i := range entries {
		if err := db.Put(fmt.Appendf(nil, "%08d", i*7919%entries), value, lsm.NoSync); err != nil {
			db.Close()
			return 0, err
		}
	}
	go db.CompactRange(nil, nil)
	<-begun
	start := hang.ProcessorTime()
	err = hang.InTime(db.Close)
	return hang.ProcessorTime() - start, err
}
