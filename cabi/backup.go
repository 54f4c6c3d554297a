//go:build cgo

package main

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"fmt"
	"math"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/cabi/internal/work"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

//export loamgo_backup_open
func loamgo_backup_open(path *C.char, flags C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		dir := C.GoString(path)
		f, err := backup.Open(dir, &backup.Options{ReadOnly: flags&C.LOAM_BACKUP_READ_ONLY != 0,
			ErrorIfMissing: flags&C.LOAM_BACKUP_ERROR_IF_MISSING != 0})
		if err != nil {
			return report.At(dir, err)
		}
		return publishOr(kindBackup, f, out, f.Close)
	})
}

// backupRun is a call that may be a job.
type backupRun struct {
	folder *backup.Folder
	rate   int64
	work   func(ctx context.Context, o *backup.RunOptions) (report string, err error)
}

func backupOf(h, rate C.uint64_t) (*backupRun, error) {
	f, err := get[*backup.Folder](h, kindBackup)
	if err == nil && rate > math.MaxInt64 {
		err = fmt.Errorf("%w: %d bytes per second", lsm.ErrTooLarge, uint64(rate))
	}
	return &backupRun{folder: f, rate: int64(rate)}, err
}

// run does the work, as a job if out is not NULL.
func (b *backupRun) run(out *C.uint64_t) error {
	var progress work.Gauge
	o := &backup.RunOptions{BytesPerSecond: b.rate}
	if out != nil {
		o.Progress = progress.Set
	}
	return perform(out, nil, progress.Read, func(ctx context.Context) (string, error) {
		return b.work(ctx, o)
	})
}

//export loamgo_backup_create
func loamgo_backup_create(h, db, rate C.uint64_t, id, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		b, err := backupOf(h, rate)
		if err != nil {
			return err
		}
		d, err := live(db)
		if err != nil {
			return err
		}
		b.work = func(ctx context.Context, o *backup.RunOptions) (string, error) {
			info, err := b.folder.Create(ctx, d.db, o)
			if err != nil {
				return "", err
			}
			if id != nil && out == nil {
				*id = C.uint64_t(info.ID)
			}
			return report.JSON(report.Backup(info))
		}
		return b.run(out)
	})
}

//export loamgo_backup_verify
func loamgo_backup_verify(h, id, rate C.uint64_t, out *C.uint64_t, message **C.char) status {
	return run(message, func() error {
		b, err := backupOf(h, rate)
		if err != nil {
			return err
		}
		b.work = func(ctx context.Context, o *backup.RunOptions) (string, error) {
			return "", b.folder.Verify(ctx, uint64(id), o)
		}
		return b.run(out)
	})
}

//export loamgo_backup_restore
func loamgo_backup_restore(h, id C.uint64_t, path *C.char, rate C.uint64_t, out *C.uint64_t,
	message **C.char) status {
	return run(message, func() error {
		b, err := backupOf(h, rate)
		if err != nil {
			return err
		}
		dir := pathOf(path, out)
		b.work = func(ctx context.Context, o *backup.RunOptions) (string, error) {
			return "", report.At(dir, b.folder.Restore(ctx, uint64(id), dir, o))
		}
		return b.run(out)
	})
}

// loamgo_backup_delete deletes backup id, or with keep all but the newest id of each database.
//
//export loamgo_backup_delete
func loamgo_backup_delete(h, id C.uint64_t, keep C.int, message **C.char) status {
	return with(message, h, kindBackup, func(f *backup.Folder) error {
		if keep == 0 {
			return f.Delete(uint64(id))
		}
		if id > math.MaxInt32 {
			return fmt.Errorf("%w: %d backups", lsm.ErrTooLarge, uint64(id))
		}
		return f.Keep(int(id))
	})
}

//export loamgo_backup_list
func loamgo_backup_list(h C.uint64_t, out **C.char, message **C.char) status {
	return with(message, h, kindBackup, func(f *backup.Folder) error {
		list, err := f.List()
		if err != nil {
			return err
		}
		all := make([]map[string]any, len(list))
		for i, info := range list {
			all[i] = report.Backup(info)
		}
		return giveJSON(all, out)
	})
}
