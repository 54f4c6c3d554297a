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
	"github.com/loamdb/loam/internal/base/plain"
	"github.com/loamdb/loam/lsm"
)

// repair returns the report as JSON.
func repair(path string, o *settings.Settings) (string, error) {
	found, err := lsm.Repair(path, &o.Options)
	if err != nil {
		return "", report.At(path, err)
	}
	return report.JSON(plain.Of(found))
}

//export loamgo_repair
func loamgo_repair(path *C.char, opts C.uint64_t, out **C.char, message **C.char) status {
	return withOptions(message, opts, func(o *settings.Settings) error {
		defer o.Uses.Release()
		report, err := repair(C.GoString(path), o)
		if err == nil && out != nil {
			err = give(report, out)
		}
		return err
	})
}

//export loamgo_repair_start
func loamgo_repair_start(path *C.char, opts C.uint64_t, out *C.uint64_t, message **C.char) status {
	return withOptions(message, opts, func(o *settings.Settings) error {
		dir := pathOf(path, out)
		return perform(out, o.Uses, nil, func(context.Context) (string, error) {
			return repair(dir, o)
		})
	})
}
