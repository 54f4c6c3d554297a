//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"sync/atomic"

	"github.com/loamdb/loam/cabi/internal/procs"
	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/cabi/internal/textlog"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// cache is a block cache or, where that is nil, resources.
type cache struct {
	*lsm.Cache
	resources *lsm.Resources
	uses      *refs.Shared
}

// copied returns a copy of a handle's present options, for 0 the defaults.
func copied(h C.uint64_t) (*settings.Settings, error) {
	if h == 0 {
		return settings.Unset(), nil
	}
	o, err := get[*settings.Options](h, kindOptions)
	if err != nil {
		return nil, err
	}
	return o.Copy()
}

// withOptions is run of what needs a copy of the options of a handle, which it releases.
func withOptions(message **C.char, h C.uint64_t, f func(o *settings.Settings) error) status {
	return run(message, func() error {
		o, err := copied(h)
		if err != nil {
			return err
		}
		return f(o)
	})
}

// bring changes the options of a handle, which hold on to uses from then on.
func bring(h C.uint64_t, p settings.Part, uses *refs.Shared, change func(o *lsm.Options)) error {
	o, err := get[*settings.Options](h, kindOptions)
	if err != nil {
		return err
	}
	return o.Bring(p, uses, change)
}

// openDatabase opens a database, which becomes a further user of what o uses.
func openDatabase(path string, o *settings.Settings) (*database, error) {
	procs.MakeRoom(&o.Options)
	db, err := lsm.Open(path, &o.Options)
	if err != nil {
		return nil, report.At(path, err)
	}
	space, err := db.Keyspace(base.DefaultKeyspaceName, nil)
	if err != nil {
		return nil, errors.Join(report.At(path, err), db.Close())
	}
	d := &database{Keyspace: space, db: db, number: openings.Add(1), closed: new(atomic.Bool),
		owner: true, uses: o.Uses.Retain()}
	if o.Logger != nil {
		d.logger, _ = o.Logger.Handler().(*textlog.Handler)
	}
	return d, nil
}

// Close closes the database, if the handle is that of loam_open, and lets go of what its
// options brought.
func (d *database) Close() error {
	defer d.uses.Release()
	if !d.owner {
		return nil
	}
	d.closed.Store(true)
	return d.db.Close()
}

//export loamgo_options_create
func loamgo_options_create(out *C.uint64_t, message **C.char) status {
	return run(message, func() error { return publish(kindOptions, settings.New(), out) })
}

//export loamgo_options_set
func loamgo_options_set(h C.uint64_t, name, value *C.char, message **C.char) status {
	return with(message, h, kindOptions, func(o *settings.Options) error {
		return o.Set(C.GoString(name), C.GoString(value))
	})
}

//export loamgo_options_set_comparator
func loamgo_options_set_comparator(h C.uint64_t, name *C.char, fn, arg, destroy C.uintptr_t,
	flags C.uint, message **C.char) status {
	return run(message, func() error {
		return bring(h, settings.Comparator, destroyed(destroy, arg), func(o *lsm.Options) {
			o.Comparer = comparer(C.GoString(name), fn, arg, flags)
		})
	})
}

//export loamgo_options_set_logger
func loamgo_options_set_logger(h C.uint64_t, fn, arg, destroy C.uintptr_t,
	message **C.char) status {
	return run(message, func() error {
		return bring(h, settings.Logger, destroyed(destroy, arg), func(o *lsm.Options) {
			o.Logger = logger(fn, arg)
		})
	})
}

//export loamgo_options_set_cache
func loamgo_options_set_cache(h, cacheHandle C.uint64_t, message **C.char) status {
	return with(message, cacheHandle, kindCache, func(c *cache) error {
		uses := c.uses.Retain()
		if uses == nil {
			return lsm.ErrClosed
		}
		err := bring(h, settings.Cache, uses, func(o *lsm.Options) {
			o.Cache, o.Resources = c.Cache, c.resources
		})
		if err != nil {
			uses.Release()
		}
		return err
	})
}
