package lsm

import (
	"context"
	"fmt"

	"github.com/loamdb/loam/internal/feature/transfer"
)

// Export writes what the database in dir holds into a new database in to, in a format that may be
// another one: the newest entry of each key, of all keyspaces. dir is opened as with ReadOnly and
// stays as it is. Export reads and writes everything once; progress, unless nil, is called after
// each 256 KiB with the bytes of keys and values written so far, before compression, and with the
// size of dir's tables. Export ends with ctx's error when ctx is done.
//
// It fails as Open does, with ErrExists if to is not empty, with ErrLocked while another copy to
// the same place is being made, and, before it writes anything, with ErrInvalidArgument if the
// format cannot hold some entry or keyspace, or to lies in dir. A failed export leaves nothing.
// Like a checkpoint it is made in the directory to + ".incomplete"; the next export, checkpoint or
// restored backup to the same place removes what a crash left there.
//
// o is as for Open: how dir is opened and the tables of to are written. The copy of an encrypted
// database is encrypted by the same keys, so that it cannot have LevelDB's format; with
// Options.AllowClear it is clear. A part of dir's logs that an opening leaves out is told to
// Options.Logger alone.
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
	if src.AllowClear {
		dst.Encryption = nil
	}
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
