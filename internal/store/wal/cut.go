package wal

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
)

// failAppend cuts the current log back after an append that failed for a shortage. Any other
// failure, that of the cut too, makes the database read-only.
func (s *Set) failAppend(err error) error {
	if base.IsShortage(err) {
		if cut := s.cut(); cut != nil && !base.IsShortage(cut) {
			return s.fail("writing", fmt.Errorf("%w (and cutting it back: %w)", err, cut))
		}
	}
	return s.failUnlessShort(fmt.Errorf("writing log %06d: %w", s.Num(), err))
}

// cut removes what a failed append left in the current log. btrfs needs space for that: if there is
// none, the log stays torn, and until cutTorn succeeds no record is appended and no log begun.
func (s *Set) cut() error {
	err := s.cur.Cut()
	if s.torn = err != nil; !s.torn {
		s.cuts.Add(1) // afterwards: a reader that opens the log until then may have the bytes
	}
	return err
}

// cutTorn tries again to cut a log that could not be cut for a shortage.
func (s *Set) cutTorn() error {
	if !s.torn {
		return nil
	}
	if err := s.cut(); err != nil {
		return s.failUnlessShort(fmt.Errorf("cutting log %06d back: %w", s.Num(), err))
	}
	return nil
}

// failUnlessShort makes the database read-only, unless err is a shortage.
func (s *Set) failUnlessShort(err error) error {
	if base.IsShortage(err) && !errors.Is(err, base.ErrReadOnly) {
		return base.Classify(err)
	}
	return s.opts.Fail(err)
}
