package lsm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestChangesDamaged: a record that a feed has to show next is damaged while the database is open.
// The feed fails with the file and the offset, as Open would, and does not call the record gone; so
// does the feed of a follower.
func TestChangesDamaged(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		o.WALPreallocate = -1
		db := opened(t, dir, &o)
		must(t, db.Put([]byte("a"), nil, Sync))
		log := filepath.Join(dir, db.engine.Parts().Manifest.Format().FileName(base.FileLog,
			db.engine.Parts().WAL.Num()))
		at := db.engine.Parts().WAL.Size()
		must(t, db.Put([]byte("b"), nil, Sync))
		must(t, db.Put([]byte("c"), nil, Sync))
		f, err := OpenFollower(dir, nil)
		must(t, err)
		defer f.Close()
		file, err := os.OpenFile(log, os.O_RDWR, 0)
		must(t, err)
		var b [1]byte
		_, err = file.ReadAt(b[:], at)
		must(t, err)
		b[0] ^= 1
		_, err = file.WriteAt(b[:], at)
		must(t, errors.Join(err, file.Close()))
		for _, db := range []*DB{db, f.DB} {
			feed := mustChanges(t, db, 1, nil)
			if change, ok, err := feed.TryNext(); !ok || err != nil || change.Next() != 2 {
				t.Fatal(change, ok, err)
			}
			var c *CorruptionError
			if _, ok, err := feed.TryNext(); ok || !errors.As(err, &c) ||
				c.File != filepath.Base(log) || c.Offset != at {
				t.Fatal(ok, err)
			}
		}
	})
}
