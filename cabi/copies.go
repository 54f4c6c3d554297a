//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import "context"

// loamgo_checkpoint makes a checkpoint, as a job if out is not NULL.
//
//export loamgo_checkpoint
func loamgo_checkpoint(db C.uint64_t, path *C.char, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := live(db)
		if err != nil {
			return err
		}
		dir := C.GoString(path)
		if out == nil {
			return d.db.Checkpoint(context.Background(), dir)
		}
		ctx, cancel := context.WithCancel(context.Background())
		return (&job{cancel: cancel}).start(out, func() (*database, string, error) {
			defer cancel()
			return nil, "", d.db.Checkpoint(ctx, dir)
		})
	})
}
