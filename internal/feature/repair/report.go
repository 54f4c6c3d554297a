// Package repair brings a damaged database directory back to a state that can
// be opened, with everything that can still be read and nothing else.
//
// It starts from the newest readable MANIFEST, as far as that can be read, which lists the live
// tables, their levels, and the first log whose entries are in no table. Live tables that are whole
// stay as they are; of damaged ones the readable entries are written to new tables. Logs become
// tables. Where the levels cannot be trusted, because the MANIFEST is missing or was damaged with
// edits behind the damage lost, tables that overlap are merged: then the sequence number of each
// entry decides, not the level, what is newer. Only without any MANIFEST are tables taken for live
// that a compaction had left behind, so only then can what was deleted come back.
//
// When a block of a live table is lost, older entries of its keys, if there are
// any, show again: the Report has the range of keys.
//
// Everything new is durable before CURRENT names it, and only then are the originals moved into the
// folder "lost": a repair that is cut short changes nothing or is complete but for the moving. A
// database without damage is left untouched. A failure to read is not damage: it ends the repair.
//
// A repair belongs to one goroutine; the caller holds the directory's lock.
package repair

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
)

// LostDir is the folder within the database directory that takes the originals.
const LostDir = "lost"

// Report is what a repair did. It is empty when there was nothing to do.
type Report struct {
	// Dropped is what could not be read, in the order in which it was found.
	Dropped []Drop
	// Rewritten are tables whose readable entries are in new tables now.
	Rewritten []Rewrite
	// SetAside are the originals, by their names within LostDir.
	SetAside []string
	// LevelsLost means that the levels of the tables were unknown or unreliable.
	LevelsLost bool
	Tables     int    // tables in the database now
	Logs       int    // logs turned into tables
	Entries    uint64 // entries of the tables that were written or read; others are not counted
	Manifest   string // name of the new MANIFEST; "" when nothing was changed
}

// Drop is a part of a file that could not be read and is not in the database any more.
type Drop struct {
	File   string // name within the directory
	Offset int64  // bytes from the start of the file
	Length int64  // bytes; 0 when unknown
	Reason string // in words, lower case
	// Smallest and Largest are user keys between which the lost entries lie; nil where unknown.
	Smallest, Largest []byte
}

// String names file, place and reason.
func (d Drop) String() string {
	return fmt.Sprintf("%s at offset %d, length %d: %s", d.File, d.Offset, d.Length, d.Reason)
}

// Rewrite is a table that was replaced, and why.
type Rewrite struct {
	File   string // name of the original
	Reason string // in words, lower case
}

func (r *Report) drop(file string, off, length int64, reason string) {
	r.Dropped = append(r.Dropped, Drop{File: file, Offset: off, Length: length, Reason: reason})
}

// dropCorruption records the damage that c describes; the place in it is used when it has one.
func (r *Report) dropCorruption(file string, c *base.Corruption, off, length int64) {
	if c.Offset >= 0 {
		off, length = c.Offset, c.Length
	}
	r.drop(file, off, length, c.Kind+": "+c.Reason)
}
