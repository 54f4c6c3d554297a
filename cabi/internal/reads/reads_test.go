package reads

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// TestReads compares lookups with each flag, one by one and together, now and in a snapshot, where
// some keys have no value and some an empty one.
func TestReads(t *testing.T) {
	db, err := lsm.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k, err := db.Keyspace("default", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]string{1: "one", 2: "", 4: "four"}
	for i, v := range want {
		if err := k.Put(fmt.Append(nil, i), []byte(v), lsm.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	s := k.Snapshot()
	defer s.Close()
	if err := k.Put([]byte("3"), []byte("new"), lsm.NoSync); err != nil {
		t.Fatal(err)
	}
	for _, in := range []*lsm.Snapshot{s, nil} {
		if in == nil {
			want[3] = "new"
		}
		for _, flags := range []uint64{0, NoFill, MemoryOnly} {
			m := NewMany()
			size := 0
			for i := range 6 {
				m.Keys = append(m.Keys, fmt.Append(nil, i))
				v, there := want[i]
				got, err := Get(k, in, m.Keys[i], []byte("x"), flags)
				if there && (err != nil || string(got) != "x"+v) || !there &&
					!errors.Is(err, lsm.ErrNotFound) {
					t.Errorf("flags %d, key %d: %q, %v", flags, i, got, err)
				}
				if has, err := Has(k, in, m.Keys[i], flags); err != nil || has != there {
					t.Errorf("flags %d, key %d: %v, %v", flags, i, has, err)
				}
				if there {
					size += len(v) + 1
				}
			}
			if err := m.Look(k, in, flags); err != nil {
				t.Fatal(err)
			}
			for i := range m.Keys {
				v, there := want[i]
				if got, found := m.Value(i); found != there || string(got) != v {
					t.Errorf("flags %d, key %d of many: %q, %v", flags, i, got, found)
				}
			}
			if m.Size() != size {
				t.Errorf("flags %d: %d bytes, not %d", flags, m.Size(), size)
			}
			m.Free()
		}
	}
}
