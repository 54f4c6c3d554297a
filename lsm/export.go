package lsm

import (
	"context"
	"fmt"

	"github.com/loamdb/loam/internal/feature/transfer"
)

// Export writes what the database in dir holds into a new database in to, in a format that may be
// another one: the newest entry of each key, of all keyspaces. dir is opened as with ReadOnly and
// stays as it is. Export reads and writes everything once; progress, unless nil, is told after each
// quarter of a MiB how many bytes of keys and values were written, and how many bytes the tables of
// dir have. It ends with ctx's error when ctx is done.
//
// It fails with ErrExists if there is something in to, with ErrInvalidArgument, before it
// writes anything, if there are entries of kinds or, in LevelDB's format, keyspaces that
// the format does not have, with ErrLocked if another copy of that name is being made, and as
// Open does. Nothing is left of an export that failed. It is made in the directory
// to + ".incomplete", as a checkpoint is; what a crash leaves there, the next export,
// checkpoint or restored backup of that name removes. to may not lie in dir.
//
// o is as for Open: how dir is opened and the tables of to are written.
func Export(ctx context.Context, dir, to string, format Format, o *Options,
	progress func(written, of uint64)) error {
	src := Options{}
	if o != nil {
		src = *o
	}
	src.DefaultTTL = 0 // values keep the time that they have
	dst := src
	src.ReadOnly, src.ErrorIfExists = true, false
	dst.Format, dst.ReadOnly, dst.ErrorIfMissing, dst.ErrorIfExists, dst.DisableCompaction =
		format, false, false, true, true
	from, err := src.resolve()
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	into, err := dst.resolve()
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	if err := transfer.Export(ctx, dir, to, from.engine(), into.engine(), progress); err != nil {
		return fmt.Errorf("exporting %s to %s: %w", dir, to, err)
	}
	return nil
}
