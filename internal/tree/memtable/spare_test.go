package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/offheap"
)

const spareSize = 1 << 20

// spareTable makes a memtable that takes what s has.
func spareTable(s *arena.Spare, entrySize int) *MemTable {
	return New(Options{Comparer: base.Bytewise, Size: spareSize, EntrySize: entrySize, Filled: true,
		Spare: s})
}

// fillSpare writes entries of a generation until the memtable is full, and returns their number.
func fillSpare(t *testing.T, m *MemTable, generation, valueLen int) int {
	t.Helper()
	for i := 0; ; i++ {
		key, value := spareEntry(generation, i, valueLen)
		switch err := m.Add(base.SeqNum(i+1), base.KindSet, key, value); {
		case errors.Is(err, ErrFull):
			return i
		case err != nil:
			t.Fatal(err)
		}
	}
}

func spareEntry(generation, i, valueLen int) (key, value []byte) {
	value = make([]byte, valueLen)
	copy(value, fmt.Append(nil, generation, "/", i))
	return fmt.Append(nil, "key-", i*7919%100_000, "-", generation%2), value
}

// wantFilled checks all entries that fillSpare wrote, by Get and in order, and that there are no
// others.
func wantFilled(t *testing.T, m *MemTable, generation, valueLen, n int) {
	t.Helper()
	last := base.SeqNum(n)
	for i := range n {
		key, value := spareEntry(generation, i, valueLen)
		if got, _, ok := m.Get(MakeLookup(m.cmp, key, last)); !ok || string(got) != string(value) {
			t.Fatalf("generation %d: %s is %q, %v; want %q", generation, key, got, ok, value)
		}
		other, _ := spareEntry(generation+1, i, valueLen)
		if _, _, ok := m.Get(MakeLookup(m.cmp, other, last)); ok {
			t.Fatalf("generation %d has %s of another one", generation, other)
		}
	}
	src := m.NewSource()
	defer src.Close()
	seen := 0
	var e base.Chunk
	i, err := src.First(&e)
	for more := i >= 0; more && err == nil; more, err = src.Next(&e) {
		seen += e.Len()
	}
	if err != nil {
		t.Fatal(err)
	}
	if seen != n {
		t.Fatalf("generation %d: a source has %d entries, want %d", generation, seen, n)
	}
}

// TestSpare fills memtables one after the other, of entries of several sizes, so that arena and
// index are used again, or the arena alone: each has its own entries and no others.
func TestSpare(t *testing.T) {
	needsSpare(t)
	before := offheap.InUse()
	s := NewSpare(spareSize)
	arenas := map[*arena.Extent]bool{}
	entrySize, reused := 100, 0
	for generation, valueLen := range []int{100, 100, 101, 10, 10, 300, 300, 90, 90, 100} {
		m := spareTable(s, entrySize)
		if m.MemoryUsage() != 0 || s.Bytes() == 0 != (generation == 0) {
			t.Fatalf("generation %d begins with %d bytes, %d are kept", generation, m.MemoryUsage(),
				s.Bytes())
		}
		n := fillSpare(t, m, generation, valueLen)
		if arenas[m.arena] {
			reused++
		}
		arenas[m.arena] = true
		if kept := s.Bytes(); kept != 0 {
			t.Fatalf("generation %d: %d bytes are kept beside it", generation, kept)
		}
		wantFilled(t, m, generation, valueLen, n)
		entrySize = m.EntrySize()
		m.Unref()
	}
	if reused != 9 || len(arenas) != 1 {
		t.Errorf("%d of 9 memtables used the arena before them; there were %d", reused, len(arenas))
	}
	s.Trim()
	if n := s.Bytes(); n != 0 {
		t.Errorf("%d bytes after Trim", n)
	}
	m := spareTable(s, entrySize)
	fillSpare(t, m, 0, 10)
	s.Close()
	m.Unref() // after Close: freed
	if n := offheap.InUse() - before; n != 0 || s.Bytes() != 0 {
		t.Errorf("%d bytes are left, %d are kept", n, s.Bytes())
	}
}

// TestSpareWaitsForReaders holds a memtable by a reference while the next ones fill up: its memory
// is not theirs.
func TestSpareWaitsForReaders(t *testing.T) {
	needsSpare(t)
	s := NewSpare(spareSize)
	defer s.Close()
	held := spareTable(s, 100)
	n := fillSpare(t, held, 0, 100)
	src := held.NewSource() // a reference of its own
	held.Ref()
	held.Unref()
	for generation := 1; generation < 4; generation++ {
		m := spareTable(s, 100)
		wantFilled(t, m, generation, 100, fillSpare(t, m, generation, 100))
		if m.arena == held.arena {
			t.Fatal("the arena of a memtable that is read is used again")
		}
		m.Unref()
		wantFilled(t, held, 0, 100, n)
	}
	held.Unref()
	wantFilled(t, held, 0, 100, n) // src holds it
	arena := held.arena
	s.Trim()
	src.Close()
	m := spareTable(s, 100)
	defer m.Unref()
	if fillSpare(t, m, 5, 100); m.arena != arena {
		t.Error("memory that nobody reads any more was not used again")
	}
}

