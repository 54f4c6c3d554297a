//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/blocks"
	"github.com/loamdb/loam/lsm"
)

// changes is what a kindChanges handle stands for. Its user of db.uses is the handle.
type changes struct {
	*blocks.Feed
	db *database
}

// close ends a feed whose handle is gone.
func (c *changes) close() error {
	err := c.Close()
	c.db.uses.Release()
	return err
}

//export loamgo_changes_open
func loamgo_changes_open(db C.uint64_t, from, flags C.uint64_t, out *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		d, err := held(db)
		if err != nil {
			return err
		}
		feed, err := d.db.Changes(uint64(from),
			&lsm.ChangesOptions{Durable: flags&C.LOAM_CHANGES_DURABLE != 0})
		if err != nil {
			d.uses.Release()
			return err
		}
		c := &changes{blocks.New(feed), d}
		return publishOr(kindChanges, c, out, c.close)
	})
}

// loamgo_changes_next makes a malloc'ed block of changes, and waits for the first.
//
//export loamgo_changes_next
func loamgo_changes_next(h C.uint64_t, most C.size_t, timeout C.int, data *unsafe.Pointer,
	length *C.size_t, message **C.char) (s status) {
	waited := false
	s = run(message, func() error {
		c, err := get[*changes](h, kindChanges)
		if err != nil {
			return err
		}
		given, err := c.Next(int(min(most, 1<<30)), time.Duration(timeout)*time.Millisecond,
			func(block []byte) error {
				if err := giveBytes(block, data); err != nil {
					return err
				}
				*length = C.size_t(len(block))
				return nil
			})
		waited = err == nil && !given
		return err
	})
	if waited {
		return C.LOAM_TIMEOUT
	}
	return s
}

//export loamgo_changes_position
func loamgo_changes_position(h C.uint64_t, next *C.uint64_t, message **C.char) status {
	return with(message, h, kindChanges, func(c *changes) error {
		*next = C.uint64_t(c.Position())
		return nil
	})
}

//export loamgo_changes_keyspace
func loamgo_changes_keyspace(h C.uint64_t, number C.uint32_t, name **C.char,
	message **C.char) status {
	return with(message, h, kindChanges, func(c *changes) error {
		found := c.KeyspaceName(uint32(number))
		if found == "" {
			return lsm.ErrNotFound
		}
		return give(found, name)
	})
}
