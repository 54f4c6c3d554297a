package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/wal"
)

// KeyUse is a key, and the files that it encrypts.
type KeyUse struct {
	Provider, ID string // "": of clear files
	Files        int
}

// KeysInUse lists the keys of the files in the directory, by provider and id.
func (db *DB) KeysInUse() (uses []KeyUse, err error) {
	defer db.health.CatchPanic(&err)
	err = db.WhileOpen(func(func() error) error {
		return seal.Each(seal.Raw(db.opts.FS), db.dir, func(_ string, h *seal.Header) error {
			use := KeyUse{Files: 1}
			if h != nil {
				use.Provider, use.ID = h.Provider, h.KeyID
			}
			i, ok := slices.BinarySearchFunc(uses, use, KeyUse.compare)
			if ok {
				uses[i].Files++
			} else {
				uses = slices.Insert(uses, i, use)
			}
			return nil
		})
	})
	return uses, err
}

func (k KeyUse) compare(other KeyUse) int {
	return slices.Compare([]string{k.Provider, k.ID}, []string{other.Provider, other.ID})
}

// Rekey makes the provider's current key that of all files; see lsm.DB.Rekey. New files have it
// from the first step on: the log that begins, and the MANIFEST. Older logs go with the flushes.
func (db *DB) Rekey(ctx context.Context) error {
	if err := base.NotWithin(); err != nil {
		return err
	}
	return Long(ctx, db, func(stop func() error) error {
		keys := db.opts.Keys
		if keys == nil {
			return base.Invalidf("Rekey needs Options.Encryption")
		}
		if err := db.health.Writable(); err != nil {
			return err
		}
		if err := keys.Refresh(); err != nil {
			return err
		}
		if err := db.pipeline.Exclusive(db.rotateLog); err != nil {
			return err
		}
		if err := db.jobs.RenewManifest(); err != nil {
			return err
		}
		for _, k := range db.spaces.live() {
			if err := k.Flush(); err != nil && !errors.Is(err, base.ErrNoKeyspace) {
				return err
			}
		}
		if err := db.jobs.ReleaseLogs(); err != nil { // without entries there was no flush
			return err
		}
		db.jobs.Pause() // ends the compactions that write with the old key
		db.jobs.Unpause()
		err := db.reseal(keys, stop)
		db.wal.Trim() // what is kept to be the next log
		db.shared.Files.WaitDeleted()
		return err
	})
}

// reseal writes anew the tables, the value files, and the logs that are kept for the values that
// they had when the database was clear, if they have another key or none. Each file is replaced
// under its name, with the same contents, so that no MANIFEST and no reader sees a difference. A
// file that no version has is being written, or is obsolete, and stays as it is.
func (db *DB) reseal(keys *seal.Keys, stop func() error) error {
	parts, err := db.Logs().Parts()
	if err != nil {
		return err
	}
	raw, current := seal.Raw(db.opts.FS), keys.CurrentID()
	live := map[uint64]struct{}{}
	db.manifest.LiveFiles(live)
	return seal.Each(raw, db.dir, func(name string, h *seal.Header) error {
		if err := stop(); err != nil {
			return err
		}
		t, num := db.manifest.ParseOwnName(name)
		_, table := live[num]
		switch {
		case h != nil && h.KeyID == current && h.Provider == keys.ProviderName():
			return nil
		case t == base.FileTable && table,
			t == base.FileValues && db.manifest.IsValueLog(base.ValueFile{Num: num, InFile: true}):
		case t == base.FileLog && (h == nil || h.Kind == seal.Chunks) &&
			db.manifest.IsValueLog(base.ValueFile{Num: num}) &&
			!slices.ContainsFunc(parts, func(p wal.Part) bool { return p.Num == num }):
		default:
			return nil // it ends by itself
		}
		if err := db.resealFile(name, stop); err != nil {
			return fmt.Errorf("encrypting %s anew: %w", name, err)
		}
		return nil
	})
}

// resealFile replaces a file by one with the same contents and the current key. What a crash leaves
// of the new one is a table that no MANIFEST has.
func (db *DB) resealFile(name string, stop func() error) error {
	pin, err := db.shared.Files.Pin(name)
	if err != nil {
		return err
	}
	defer pin.Release()
	_, temp := db.NewTable()
	from, to := filepath.Join(db.dir, name), filepath.Join(db.dir, temp)
	fsys := db.opts.FS.(*seal.FS).As(from) // REQUIRES: db.opts.Keys is not nil
	err = vfs.Copy(db.opts.FS, from, fsys, to, vfs.WholeFile, func(piece []byte) error {
		db.jobs.PaceCompaction(int64(len(piece)))
		return stop()
	})
	if err == nil {
		err = db.opts.FS.Rename(to, from)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it was obsolete
	case errors.Is(err, fs.ErrExist):
		return err // another program's file
	case err != nil:
		return errors.Join(err, vfs.RemoveIfThere(db.opts.FS, to))
	}
	return db.opts.FS.SyncDir(db.dir)
}
