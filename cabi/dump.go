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
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/work"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// cStream is what a program's callback writes or reads.
type cStream struct{ fn, arg C.uintptr_t }

func (s cStream) Write(p []byte) (int, error) {
	if failure := C.loamgo_dump_write(s.fn, s.arg, (*C.uchar)(unsafe.SliceData(p)),
		C.size_t(len(p))); failure != 0 {
		return 0, reported("write function", failure)
	}
	return len(p), nil
}

func (s cStream) Read(p []byte) (int, error) {
	var n C.size_t
	failure := C.loamgo_dump_read(s.fn, s.arg, (*C.uchar)(unsafe.SliceData(p)), C.size_t(len(p)),
		&n)
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

// dumpOf is a database, whose uses the caller releases, and how it is dumped.
func dumpOf(db, snap C.uint64_t, compression *C.char) (*database, *dump.Options, error) {
	_, s, err := open(db, snap)
	o := &dump.Options{Snapshot: s}
	if err == nil && compression != nil {
		var chosen lsm.Options
		err = chosen.Set("compression", C.GoString(compression))
		o.Compression = chosen.Compression
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := held(db)
	return d, o, err
}

//export loamgo_dump
func loamgo_dump(db, snap C.uint64_t, compression *C.char, fn, arg C.uintptr_t, out **C.char,
	message **C.char) status {
	return run(message, func() error {
		d, o, err := dumpOf(db, snap, compression)
		if err != nil {
			return err
		}
		defer d.uses.Release()
		i, err := dump.Write(context.Background(), d.db, cStream{fn, arg}, o)
		return told(i, err, out)
	})
}

//export loamgo_dump_check
func loamgo_dump_check(db C.uint64_t, path *C.char, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		return dump.CheckPath(d.db, C.GoString(path))
	})
}

//export loamgo_load
func loamgo_load(db, flags C.uint64_t, fn, arg C.uintptr_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		d, o, err := loadInto(db, flags)
		if err != nil {
			return err
		}
		defer d.uses.Release()
		i, err := load(context.Background(), d, cStream{fn, arg}, o)
		return told(i, err, out)
	})
}

// loadInto is a database, whose uses the caller releases, and how it is loaded.
func loadInto(db, flags C.uint64_t) (*database, *dump.LoadOptions, error) {
	if flags&^C.LOAM_LOAD_OVERWRITE != 0 {
		return nil, nil, fmt.Errorf("%w: unknown flags %#x", lsm.ErrInvalidArgument, uint64(flags))
	}
	d, err := held(db)
	return d, &dump.LoadOptions{Overwrite: flags&C.LOAM_LOAD_OVERWRITE != 0}, err
}

// load loads a dump. Beside another load it is in use: lsm.ErrBusy fails this call, which is no
// write; it is not an answer.
func load(ctx context.Context, d *database, r io.Reader, o *dump.LoadOptions) (*dump.Info, error) {
	i, err := dump.Load(ctx, d.db, r, o)
	if errors.Is(err, lsm.ErrBusy) {
		err = fmt.Errorf("%w: %w", base.ErrInUse, err)
	}
	return i, err
}

//export loamgo_dump_verify
func loamgo_dump_verify(fn, arg C.uintptr_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		i, err := dump.Verify(context.Background(), cStream{fn, arg}, nil)
		return told(i, err, out)
	})
}

type stream = work.Stream[*database]

var newStream = work.NewStream[*database]

// start starts the work of a stream on a descriptor. It releases uses, of the database, at the end
// or if it fails.
func start(fd C.int, uses *refs.Shared, out *C.uint64_t, sync bool,
	work func(s *stream) (*dump.Info, error)) error {
	s, err := newStream(int(fd))
	if err == nil {
		err = begin(&s.Job, out, func() (*database, string, error) {
			defer uses.Release() // before the job is seen to have ended
			return s.Run(sync, func() (*dump.Info, error) { return work(s) })
		})
		if err != nil {
			s.Close()
		}
	}
	if err != nil {
		uses.Release()
	}
	return err
}

//export loamgo_dump_start
func loamgo_dump_start(db, snap C.uint64_t, compression *C.char, flags C.uint64_t, fd C.int,
	out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		if flags&^C.LOAM_DUMP_CONTINUE != 0 {
			return fmt.Errorf("%w: unknown flags %#x", lsm.ErrInvalidArgument, uint64(flags))
		}
		d, o, err := dumpOf(db, snap, compression)
		if err != nil {
			return err
		}
		o.Continue = flags&C.LOAM_DUMP_CONTINUE != 0
		return start(fd, d.uses, out, true, func(s *stream) (*dump.Info, error) {
			o.Progress = s.Note
			return dump.Write(s.Context, d.db, s.File, o)
		})
	})
}

//export loamgo_load_start
func loamgo_load_start(db, flags C.uint64_t, fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, o, err := loadInto(db, flags)
		if err != nil {
			return err
		}
		return start(fd, d.uses, out, false, func(s *stream) (*dump.Info, error) {
			s.Measure()
			o.Progress = s.Note
			return load(s.Context, d, s.File, o)
		})
	})
}

//export loamgo_dump_verify_start
func loamgo_dump_verify_start(fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		return start(fd, nil, out, false, func(s *stream) (*dump.Info, error) {
			s.Measure()
			return dump.Verify(s.Context, s.File, s.Note)
		})
	})
}