// TestSpareKeepsOne frees two memtables, a small one and a large one: memory of one full memtable
// is kept, and none of another size.
func TestSpareKeepsOne(t *testing.T) {
	needsSpare(t)
	s := NewSpare(spareSize)
	defer s.Close()
	a, b := spareTable(s, 100), spareTable(s, 100)
	fillSpare(t, a, 0, 100)
	fillSpare(t, b, 0, 100)
	large := spareTable(s, 100)
	if err := large.Room(4*spareSize, 1); err != nil {
		t.Fatal(err)
	}
	if err := large.Add(1, base.KindSet, []byte("key"), make([]byte, 4*spareSize-10)); err != nil {
		t.Fatal(err)
	}
	large.Unref()
	small := New(Options{Comparer: base.Bytewise, Size: spareSize, Spare: s})
	if err := small.Add(1, base.KindSet, []byte("key"), nil); err != nil {
		t.Fatal(err)
	}
	small.Unref()
	if n := s.Bytes(); n != 0 && !arena.RaceDetector {
		t.Errorf("%d bytes are kept of a large and a small memtable", n)
	}
	s.Trim()
	a.Unref()
	first := s.Bytes()
	b.Unref()
	if now := s.Bytes(); first < spareSize || first > 2*spareSize || now != first {
		t.Errorf("%d bytes are kept of one memtable, %d of two", first, now)
	}
	unsure := New(Options{Comparer: base.Bytewise, Size: spareSize, EntrySize: 100, Spare: s})
	if err := unsure.Add(1, base.KindSet, []byte("key"), nil); err != nil {
		t.Fatal(err)
	}
	if s.Bytes() != first {
		t.Error("a memtable that will hardly be filled took the memory")
	}
	unsure.Unref()
	var none *arena.Spare
	none.Trim()
	none.Close()
	m := spareTable(none, 100)
	fillSpare(t, m, 0, 100)
	m.Unref()
	if none.Bytes() != 0 {
		t.Error("a nil Spare has memory")
	}
}

// TestFewSlotsFirst writes a few entries into a memtable that has the memory of another one: they
// are found in an index that the processor's cache has room for, as many are in all of its slots.
func TestFewSlotsFirst(t *testing.T) {
	needsSpare(t)
	s := NewSpare(spareSize)
	defer s.Close()
	for generation := range 3 {
		m := spareTable(s, 100)
		for i := range 100 {
			key, value := spareEntry(generation, i, 100)
			if err := m.Add(base.SeqNum(i+1), base.KindSet, key, value); err != nil {
				t.Fatal(err)
			}
		}
		few, planned := m.mem.Load().nslots, m.planned.nslots
		wantFilled(t, m, generation, 100, 100)
		m.Unref() // what it has not used is kept for the next one
		if kept := s.Bytes(); generation > 0 && kept < spareSize+int64(planned)*8 {
			t.Errorf("generation %d: %d bytes are kept", generation, kept)
		}
		m = spareTable(s, 100)
		n := fillSpare(t, m, generation, 100)
		if all := m.mem.Load().nslots; few > all/16 || all != m.planned.nslots {
			t.Errorf("generation %d: %d slots for 100 entries, %d for %d", generation, few, all, n)
		}
		wantFilled(t, m, generation, 100, n)
		m.Unref()
	}
}

