package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/remote"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// backupLine is a backup in JSON.
type backupLine struct {
	ID       uint64 `json:"id"`
	Created  string `json:"created,omitempty"`
	Database string `json:"database,omitempty"`
	Format   string `json:"format,omitempty"`
	Files    int    `json:"files"`
	Bytes    uint64 `json:"bytes"`
	NewBytes uint64 `json:"new_bytes"`
	Error    string `json:"error,omitempty"`
}

func lineOfBackup(i backup.Info) backupLine {
	l := backupLine{ID: i.ID, Database: i.Database, Format: i.Format, Files: i.Files,
		Bytes: i.Bytes, NewBytes: i.NewBytes}
	if i.Err != nil {
		l.Error = i.Err.Error()
		return l
	}
	l.Created = i.Created.UTC().Format(time.RFC3339)
	return l
}

// openFolder opens a folder of backups for reading.
func openFolder(dir string) (*backup.Folder, error) {
	return backup.Open(dir, &backup.Options{ErrorIfMissing: true, ReadOnly: true})
}

// verifyBackup reads a backup and compares checksums.
func (a *app) verifyBackup(ctx context.Context, folder *backup.Folder, id uint64) error {
	p := a.progress(fmt.Sprintf("verifying %d", id), 0)
	defer p.end()
	return folder.Verify(ctx, id, &backup.RunOptions{Progress: p.both})
}

func (a *app) backupVerb() *cobra.Command {
	var keep int
	var verify bool
	c := &cobra.Command{
		Use:   "backup DIR FOLDER",
		Short: "Back up a database into a folder of backups",
		Long: "Make a backup of a database in a folder of backups, which shares what earlier " +
			"backups have. The\nbackup is one state, durable and whole, or it is not there: also " +
			"after Ctrl-C. Where another\nprocess has the database " +
			"open, that process makes the backup, if it opened it with\nOptions.Inspect or " +
			"LOAM_INSPECT=1; \"loam dump\" needs neither. See docs/backup.md.",
		Example: "  loam backup trees /backups\n  loam backup --keep 7 --verify trees /backups\n" +
			"  loam backups /backups",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 0 {
				return usagef("--keep is how many backups stay, and not negative")
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			info, err := a.backup(ctx, args[0], args[1])
			if err == nil && (verify || keep > 0) {
				err = a.verifyAndKeep(ctx, args[1], info.ID, verify, keep)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(lineOfBackup(info))
			}
			return a.printf("backup %d: %s, %s of them new\n", info.ID, text.Bytes(info.Bytes),
				text.Bytes(info.NewBytes))
		},
	}
	c.Flags().IntVar(&keep, "keep", 0, "delete all but the newest N backups of the database")
	c.Flags().BoolVar(&verify, "verify", false, "read the backup back and compare checksums")
	return c
}

// verifyAndKeep reads the new backup of a folder, and deletes old ones.
func (a *app) verifyAndKeep(ctx context.Context, dir string, id uint64, verify bool,
	keep int) error {
	folder, err := backup.Open(dir, nil)
	if err != nil {
		return err
	}
	defer folder.Close()
	if verify {
		if err := a.verifyBackup(ctx, folder, id); err != nil {
			return a.unreadable(err)
		}
	}
	if keep > 0 {
		return folder.Keep(keep)
	}
	return nil
}

// backup makes a backup, or has the process make it that has the database open.
func (a *app) backup(ctx context.Context, dir, to string) (info backup.Info, err error) {
	db, err := a.openAlone(dir)
	if err != nil {
		return a.backupThere(ctx, dir, to, err)
	}
	defer db.Close()
	a.tell(db)
	folder, err := backup.Open(to, nil)
	if err != nil {
		return info, err
	}
	p := a.progress("backing up", 0)
	defer p.end()
	info, err = folder.Create(ctx, db, &backup.RunOptions{Progress: p.both})
	return info, errors.Join(err, folder.Close())
}

// backupThere is backup by the process that has the database open; failed is why dir does not open
// here. Ctrl-C ends it there, too.
func (a *app) backupThere(ctx context.Context, dir, to string, failed error) (info backup.Info,
	err error) {
	p, err := processOf(ctx, dir, failed)
	if err != nil {
		return info, err
	}
	defer p.Close()
	var made struct{ ID uint64 }
	if err := p.inDirectory("backup", to, &made); err != nil {
		return info, err
	}
	folder, err := openFolder(to)
	if err != nil {
		return info, err
	}
	list, err := folder.List()
	for _, i := range list {
		if i.ID == made.ID {
			info = i
		}
	}
	return info, errors.Join(err, folder.Close())
}

