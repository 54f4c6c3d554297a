package raftlog

import (
	"errors"

	"github.com/loamdb/loam/lsm"
)

var (
	// ErrNotFound is the error of Get and GetUint64 for a missing key. Its text is exactly
	// "not found", as hashicorp/raft compares texts.
	ErrNotFound = lsm.ErrNotFound
	// ErrClosed: the store was closed.
	ErrClosed = lsm.ErrClosed
	// ErrEntryTooLarge: an entry is above Options.MaxEntrySize. Nothing of its batch was stored.
	ErrEntryTooLarge = errors.New("entry too large")
	// ErrNotARaftLog: the directory has a database that is none of this package. Its contents are
	// as they were.
	ErrNotARaftLog = errors.New("not a Raft log")
)
