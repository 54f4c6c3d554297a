//go:build cgo

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

// loamgo_upgrade makes a database a native one, as a job if out is not NULL.
//
//export loamgo_upgrade
func loamgo_upgrade(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return withOptions(message, opts, func(o *settings.Settings) error {
		dir := pathOf(path, out)
		return perform(out, o.Uses, nil, func(context.Context) (string, error) {
			return "", report.At(dir, lsm.Upgrade(dir, &o.Options))
		})
	})
}

// loamgo_export exports a database, as a job if out is not NULL.
//
//export loamgo_export
func loamgo_export(path, to, format *C.char, opts C.uint64_t, out *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		var f lsm.Options
		if err := f.Set("format", C.GoString(format)); err != nil {
			return err
		}
		o, err := copied(opts)
		if err != nil {
			return err
		}
		from, into := pathOf(path, out), pathOf(to, out)
		var progress work.Gauge
		return perform(out, o.Uses, progress.Read, func(ctx context.Context) (string, error) {
			return "", report.At(from,
				lsm.Export(ctx, from, into, f.Format, &o.Options, progress.Set))
		})
	})
}
