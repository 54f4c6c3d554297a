// Package bbolt reads files of bbolt for importers. A bucket becomes the keyspace of its name,
// a bucket in a bucket one with a slash between their names.
package bbolt

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/loamdb/loam/importers"
)

// patience is how long Open waits for a process that has the file open for writing.
const patience = time.Second

type source struct {
	db      *bbolt.DB
	tx      *bbolt.Tx
	pages   *pages // nil when all trees were walked
	names   importers.Names
	buckets map[string]*bbolt.Bucket
}

// Open opens the file at path. It is an importers.Open, and fails while another process has the
// file open for writing.
func Open(path string, _ importers.Options) (importers.Source, error) {
	if err := importers.Filled(path); err != nil {
		return nil, err
	}
	s := &source{buckets: map[string]*bbolt.Bucket{}}
	err := importers.Guard(func() (err error) {
		s.db, err = bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: patience})
		if errors.Is(err, bolterrors.ErrTimeout) {
			return importers.ErrInUse
		}
		if err == nil {
			s.tx, err = s.db.Begin(false)
		}
		if err != nil {
			return err
		}
		if s.pages, err = openPages(path, s.db.Info().PageSize); err != nil {
			return err
		}
		defer s.pages.file.Close()
		if err := s.pages.check(uint64(s.tx.Cursor().Bucket().Root())); err != nil {
			return err
		}
		return s.tx.ForEach(s.find)
	})
	s.pages = nil
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// find adds a bucket and those in it. path has the names of the buckets that it lies in.
func (s *source) find(path []byte, b *bbolt.Bucket) error {
	name, err := importers.Name(path)
	if err == nil {
		err = s.names.Add(name)
	}
	if err != nil {
		return err
	}
	s.buckets[name] = b
	if err := s.pages.check(uint64(b.Root())); err != nil {
		return err
	}
	return b.ForEachBucket(func(inner []byte) error {
		return s.find(slices.Concat(path, []byte("/"), inner), b.Bucket(inner))
	})
}

func (s *source) Spaces() []string { return s.names.All }

func (s *source) Each(space string, visit func(importers.Entry) error) error {
	return s.buckets[space].ForEach(func(key, value []byte) error {
		if value == nil {
			return nil // a bucket, which is a space of its own
		}
		return visit(importers.Entry{Key: key, Value: value})
	})
}

func (s *source) Close() error {
	var err error
	if s.tx != nil {
		err = s.tx.Rollback()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return err
}
