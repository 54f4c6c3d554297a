//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/stk"
	"github.com/loamdb/loam/lsm"
)

// The exported functions trust their pointers and lengths, which the shim has
// checked, and nothing else. Each begins with stk.Reserve, for the sake of
// signal handlers, and ends panics with catch, which wants the status to be
// running until the function returns.

// database is what a kindDB handle stands for.
type database struct {
	*lsm.DB
	comparer string
}

type snapshot struct {
	*lsm.Snapshot
	db *database
}

// options may be changed and read from several threads.
type options struct {
	mu sync.Mutex
	lsm.Options
}

// run is the frame of the exports that are not hot.
func run(message **C.char, f func() error) (s status) {
	s = running
	defer catch(&s, message)
	stk.Reserve()
	if err := f(); err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

// open returns the database of a handle, and the snapshot of another if that
// is not 0.
func open(db, snap C.uint64_t) (*database, *lsm.Snapshot, error) {
	d, err := get[*database](db, kindDB)
	if err != nil || snap == 0 {
		return d, nil, err
	}
	s, err := get[*snapshot](snap, kindSnapshot)
	if err != nil {
		return nil, nil, err
	}
	if s.db != d {
		return nil, nil, fmt.Errorf("%w: the snapshot is of another database", lsm.ErrInvalidArgument)
	}
	return d, s.Snapshot, nil
}

// mode is a write's flags, which are the engine's.
func mode(flags C.uint) lsm.WriteMode { return lsm.WriteMode(flags) }

// loamgo_get looks a key up. A value longer than the buffer is copied into
// malloc'ed memory if big is not NULL.
//
//export loamgo_get
func loamgo_get(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint, buf unsafe.Pointer, capacity C.size_t, length *C.size_t, big *unsafe.Pointer, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	stk.Reserve()
	d, sn, err := open(db, snap)
	if err != nil {
		return fail(err, message)
	}
	var dst []byte
	if capacity > 0 {
		dst = unsafe.Slice((*byte)(buf), int(capacity))[:0]
	}
	v, err := lookup(d, sn, span(key, keyLen), dst, flags)
	if err != nil {
		return fail(err, message)
	}
	*length = C.size_t(len(v))
	if len(v) <= int(capacity) {
		if len(v) > 0 && unsafe.SliceData(v) != unsafe.SliceData(dst) {
			copy(dst[:len(v)], v)
		}
		return C.LOAM_OK
	}
	if big == nil {
		return C.LOAM_BUFFER_TOO_SMALL
	}
	if *big = unsafe.Pointer(text(unsafe.String(unsafe.SliceData(v), len(v)))); *big == nil {
		return fail(errNoMemory, message)
	}
	return C.LOAM_OK
}

func lookup(d *database, s *lsm.Snapshot, key, dst []byte, flags C.uint) ([]byte, error) {
	switch {
	case s != nil && flags&C.LOAMGO_MEMORY_ONLY != 0:
		return s.TryGet(key, dst)
	case s != nil && flags&C.LOAM_NO_FILL != 0:
		return s.GetNoFill(key, dst)
	case s != nil:
		return s.Get(key, dst)
	case flags&C.LOAMGO_MEMORY_ONLY != 0:
		return d.TryGet(key, dst)
	case flags&C.LOAM_NO_FILL != 0:
		return d.GetNoFill(key, dst)
	}
	return d.Get(key, dst)
}

//export loamgo_has
func loamgo_has(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	stk.Reserve()
	d, sn, err := open(db, snap)
	if err != nil {
		return fail(err, message)
	}
	var found bool
	if sn != nil {
		found, err = sn.Has(span(key, keyLen))
	} else {
		found, err = d.Has(span(key, keyLen))
	}
	switch {
	case err != nil:
		return fail(err, message)
	case !found:
		return C.LOAM_NOT_FOUND
	}
	return C.LOAM_OK
}

//export loamgo_put
func loamgo_put(db C.uint64_t, key unsafe.Pointer, keyLen C.size_t, value unsafe.Pointer, valueLen C.size_t, flags C.uint, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	stk.Reserve()
	d, err := get[*database](db, kindDB)
	if err == nil {
		err = d.Put(span(key, keyLen), span(value, valueLen), mode(flags))
	}
	if err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

//export loamgo_delete
func loamgo_delete(db C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	stk.Reserve()
	d, err := get[*database](db, kindDB)
	if err == nil {
		err = d.Delete(span(key, keyLen), mode(flags))
	}
	if err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

//export loamgo_write
func loamgo_write(db C.uint64_t, data unsafe.Pointer, length C.size_t, flags C.uint, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	stk.Reserve()
	d, err := get[*database](db, kindDB)
	if err != nil {
		return fail(err, message)
	}
	// In place: the shim keeps the batch until this returns.
	if err := d.WriteBytes(span(data, length), mode(flags)); err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

// loamgo_check says whether the bytes are a batch.
//
//export loamgo_check
func loamgo_check(data unsafe.Pointer, length C.size_t, message **C.char) status {
	return run(message, func() error {
		_, err := lsm.BatchFromBytes(span(data, length))
		return err
	})
}

//export loamgo_options_create
func loamgo_options_create(out *C.uint64_t, message **C.char) status {
	return run(message, func() error { return publish(kindOptions, &options{}, out) })
}

//export loamgo_options_set
func loamgo_options_set(h C.uint64_t, name, value *C.char, message **C.char) status {
	return run(message, func() error {
		o, err := get[*options](h, kindOptions)
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		n := C.GoString(name)
		if n == "comparator" {
			n = "comparer" // loam.h's word for it
		}
		return o.Set(n, C.GoString(value))
	})
}

//export loamgo_options_set_comparator
func loamgo_options_set_comparator(h C.uint64_t, name *C.char, fn, arg C.uintptr_t, flags C.uint, message **C.char) status {
	return run(message, func() error {
		o, err := get[*options](h, kindOptions)
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.Comparer = comparer(C.GoString(name), fn, arg, flags&C.LOAM_COMPARATOR_EQUAL_IS_BYTEWISE != 0)
		return nil
	})
}

//export loamgo_options_set_logger
func loamgo_options_set_logger(h C.uint64_t, fn, arg C.uintptr_t, message **C.char) status {
	return run(message, func() error {
		o, err := get[*options](h, kindOptions)
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.Logger = logger(fn, arg)
		return nil
	})
}

//export loamgo_options_set_cache
func loamgo_options_set_cache(h, cache C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := get[*options](h, kindOptions)
		if err != nil {
			return err
		}
		c, err := get[*lsm.Cache](cache, kindCache)
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.Cache = c
		return nil
	})
}

//export loamgo_cache_create
func loamgo_cache_create(bytes C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		if bytes > 1<<46 {
			return fmt.Errorf("%w: a cache of %d bytes", lsm.ErrTooLarge, uint64(bytes))
		}
		return publish(kindCache, lsm.NewCache(int64(bytes)), out)
	})
}

