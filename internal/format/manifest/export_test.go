package manifest

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
)

// Create makes the MANIFEST and CURRENT of an empty database in a directory
// that exists. It fails with base.ErrExists when there is a CURRENT.
func Create(o Options) (*Set, error) {
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := s.StartManifest(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// CompactPointer is where LevelDB's next compaction of a level of the default
// keyspace would start; its key is empty when never set.
func (s *Set) CompactPointer(level int) base.InternalKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.find(base.DefaultKeyspace).pointers {
		if c.Level == level {
			return c.Key
		}
	}
	return base.InternalKey{}
}

// NumFiles is how many tables the version has.
func (v *Version) NumFiles() (n int) {
	for i := range v.Levels {
		n += len(v.Levels[i].Files)
	}
	return n
}
