package lsm

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/repair"
	"github.com/loamdb/loam/internal/vfs"
)

// RepairReport is what Repair did.
type RepairReport = repair.Report

// Repair brings a damaged database in dir back to a state that opens, with
// everything that can still be read and nothing else: it works in place, keeps
// the originals of what it replaces in the folder "lost" within dir, and
// reports what it dropped. A database without damage is left as it is. The
// database must not be open.
func Repair(dir string, o *Options) (*RepairReport, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	d, err := vfs.OpenDir(opts.FS, dir, vfs.DirOptions{})
	if err != nil {
		return nil, fmt.Errorf("loam: repairing %s: %w", dir, err)
	}
	report, err := repair.Run(repair.Options{
		FS: roomyFS{d.FS}, Dir: d.Path, Comparer: opts.Comparer, Tables: opts.tables(),
		FileSize: uint64(opts.MaxFileSize), WriteBuffer: opts.WriteBufferSize, MaxDecoded: opts.MaxDecodedBlock,
	})
	if err = errors.Join(err, d.Close()); err != nil {
		return report, fmt.Errorf("loam: repairing %s: %w", dir, err)
	}
	return report, nil
}