// loamgo_release_object gives up an object that closes at once.
//
//export loamgo_release_object
func loamgo_release_object(h C.uint64_t, k C.uint) status {
	return run(nil, func() error {
		object, known := handles.remove(handle(h), kind(k))
		switch o := object.(type) {
		case nil:
			return missing(known)
		case *lsm.Cache:
			o.Close()
		case *snapshot:
			return o.Close()
		case *iterator:
			// What ended the iteration was told when it did.
			_ = o.Close()
		case *job:
			o.abandon()
		}
		return nil
	})
}

// copied returns the options of a handle as they are now, defaults for 0. Logs
// are never mapped: a fault there is a SIGBUS, and the host may have taken the
// signal from Go.
func copied(h C.uint64_t) (*lsm.Options, error) {
	if h == 0 {
		return &lsm.Options{PlainWAL: true}, nil
	}
	o, err := get[*options](h, kindOptions)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.Options
	c.PlainWAL = true
	return &c, nil
}

func openDatabase(path string, o *lsm.Options) (*database, error) {
	makeRoom(o)
	db, err := lsm.Open(path, o)
	if err != nil {
		return nil, err
	}
	name := lsm.BytewiseComparer.Name
	if o.Comparer != nil {
		name = o.Comparer.Name
	}
	return &database{db, name}, nil
}

//export loamgo_open
func loamgo_open(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		db, err := openDatabase(C.GoString(path), o)
		if err != nil {
			return err
		}
		if err := publish(kindDB, db, out); err != nil {
			_ = db.Close() // the caller learns the first error
			return err
		}
		return nil
	})
}

//export loamgo_close
func loamgo_close(db C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := take[*database](db, kindDB)
		if err != nil {
			return err
		}
		return d.Close()
	})
}

//export loamgo_destroy
func loamgo_destroy(path *C.char, opts C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		return lsm.Destroy(C.GoString(path), o)
	})
}

//export loamgo_snapshot_create
func loamgo_snapshot_create(db C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := get[*database](db, kindDB)
		if err != nil {
			return err
		}
		s := &snapshot{d.Snapshot(), d}
		if err := publish(kindSnapshot, s, out); err != nil {
			_ = s.Close() // the caller learns the first error
			return err
		}
		return nil
	})
}

//export loamgo_runtime_set
func loamgo_runtime_set(maxprocs, gogc C.int, memlimit C.int64_t, message **C.char) status {
	return run(message, func() error {
		setRuntime(int(maxprocs), int(gogc), int64(memlimit))
		return nil
	})
}
