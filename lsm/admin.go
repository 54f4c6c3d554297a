package lsm

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

// Flush writes the memtable, and those waiting, into tables and returns when
// they are durable.
func (db *DB) Flush() error {
	if err := db.writable(); err != nil {
		return err
	}
	db.bg.mu.Lock()
	since := db.bg.flushTries
	db.bg.mu.Unlock()
	err := db.pipeline.Exclusive(func() error {
		if v := db.tree.Current(); v == nil || v.Mem.Len() == 0 {
			return nil
		}
		if err := db.bg.waitForRoom(0); err != nil {
			return err
		}
		return db.rotate(0, 0)
	})
	if err != nil {
		return err
	}
	return db.bg.waitFlushed(since)
}

// waitFlushed returns when the memtables sealed so far are in tables, or with
// the error that keeps them from it. Of flushes that fail, those up to number
// since do not count: there may be space by now.
func (b *background) waitFlushed(since uint64) error {
	v := b.db.tree.Acquire()
	if v == nil {
		return ErrClosed
	}
	defer v.Unref()
	if len(v.Sealed) == 0 {
		return nil
	}
	newest := v.Sealed[0].FirstLog
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if p := b.db.failure.Load(); p != nil {
			return *p
		}
		if b.closing || b.stopFlush.Load() {
			return ErrClosed
		}
		now := b.db.tree.Current()
		if now == nil || now.OldestLog() > newest {
			return nil
		}
		if b.flushErr != nil && b.flushFailed > since {
			return b.flushErr
		}
		b.scheduleLocked()
		b.cond.Wait()
	}
}

// PauseCompaction stops automatic compaction, running ones included, and
// returns when none runs. Flushes go on. Each call needs a ResumeCompaction.
func (db *DB) PauseCompaction() {
	b := db.bg
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused++
	b.stop.Store(true)
	for len(b.running) > 0 {
		b.cond.Wait()
	}
	b.stop.Store(b.closing || b.db.closing.Load())
	b.cond.Broadcast() // manual compactions go on
}

// ResumeCompaction undoes one PauseCompaction, or Options.DisableCompaction.
func (db *DB) ResumeCompaction() {
	b := db.bg
	b.mu.Lock()
	b.paused = max(b.paused-1, 0)
	b.mu.Unlock()
	b.wake()
}

// Resume tries failed background work again at once, for instance after disk
// space was freed, instead of at the end of its back-off. It returns why the
// database is read-only if it is: that ends only with Close and Open.
func (db *DB) Resume() error {
	if err := db.writable(); err != nil {
		return err
	}
	b := db.bg
	b.mu.Lock()
	close(b.kick)
	b.kick = make(chan struct{})
	b.flushErr, b.compErr = nil, nil // writes wait for the next try
	if b.retry != nil {
		b.retry.Stop()
		b.retry = nil
	}
	b.mu.Unlock()
	b.wake()
	return nil
}

// Destroy deletes the database in dir: the files that are its own by name, and
// the directory when nothing else is in it. It is an error if the database is
// open; there being none is not.
func Destroy(dir string, o *Options) error {
	opts, err := o.resolve()
	if err != nil {
		return err
	}
	err = inDir(opts, dir, destroy)
	if errors.Is(err, ErrDoesNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("destroying %s: %w", dir, err)
	}
	// Stays when something else is in it.
	_ = protect(func() error { return opts.FS.Remove(dir) })
	return nil
}

// destroy removes the regular files of the database, LOCK last.
func destroy(d *vfs.Dir) error {
	names, err := d.List(d.Path)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		t, _ := base.ParseFileName(name)
		if t == base.FileUnknown || t == base.FileLock {
			continue
		}
		path := filepath.Join(d.Path, name)
		if info, err := d.Stat(path); err == nil && info.Mode().IsRegular() {
			errs = append(errs, d.Remove(path))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return d.Remove(filepath.Join(d.Path, base.LockName))
}
