//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"io"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/work"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// cStream is what a program's callback writes or reads.
type cStream struct{ fn, arg C.uintptr_t }

func (s cStream) Write(p []byte) (int, error) {
	if failure := C.loamgo_dump_write(s.fn, s.arg, (*C.uchar)(unsafe.SliceData(p)), C.size_t(len(p))); failure != 0 {
		return 0, reported("write function", failure)
	}
	return len(p), nil
}

func (s cStream) Read(p []byte) (int, error) {
	var n C.size_t
	failure := C.loamgo_dump_read(s.fn, s.arg, (*C.uchar)(unsafe.SliceData(p)), C.size_t(len(p)), &n)
	switch {
	case failure != 0:
		return 0, reported("read function", failure)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return int(n), nil
}

// told hands out what a call found.
func told(i *dump.Info, err error, out **C.char) error {
	if err != nil || out == nil {
		return err
	}
	text, err := report.Dump(i)
	if err != nil {
		return err
	}
	return give(text, out)
}

// dumpOf is a database, and how it is dumped.
func dumpOf(db, snap C.uint64_t, compression *C.char) (*lsm.DB, *dump.Options, error) {
	d, s, err := open(db, snap)
	if err == nil && d.closed.Load() {
		err = lsm.ErrClosed
	}
	if err != nil {
		return nil, nil, err
	}
	o := &dump.Options{Snapshot: s}
	if compression != nil {
		var chosen lsm.Options
		if err := chosen.Set("compression", C.GoString(compression)); err != nil {
			return nil, nil, err
		}
		o.Compression = chosen.Compression
	}
	return d.db, o, nil
}

//export loamgo_dump
func loamgo_dump(db, snap C.uint64_t, compression *C.char, fn, arg C.uintptr_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		d, o, err := dumpOf(db, snap, compression)
		if err != nil {
			return err
		}
		i, err := dump.Write(context.Background(), d, cStream{fn, arg}, o)
		return told(i, err, out)
	})
}

//export loamgo_load
func loamgo_load(db, flags C.uint64_t, fn, arg C.uintptr_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		d, o, err := loadInto(db, flags)
		if err != nil {
			return err
		}
		i, err := dump.Load(context.Background(), d, cStream{fn, arg}, o)
		return told(i, err, out)
	})
}

func loadInto(db, flags C.uint64_t) (*lsm.DB, *dump.LoadOptions, error) {
	d, err := live(db)
	if err == nil && flags&^C.LOAM_LOAD_OVERWRITE != 0 {
		err = fmt.Errorf("%w: unknown flags %#x", lsm.ErrInvalidArgument, uint64(flags))
	}
	if err != nil {
		return nil, nil, err
	}
	return d.db, &dump.LoadOptions{Overwrite: flags&C.LOAM_LOAD_OVERWRITE != 0}, nil
}

//export loamgo_dump_verify
func loamgo_dump_verify(fn, arg C.uintptr_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		i, err := dump.Verify(context.Background(), cStream{fn, arg}, nil)
		return told(i, err, out)
	})
}

type stream = work.Stream[*database]

// start starts the work of a stream.
func start(s *stream, out *C.uint64_t, sync bool, work func() (*dump.Info, error)) error {
	err := begin(&s.Job, out, func() (*database, string, error) { return s.Run(sync, work) })
	if err != nil {
		s.Close()
	}
	return err
}

//export loamgo_dump_start
func loamgo_dump_start(db, snap C.uint64_t, compression *C.char, flags C.uint64_t, fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, o, err := dumpOf(db, snap, compression)
		if err == nil && flags&^C.LOAM_DUMP_CONTINUE != 0 {
			err = fmt.Errorf("%w: unknown flags %#x", lsm.ErrInvalidArgument, uint64(flags))
		}
		if err != nil {
			return err
		}
		f, err := work.NewStream[*database](int(fd))
		if err != nil {
			return err
		}
		o.Continue, o.Progress = flags&C.LOAM_DUMP_CONTINUE != 0, f.Note
		return start(f, out, true, func() (*dump.Info, error) { return dump.Write(f.Context, d, f.File, o) })
	})
}

//export loamgo_load_start
func loamgo_load_start(db, flags C.uint64_t, fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, o, err := loadInto(db, flags)
		if err != nil {
			return err
		}
		f, err := work.NewStream[*database](int(fd))
		if err != nil {
			return err
		}
		f.Measure()
		o.Progress = f.Note
		return start(f, out, false, func() (*dump.Info, error) { return dump.Load(f.Context, d, f.File, o) })
	})
}

//export loamgo_dump_verify_start
func loamgo_dump_verify_start(fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		f, err := work.NewStream[*database](int(fd))
		if err != nil {
			return err
		}
		f.Measure()
		return start(f, out, false, func() (*dump.Info, error) { return dump.Verify(f.Context, f.File, f.Note) })
	})
}
