package backup

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
)

// Run is one call of Create, Verify or Restore: the end, the rate limit and the progress callback
// of a run.
type Run struct {
	ctx   context.Context
	ended func() error // returns the reason to end reading or writing; nil before the call

	rate int64 // bytes per second; 0: no bound
	mu   sync.Mutex
	next time.Time // when what was read so far is paid for

	tell     func(done, of uint64) // nil: nobody is told
	done, of atomic.Uint64
	wake     chan struct{} // there is something to tell; has room for one
	told     chan struct{} // closed when tell is not called any more
	panicked atomic.Pointer[base.Panic]
}

// NewRun begins a Run, which the caller ends by End. tell is called on a goroutine of its own, so
// that it may take its time, or call Close of the folder or the database.
func NewRun(ctx context.Context, bytesPerSecond int64, tell func(done, of uint64)) *Run {
	r := &Run{ctx: ctx, rate: bytesPerSecond, tell: tell, wake: make(chan struct{}, 1),
		told: make(chan struct{})}
	if tell == nil {
		close(r.told)
		return r
	}
	go r.teller()
	return r
}

// teller calls tell with the newest figures.
func (r *Run) teller() {
	defer close(r.told)
	defer func() {
		if v := recover(); v != nil {
			r.panicked.Store(base.NewPanic(v))
		}
	}()
	last := ^uint64(0)
	for range r.wake {
		if done := r.done.Load(); done != last {
			last = done
			r.tell(done, r.of.Load())
		}
	}
}

// End waits for the last call of tell. err is how the run ended; a panic of tell is an error, too.
func (r *Run) End(err error) error {
	close(r.wake)
	<-r.told
	if err == nil {
		err = r.tellFailed()
	}
	return err
}

func (r *Run) tellFailed() error {
	if p := r.panicked.Load(); p != nil {
		return fmt.Errorf("the progress function failed: %w", p)
	}
	return nil
}

// begin sets what the run is out of.
func (r *Run) begin(of uint64, ended func() error) {
	r.ended = ended
	r.of.Store(of)
	r.add(0)
}

// stop is why the run is to end early, or nil.
func (r *Run) stop() error {
	if err := r.ended(); err != nil {
		return err
	}
	if err := r.tellFailed(); err != nil {
		return err
	}
	return r.ctx.Err()
}

// add counts bytes that are done.
func (r *Run) add(n int64) {
	r.done.Add(uint64(n))
	if r.tell != nil {
		select {
		case r.wake <- struct{}{}:
		default: // teller has not come to it yet
		}
	}
}

// slice is how long a run sleeps at most before it looks whether it is to end.
const slice = 20 * time.Millisecond

// pay waits until n bytes more may be read.
func (r *Run) pay(n int) error {
	if r.rate <= 0 {
		return r.stop()
	}
	r.mu.Lock()
	if now := time.Now(); r.next.Before(now) {
		r.next = now
	}
	r.next = r.next.Add(time.Duration(float64(n) / float64(r.rate) * float64(time.Second)))
	until := r.next
	r.mu.Unlock()
	for {
		if err := r.stop(); err != nil {
			return err
		}
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		time.Sleep(min(left, slice))
	}
}

// chunkSize is how many bytes are read, hashed and written at a time: a core's cache has them
// meanwhile.
const chunkSize = 256 << 10

// chunk is how many bytes are read at a time: with a bound on the rate, a tenth of a second's.
func (r *Run) chunk() int64 {
	if r.rate <= 0 {
		return chunkSize
	}
	return min(max(r.rate/10, 4<<10), chunkSize)
}

// aheadSize is the number of bytes that are requested from the system ahead of the read position.
const aheadSize = 1 << 20

// sums are the checksums of the bytes read.
type sums struct {
	sha [sha256.Size]byte
	crc uint32
}

// transfer reads the first size bytes of in, and writes them to out unless that is nil. counted
// says that they are progress. buf has chunkSize bytes.
func (r *Run) transfer(in vfs.ReadFile, out io.Writer, size int64, counted bool,
	buf []byte) (s sums, err error) {
	hash := sha256.New()
	chunk := r.chunk()
	for off := int64(0); off < size; {
		b := buf[:min(size-off, chunk)]
		if err := r.pay(len(b)); err != nil {
			return s, err
		}
		if off == 0 {
			in.Prefetch(0, min(size, aheadSize))
		}
		in.Prefetch(off+aheadSize, chunk)
		if err := base.ReadFull(in, b, off); err != nil {
			return s, err
		}
		hash.Write(b)
		s.crc = base.CRCUpdate(s.crc, b)
		if out != nil {
			if _, err := out.Write(b); err != nil {
				return s, err
			}
		}
		off += int64(len(b))
		if counted {
			r.add(int64(len(b)))
		}
	}
	hash.Sum(s.sha[:0])
	return s, r.stop()
}

// workers is how many files are copied or read side by side: one is hashed while others wait for
// the disk.
const workers = 4

// each calls do with the numbers below n, on several goroutines, each with a buffer of its own,
// until one fails, and returns the first failure.
func each(n int, do func(i int, buf []byte) error) error {
	return store.Share(n, workers, func(numbers iter.Seq[int]) error {
		buf := make([]byte, chunkSize)
		for i := range numbers {
			if err := do(i, buf); err != nil {
				return err
			}
		}
		return nil
	})
}
