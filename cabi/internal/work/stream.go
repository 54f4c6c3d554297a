package work

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/lsm/dump"
)

// Stream is a job that writes or reads a dump through a descriptor of its own.
type Stream[T interface {
	comparable
	Close() error
}] struct {
	Job     Job[T]
	File    *os.File
	Context context.Context // until Stop

	offset, size atomic.Uint64 // in the dump, and of it where that is known
}

// NewStream returns a job on a descriptor, which stays the caller's. Run or Close ends it.
func NewStream[T interface {
	comparable
	Close() error
}](fd int) (*Stream[T], error) {
	file, err := duplicate(fd)
	if err != nil {
		return nil, err
	}
	s := &Stream[T]{File: file}
	s.Context, s.Job.Cancel = context.WithCancel(context.Background())
	s.Job.Progress = func() (uint64, uint64) { return s.offset.Load(), s.size.Load() }
	return s, nil
}

// Note takes a report of progress.
func (s *Stream[T]) Note(p dump.Progress) { s.offset.Store(uint64(p.Offset)) }

// Measure learns the size of a regular file that is read.
func (s *Stream[T]) Measure() {
	if size, regular := s.regular(); regular {
		s.size.Store(uint64(size))
	}
}

func (s *Stream[T]) regular() (size int64, regular bool) {
	info, err := s.File.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// Run does the work and ends the stream. sync makes a regular file durable at the end. The reported
// progress is that of the dump.
func (s *Stream[T]) Run(sync bool,
	work func() (*dump.Info, error)) (object T, told string, err error) {
	defer s.Close()
	i, err := work()
	if err != nil {
		return object, "", err
	}
	if _, regular := s.regular(); sync && regular {
		if err := s.File.Sync(); err != nil {
			return object, "", err
		}
	}
	s.size.Store(uint64(i.Size))
	told, err = report.Dump(i)
	return object, told, err
}

// Close gives the descriptor up.
func (s *Stream[T]) Close() {
	s.Job.Cancel()
	_ = s.File.Close() // it was written by system calls that were checked
}
