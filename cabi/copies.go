//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"

	"github.com/loamdb/loam/lsm"
)

// loamgo_checkpoint makes a checkpoint, as a job if out is not NULL.
//
//export loamgo_checkpoint
func loamgo_checkpoint(db C.uint64_t, path *C.char, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		dir := pathOf(path, out)
		return cancelable(db, out, func(ctx context.Context, d *database) error {
			return d.db.Checkpoint(ctx, dir)
		})
	})
}

// loamgo_catch_up has a follower catch up, as a job if out is not NULL.
//
//export loamgo_catch_up
func loamgo_catch_up(db C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		return cancelable(db, out, func(ctx context.Context, d *database) error {
			return (&lsm.Follower{DB: d.db}).CatchUp(ctx)
		})
	})
}

// cancelable does some work with a database, as a job that can be canceled if out is not NULL.
func cancelable(db C.uint64_t, out *C.uint64_t, work func(context.Context, *database) error) error {
	d, err := live(db)
	if err != nil {
		return err
	}
	return perform(out, nil, nil, func(ctx context.Context) (string, error) {
		return "", work(ctx, d)
	})
}

//export loamgo_lag
func loamgo_lag(db C.uint64_t, sequences, microseconds *C.uint64_t, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		lag, err := (&lsm.Follower{DB: d.db}).Lag(context.Background())
		*sequences, *microseconds = C.uint64_t(lag.Sequences), C.uint64_t(lag.Time.Microseconds())
		return err
	})
}
