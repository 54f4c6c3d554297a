// Package badger reads directories of Badger 3 and 4 for importers: the newest version of each
// entry, with the time at which it expires.
package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/loamdb/loam/importers"
)

// indexCache is how much memory the indexes of an encrypted database take, which Badger asks for.
const indexCache = 64 << 20

// latest is later than any time that a lifetime in Loam reaches, and small enough to count with.
// Some programs store the largest number for entries that are to stay.
const latest = 1 << 40

type source struct {
	db    *badger.DB
	log   *log
	lossy bool
}

// log keeps the first error. Badger tells there alone that it cannot read a value, and gives an
// empty one.
type log struct {
	mu    sync.Mutex
	first string
}

func (l *log) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" {
		l.first = strings.TrimSpace(fmt.Sprintf(format, args...))
	}
}
func (*log) Warningf(string, ...any) {}
func (*log) Infof(string, ...any)    {}
func (*log) Debugf(string, ...any)   {}

// take returns the first error, and forgets it.
func (l *log) take() (first string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, l.first = l.first, ""
	return first
}

// Open opens the directory at path. It is an importers.Open, and fails while another process has
// the directory open, and where that was not closed: open it once with Badger then. Badger opens
// tables in goroutines of its own: a panic there, as at some damaged tables, ends the process.
func Open(path string, o importers.Options) (importers.Source, error) {
	if err := importers.Directory(path); err != nil {
		return nil, err
	}
	s := &source{log: &log{}, lossy: o.Lossy}
	options := badger.DefaultOptions(path).WithReadOnly(true).WithLogger(s.log).
		WithMetricsEnabled(false).WithVerifyValueChecksum(true)
	if o.Key != nil {
		options = options.WithEncryptionKey(o.Key).WithIndexCacheSize(indexCache)
	}
	err := importers.Guard(func() (err error) {
		if err := checkListed(path, options); err != nil {
			return err
		}
		if s.db, err = badger.Open(options); err != nil {
			return err
		}
		// An iterator ends a table at a block that it cannot read, without an error.
		return s.db.VerifyChecksum()
	})
	if err != nil {
		if s.db != nil {
			err = errors.Join(err, s.Close())
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// checkListed fails where the MANIFEST does not list a table of the directory: Badger removes such
// a file, although it opens the directory for reading only.
func checkListed(path string, o badger.Options) error {
	f, err := os.Open(filepath.Join(path, badger.ManifestFilename))
	if err != nil {
		return err
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		id, is := table.ParseFileID(file.Name())
		if _, listed := m.Tables[id]; is && !listed && !file.IsDir() {
			return fmt.Errorf("the MANIFEST, which may be cut, does not list the table %s; Badger "+
				"removes it when it opens the directory, so copy that first", file.Name())
		}
	}
	return nil
}

func (s *source) Spaces() []string { return []string{importers.Default} }

func (s *source) Each(_ string, visit func(importers.Entry) error) error {
	s.log.take() // what Open survived
	return s.db.View(func(tx *badger.Txn) error {
		// Values are read by this goroutine, where importers.Guard hears of a panic.
		it := tx.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if item.UserMeta() != 0 && !s.lossy {
				return importers.Unsupported("the key %q has the byte %#x of metadata beside its "+
					"value; with --lossy it is left out", item.Key(), item.UserMeta())
			}
			if isOperand(item) {
				return importers.Unsupported("the key %q has operands of a merge operator that "+
					"are not yet merged; its Stop merges them", item.Key())
			}
			e := importers.Entry{Key: item.Key()}
			if at := item.ExpiresAt(); at != 0 {
				e.Expires = time.Unix(int64(min(at, latest)), 0)
			}
			err := item.Value(func(value []byte) error {
				if failure := s.log.take(); failure != "" {
					return fmt.Errorf("the value of the key %q cannot be read; if the value log "+
						"is in another directory, bring its files here: %s", e.Key, failure)
				}
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

// isOperand reports whether a merge operator wrote the newest version of an entry, and keeps those
// before it as its other operands. Badger shows that bit in the text of an item alone.
func isOperand(item *badger.Item) bool {
	const operand = 1 << 3
	text := item.String()
	meta, err := strconv.ParseUint(text[strings.LastIndexByte(text, '=')+1:], 16, 8)
	return err == nil && meta&operand != 0
}

func (s *source) Close() error { return importers.Guard(s.db.Close) }
