//go:build cgo

package main

import "github.com/loamdb/loam/cabi/internal/handles"

type kind = handles.Kind

// Kinds of Go's objects. slots.h has C's, which begin at 0x40.
const (
	kindOptions kind = 1 + iota
	kindCache
	kindDB
	kindSnapshot
	kindIterator
	kindJob
	kindTxn
	kindBackup
	kindChanges
	kindTableWriter
	kindBulkLoad
	kindPinned
)

// objects is the handles of the process.
var objects handles.Table
