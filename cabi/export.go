//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/handles"
	"github.com/loamdb/loam/cabi/internal/procs"
	"github.com/loamdb/loam/cabi/internal/reads"
	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/cabi/internal/stk"
	"github.com/loamdb/loam/cabi/internal/textlog"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// The exported functions trust their pointers and lengths, which the shim has checked, and nothing
// else. The work of each is done within stk.Call, for the sake of signal handlers, by a function
// that ends panics with catch, which wants the status to be running until the function returns.

// database is what a kindDB handle stands for: an open database and one of its keyspaces.
type database struct {
	*lsm.Keyspace
	db     *lsm.DB
	number uint64           // of the opening
	closed *atomic.Bool     // the database, of any of its handles
	owner  bool             // the handle is of loam_open: to close it closes the database
	logger *textlog.Handler // nil: none
	// what the options brought; its users are handles of the database and iterators
	uses *refs.Shared
}

type snapshot struct {
	*lsm.Snapshot
	db *database
}

// run is the frame of the exports that are not hot.
func run(message **C.char, f func() error) (s status) {
	stk.Call(func() { s = guarded(message, f) })
	return s
}

func guarded(message **C.char, f func() error) (s status) {
	s = running
	defer catch(&s, message)
	if err := f(); err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

// with is run of what needs the object of a handle.
func with[T any](message **C.char, h C.uint64_t, k kind, f func(T) error) status {
	return run(message, func() error {
		object, err := get[T](h, k)
		if err != nil {
			return err
		}
		return f(object)
	})
}

// withLive is run of what needs an open database, see live.
func withLive(message **C.char, db C.uint64_t, f func(d *database) error) status {
	return run(message, func() error {
		d, err := live(db)
		if err != nil {
			return err
		}
		return f(d)
	})
}

// open returns the database of a handle, and the snapshot of another if that is not 0.
func open(db, snap C.uint64_t) (*database, *lsm.Snapshot, error) {
	d, err := get[*database](db, kindDB)
	if err != nil || snap == 0 {
		return d, nil, err
	}
	s, err := get[*snapshot](snap, kindSnapshot)
	if err != nil {
		return nil, nil, err
	}
	if s.db.db != d.db {
		return nil, nil, fmt.Errorf("%w: the snapshot is of another database",
			lsm.ErrInvalidArgument)
	}
	if s.db != d {
		return d, s.In(d.Keyspace), nil
	}
	return d, s.Snapshot, nil
}

// live returns the database of a handle, unless it was closed by another one. The calls
// that the engine refuses itself need not ask.
func live(db C.uint64_t) (*database, error) {
	d, err := get[*database](db, kindDB)
	if err == nil && d.closed.Load() {
		err = lsm.ErrClosed
	}
	return d, err
}

// held is live with a user of the database's uses, which the caller releases.
func held(db C.uint64_t) (*database, error) {
	d, err := live(db)
	if err == nil && d.uses.Retain() == nil {
		err = lsm.ErrClosed
	}
	return d, err
}

// mode is a write's flags, which are the engine's.
func mode(flags C.uint64_t) lsm.WriteMode { return lsm.WriteMode(flags) }

// loamgo_get looks a key up. A value longer than the buffer is copied into
// malloc'ed memory if big is not NULL.
//
//export loamgo_get
func loamgo_get(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint64_t,
	buf unsafe.Pointer, capacity C.size_t, length *C.size_t, big *unsafe.Pointer,
	message **C.char) (s status) {
	stk.Call(func() {
		s = readValue(db, snap, key, keyLen, flags, buf, capacity, length, big, message)
	})
	return s
}

func readValue(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint64_t,
	buf unsafe.Pointer, capacity C.size_t, length *C.size_t, big *unsafe.Pointer,
	message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	d, sn, err := open(db, snap)
	if err != nil {
		return fail(err, message)
	}
	var dst []byte
	if capacity > 0 {
		dst = unsafe.Slice((*byte)(buf), int(capacity))[:0]
	}
	v, err := reads.Get(d.Keyspace, sn, span(key, keyLen), dst, uint64(flags))
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
	if err := giveBytes(v, big); err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

//export loamgo_has
func loamgo_has(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint64_t,
	message **C.char) (s status) {
	stk.Call(func() { s = has(db, snap, key, keyLen, flags, message) })
	return s
}

func has(db, snap C.uint64_t, key unsafe.Pointer, keyLen C.size_t, flags C.uint64_t,
	message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	d, sn, err := open(db, snap)
	if err != nil {
		return fail(err, message)
	}
	found, err := reads.Has(d.Keyspace, sn, span(key, keyLen), uint64(flags))
	switch {
	case err != nil:
		return fail(err, message)
	case !found:
		return C.LOAM_NOT_FOUND
	}
	return C.LOAM_OK
}

// loamgo_put puts, merges or deletes.
//
//export loamgo_put
func loamgo_put(db C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t, value unsafe.Pointer,
	valueLen C.size_t, flags C.uint64_t, message **C.char) (s status) {
	stk.Call(func() { s = put(db, op, key, keyLen, value, valueLen, flags, message) })
	return s
}

func put(db C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t, value unsafe.Pointer,
	valueLen C.size_t, flags C.uint64_t, message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	d, err := get[*database](db, kindDB)
	switch {
	case err != nil:
	case op == C.LOAM_OP_PUT:
		err = d.Put(span(key, keyLen), span(value, valueLen), mode(flags))
	case op == C.LOAM_OP_MERGE:
		err = d.Merge(span(key, keyLen), span(value, valueLen), mode(flags))
	default:
		err = d.Delete(span(key, keyLen), mode(flags))
	}
	if err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

// loamgo_put_numbered puts, merges, deletes or deletes a range, and stores the sequence number.
//
//export loamgo_put_numbered
func loamgo_put_numbered(db C.uint64_t, op C.int, key unsafe.Pointer, keyLen C.size_t,
	value unsafe.Pointer, valueLen C.size_t, flags C.uint64_t, sequence *C.uint64_t,
	message **C.char) status {
	return with(message, db, kindDB, func(d *database) error {
		var b lsm.Batch
		switch op {
		case C.LOAM_OP_PUT:
			b.Put(span(key, keyLen), span(value, valueLen))
		case C.LOAM_OP_MERGE:
			b.Merge(span(key, keyLen), span(value, valueLen))
		case C.LOAM_OP_DELETE_RANGE:
			b.DeleteRange(span(key, keyLen), span(value, valueLen))
		default:
			b.Delete(span(key, keyLen))
		}
		if err := d.Write(&b, mode(flags)); err != nil {
			return err
		}
		*sequence = C.uint64_t(binary.LittleEndian.Uint64(b.Bytes()))
		return nil
	})
}

//export loamgo_write
func loamgo_write(db, opening C.uint64_t, data unsafe.Pointer, length C.size_t, flags C.uint64_t,
	message **C.char) (s status) {
	stk.Call(func() { s = write(db, opening, data, length, flags, message) })
	return s
}

func write(db, opening C.uint64_t, data unsafe.Pointer, length C.size_t, flags C.uint64_t,
	message **C.char) (s status) {
	s = running
	defer catch(&s, message)
	d, err := get[*database](db, kindDB)
	if err != nil {
		return fail(err, message)
	}
	if opening != 0 && uint64(opening) != d.number {
		return fail(fmt.Errorf("%w: the batch names a keyspace of another database",
			lsm.ErrInvalidArgument), message)
	}
	// In place: the shim keeps the batch until this returns.
	if err := d.WriteBytes(span(data, length), mode(flags)); err != nil {
		return fail(err, message)
	}
	return C.LOAM_OK
}

// loamgo_check says whether the bytes are a batch, of any kinds of operations. The keyspaces that
// they name are looked for when it is written.
//
//export loamgo_check
func loamgo_check(data unsafe.Pointer, length C.size_t, message **C.char) status {
	return run(message, func() error {
		anySpace := func(base.KeyspaceID) bool { return true }
		if _, err := batchrepr.ValidateDraft(span(data, length), anySpace); err != nil {
			return fmt.Errorf("%w: batch bytes: %w", lsm.ErrInvalidArgument, err)
		}
		return nil
	})
}

//export loamgo_cache_create
func loamgo_cache_create(bytes C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		if bytes > 1<<46 {
			return fmt.Errorf("%w: a cache of %d bytes", lsm.ErrTooLarge, uint64(bytes))
		}
		c := lsm.NewCache(int64(bytes))
		return publish(kindCache, &cache{Cache: c, uses: refs.New(c.Close)}, out)
	})
}

// loamgo_release_object gives up an object that closes at once, or later: on a goroutine of its
// own.
//
//export loamgo_release_object
func loamgo_release_object(h C.uint64_t, k C.uint, later C.int) status {
	return run(nil, func() error {
		object, known := objects.Remove(handles.Handle(h), kind(k))
		if object == nil {
			return missing(known)
		}
		if later != 0 {
			go func() { _ = release(object) }()
			return nil
		}
		return release(object)
	})
}

func release(object any) error {
	switch o := object.(type) {
	case *settings.Options:
		o.Close()
	case *cache:
		o.uses.Release()
	case *snapshot:
		return o.Close()
	case *transaction:
		return o.close()
	case *changes:
		return o.close()
	case *tableWriter:
		return o.close()
	case *bulkLoad:
		return o.close()
	case *pinned:
		o.close()
	case *iterator:
		// What ended the iteration was told when it did.
		_ = o.Close()
		o.db.uses.Release()
	case *backup.Folder:
		return o.Close()
	case *job:
		o.Abandon()
	}
	return nil
}

//export loamgo_open
func loamgo_open(path *C.char, opts C.uint64_t, follow C.int, out *C.uint64_t,
	message **C.char) status {
	return withOptions(message, opts, func(o *settings.Settings) error {
		defer o.Uses.Release()
		if follow != 0 {
			_ = o.Set("follow", "true")
		}
		db, err := openDatabase(C.GoString(path), o)
		if err != nil {
			return err
		}
		return publishOr(kindDB, db, out, db.Close)
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
	return withOptions(message, opts, func(o *settings.Settings) error {
		defer o.Uses.Release()
		dir := C.GoString(path)
		return report.At(dir, lsm.Destroy(dir, &o.Options))
	})
}

//export loamgo_snapshot_create
func loamgo_snapshot_create(db C.uint64_t, out *C.uint64_t, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		s := &snapshot{d.Snapshot(), d}
		return publishOr(kindSnapshot, s, out, s.Close)
	})
}

// loamgo_enter makes the calling thread known to Go and its stack large.
//
//export loamgo_enter
func loamgo_enter() { stk.Call(func() {}) }

//export loamgo_runtime_set
func loamgo_runtime_set(maxprocs, gogc C.int, memlimit C.int64_t, message **C.char) status {
	return run(message, func() error {
		procs.Set(int(maxprocs), int(gogc), int64(memlimit))
		return nil
	})
}
