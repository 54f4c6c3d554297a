package files

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// Pin keeps files of the directory from deletion while they are linked, copied or
// read by name: logs and MANIFESTs, which nothing else holds, and tables without a
// reference on a Version.
type Pin struct {
	set   *Set
	names []string // sorted; empty: all files
	freed bool     // guarded by the queue's mutex
}

// Pin keeps the files with these names, which are without a directory, from
// deletion until Release; without names, all files. What is there when Pin returns
// stays: a deletion that is under way has ended by then. Files that become obsolete
// meanwhile are deleted after the last Pin that keeps them is released, or, if Leave
// comes first, by the next opening. Pin fails with base.ErrClosed after Leave.
func (s *Set) Pin(names ...string) (*Pin, error) {
	p := &Pin{set: s, names: slices.Sorted(slices.Values(names))}
	q := &s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, fmt.Errorf("pinning files: %w", base.ErrDatabaseClosed)
	}
	q.pins[p] = struct{}{}
	for slices.ContainsFunc(q.removing, p.keeps) || q.renaming != "" && p.keeps(q.renaming) {
		q.idle.Wait()
	}
	return p, nil
}

// Release gives the files up. Calls after the first do nothing.
func (p *Pin) Release() {
	q := &p.set.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.freed {
		return
	}
	p.freed = true
	delete(q.pins, p)
	kept := q.pinned[:0]
	for _, d := range q.pinned {
		if q.isPinnedLocked(d) {
			kept = append(kept, d)
			continue
		}
		q.pending++
		q.addLocked(d)
	}
	clear(q.pinned[len(kept):])
	q.pinned = kept
}

// keeps reports whether the Pin is on a name.
func (p *Pin) keeps(name string) bool {
	if len(p.names) == 0 {
		return true
	}
	_, ok := slices.BinarySearch(p.names, name)
	return ok
}

// isPinnedLocked reports whether some Pin keeps d. q.mu is held.
func (q *deleteQueue) isPinnedLocked(d doomed) bool {
	for p := range q.pins {
		if p.keeps(d.name) || d.other != "" && p.keeps(d.other) {
			return true
		}
	}
	return false
}

// takeFailedLocked returns the files to try again, without those that are pinned
// now. q.mu is held.
func (q *deleteQueue) takeFailedLocked() []doomed {
	var again []doomed
	for _, d := range q.failed {
		if q.isPinnedLocked(d) {
			q.pinned = append(q.pinned, d)
		} else {
			again = append(again, d)
		}
	}
	q.failed = nil
	return again
}

// names lists all names that the files may have.
func names(files []doomed) (all []string) {
	for _, d := range files {
		all = append(all, d.name)
		if d.other != "" {
			all = append(all, d.other)
		}
	}
	return all
}
