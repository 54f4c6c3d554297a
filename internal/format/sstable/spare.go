package sstable

import "sync"

// Spare hands the buffers of a job's finished writers to its next ones. Otherwise each of
// many small tables would pay for theirs in page faults. It is safe for concurrent use;
// a nil one keeps nothing.
type Spare struct {
	mu    sync.Mutex
	list  []Buffers
	freed bool
}

// Buffers is the memory of a writer, of a type of the writer's own.
type Buffers interface{ Free() }

// Take returns buffers that Put was given, or nil.
func (s *Spare) Take() Buffers {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.list)
	if n == 0 {
		return nil
	}
	b := s.list[n-1]
	s.list = s.list[:n-1]
	return b
}

// Put keeps buffers that nobody uses, or frees them after Free.
func (s *Spare) Put(b Buffers) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.freed {
			s.list = append(s.list, b)
			return
		}
	}
	b.Free()
}

// Free frees all that is kept, at the end of the job.
func (s *Spare) Free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.list {
		b.Free()
	}
	s.list, s.freed = nil, true
}
