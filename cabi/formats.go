//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/cabi/internal/work"
	"github.com/loamdb/loam/lsm"
)

// upgrade makes a database a native one and lets go of what the options brought.
func upgrade(path string, o *settings.Settings) error {
	defer o.Uses.Release()
	return report.At(path, lsm.Upgrade(path, &o.Options))
}

//export loamgo_upgrade
func loamgo_upgrade(path *C.char, opts C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		return upgrade(C.GoString(path), o)
	})
}

//export loamgo_upgrade_start
func loamgo_upgrade_start(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		dir := C.GoString(path)
		err = begin(new(job), out, func() (*database, string, error) {
			return nil, "", upgrade(dir, o)
		})
		if err != nil {
			o.Uses.Release()
		}
		return err
	})
}

// exporting is a call of lsm.Export. It lets go of what the options brought.
type exporting struct {
	from, to string
	format   lsm.Format
	o        *settings.Settings
	progress work.Gauge
}

func newExporting(path, to, format *C.char, opts C.uint64_t) (*exporting, error) {
	var f lsm.Options
	if err := f.Set("format", C.GoString(format)); err != nil {
		return nil, err
	}
	o, err := copied(opts)
	return &exporting{from: C.GoString(path), to: C.GoString(to), format: f.Format, o: o}, err
}

func (e *exporting) run(ctx context.Context) error {
	defer e.o.Uses.Release()
	return report.At(e.from, lsm.Export(ctx, e.from, e.to, e.format, &e.o.Options, e.progress.Set))
}

//export loamgo_export
func loamgo_export(path, to, format *C.char, opts C.uint64_t, message **C.char) status {
	return run(message, func() error {
		e, err := newExporting(path, to, format, opts)
		if err != nil {
			return err
		}
		return e.run(context.Background())
	})
}

//export loamgo_export_start
func loamgo_export_start(path, to, format *C.char, opts C.uint64_t, out *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		e, err := newExporting(path, to, format, opts)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		j := &job{Cancel: cancel, Progress: e.progress.Read}
		err = begin(j, out, func() (*database, string, error) {
			defer cancel()
			return nil, "", e.run(ctx)
		})
		if err != nil {
			cancel()
			e.o.Uses.Release()
		}
		return err
	})
}
