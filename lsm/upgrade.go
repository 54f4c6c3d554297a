package lsm

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/transfer"
)

// Upgrade makes the LevelDB database in dir a native one. It replays the logs as Open
// does, and writes a new MANIFEST; the tables stay as they are, under names of the native
// format, and are rewritten in it when a compaction meets them. So it takes about as long
// as an Open. There is no way back but Export. A native database stays as it is.
//
// A crash leaves a whole database in one of the two formats. Upgrade fails as Open does, with
// ErrDoesNotExist where there is no database, and with ErrInvalidArgument where files with names of
// the native format are in the way. After a failure the database has LevelDB's format as before,
// unless the error is one of Close, or of the last look at the upgraded database, which tells that
// another program took files away: then the new MANIFEST is already in force. o is as for Open,
// without ReadOnly and ErrorIfExists. A part of the logs that Open leaves out is told
// to Options.Logger alone.
func Upgrade(dir string, o *Options) error {
	up := Options{}
	if o != nil {
		up = *o
	}
	if up.ReadOnly {
		return base.Invalidf("an upgrade writes, and ReadOnly is set")
	}
	up.upgrade, up.ErrorIfMissing, up.ErrorIfExists, up.DisableCompaction = true, true, false, true
	db, err := Open(dir, &up)
	if err != nil {
		return fmt.Errorf("upgrading: %w", err)
	}
	if err := db.Close(); err != nil {
		return err
	}
	up.upgrade = false
	r, err := up.resolve()
	if err == nil {
		// Another program may have been at work there.
		err = transfer.Check(db.engine.Place().Dir, r.engine())
	}
	if err != nil {
		return fmt.Errorf("upgrading: the upgraded database: %w", err)
	}
	return nil
}
