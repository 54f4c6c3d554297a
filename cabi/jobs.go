//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// job is work on a goroutine of its own.
type job struct {
	done     chan struct{} // closed at the end
	progress func() (done, total uint64)
	cancel   func() // asks the work to stop; nil if it cannot be

	mu        sync.Mutex // guards the rest
	err       error
	db        *database // opened and not yet fetched
	report    string
	abandoned bool
}

// start publishes the job and runs work, whose results it keeps.
func (j *job) start(out *C.uint64_t, work func() (*database, string, error)) error {
	j.done = make(chan struct{})
	if err := publish(kindJob, j, out); err != nil {
		return err
	}
	go func() {
		db, report, err := shielded(work)
		j.mu.Lock()
		j.err, j.db, j.report = err, db, report
		close(j.done)
		abandoned := j.abandoned
		j.mu.Unlock()
		if abandoned {
			j.drop()
		}
	}()
	return nil
}

// shielded turns a panic of work into its error.
func shielded(work func() (*database, string, error)) (db *database, report string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %w", base.NewPanic(r))
		}
	}()
	return work()
}

// abandon is what happens when the handle goes.
func (j *job) abandon() {
	j.mu.Lock()
	j.abandoned = true
	j.mu.Unlock()
	select {
	case <-j.done:
		j.drop()
	default:
	}
}

// drop closes a database nobody has fetched.
func (j *job) drop() {
	if db := j.fetch(); db != nil {
		_ = db.Close() // there is nobody to tell
	}
}

func (j *job) fetch() *database {
	j.mu.Lock()
	defer j.mu.Unlock()
	db := j.db
	j.db = nil
	return db
}

// finished reports whether the job is done, and its error.
func (j *job) finished() (bool, error) {
	select {
	case <-j.done:
		j.mu.Lock()
		defer j.mu.Unlock()
		return true, j.err
	default:
		return false, nil
	}
}

// stop asks the job to end.
func (j *job) stop() {
	if j.cancel != nil {
		j.cancel()
	}
}

//export loamgo_compact_start
func loamgo_compact_start(db C.uint64_t, start unsafe.Pointer, startLen C.size_t, stop unsafe.Pointer, stopLen C.size_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := get[*database](db, kindDB)
		if err != nil {
			return err
		}
		// The caller's memory is not ours once this returns.
		r := lsm.Range{Start: slices.Clone(bound(start, startLen)), Limit: slices.Clone(bound(stop, stopLen))}
		before := d.Metrics()
		sizes, err := d.ApproximateSizes([]lsm.Range{r})
		if err != nil {
			return err
		}
		total := sizes[0] + uint64(before.MemtableBytes)
		ctx, cancel := context.WithCancel(context.Background())
		j := &job{
			progress: func() (uint64, uint64) {
				now := d.Metrics()
				done := now.Compact.BytesIn - before.Compact.BytesIn + now.Flush.BytesIn - before.Flush.BytesIn
				return min(done, total), total
			},
			cancel: cancel,
		}
		return j.start(out, func() (*database, string, error) {
			defer cancel()
			return nil, "", d.CompactRangeContext(ctx, r.Start, r.Limit)
		})
	})
}

//export loamgo_compact
func loamgo_compact(db C.uint64_t, start unsafe.Pointer, startLen C.size_t, stop unsafe.Pointer, stopLen C.size_t, message **C.char) status {
	return run(message, func() error {
		d, err := get[*database](db, kindDB)
		if err != nil {
			return err
		}
		return d.CompactRange(bound(start, startLen), bound(stop, stopLen))
	})
}

// loamgo_db_start flushes, verifies or closes.
//
//export loamgo_db_start
func loamgo_db_start(db C.uint64_t, what C.uint, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		if what == C.LOAMGO_CLOSE {
			d, err := take[*database](db, kindDB)
			if err != nil {
				return err
			}
			err = new(job).start(out, func() (*database, string, error) { return nil, "", d.Close() })
			if err != nil {
				return errors.Join(err, d.Close())
			}
			return nil
		}
		d, err := get[*database](db, kindDB)
		if err != nil {
			return err
		}
		if what == C.LOAMGO_VERIFY {
			return verifyStart(d, out)
		}
		return new(job).start(out, func() (*database, string, error) { return nil, "", d.Flush() })
	})
}

func verifyStart(d *database, out *C.uint64_t) error {
	var read, of atomic.Uint64
	ctx, cancel := context.WithCancel(context.Background())
	j := &job{progress: func() (uint64, uint64) { return read.Load(), of.Load() }, cancel: cancel}
	return j.start(out, func() (*database, string, error) {
		defer cancel()
		return nil, "", d.db.Verify(ctx, func(n, total uint64) {
			of.Store(total) // before read, which is never more
			read.Store(n)
		})
	})
}

//export loamgo_open_start
func loamgo_open_start(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		dir := C.GoString(path)
		err = new(job).start(out, func() (*database, string, error) {
			defer o.uses.release()
			db, err := openDatabase(dir, o)
			return db, "", err
		})
		if err != nil {
			o.uses.release()
		}
		return err
	})
}

//export loamgo_job_wait
func loamgo_job_wait(h C.uint64_t, timeout C.int, message **C.char) (s status) {
	waiting := true
	s = run(message, func() error {
		j, err := get[*job](h, kindJob)
		if err != nil {
			return err
		}
		if timeout < 0 {
			<-j.done
		} else if timeout > 0 {
			t := time.NewTimer(time.Duration(timeout) * time.Millisecond)
			defer t.Stop()
			select {
			case <-j.done:
			case <-t.C:
			}
		}
		done, err := j.finished()
		waiting = !done
		return err
	})
	if s == C.LOAM_OK && waiting {
		return C.LOAM_TIMEOUT
	}
	return s
}

//export loamgo_job_progress
func loamgo_job_progress(h C.uint64_t, done, total *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		j, err := get[*job](h, kindJob)
		if err != nil || j.progress == nil {
			return err
		}
		d, t := j.progress()
		if end, err := j.finished(); end && err == nil {
			d = t
		}
		*done, *total = C.uint64_t(d), C.uint64_t(t)
		return nil
	})
}

//export loamgo_job_cancel
func loamgo_job_cancel(h C.uint64_t, message **C.char) status {
	return run(message, func() error {
		j, err := get[*job](h, kindJob)
		if err == nil {
			j.stop()
		}
		return err
	})
}

//export loamgo_job_db
func loamgo_job_db(h C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		j, err := get[*job](h, kindJob)
		if err != nil {
			return err
		}
		if _, err := j.finished(); err != nil {
			return err
		}
		db := j.fetch()
		if db == nil {
			return fmt.Errorf("%w: the job has no database to give", lsm.ErrInvalidArgument)
		}
		if err := publish(kindDB, db, out); err != nil {
			return errors.Join(err, db.Close())
		}
		return nil
	})
}

//export loamgo_job_report
func loamgo_job_report(h C.uint64_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		j, err := get[*job](h, kindJob)
		if err != nil {
			return err
		}
		if _, err := j.finished(); err != nil {
			return err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.report == "" {
			return fmt.Errorf("%w: the job has no report to give", lsm.ErrInvalidArgument)
		}
		return give(j.report, out)
	})
}
