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
	"io"
	"io/fs"
	"runtime/debug"
	"syscall"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/handles"
	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

type status = C.int

// statuses maps the engine's sentinels, in the order they are tried.
var statuses = []struct {
	err    error
	status status
}{
	{lsm.ErrNotFound, C.LOAM_NOT_FOUND},
	{lsm.ErrWouldBlock, C.LOAM_WOULD_BLOCK},
	{base.ErrInUse, C.LOAM_ERR_IN_USE},
	{lsm.ErrBusy, C.LOAM_BUSY},
	{errHandle, C.LOAM_ERR_INVALID_HANDLE},
	{context.Canceled, C.LOAM_ERR_CANCELLED},
	{base.ErrInterrupted, C.LOAM_ERR_CANCELLED},
	{lsm.ErrClosed, C.LOAM_ERR_CLOSED},
	{lsm.ErrReadOnly, C.LOAM_ERR_READ_ONLY},
	{lsm.ErrInvalidArgument, C.LOAM_ERR_INVALID_ARGUMENT}, // of batch bytes: also a corruption
	{lsm.ErrCorruption, C.LOAM_ERR_CORRUPTION},
	{lsm.ErrEncryption, C.LOAM_ERR_ENCRYPTION},
	{lsm.ErrLocked, C.LOAM_ERR_LOCKED},
	{lsm.ErrNewerFormat, C.LOAM_ERR_NEWER_FORMAT},
	{lsm.ErrNeedsNative, C.LOAM_ERR_NEEDS_NATIVE},
	{lsm.ErrNoKeyspace, C.LOAM_ERR_NO_KEYSPACE},
	{lsm.ErrNoMergeOperator, C.LOAM_ERR_NO_MERGE_OPERATOR},
	{lsm.ErrMergeFailed, C.LOAM_ERR_MERGE_FAILED},
	{lsm.ErrConflict, C.LOAM_ERR_CONFLICT},
	{lsm.ErrDeadlock, C.LOAM_ERR_DEADLOCK},
	{lsm.ErrLockTimeout, C.LOAM_ERR_LOCK_TIMEOUT},
	{lsm.ErrTxnDone, C.LOAM_ERR_TXN_DONE},
	{lsm.ErrGap, C.LOAM_ERR_GAP},
	{lsm.ErrNotADatabase, C.LOAM_ERR_NOT_A_DATABASE},
	{lsm.ErrExists, C.LOAM_ERR_EXISTS},
	{lsm.ErrDoesNotExist, C.LOAM_ERR_DOES_NOT_EXIST},
	{lsm.ErrComparerMismatch, C.LOAM_ERR_COMPARATOR_MISMATCH},
	{lsm.ErrNoMemory, C.LOAM_ERR_NO_MEMORY},
	{lsm.ErrNoSpace, C.LOAM_ERR_NO_SPACE},
	{lsm.ErrTooManyFiles, C.LOAM_ERR_TOO_MANY_FILES},
	{lsm.ErrDirectoryChanged, C.LOAM_ERR_IO},
	{lsm.ErrTooLarge, C.LOAM_ERR_TOO_LARGE},
	{lsm.ErrCompactionFilter, C.LOAM_ERR_CALLBACK},
}

var errHandle = errors.New("not a handle of this type")

// statusOf finds the status of an error.
func statusOf(err error) status {
	if errors.Is(err, lsm.ErrMergeFailed) {
		return C.LOAM_ERR_MERGE_FAILED
	}
	if callback := (*lsm.CallbackError)(nil); errors.As(err, &callback) {
		return C.LOAM_ERR_CALLBACK
	}
	err = base.Classify(err)
	for i := range statuses {
		if errors.Is(err, statuses[i].err) {
			return statuses[i].status
		}
	}
	var path *fs.PathError
	var number syscall.Errno
	// a file that is shorter than it was has no error number
	if errors.As(err, &number) || errors.As(err, &path) || errors.Is(err, io.ErrUnexpectedEOF) {
		return C.LOAM_ERR_IO
	}
	return C.LOAM_ERR_INTERNAL
}

