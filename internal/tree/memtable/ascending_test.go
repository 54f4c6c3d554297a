package memtable

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// fillHalf writes entries with these keys until the memtable is half full.
func fillHalf(t *testing.T, m *MemTable, key func(i int) int) {
	t.Helper()
	value := make([]byte, 1000)
	for i := 0; !m.HalfFull(); i++ {
		if m.Bytes() > leastHalf+2*askEvery {
			t.Fatal("HalfFull is false")
		}
		k := fmt.Appendf(nil, "%08d", key(i))
		if err := m.Add(base.SeqNum(i+1), base.KindSet, k, value); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHalfAscending: a memtable tells entries in the order of their keys from others, once it is
// half full, and again when there are more.
func TestHalfAscending(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 2 * leastHalf})
	defer m.Unref()
	fillHalf(t, m, func(i int) int { return i })
	n := m.Len()
	first, last := m.Ascending()
	if string(first) != "00000000" || string(last) < fmt.Sprintf("%08d", n-2*markEvery) {
		t.Errorf("the keys go from %q to %q, of %d entries", first, last, n)
	}
	if m.HalfFull() {
		t.Error("it is to be asked again at once")
	}
	for i := 0; !m.HalfFull(); i++ {
		if err := m.Add(base.SeqNum(n+i+1), base.KindSet, fmt.Appendf(nil, "%08d", i/2),
			make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if first, _ := m.Ascending(); first != nil || m.HalfFull() {
		t.Error("entries that came later do not count")
	}
}

// TestNotAscending: entries out of order, or of one key, are found at the first look.
func TestNotAscending(t *testing.T) {
	for name, key := range map[string]func(i int) int{
		"random":     func(i int) int { return i * 7919 % 100_003 },
		"descending": func(i int) int { return 1_000_000 - i },
		"one key":    func(int) int { return 0 },
		"two halves": func(i int) int { return i % 10_000 },
	} {
		t.Run(name, func(t *testing.T) {
			m := New(Options{Comparer: base.Bytewise, Size: 2 * leastHalf})
			defer m.Unref()
			fillHalf(t, m, key)
			if first, last := m.Ascending(); first != nil || m.HalfFull() {
				t.Errorf("they go from %q to %q", first, last)
			}
		})
	}
}

// TestSmallOrForeignIsNotAscending: a small memtable, and one in the order of a user's comparer,
// are filled.
func TestSmallOrForeignIsNotAscending(t *testing.T) {
	foreign := *base.Bytewise
	for name, o := range map[string]Options{
		"small":   {Comparer: base.Bytewise, Size: 2*leastHalf - 1},
		"foreign": {Comparer: &foreign, Size: 2 * leastHalf},
	} {
		m := New(o)
		for i, err := 0, error(nil); err == nil; i++ {
			if err = m.Add(base.SeqNum(i+1), base.KindSet, fmt.Appendf(nil, "%08d", i),
				make([]byte, 10_000)); m.HalfFull() {
				t.Errorf("%s: it is to be asked at %d bytes", name, m.Bytes())
				break
			}
		}
		m.Unref()
	}
}
