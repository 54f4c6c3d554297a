package files

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// A Set that follows another process's database holds the descriptors of all tables of its
// versions: the other process deletes a table as soon as its own versions do not have it.

// Hold opens the files of tables, which are in no Version yet, under one of the names that they may
// have, and keeps their descriptors until Forget; those of the value logs that they refer to, until
// ForgetLog. Of tables that are held it keeps what it has. Placed or GiveUp follow. Hold fails with
// fs.ErrNotExist for a file that was deleted, and with base.ErrTooManyFiles when the process holds
// as many as it may. After a failure it holds none of these more than before.
func (s *Set) Hold(tables []*manifest.FileMeta,
	namings func(num uint64) []base.TableNaming) (err error) {
	var opened []*manifest.FileMeta
	undo, err := s.holdLogs(tables)
	defer func() {
		if err != nil {
			undo()
			for _, m := range opened {
				s.Forget(m.Num)
			}
		}
	}()
	if err != nil {
		return err
	}
	for _, m := range tables {
		s.mu.Lock()
		f, closed := s.held[m.Num], s.closed
		s.mu.Unlock()
		if closed {
			return base.ErrDatabaseClosed
		}
		if f == nil {
			if f, err = s.openHeld(m, namings(m.Num)); err != nil {
				return err
			}
			opened = append(opened, m)
			s.mu.Lock()
			s.held[m.Num] = f
			s.mu.Unlock()
		}
		m.Naming = f.naming
	}
	return nil
}

// openHeld opens a descriptor that stays, under the first of the names that is there.
func (s *Set) openHeld(m *manifest.FileMeta, namings []base.TableNaming) (open *file, err error) {
	if err := checkSize(m); err != nil {
		return nil, err
	}
	if !descriptors.hold(&s.owner, 1) {
		return nil, fmt.Errorf("%w: a follower keeps each table of the database open; raise the "+
			"limit on open files", base.ErrTooManyFiles)
	}
	defer func() {
		if open == nil { // also when the file system panics
			descriptors.hold(&s.owner, -1)
		}
	}()
	for _, naming := range namings {
		f := s.newFile(naming.Name(m.Num), int64(m.Size))
		f.held, f.naming = true, naming
		if err = f.openDescriptor(); err == nil {
			return f, nil
		}
		if !missing(err) {
			break
		}
	}
	return nil, err
}

// unmapped is a file that is held, as one that is not mapped. It is not closed.
func (f *file) unmapped() *file {
	u := &file{fs: f.fs, pool: f.pool, owner: f.owner, path: f.path, size: f.size, held: true,
		naming: f.naming, descriptor: f.descriptor}
	u.stored.Store(f.stored.Load())
	u.state.Store(fileOpen)
	return u
}

// Forget closes the descriptor of a table that is held, and its reader. No Version has it any more.
func (s *Set) Forget(num uint64) {
	s.mu.Lock()
	m, f := s.open[num], s.held[num]
	delete(s.held, num)
	s.mu.Unlock()
	var err error
	if m != nil {
		err = s.detach(m)
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.fail(fmt.Errorf("close table %06d: %w", num, err))
	}
}

// Gone is Obsolete for a table that another process deletes: when the guards that may have found
// it have exited, it is closed.
func (s *Set) Gone(m *manifest.FileMeta) {
	s.o.Reads.Retire(func() { s.Forget(m.Num) })
}

// hold counts descriptors that are held, which the ring has not. It reports whether there may be
// n more.
func (p *pool) hold(o *owner, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > 0 && p.held+n > p.max {
		return false
	}
	p.held += n
	o.held += n
	return true
}