// TestSpareMoves fills memtables whose memory moves: a memtable that is half full when the last one
// is freed goes on in the memory of that, and the next memtable begins with the rest. So there
// never is more memory than entries were in at the same time.
func TestSpareMoves(t *testing.T) {
	needsSpare(t)
	const size, valueLen = 16 << 20, 1000
	before := offheap.InUse()
	s := NewSpare(size)
	memTable := func() *MemTable {
		return New(Options{Comparer: base.Bytewise, Size: size, EntrySize: 1020, Filled: true,
			Spare: s})
	}
	fill := func(m *MemTable, generation, from, to int) (n int) {
		for n = from; n < to; n++ {
			key, value := spareEntry(generation, n, valueLen)
			err := m.Add(base.SeqNum(n+1), base.KindSet, key, value)
			if errors.Is(err, ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	last := memTable()
	n := fill(last, 0, 0, size)
	if !last.arena.Movable() {
		last.Unref()
		s.Close()
		t.Skip("no memory moves here")
	}
	most := int64(0)
	for generation := 1; generation < 6; generation++ {
		m := memTable()
		fill(m, generation, 0, n/2)
		src := last.NewSource()
		now := offheap.InUse() - before
		if most = max(most, now); generation > 1 && now > most {
			t.Fatalf("generation %d: %d bytes, before that at most %d", generation, now, most)
		}
		last.Unref()
		fill(m, generation, n/2, 3*n/4)
		wantFilled(t, last, generation-1, valueLen, n) // src holds it
		src.Close()
		kept := s.Bytes()
		if kept < size {
			t.Fatalf("generation %d: %d bytes are kept of a memtable", generation, kept)
		}
		if fill(m, generation, 3*n/4, size) != n {
			t.Fatalf("generation %d has other entries", generation)
		}
		if got := s.Bytes(); got > kept-size/4+2*offheap.MoveSize {
			t.Fatalf("generation %d took %d bytes of %d", generation, kept-got, kept)
		}
		wantFilled(t, m, generation, valueLen, n)
		last = m
	}
	m := memTable()
	fill(m, 6, 0, 10)
	if !m.recycled {
		t.Error("memory is kept and not used")
	}
	m.Shrink()
	wantFilled(t, m, 6, valueLen, fill(m, 6, 10, 20))
	s.Trim()
	fill(m, 6, 20, n/2)
	wantFilled(t, m, 6, valueLen, n/2)
	m.Unref()
	last.Unref()
	s.Close()
	if left := offheap.InUse() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

// TestSpareCountsItsIndex fills a memtable with all of the memory of one that was half full when it
// was freed, but for the index: that is kept, and Bytes says so.
func TestSpareCountsItsIndex(t *testing.T) {
	needsSpare(t)
	const size = 16 << 20
	s := NewSpare(size)
	defer s.Close()
	add := func(m *MemTable, from, to int) {
		for i := from; i < to; i++ {
			key, value := spareEntry(0, i, 1000)
			if err := m.Add(base.SeqNum(i+1), base.KindSet, key, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	memTable := func() *MemTable {
		return New(Options{Comparer: base.Bytewise, Size: size, EntrySize: 1020, Filled: true,
			Spare: s})
	}
	const full = size / 1100
	half, next := memTable(), memTable()
	defer next.Unref()
	add(half, 0, 2*full/3)
	add(next, 0, 10)
	half.Unref()
	add(next, 10, full)
	kept, before := s.Bytes(), offheap.InUse()
	s.Trim()
	if freed := before - offheap.InUse(); kept != freed {
		t.Errorf("%d bytes are kept by its count, %d by what Trim frees", kept, freed)
	}
}

// TestSpareFollowsTheSize changes the size of memtables: memory of the former size is neither kept
// nor taken.
func TestSpareFollowsTheSize(t *testing.T) {
	needsSpare(t)
	s := NewSpare(spareSize)
	defer s.Close()
	m, late := spareTable(s, 100), spareTable(s, 100)
	fillSpare(t, m, 0, 100)
	fillSpare(t, late, 0, 100)
	m.Unref()
	SetSpareSize(s, spareSize)
	if s.Bytes() == 0 {
		t.Fatal("nothing is kept, and the size is the same")
	}
	SetSpareSize(s, spareSize/4)
	late.Unref()
	if n := s.Bytes(); n != 0 {
		t.Fatalf("%d bytes of the former size are kept", n)
	}
	small := New(Options{Comparer: base.Bytewise, Size: spareSize / 4, EntrySize: 100, Filled: true,
		Spare: s})
	n := fillSpare(t, small, 1, 100)
	wantFilled(t, small, 1, 100, n)
	small.Unref()
	if n := s.Bytes(); n < spareSize/4 || n > spareSize/2 {
		t.Errorf("%d bytes are kept of a memtable of %d", n, spareSize/4)
	}
}

// TestShrink gives back what a memtable has not used of the arena that it got, and goes on.
func TestShrink(t *testing.T) {
	needsSpare(t)
	s := NewSpare(spareSize)
	defer s.Close()
	m := spareTable(s, 100)
	fillSpare(t, m, 0, 100)
	m.Shrink() // its own arena
	m.Unref()
	m = spareTable(s, 100)
	defer m.Unref()
	const first = 100
	for i := range first {
		key, value := spareEntry(1, i, 100)
		m.Add(base.SeqNum(i+1), base.KindSet, key, value)
	}
	if !arena.RaceDetector && isZero(m.arena.Whole()[spareSize/2:spareSize]) {
		t.Fatal("the arena is not another memtable's")
	}
	m.Shrink()
	if !arena.RaceDetector && !isZero(m.arena.Whole()[spareSize/2:spareSize]) {
		t.Error("the pages behind the entries were not given back")
	}
	n := first
	for ; ; n++ {
		key, value := spareEntry(1, n, 100)
		if err := m.Add(base.SeqNum(n+1), base.KindSet, key, value); err != nil {
			break
		}
	}
	wantFilled(t, m, 1, 100, n)
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// needsSpare skips a test where no memory is used again.
func needsSpare(t *testing.T) {
	if offheap.Unmap {
		t.Skip("freed memory stays unreadable")
	}
}
