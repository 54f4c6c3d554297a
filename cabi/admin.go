//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/settings"
	"github.com/loamdb/loam/internal/base/plain"
	"github.com/loamdb/loam/lsm"
)

//export loamgo_approximate_sizes
func loamgo_approximate_sizes(db C.uint64_t, n C.size_t, starts *unsafe.Pointer,
	startLens *C.size_t, stops *unsafe.Pointer, stopLens *C.size_t, sizes *C.uint64_t,
	message **C.char) status {
	return withLive(message, db, func(d *database) error {
		if n == 0 {
			return nil
		}
		count := int(n)
		sl, ll := unsafe.Slice(startLens, count), unsafe.Slice(stopLens, count)
		ranges := make([]lsm.Range, count)
		for i := range ranges {
			ranges[i] = lsm.Range{
				Start: bound(unsafe.Slice(starts, count)[i], sl[i]),
				Limit: bound(unsafe.Slice(stops, count)[i], ll[i]),
			}
		}
		got, err := d.ApproximateSizes(ranges)
		if err != nil {
			return err
		}
		out := unsafe.Slice(sizes, count)
		for i := range out {
			out[i] = C.uint64_t(got[i])
		}
		return nil
	})
}

// loamgo_admin is the upkeep that takes a database alone.
//
//export loamgo_admin
func loamgo_admin(db C.uint64_t, what C.uint, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		switch what {
		case C.LOAMGO_FLUSH:
			return d.Flush()
		case C.LOAMGO_PAUSE:
			d.db.PauseCompaction()
		case C.LOAMGO_UNPAUSE:
			d.db.ResumeCompaction()
		case C.LOAMGO_RETRY:
			return d.db.Resume()
		case C.LOAMGO_VERIFY:
			return d.db.Verify(context.Background(), nil)
		case C.LOAMGO_REKEY:
			return d.db.Rekey(context.Background())
		}
		return nil
	})
}

// loamgo_text answers the questions whose answer is a string.
//
//export loamgo_text
func loamgo_text(db C.uint64_t, what C.uint, name *C.char, out **C.char, message **C.char) status {
	return run(message, func() error {
		if what == C.LOAMGO_OPTION_DOCS {
			return giveJSON(plain.Of(settings.Docs()), out)
		}
		d, err := live(db)
		if err != nil {
			return err
		}
		switch what {
		case C.LOAMGO_METRICS:
			m := plain.Of(d.Metrics()).(map[string]any)
			m["logger_error"] = nil
			if d.logger != nil {
				if f := d.logger.Failure(); f != nil {
					m["logger_error"] = f.Reason
				}
			}
			return giveJSON(m, out)
		case C.LOAMGO_RECOVERY:
			return giveJSON(plain.Of(d.db.RecoveryReport()), out)
		case C.LOAMGO_KEYS:
			uses, err := d.db.KeysInUse()
			if err != nil {
				return err
			}
			return giveJSON(plain.Of(uses), out)
		case C.LOAMGO_KEYSPACES:
			return giveJSON(d.db.Keyspaces(), out)
		case C.LOAMGO_COMPARATOR:
			return give(d.Comparer().Name, out)
		}
		v, ok := d.Property(C.GoString(name))
		if !ok {
			return lsm.ErrNotFound
		}
		return give(v, out)
	})
}

func giveJSON(v any, out **C.char) error {
	s, err := report.JSON(v)
	if err != nil {
		return err
	}
	return give(s, out)
}
