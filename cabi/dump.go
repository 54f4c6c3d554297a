//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

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

// infoJSON is what a dump has, as loam.h describes it.
func infoJSON(i *dump.Info) (string, error) {
	spaces := []map[string]any{}
	for _, k := range i.Keyspaces {
		spaces = append(spaces, map[string]any{"name": k.Name, "comparator": k.Comparer, "merge_operator": k.MergeOperator, "expires": k.Expires, "entries": k.Entries})
	}
	b, err := json.Marshal(map[string]any{
		"id": hex.EncodeToString(i.ID[:]), "created": i.Created.Unix(), "sequence": i.Sequence, "keyspaces": spaces, "bytes": i.Bytes, "size": i.Size,
	})
	return string(b), err
}

// told hands out what a call found.
func told(i *dump.Info, err error, out **C.char) error {
	if err != nil || out == nil {
		return err
	}
	text, err := infoJSON(i)
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

// fileJob is a job on a stream, which has a descriptor of its own.
type fileJob struct {
	file         *os.File
	offset, size atomic.Uint64 // in the dump, and of it where that is known
	ctx          context.Context
	job          job
}

// fileOf makes a job of a descriptor, which stays the caller's.
func fileOf(fd C.int) (*fileJob, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: fmt.Sprint("descriptor ", int(fd)), Err: err}
	}
	f := &fileJob{file: os.NewFile(uintptr(own), fmt.Sprint("descriptor ", int(fd)))}
	f.ctx, f.job.Cancel = context.WithCancel(context.Background())
	f.job.Progress = func() (uint64, uint64) { return f.offset.Load(), f.size.Load() }
	return f, nil
}

// note is told of the progress.
func (f *fileJob) note(p dump.Progress) { f.offset.Store(uint64(p.Offset)) }

// measure learns the size of a regular file that is read.
func (f *fileJob) measure() {
	if info, err := f.file.Stat(); err == nil && info.Mode().IsRegular() {
		f.size.Store(uint64(info.Size()))
	}
}

// start starts the work, which closes the file. sync makes a regular file durable at the end.
func (f *fileJob) start(out *C.uint64_t, sync bool, work func() (*dump.Info, error)) error {
	err := begin(&f.job, out, func() (*database, string, error) {
		defer f.job.Cancel()
		defer f.file.Close()
		i, err := work()
		if err != nil {
			return nil, "", err
		}
		if info, serr := f.file.Stat(); sync && serr == nil && info.Mode().IsRegular() {
			if err := f.file.Sync(); err != nil {
				return nil, "", err
			}
		}
		f.size.Store(uint64(i.Size))
		text, err := infoJSON(i)
		return nil, text, err
	})
	if err != nil {
		f.job.Cancel()
		_ = f.file.Close()
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
		f, err := fileOf(fd)
		if err != nil {
			return err
		}
		o.Continue, o.Progress = flags&C.LOAM_DUMP_CONTINUE != 0, f.note
		return f.start(out, true, func() (*dump.Info, error) { return dump.Write(f.ctx, d, f.file, o) })
	})
}

//export loamgo_load_start
func loamgo_load_start(db, flags C.uint64_t, fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, o, err := loadInto(db, flags)
		if err != nil {
			return err
		}
		f, err := fileOf(fd)
		if err != nil {
			return err
		}
		f.measure()
		o.Progress = f.note
		return f.start(out, false, func() (*dump.Info, error) { return dump.Load(f.ctx, d, f.file, o) })
	})
}

//export loamgo_dump_verify_start
func loamgo_dump_verify_start(fd C.int, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		f, err := fileOf(fd)
		if err != nil {
			return err
		}
		f.measure()
		return f.start(out, false, func() (*dump.Info, error) { return dump.Verify(f.ctx, f.file, f.note) })
	})
}
