package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/saved"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/lsm"
)

// readCache is the block cache of a verb that reads: it reads most blocks once.
const readCache = 16 << 20

// keyspaceFlag gives a verb the flag --keyspace.
func (a *app) keyspaceFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.keyspace, "keyspace", "default", "name of the keyspace")
}

// snapshotFlag gives a verb that reads by inKeyspace the flag --snapshot.
func (a *app) snapshotFlag(c *cobra.Command) {
	c.Flags().Uint64Var(&a.snapshot, "snapshot", 0,
		"number of a backup: DIR is a folder of backups, see loam backups")
}

// options are those with which the directory opens: it is read first which comparers it has.
func (a *app) options(dir string) (*lsm.Options, error) { return a.optionsIn(lsm.OSFS(), dir) }

func (a *app) optionsIn(fsys lsm.FS, dir string) (*lsm.Options, error) {
	o := &lsm.Options{CacheSize: readCache, ErrorIfMissing: true, FS: fsys, Encryption: a.keys}
	forced, err := a.forcedComparer()
	if err != nil {
		return nil, err
	}
	// Of a damaged MANIFEST the edits before the damage count.
	d, failed := examine.Open(a.sealed(fsys, dir), dir)
	for i, space := range d.State.Keyspaces() {
		known, _ := base.ComparerNamed(space.Comparer)
		c := (*lsm.Comparer)(known)
		if c == nil && forced != nil {
			named := *forced
			if space.Comparer != "" { // which a missing MANIFEST does not tell
				named.Name = space.Comparer
			}
			c = &named
		}
		switch {
		case c == nil:
		case i == 0:
			o.Comparer = c
		default:
			o.Comparers = append(o.Comparers, c)
		}
	}
	return o, failed
}

// forcedComparer is the built-in comparer that the flag --comparer names, nil for none.
func (a *app) forcedComparer() (*lsm.Comparer, error) {
	name := a.comparer
	switch name {
	case "":
		return nil, nil
	case "bytewise":
		return lsm.BytewiseComparer, nil
	case "reverse":
		return lsm.ReverseBytewiseComparer, nil
	}
	c, names := base.ComparerNamed(name)
	if c == nil {
		return nil, usagef("%q is no built-in order; want bytewise, reverse or one of %s", name,
			strings.Join(names, ", "))
	}
	return (*lsm.Comparer)(c), nil
}

// examined reads CURRENT and the MANIFEST of a directory. Its tables open with the order that the
// flag --comparer names, where theirs is not built in.
func (a *app) examined(dir string) (*examine.Directory, error) {
	forced, err := a.forcedComparer()
	if err != nil {
		return nil, err
	}
	d, err := examine.Open(a.files(dir), dir)
	d.Other = (*base.Comparer)(forced)
	return d, err
}

// database is a directory, or a backup, that is open for reading.
type database struct {
	*lsm.DB
	// follows reports that another process has the database open.
	follows bool
	// backup is nil for a directory.
	backup *saved.Backup
}

// Close closes the database and the backup that it is in.
func (d *database) Close() error {
	err := d.DB.Close()
	if d.backup != nil {
		err = errors.Join(err, d.backup.Close())
	}
	return err
}

// openBackup opens a backup for reading.
func (a *app) openBackup(folder string, id uint64) (*database, error) {
	b, err := saved.Open(folder, id)
	if err != nil {
		return nil, err
	}
	db, err := a.openIn(b.FS, b.Dir)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &database{DB: db, backup: b}, nil
}

// openAlone opens a directory for reading. It fails where another process has it open.
func (a *app) openAlone(dir string) (*lsm.DB, error) { return a.openIn(lsm.OSFS(), dir) }

func (a *app) openIn(fsys lsm.FS, dir string) (*lsm.DB, error) {
	o, err := a.optionsIn(fsys, dir)
	if err != nil {
		return nil, err
	}
	o.ReadOnly = true
	return lsm.Open(dir, o)
}

// openRead opens a directory, or a backup that saved.Name names, without changing anything in it,
// and reports the parts of logs that the opening leaves out. If another process has the directory
// open, openRead follows it, and reports no logs: they are that process's business.
func (a *app) openRead(dir string) (*database, error) {
	db, err := a.openQuietly(dir)
	if err == nil && !db.follows {
		a.tell(db.DB)
	}
	return db, err
}

// openQuietly is openRead without the report.
func (a *app) openQuietly(dir string) (*database, error) {
	if folder, id, ok := saved.Parse(dir); ok {
		return a.openBackup(folder, id)
	}
	db, err := a.openAlone(dir)
	if err == nil {
		return &database{DB: db}, nil
	}
	if !errors.Is(err, lsm.ErrLocked) {
		return nil, saved.Explain(dir, err)
	}
	o, err := a.options(dir)
	if err != nil {
		return nil, err
	}
	f, err := lsm.OpenFollower(dir, o)
	if err != nil {
		return nil, fmt.Errorf("reading beside the process that has the database open: %w", err)
	}
	return &database{DB: f.DB, follows: true}, nil
}

// openWrite opens a directory for writing. It fails where another process has it open.
func (a *app) openWrite(dir string) (*lsm.DB, error) {
	o, err := a.options(dir)
	if err != nil {
		return nil, err
	}
	o.CacheSize = 0
	db, err := lsm.Open(dir, o)
	if err == nil {
		a.tell(db)
	}
	return db, err
}

// spaceOf is the keyspace that the flag --keyspace names.
func (a *app) spaceOf(db *lsm.DB, create bool) (*lsm.Keyspace, error) {
	return db.Keyspace(a.keyspace, &lsm.KeyspaceOptions{ErrorIfMissing: !create})
}

// eachKeyspace calls do with every keyspace, or with the one that the flag --keyspace names.
func (a *app) eachKeyspace(c *cobra.Command, db *lsm.DB, do func(k *lsm.Keyspace) error) error {
	names := db.Keyspaces()
	if c.Flags().Changed("keyspace") {
		names = []string{a.keyspace}
	}
	for _, name := range names {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if err == nil {
			err = do(k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inKeyspace opens a directory, or the backup of --snapshot, for reading and calls do with the
// keyspace of --keyspace.
func (a *app) inKeyspace(dir string, do func(db *database, k *lsm.Keyspace) error) error {
	if a.snapshot != 0 {
		dir = saved.Name(dir, a.snapshot)
	}
	db, err := a.openRead(dir)
	if err != nil {
		return err
	}
	k, err := a.spaceOf(db.DB, false)
	if err == nil {
		err = do(db, k)
	}
	return errors.Join(err, db.Close())
}
