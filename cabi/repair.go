//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/lsm"
)

// repair returns the report as JSON and lets go of what the options brought.
func repair(path string, o *settings.Settings) (string, error) {
	defer o.Uses.Release()
	found, err := lsm.Repair(path, &o.Options)
	if err != nil {
		return "", report.At(path, err)
	}
	return report.JSON(report.Of(found))
}

//export loamgo_repair
func loamgo_repair(path *C.char, opts C.uint64_t, out **C.char, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		report, err := repair(C.GoString(path), o)
		if err == nil && out != nil {
			err = give(report, out)
		}
		return err
	})
}

//export loamgo_repair_start
func loamgo_repair_start(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		o, err := copied(opts)
		if err != nil {
			return err
		}
		dir := C.GoString(path)
		err = begin(new(job), out, func() (*database, string, error) {
			report, err := repair(dir, o)
			return nil, report, err
		})
		if err != nil {
			o.Uses.Release()
		}
		return err
	})
}