// fail stores the message of a failure and returns its status. Answers have no message.
func fail(err error, message **C.char) status {
	s := statusOf(err)
	if s < 0 && message != nil {
		*message = sentence(err)
	}
	return s
}

// sentence makes a message with what loam_error_errno and loam_error_path tell;
// NULL when memory is out. Errors of Go name no library: a message begins with
// this one's name, and has it nowhere else.
func sentence(err error) *C.char {
	var number syscall.Errno
	errors.As(err, &number)
	words, path := "loam: "+report.Printable(err.Error()), report.PathOf(err)
	return C.loamgo_message((*C.char)(unsafe.Pointer(unsafe.StringData(words))),
		C.size_t(len(words)), C.int(number),
		(*C.char)(unsafe.Pointer(unsafe.StringData(path))), C.size_t(len(path)))
}

// running is the status of an export that has not returned: a panic leaves it.
// Looking at it is cheaper than asking the runtime for a panic every time.
const running status = 1 << 20

// catch, deferred by every export, turns a panic into a status.
func catch(s *status, message **C.char) {
	if *s != running {
		return
	}
	r := recover()
	if f, ok := r.(*lsm.CallbackError); ok {
		*s = fail(f, message)
		return
	}
	*s = C.LOAM_ERR_INTERNAL
	if message != nil {
		*message = sentence(fmt.Errorf("internal error: %v\n%s", r, debug.Stack()))
	}
}

// get returns the object of a handle.
func get[T any](h C.uint64_t, k kind) (T, error) {
	object, known := objects.Lookup(handles.Handle(h), k)
	if object != nil {
		return object.(T), nil
	}
	var none T
	return none, missing(known)
}

// take is get that takes the handle out of use.
func take[T any](h C.uint64_t, k kind) (T, error) {
	object, known := objects.Remove(handles.Handle(h), k)
	if object != nil {
		return object.(T), nil
	}
	var none T
	return none, missing(known)
}

func missing(known bool) error {
	if known {
		return lsm.ErrClosed
	}
	return errHandle
}

// publish makes a handle for an object.
func publish(k kind, object any, out *C.uint64_t) error {
	h, ok := objects.Add(k, object)
	if !ok {
		return fmt.Errorf("%w: too many objects", lsm.ErrNoMemory)
	}
	*out = C.uint64_t(h)
	return nil
}

// publishOr is publish of an object that is closed if there is no handle for it.
func publishOr(k kind, object any, out *C.uint64_t, end func() error) error {
	err := publish(k, object, out)
	if err != nil {
		_ = end() // the caller learns the first error
	}
	return err
}

// span is C's bytes as a slice, never nil. The shim has checked the length.
func span(p unsafe.Pointer, n C.size_t) []byte {
	if n == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(p), int(n))
}

// bound is span, with nil for no bound.
func bound(p unsafe.Pointer, n C.size_t) []byte {
	if p == nil {
		return nil
	}
	return span(p, n)
}

// text copies a string into malloc'ed memory; NULL when there is none.
func text(s string) *C.char {
	p := C.loamgo_alloc(C.size_t(len(s)) + 1)
	if p == nil {
		return nil
	}
	b := unsafe.Slice((*byte)(p), len(s)+1)
	copy(b, s)
	b[len(s)] = 0
	return (*C.char)(p)
}

// giveBytes stores a malloc'ed copy of bytes, with a zero byte behind them.
func giveBytes(b []byte, out *unsafe.Pointer) error {
	*out = unsafe.Pointer(text(unsafe.String(unsafe.SliceData(b), len(b))))
	if *out == nil {
		return lsm.ErrNoMemory
	}
	return nil
}

// give stores a malloc'ed copy of a string.
func give(s string, out **C.char) error {
	if *out = text(s); *out == nil {
		return lsm.ErrNoMemory
	}
	return nil
}
