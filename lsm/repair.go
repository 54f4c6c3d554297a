package lsm

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/feature/repair"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/files"
)

// RepairReport is what Repair did. Its fields are Dropped (what could not be read, each
// with File, Offset, Length, Reason, and Smallest and Largest, the keys between which
// the lost entries lie), Rewritten (tables whose readable entries are in new tables, each
// with File and Reason), SetAside (names of the originals within "lost"), LevelsLost (the
// levels of the tables were not known), Tables, Logs and Entries (how many tables the
// database has, logs became tables, and entries are in the tables that were written or
// read), and Manifest (name of the new MANIFEST, "" when nothing was changed, as Changed
// reports).
type RepairReport = repair.Report

// Repair brings a damaged database in dir back to a state that opens, with
// everything that can still be read and nothing else: it works in place, keeps the replaced
// originals in the folder "lost" within dir, and reports the dropped parts. A database without
// damage is left as it is. It fails with ErrLocked if
// the database is open, with ErrDoesNotExist or ErrNotADatabase, which names the other engine, if
// there is none, and with the error of a read or write, which leaves the database unchanged.
func Repair(dir string, o *Options) (*RepairReport, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	var report *RepairReport
	err = inDir(opts, dir, func(d *vfs.Dir) (err error) {
		report, err = repair.Run(repair.Options{
			FS: files.RoomyFS{FS: d.FS}, Dir: d.Path, Comparer: opts.Comparer,
			Comparers: opts.comparerOf, Tables: opts.tables(opts.Comparer),
			FileSize: uint64(opts.MaxFileSize), WriteBuffer: opts.WriteBufferSize,
			MaxDecoded: opts.MaxDecodedBlock,
		})
		return err
	})
	if err != nil {
		return report, fmt.Errorf("repairing %s: %w", dir, err)
	}
	return report, nil
}

// inDir opens and locks the directory of a database that is not open, and calls do. A
// panic, of the user's FS or Comparer for instance, is an error.
func inDir(opts *Options, dir string, do func(*vfs.Dir) error) error {
	var d *vfs.Dir
	err := store.Protect(func() (err error) {
		d, err = vfs.OpenDir(opts.FS, dir, vfs.DirOptions{Check: owner.Check})
		return err
	})
	if err != nil {
		return err
	}
	err = store.Protect(func() error { return do(d) })
	return errors.Join(err, store.Protect(d.Close))
}