func (a *app) backupsVerb() *cobra.Command {
	var verify bool
	c := &cobra.Command{
		Use:   "backups FOLDER",
		Short: "List the backups of a folder",
		Long: "List the backups of a folder, oldest first; with --verify each is read and " +
			"compared with its\nchecksums, and damage is exit code 1.",
		Example: "  loam backups /backups\n  loam backups --verify /backups",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			folder, err := openFolder(args[0])
			if err != nil {
				return err
			}
			defer folder.Close()
			list, err := folder.List()
			if err != nil {
				return err
			}
			shown := &copies{a: a}
			shown.g.Column("id", true)
			shown.g.Column("created", false)
			shown.g.Column("size", true)
			shown.g.Column("new", true)
			shown.g.Column("database", false)
			for _, i := range list {
				if verify && i.Err == nil {
					i.Err = a.verifyBackup(ctx, folder, i.ID)
					if ctx.Err() != nil {
						return ctx.Err()
					}
				}
				l := lineOfBackup(i)
				if err := shown.add(l, l.Database, l.Error, strconv.FormatUint(l.ID, 10),
					l.Created, text.Bytes(l.Bytes), text.Bytes(l.NewBytes)); err != nil {
					return err
				}
			}
			return shown.end("backup")
		},
	}
	c.Flags().BoolVar(&verify, "verify", false, "read all backups and compare checksums")
	return c
}

func (a *app) restoreVerb() *cobra.Command {
	var id uint64
	var at string
	c := &cobra.Command{
		Use:   "restore FOLDER DIR",
		Short: "Make a database of a backup or a replica",
		Long: "Make DIR a database as it was at a backup, the newest one unless --id or --at " +
			"names another, or as\na replica (see \"loam replicate\") has it, at the moment of " +
			"--at. All files are compared with their\nchecksums. Nothing is left of a restore " +
			"that failed or was interrupted.",
		Example: "  loam restore /backups trees\n  loam restore --id 3 /backups trees\n" +
			"  loam restore --at 2026-11-23T08:00 /mnt/replica trees",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			var moment time.Time
			if at != "" {
				var err error
				if moment, err = remote.Moment(at); err != nil {
					return &usageError{err.Error()}
				}
			}
			address := strings.Contains(args[0], "://")
			if id != 0 && (at != "" || address) {
				return usagef("--id is the number of a backup: it goes neither with --at nor " +
					"with a replica")
			}
			if address {
				return a.restoreReplica(ctx, args[0], moment, args[1])
			}
			folder, err := openFolder(args[0])
			if id == 0 && (errors.Is(err, lsm.ErrNotADatabase) || errors.Is(err,
				lsm.ErrDoesNotExist)) {
				return a.restoreReplica(ctx, args[0], moment, args[1])
			}
			if err != nil {
				return err
			}
			defer folder.Close()
			if id == 0 {
				if id, err = newestBackup(folder, moment, args[0]); err != nil {
					return err
				}
			}
			p := a.progress("restoring", 0)
			err = folder.Restore(ctx, id, args[1], &backup.RunOptions{Progress: p.both})
			p.end()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"id": id, "directory": args[1]})
			}
			return a.printf("backup %d is in %s\n", id, args[1])
		},
	}
	c.Flags().Uint64Var(&id, "id", 0, "number of the backup; default: the newest")
	c.Flags().StringVar(&at, "at", "",
		"the last state by a time, as 2026-11-23T08:00 (local) or 2026-11-23T08:00:00Z")
	return c
}

// newestBackup is the newest backup that was made by a time, zero for any.
func newestBackup(folder *backup.Folder, by time.Time, name string) (id uint64, err error) {
	list, err := folder.List()
	if err != nil {
		return 0, err
	}
	end := by // of the second that by is, as lists of backups show it
	if by.Nanosecond() == 0 {
		end = by.Add(time.Second - 1)
	}
	for _, i := range list {
		if by.IsZero() || i.Err == nil && !i.Created.After(end) {
			id = i.ID
		}
	}
	switch {
	case id != 0:
		return id, nil
	case len(list) == 0:
		return 0, fmt.Errorf("%w: there is no backup in %s", lsm.ErrDoesNotExist, name)
	}
	return 0, fmt.Errorf("%w: there is no backup of %s or before in %s", lsm.ErrDoesNotExist,
		by.UTC().Format(time.RFC3339), name)
}

func (a *app) checkpointVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "checkpoint DIR NEW",
		Short: "Copy a database by hard links",
		Long: "Make NEW a database of its own with what DIR has. Tables are hard links, where " +
			"the file system\nallows it, so it takes no space and hardly any time.",
		Example: "  loam checkpoint trees trees-before",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			db, err := a.openAlone(args[0])
			if err != nil {
				p, err := processOf(ctx, args[0], err)
				if err != nil {
					return err
				}
				defer p.Close()
				return p.inDirectory("checkpoint", args[1], nil)
			}
			a.tell(db)
			return errors.Join(db.Checkpoint(ctx, args[1]), db.Close())
		},
	}
}
