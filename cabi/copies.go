//go:build cgo && !windows

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"

	"github.com/loamdb/loam/lsm"
)

// loamgo_checkpoint makes a checkpoint, or has a follower catch up if path is NULL, as a job if out is not NULL.
//
//export loamgo_checkpoint
func loamgo_checkpoint(db C.uint64_t, path *C.char, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := live(db)
		if err != nil {
			return err
		}
		dir, work := C.GoString(path), (&lsm.Follower{DB: d.db}).CatchUp
		if path != nil {
			work = func(ctx context.Context) error { return d.db.Checkpoint(ctx, dir) }
		}
		if out == nil {
			return work(context.Background())
		}
		ctx, cancel := context.WithCancel(context.Background())
		return begin(&job{Cancel: cancel}, out, func() (*database, string, error) {
			defer cancel()
			return nil, "", work(ctx)
		})
	})
}

//export loamgo_lag
func loamgo_lag(db C.uint64_t, sequences, microseconds *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		d, err := live(db)
		if err != nil {
			return err
		}
		lag, err := (&lsm.Follower{DB: d.db}).Lag(context.Background())
		*sequences, *microseconds = C.uint64_t(lag.Sequences), C.uint64_t(lag.Time.Microseconds())
		return err
	})
}
