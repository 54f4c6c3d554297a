package memtable

import "math"

const (
	// leastHalf is how many bytes a memtable has that is sealed before it is full.
	leastHalf = 16 << 20
	// askEvery is how many bytes are written between two calls of Ascending.
	askEvery = 1 << 20
	// ascendingMarks are compared by Ascending.
	ascendingMarks = 64
)

// askFrom is the offset in an arena of so many bytes from which on HalfFull is true. A comparer of
// the user's is not asked: it may take long.
func (m *MemTable) askFrom(arena int) uint64 {
	if arena < 2*leastHalf || m.cmp.Serial() || !m.cmp.HasAbbrev() {
		return math.MaxUint64
	}
	return uint64(arena / 2)
}

// HalfFull reports whether the memtable is at least half full, and Ascending should be called. The
// writer's.
func (m *MemTable) HalfFull() bool { return m.pos >= m.askAt }

// Ascending returns the key of the first entry and that of a late one if the entries came in the
// order of their keys, as far as some of them tell. HalfFull is false then until more is written,
// otherwise for good. The writer's.
func (m *MemTable) Ascending() (first, last []byte) {
	o := &m.order
	o.markMu.Lock()
	defer o.markMu.Unlock()
	m.askAt = math.MaxUint64
	n := len(o.marks)
	if n < ascendingMarks {
		return nil, nil
	}
	mem := m.mem.Load()
	first = mem.key(o.marks[0].off)
	last = first
	for i := 1; i < ascendingMarks; i++ {
		key := mem.key(o.marks[i*(n-1)/(ascendingMarks-1)].off)
		if m.cmp.Cmp(last, key) >= 0 {
			return nil, nil
		}
		last = key
	}
	m.askAt = m.pos + askEvery
	return first, last
}
