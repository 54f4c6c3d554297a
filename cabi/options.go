//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// options may be changed and read from several threads.
type options struct {
	mu sync.Mutex
	lsm.Options
	closed                    bool
	comparator, logger, cache *shared // what the options hold on to
	filter, merge             *shared // as these
}

// settings are options as they are at one time. uses has a user for the caller.
type settings struct {
	lsm.Options
	uses *shared
}

// cache is a block cache or, where that is nil, resources.
type cache struct {
	*lsm.Cache
	resources *lsm.Resources
	uses      *shared
}

// with changes the options of a handle.
func with(h C.uint64_t, change func(o *options) error) error {
	o, err := get[*options](h, kindOptions)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return lsm.ErrClosed
	}
	return change(o)
}

// close forgets what the options hold on to.
func (o *options) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, s := range []*shared{o.comparator, o.logger, o.cache, o.filter, o.merge} {
		s.release()
	}
}

// unset are the options of a program that sets none. Logs are never mapped, and tables only
// if the program asks for it: a fault there is a SIGBUS, and the host may have taken the
// signal from Go. Parents
// are not made, as in LevelDB: a path below a disk that is not mounted is an error.
func unset() lsm.Options { return lsm.Options{PlainWAL: true, Mmap: lsm.MmapOff, NoCreateDirs: true} }

// copied returns the options of a handle as they are now, unset for 0.
func copied(h C.uint64_t) (s *settings, err error) {
	if h == 0 {
		return &settings{Options: unset(), uses: newShared(func() {})}, nil
	}
	err = with(h, func(o *options) error {
		uses := []*shared{o.comparator.retain(), o.logger.retain(), o.cache.retain(), o.filter.retain(), o.merge.retain()}
		s = &settings{Options: o.Options, uses: newShared(func() {
			for _, u := range uses {
				u.release()
			}
		})}
		s.PlainWAL = true
		if s.Mmap == lsm.MmapAuto {
			s.Mmap = lsm.MmapOff
		}
		return nil
	})
	return s, err
}

// openDatabase opens a database, which becomes a further user of what o uses.
func openDatabase(path string, o *settings) (*database, error) {
	makeRoom(&o.Options)
	db, err := lsm.Open(path, &o.Options)
	if err != nil {
		return nil, report.At(path, err)
	}
	space, err := db.Keyspace(base.DefaultKeyspaceName, nil)
	if err != nil {
		return nil, errors.Join(report.At(path, err), db.Close())
	}
	d := &database{Keyspace: space, db: db, number: openings.Add(1), closed: new(atomic.Bool), owner: true, uses: o.uses.retain()}
	if o.Logger != nil {
		d.logger, _ = o.Logger.Handler().(*cLogger)
	}
	return d, nil
}

// Close closes the database, if the handle is that of loam_open, and lets go of what its
// options brought.
func (d *database) Close() error {
	defer d.uses.release()
	if !d.owner {
		return nil
	}
	d.closed.Store(true)
	return d.db.Close()
}

//export loamgo_options_create
func loamgo_options_create(out *C.uint64_t, message **C.char) status {
	return run(message, func() error { return publish(kindOptions, &options{Options: unset()}, out) })
}

//export loamgo_options_set
func loamgo_options_set(h C.uint64_t, name, value *C.char, message **C.char) status {
	return run(message, func() error {
		return with(h, func(o *options) error {
			before, filter, operator := o.Comparer, o.CompactionFilter, o.MergeOperator
			err := o.Set(C.GoString(name), C.GoString(value))
			if o.MergeOperator != operator {
				o.merge.release()
				o.merge = nil
			}
			if o.Comparer != before {
				o.comparator.release()
				o.comparator = nil
			}
			if o.CompactionFilter != filter {
				o.filter.release()
				o.filter = nil
			}
			return err
		})
	})
}

//export loamgo_options_set_comparator
func loamgo_options_set_comparator(h C.uint64_t, name *C.char, fn, arg, destroy C.uintptr_t, flags C.uint, message **C.char) status {
	return run(message, func() error {
		return with(h, func(o *options) error {
			o.comparator.release()
			o.comparator = destroyed(destroy, arg)
			o.Comparer = comparer(C.GoString(name), fn, arg, flags&C.LOAM_COMPARATOR_EQUAL_IS_BYTEWISE != 0)
			return nil
		})
	})
}

//export loamgo_options_set_logger
func loamgo_options_set_logger(h C.uint64_t, fn, arg, destroy C.uintptr_t, message **C.char) status {
	return run(message, func() error {
		return with(h, func(o *options) error {
			o.logger.release()
			o.logger = destroyed(destroy, arg)
			o.Logger = logger(fn, arg)
			return nil
		})
	})
}

//export loamgo_options_set_cache
func loamgo_options_set_cache(h, cacheHandle C.uint64_t, message **C.char) status {
	return run(message, func() error {
		return with(h, func(o *options) error {
			c, err := get[*cache](cacheHandle, kindCache)
			if err != nil {
				return err
			}
			uses := c.uses.retain()
			if uses == nil {
				return lsm.ErrClosed
			}
			o.cache.release()
			o.cache, o.Cache, o.Resources = uses, c.Cache, c.resources
			return nil
		})
	})
}
