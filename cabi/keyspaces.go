//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"sync/atomic"

	"github.com/loamdb/loam/lsm"
)

// openings numbers the open databases.
var openings atomic.Uint64

//export loamgo_keyspace_open
func loamgo_keyspace_open(db C.uint64_t, name *C.char, opts C.uint64_t, out *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		d, err := held(db)
		if err != nil {
			return err
		}
		opened := false // the user of d.uses is the keyspace's
		defer func() {
			if !opened {
				d.uses.Release()
			}
		}()
		wanted := &lsm.KeyspaceOptions{}
		if opts != 0 {
			o, err := copied(opts)
			if err != nil {
				return err
			}
			// A comparator of callbacks is the database's, which keeps it. A merge operator or
			// compaction filter may be called until the database is closed.
			o.LeaveTo(d.uses)
			wanted = &lsm.KeyspaceOptions{Comparer: o.Comparer, MergeOperator: o.MergeOperator,
				Compression: o.Compression, BloomBits: o.BloomBits, PrefixLength: o.PrefixLength,
				CompactionFilter: o.CompactionFilter, DefaultTTL: o.DefaultTTL,
				ErrorIfMissing: o.ErrorIfMissing}
		}
		k, err := d.db.Keyspace(C.GoString(name), wanted)
		if err != nil {
			return err
		}
		space := &database{Keyspace: k, db: d.db, number: d.number, closed: d.closed,
			logger: d.logger, uses: d.uses}
		err = publish(kindDB, space, out)
		opened = err == nil
		return err
	})
}

//export loamgo_keyspace_drop
func loamgo_keyspace_drop(db C.uint64_t, name *C.char, message **C.char) status {
	return withLive(message, db, func(d *database) error {
		return d.db.DropKeyspace(C.GoString(name))
	})
}

// loamgo_keyspace_number stores the number of a keyspace and that of its database.
//
//export loamgo_keyspace_number
func loamgo_keyspace_number(db C.uint64_t, number *C.uint32_t, opening *C.uint64_t,
	message **C.char) status {
	return withLive(message, db, func(d *database) error {
		*number, *opening = C.uint32_t(d.ID()), C.uint64_t(d.number)
		return nil
	})
}
