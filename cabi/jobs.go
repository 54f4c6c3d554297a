//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/cabi/internal/work"
	"github.com/loamdb/loam/lsm"
)

// job is work on a goroutine of its own, which may have opened a database.
type job = work.Job[*database]

// begin publishes a job and runs f, whose results it keeps.
func begin(j *job, out *C.uint64_t, f func() (*database, string, error)) error {
	j.Init()
	if err := publish(kindJob, j, out); err != nil {
		return err
	}
	go j.Run(f)
	return nil
}

// pathOf is a path for work at once, or for a job if out is not NULL: then it is absolute, as the
// working directory may have changed when the job begins.
func pathOf(path *C.char, out *C.uint64_t) string {
	p := C.GoString(path)
	if out != nil && p != "" && !filepath.IsAbs(p) {
		if absolute, err := filepath.Abs(p); err == nil {
			return absolute
		}
	}
	return p
}

// perform does work at once, or as a job that can be canceled if out is not NULL. It releases uses
// at the end, before the job is seen to have ended.
func perform(out *C.uint64_t, uses *refs.Shared, progress func() (done, total uint64),
	work func(ctx context.Context) (report string, err error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	do := func() (*database, string, error) {
		defer uses.Release()
		defer cancel()
		report, err := work(ctx)
		return nil, report, err
	}
	if out == nil {
		_, _, err := do()
		return err
	}
	err := begin(&job{Progress: progress, Cancel: cancel}, out, do)
	if err != nil {
		cancel()
		uses.Release()
	}
	return err
}

// loamgo_compact compacts a range, as a job if out is not NULL.
//
//export loamgo_compact
func loamgo_compact(db C.uint64_t, start unsafe.Pointer, startLen C.size_t,
	stop unsafe.Pointer, stopLen C.size_t, out *C.uint64_t, message **C.char) status {
	return with(message, db, kindDB, func(d *database) error {
		if out == nil {
			return d.CompactRange(bound(start, startLen), bound(stop, stopLen))
		}
		// The caller's memory is not ours once this returns.
		r := lsm.Range{Start: slices.Clone(bound(start, startLen)),
			Limit: slices.Clone(bound(stop, stopLen))}
		before := d.Metrics()
		sizes, err := d.ApproximateSizes([]lsm.Range{r})
		if err != nil {
			return err
		}
		total := sizes[0] + uint64(before.MemtableBytes)
		progress := func() (uint64, uint64) {
			now := d.Metrics()
			done := now.Compact.BytesIn - before.Compact.BytesIn +
				now.Flush.BytesIn - before.Flush.BytesIn
			return min(done, total), total
		}
		return perform(out, nil, progress, func(ctx context.Context) (string, error) {
			return "", d.CompactRangeContext(ctx, r.Start, r.Limit)
		})
	})
}

// loamgo_db_start flushes, verifies, rekeys or closes.
//
//export loamgo_db_start
func loamgo_db_start(db C.uint64_t, what C.uint, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		if what == C.LOAMGO_CLOSE {
			d, err := take[*database](db, kindDB)
			if err != nil {
				return err
			}
			err = begin(new(job), out, func() (*database, string, error) {
				return nil, "", d.Close()
			})
			if err != nil {
				return errors.Join(err, d.Close())
			}
			return nil
		}
		d, err := get[*database](db, kindDB)
		if err != nil {
			return err
		}
		switch what {
		case C.LOAMGO_REKEY:
			return perform(out, nil, nil, func(ctx context.Context) (string, error) {
				return "", d.db.Rekey(ctx)
			})
		case C.LOAMGO_VERIFY:
			var progress work.Gauge
			return perform(out, nil, progress.Read, func(ctx context.Context) (string, error) {
				return "", d.db.Verify(ctx, progress.Set)
			})
		}
		return begin(new(job), out, func() (*database, string, error) { return nil, "", d.Flush() })
	})
}

//export loamgo_open_start
func loamgo_open_start(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return withOptions(message, opts, func(o *settings.Settings) error {
		dir := pathOf(path, out)
		err := begin(new(job), out, func() (*database, string, error) {
			defer o.Uses.Release()
			db, err := openDatabase(dir, o)
			return db, "", err
		})
		if err != nil {
			o.Uses.Release()
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
			<-j.Done()
		} else if timeout > 0 {
			t := time.NewTimer(time.Duration(timeout) * time.Millisecond)
			defer t.Stop()
			select {
			case <-j.Done():
			case <-t.C:
			}
		}
		done, err := j.Finished()
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
	return with(message, h, kindJob, func(j *job) error {
		if j.Progress == nil {
			return nil
		}
		d, t := j.Progress()
		if end, err := j.Finished(); end && err == nil {
			d = t
		}
		*done, *total = C.uint64_t(d), C.uint64_t(t)
		return nil
	})
}

//export loamgo_job_cancel
func loamgo_job_cancel(h C.uint64_t, message **C.char) status {
	return with(message, h, kindJob, func(j *job) error {
		j.Stop()
		return nil
	})
}

//export loamgo_job_db
func loamgo_job_db(h C.uint64_t, out *C.uint64_t, message **C.char) status {
	return with(message, h, kindJob, func(j *job) error {
		if _, err := j.Finished(); err != nil {
			return err
		}
		db := j.Fetch()
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
	return with(message, h, kindJob, func(j *job) error {
		if _, err := j.Finished(); err != nil {
			return err
		}
		report := j.Report()
		if report == "" {
			return fmt.Errorf("%w: the job has no report to give", lsm.ErrInvalidArgument)
		}
		return give(report, out)
	})
}
