// Package backup keeps backups of databases in a directory: a folder of backups.
//
// A backup is one state of an open database, all keyspaces at one moment, made while writes go on.
// Backups of one folder share the contents of tables, so that a second backup takes time and space
// for the changes only; each can be restored, and deleted, without the others. The databases may be
// several, of both formats.
//
//	folder, err := backup.Open("/backups", nil)
//	info, err := folder.Create(ctx, db, nil)
//	err = folder.Verify(ctx, info.ID, nil)
//	err = folder.Restore(ctx, info.ID, "/restored", nil)
//
// Whatever ends a call, the machine's power included, the backups that were there before stay
// whole.
package backup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// Options configures a Folder. A nil *Options and a zero field mean the default.
type Options struct {
	// FS is the file system of the folder, and of restored databases. The default is the operating
	// system's. It is called with locks held, so it must not call the folder.
	FS lsm.FS
	// ErrorIfMissing fails Open with lsm.ErrDoesNotExist where there is no folder. The default,
	// false, creates one.
	ErrorIfMissing bool
	// ReadOnly changes nothing in the folder: Create, Delete and Keep fail with lsm.ErrReadOnly,
	// and any number of readers share it. The default is false.
	ReadOnly bool
}

// RunOptions configures one call of Create, Verify or Restore. A nil *RunOptions and a zero field
// mean the default.
type RunOptions struct {
	// BytesPerSecond bounds what the call reads. The default, 0, is no bound.
	BytesPerSecond int64
	// Progress is told how many bytes are done, of how many; of a backup, those that need not be
	// copied count, too. The last call, of a run that succeeds, has equal figures. Calls come one
	// at a time, on a goroutine of their own, and not for every step; none comes after the run has
	// returned, which waits for the last one, so Progress must not wait for the run. It may call
	// everything else, Close of the database and of the folder included. A panic in it ends the run
	// with an error; only a backup or a database that was whole by then is there. The default, nil,
	// is none.
	Progress func(done, of uint64)
}

// Info describes a backup.
type Info struct {
	// ID is the number of the backup. It grows with each backup of the folder and is never used
	// again.
	ID uint64
	// Created is the time of the backup by the clock of the machine.
	Created time.Time
	// Database is the directory of the database.
	Database string
	// Format is the format of the database: "native" or "leveldb".
	Format string
	// Files is the number of files of the database.
	Files int
	// Bytes is the size of these files.
	Bytes uint64
	// NewBytes is the part of Bytes that earlier backups did not have.
	NewBytes uint64
	// Err says why the backup cannot be read, as far as List knows without reading its files; nil
	// if it can. Beside an Err only ID is known.
	Err error
}

// Folder is an open folder of backups. All methods are safe for concurrent use, and run side by
// side.
//
// Besides the errors that they name, methods fail with lsm.ErrClosed after Close, with
// lsm.ErrDoesNotExist where there is no backup of that number, with lsm.ErrInvalidArgument if the
// context is nil, with the context's error when it is done, with a shortage (lsm.ErrNoSpace and
// others) or an error of the file system.
type Folder struct{ f *backup.Folder }

// Open opens the folder of backups in dir, and makes it when there is none unless o.ErrorIfMissing;
// the directory above must exist. A nil o means the defaults. The folder is locked until Close,
// within this process and against others. What a crash left of a backup is removed; files that are
// not the folder's stay.
//
// It fails with lsm.ErrLocked, lsm.ErrDoesNotExist, lsm.ErrNotADatabase where the directory holds
// something else than backups, lsm.ErrNewerFormat, lsm.ErrCorruption, lsm.ErrInvalidArgument if dir
// is empty, a shortage or an error of the file system.
func Open(dir string, o *Options) (f *Folder, err error) {
	o = cmp.Or(o, &Options{})
	defer caught("opening the backups", &err)
	fsys := vfs.FS(o.FS)
	if fsys == nil {
		fsys = vfs.Default
	}
	inner, err := backup.Open(dir, backup.Options{FS: fsys, Missing: o.ErrorIfMissing,
		ReadOnly: o.ReadOnly})
	if err != nil {
		return nil, err
	}
	return &Folder{inner}, nil
}

