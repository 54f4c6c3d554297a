// Package badger reads directories of Badger 3 and 4 for importers: the newest version of each
// entry, with the time at which it expires.
package badger

import (
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/loamdb/loam/importers"
)

// indexCache is how much memory the indexes of an encrypted database take, which Badger asks for.
const indexCache = 64 << 20

// latest is later than any time that a lifetime in Loam reaches, and small enough to count with.
// Some programs store the largest number for entries that are to stay.
const latest = 1 << 40

type source struct {
	db    *badger.DB
	lossy bool
}

// Open opens the directory at path. It is an importers.Open, and fails while another process has
// the directory open, and where that was not closed: open it once with Badger then. Badger opens
// tables in goroutines of its own: a panic there, as at some damaged tables, ends the process.
func Open(path string, o importers.Options) (importers.Source, error) {
	if err := importers.Directory(path); err != nil {
		return nil, err
	}
	options := badger.DefaultOptions(path).WithReadOnly(true).WithLogger(nil).
		WithMetricsEnabled(false)
	if o.Key != nil {
		options = options.WithEncryptionKey(o.Key).WithIndexCacheSize(indexCache)
	}
	var db *badger.DB
	err := importers.Guard(func() (err error) {
		db, err = badger.Open(options)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &source{db, o.Lossy}, nil
}

func (s *source) Spaces() []string { return []string{importers.Default} }

func (s *source) Each(_ string, visit func(importers.Entry) error) error {
	return s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if item.UserMeta() != 0 && !s.lossy {
				return importers.Unsupported("the key %q has the byte %#x of metadata beside its "+
					"value; with --lossy it is left out", item.Key(), item.UserMeta())
			}
			e := importers.Entry{Key: item.Key()}
			if at := item.ExpiresAt(); at != 0 {
				e.Expires = time.Unix(int64(min(at, latest)), 0)
			}
			err := item.Value(func(value []byte) error {
				e.Value = value
				return visit(e)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *source) Close() error { return importers.Guard(s.db.Close) }
