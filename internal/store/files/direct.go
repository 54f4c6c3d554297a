package files

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/directio"
	"github.com/loamdb/loam/internal/os/vfs"
)

// direct is what a Set knows of direct I/O.
type direct struct {
	used, refused atomic.Uint64
	told          sync.Once
}

// note counts a table. The first refusal is told.
func (s *Set) note(err error) {
	if err == nil {
		s.direct.used.Add(1)
		return
	}
	s.direct.refused.Add(1)
	s.direct.told.Do(func() {
		s.fail(fmt.Errorf("direct I/O, instead of which compactions go through the page cache: %w",
			err))
	})
}

// directWriter makes a new file one of direct I/O, if the file system lets it.
func (s *Set) directWriter(f vfs.WriteFile) vfs.WriteFile {
	d, err := directio.NewWriter(f)
	if s.note(err); err != nil {
		return f
	}
	return d
}

// Source opens table m for iteration; direct says to read its blocks past the page cache,
// by a descriptor of its own, where that is possible.
func (s *Set) Source(m *manifest.FileMeta, flags sstable.ReadFlags,
	direct bool) (base.Source, error) {
	r, err := s.Reader(m)
	if err != nil {
		return nil, err
	}
	src := r.NewSource(flags)
	if d, ok := src.(sstable.Redirected); ok && direct {
		f, err := s.openDirect(m)
		if s.note(err); err == nil {
			d.ReadFrom(f)
		}
	}
	return src, nil
}

// openDirect opens the file of table m, whose reader is open, for direct I/O.
func (s *Set) openDirect(m *manifest.FileMeta) (vfs.ReadFile, error) {
	if !descriptors.reserveSpare(&s.owner) {
		return nil, fmt.Errorf("%w for a second one of a table", base.ErrTooManyFiles)
	}
	var d *directio.Reader
	defer func() {
		if d == nil { // also when the file system panics
			descriptors.unreserve(&s.owner)
		}
	}()
	f, err := s.o.FS.Open(filepath.Join(s.o.Dir, m.Name()))
	if other := m.OtherName(); missing(err) && other != "" {
		f, err = s.o.FS.Open(filepath.Join(s.o.Dir, other))
	}
	if err != nil {
		return nil, err
	}
	if d, err = directio.NewReader(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return &directFile{d, &s.owner}, nil
}

// directFile is a descriptor that no read of others uses.
type directFile struct {
	*directio.Reader
	owner *owner
}

// Close gives the descriptor back.
func (f *directFile) Close() error {
	err := f.Reader.Close()
	descriptors.unreserve(f.owner)
	return err
}
