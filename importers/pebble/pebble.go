// Package pebble reads directories of Pebble for importers: of Pebble 2, and of Pebble 1 from
// the format on that Pebble 2 opens.
package pebble

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/loamdb/loam/importers"
)

type source struct{ db *pebble.DB }

// quiet drops the engine's messages.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n") // stacks follow
	panic(text)                                                   // see importers.Guard
}

// Open opens the directory at path. It is an importers.Open. Its keys must be ordered by their
// bytes, and merges must be Pebble's own concatenation.
func Open(path string, _ importers.Options) (s importers.Source, err error) {
	if err := importers.Directory(path); err != nil {
		return nil, err
	}
	var db *pebble.DB
	err = importers.Guard(func() error {
		// Opening makes a file LOCK, also where there is no database.
		if d, err := pebble.Peek(path, vfs.Default); err != nil || !d.Exists {
			return cmp.Or(err, error(pebble.ErrDBDoesNotExist))
		}
		db, err = pebble.Open(path, &pebble.Options{ReadOnly: true, ErrorIfNotExists: true,
			Logger: quiet{}})
		if errors.Is(err, syscall.EAGAIN) { // of the lock
			err = importers.ErrInUse
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &source{db}, nil
}

func (s *source) Spaces() []string { return []string{importers.Default} }

func (s *source) Each(_ string, visit func(importers.Entry) error) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsAndRanges})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		points, ranges := it.HasPointAndRange()
		if ranges {
			from, to := it.RangeBounds()
			return importers.Unsupported("a range key from %q to %q", from, to)
		}
		if !points {
			continue
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(importers.Entry{Key: it.Key(), Value: value}); err != nil {
			return err
		}
	}
	return it.Error()
}

// Close fails where the library panics, as Pebble's does after some errors of reads.
func (s *source) Close() error { return importers.Guard(s.db.Close) }
