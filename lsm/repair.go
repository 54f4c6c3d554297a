package lsm

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/repair"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/files"
)

// RepairReport is what Repair did. It is empty when there was nothing to do.
type RepairReport struct {
	// Dropped is what could not be read, in the order in which it was found.
	Dropped []RepairDrop
	// Rewritten is the tables whose readable entries are in new tables now.
	Rewritten []RepairRewrite
	// SetAside is the names of the originals within the folder "lost".
	SetAside []string
	// LevelsLost reports that the levels of the tables were unknown or unreliable.
	LevelsLost bool
	Tables     int // Tables is the number of tables in the database now.
	Logs       int // Logs is the number of logs that became tables.
	// Entries is the number of entries of the tables that were written or read.
	Entries uint64
	// Manifest is the name of the new MANIFEST; "" when nothing was changed.
	Manifest string
}

// Changed reports whether the repair changed anything.
func (r *RepairReport) Changed() bool { return r.Manifest != "" }

// RepairDrop is a part of a file that could not be read and is not in the database any more.
type RepairDrop struct {
	File string // File is the name within the directory.
	// Offset is where the part begins, in bytes from the start of the file.
	Offset int64
	Length int64  // Length is its length in bytes; 0 when unknown.
	Reason string // Reason says why it could not be read, in words, lower case.
	// Smallest and Largest are the keys between which the lost entries lie; nil where unknown.
	Smallest, Largest []byte
}

// String names file, place and reason.
func (d RepairDrop) String() string { return repair.Drop(d).String() }

// RepairRewrite is a table that was replaced.
type RepairRewrite struct {
	File   string // File is the name of the original.
	Reason string // Reason says why it was replaced, in words, lower case.
}

// repairReport is the report of package repair; nil for nil.
func repairReport(r *repair.Report) *RepairReport {
	if r == nil {
		return nil
	}
	to := &RepairReport{
		SetAside: r.SetAside, LevelsLost: r.LevelsLost, Tables: r.Tables, Logs: r.Logs,
		Entries: r.Entries, Manifest: r.Manifest,
	}
	for _, d := range r.Dropped {
		to.Dropped = append(to.Dropped, RepairDrop(d))
	}
	for _, t := range r.Rewritten {
		to.Rewritten = append(to.Rewritten, RepairRewrite(t))
	}
	return to
}

// Repair brings the damaged database in dir back to a state that opens, with everything that can
// still be read and nothing else. It works in place, moves the replaced originals into the folder
// "lost" within dir, and reports the dropped parts. A database without damage is left as it is.
//
// It fails with ErrLocked if the database is open, with ErrDoesNotExist if dir has no database,
// with ErrNotADatabase, which names the engine, if dir has another engine's, with ErrEncryption if
// a key is missing, with ErrNeedsNative if keys are given for a directory in LevelDB's format, and
// with the error of a read or write, which leaves the database unchanged.
func Repair(dir string, o *Options) (*RepairReport, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	order := (*base.Comparer)(opts.Comparer)
	var report *repair.Report
	err = store.InDir(opts.FS, dir, repair.Check, func(d *vfs.Dir) (err error) {
		fsys, err := opts.sealed(files.RoomyFS{FS: d.FS}, d.Path)
		if err != nil {
			return err
		}
		report, err = repair.Run(repair.Options{
			FS: fsys, Dir: d.Path, Comparer: order, Comparers: opts.comparerOf,
			Tables: opts.tables(order), FileSize: uint64(opts.MaxFileSize),
			WriteBuffer: opts.WriteBufferSize, MaxDecoded: opts.MaxDecodedBlock,
		})
		return err
	})
	if err != nil {
		return repairReport(report), fmt.Errorf("repairing %s: %w", dir, err)
	}
	return repairReport(report), nil
}