// Create makes a backup of what db has at one moment between the call and its return: all
// keyspaces, each batch whole, writes without Sync included. It is durable when Create returns; if
// it fails, it is not there. Tables whose contents are in some backup are not copied. Tables of the
// newest backup of the same directory are not read either, if name, size, checksum (native format),
// inode and time of change are the same. Copies are compared with the checksums of the MANIFEST
// (native format).
//
// It fails with lsm.ErrCorruption, naming the file, if a table is damaged, with lsm.ErrReadOnly if
// the folder was opened so or the database became so by a failure, with lsm.ErrClosed if the
// database is closed meanwhile, which does not wait for Create to come to its end, and with
// lsm.ErrInvalidArgument if the folder lies in the database. One that was opened with ReadOnly has
// backups, too.
func (f *Folder) Create(ctx context.Context, db *lsm.DB, o *RunOptions) (info Info, err error) {
	if db == nil {
		return info, base.Invalidf("Create needs a database")
	}
	err = f.run(ctx, "backup", o, func(r *backup.Run) error {
		in := db.Inside()
		made, err := in.Copies.Backup(in, f.f, r)
		info = Info(made)
		return err
	})
	return info, err
}

// List describes the backups, oldest first.
func (f *Folder) List() (list []Info, err error) {
	defer caught("listing the backups", &err)
	infos, err := f.f.List()
	for _, info := range infos {
		list = append(list, Info(info))
	}
	return list, err
}

// Verify reads all files of a backup and compares them with their checksums. Damage is
// lsm.ErrCorruption; the error joins what is wrong with each file, and errors.As with
// *lsm.CorruptionError finds the first: its File is the path within the folder. Nil says that
// Restore would give the database as it was.
func (f *Folder) Verify(ctx context.Context, id uint64, o *RunOptions) error {
	return f.run(ctx, fmt.Sprintf("verifying backup %d", id), o, func(r *backup.Run) error {
		return f.f.Verify(id, r)
	})
}

// Restore makes dir a database as it was at the backup. dir must not exist, or be empty
// (lsm.ErrExists), in a directory that exists, and not lie in the folder, nor be where a file
// system is mounted (lsm.ErrInvalidArgument). All files are compared with their checksums: what is
// damaged is lsm.ErrCorruption, as of Verify. The database is durable when Restore returns. It is
// made in the directory dir + ".incomplete", which is renamed at the end: nothing is left of a
// Restore that failed, and what a crash leaves is removed by the next one of the same name.
func (f *Folder) Restore(ctx context.Context, id uint64, dir string, o *RunOptions) error {
	return f.run(ctx, fmt.Sprintf("restoring backup %d in %s", id, dir), o,
		func(r *backup.Run) error { return f.f.Restore(id, dir, r) })
}

// Delete deletes a backup, and what no other needs of it. A call that is reading it goes on. It
// fails with lsm.ErrReadOnly if the folder was opened so. As long as List has a backup that cannot
// be read, only the backup's entry goes: what another backup needs is not known then.
func (f *Folder) Delete(id uint64) (err error) {
	defer caught("deleting a backup", &err)
	return f.f.Delete(id)
}

// Keep deletes, of the backups of each database (by its directory), all but the newest n. Those
// that cannot be read stay. It fails as Delete does, and with lsm.ErrInvalidArgument if n is
// negative.
func (f *Folder) Keep(n int) (err error) {
	defer caught("deleting backups", &err)
	return f.f.Keep(n)
}

// Close ends the calls under way with lsm.ErrClosed and gives the folder back. A second one fails
// with lsm.ErrClosed.
func (f *Folder) Close() (err error) {
	defer caught("closing the backups", &err)
	return f.f.Close()
}

// run makes a Run of a call.
func (f *Folder) run(ctx context.Context, what string, o *RunOptions,
	do func(r *backup.Run) error) error {
	if ctx == nil {
		return base.Invalidf("%s needs a context", what)
	}
	o = cmp.Or(o, &RunOptions{})
	if o.BytesPerSecond < 0 {
		return base.Invalidf("%s cannot run at %d bytes per second", what, o.BytesPerSecond)
	}
	r := backup.NewRun(ctx, o.BytesPerSecond, o.Progress)
	err := func() (err error) {
		defer caught(what, &err)
		return do(r)
	}()
	if err = r.End(err); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// caught, deferred, makes a panic, of a file system, an error.
func caught(what string, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%s: %w", what, base.NewPanic(v))
	}
}
