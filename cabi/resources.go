//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/internal/base/plain"
	"github.com/loamdb/loam/lsm"
)

//export loamgo_resources_create
func loamgo_resources_create(memory, backgroundJobs, ioBytesPerSecond, openFiles C.uint64_t,
	out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		bytes := int64(memory) // the largest number is lsm.AutoMemory
		if bytes != lsm.AutoMemory && memory > 1<<46 || ioBytesPerSecond > 1<<46 ||
			backgroundJobs > 1<<16 || openFiles > 1<<30 {
			return fmt.Errorf("%w: resources of %d bytes, %d jobs, %d bytes a second, %d files",
				lsm.ErrTooLarge, uint64(memory), uint64(backgroundJobs), uint64(ioBytesPerSecond),
				uint64(openFiles))
		}
		r := lsm.NewResources(lsm.ResourcesOptions{
			Memory: bytes, BackgroundJobs: int(backgroundJobs),
			IOBytesPerSecond: int64(ioBytesPerSecond), OpenFiles: int(openFiles),
		})
		return publish(kindCache, &cache{resources: r, uses: refs.New(r.Close)}, out)
	})
}

// withResources is run of what needs the resources of a handle.
func withResources(message **C.char, h C.uint64_t, f func(r *lsm.Resources) error) status {
	return with(message, h, kindCache, func(c *cache) error {
		if c.resources == nil {
			return fmt.Errorf("%w: a cache, where resources are wanted", lsm.ErrInvalidArgument)
		}
		return f(c.resources)
	})
}

//export loamgo_resources_set
func loamgo_resources_set(h C.uint64_t, name, value *C.char, message **C.char) status {
	return withResources(message, h, func(r *lsm.Resources) error {
		return r.Set(C.GoString(name), C.GoString(value))
	})
}

//export loamgo_resources_metrics
func loamgo_resources_metrics(h C.uint64_t, out, message **C.char) status {
	return withResources(message, h, func(r *lsm.Resources) error {
		return giveJSON(plain.Of(r.Metrics()), out)
	})
}

//export loamgo_set_option
func loamgo_set_option(db C.uint64_t, name, value *C.char, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		if d.owner {
			return d.db.SetOption(C.GoString(name), C.GoString(value))
		}
		return d.SetOption(C.GoString(name), C.GoString(value))
	})
}

//export loamgo_option
func loamgo_option(db C.uint64_t, name *C.char, out, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		option := d.Option
		if d.owner {
			option = d.db.Option
		}
		value, err := option(C.GoString(name))
		if err != nil {
			return err
		}
		return give(value, out)
	})
}
