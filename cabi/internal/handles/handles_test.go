package handles

import (
	"sync"
	"testing"
)

const (
	kindDB Kind = 3 + iota
	kindSnapshot
	kindJob
)

func TestHandles(t *testing.T) {
	var tab Table
	a, ok := tab.Add(kindDB, "a")
	if !ok {
		t.Fatal("no room")
	}
	check := func(h Handle, k Kind, object any, known bool) {
		t.Helper()
		if o, kn := tab.Lookup(h, k); o != object || kn != known {
			t.Errorf("lookup(%x, %d) = %v, %v; want %v, %v", h, k, o, kn, object, known)
		}
	}
	check(a, kindDB, "a", true)
	check(a, kindJob, nil, false)
	check(0, kindDB, nil, false)
	check(a+1, kindDB, nil, false)                               // a slot never used
	check(a+1<<24, kindDB, nil, false)                           // a generation yet to come
	check(a&^(0xffffffff<<24), kindDB, nil, false)               // generation 0
	check(Handle(kindDB)<<56|1<<24|0xffffff, kindDB, nil, false) // no chunk
	if o, known := tab.Remove(a, kindDB); o != "a" || !known {
		t.Errorf("remove = %v, %v", o, known)
	}
	if o, known := tab.Remove(a, kindDB); o != nil || !known {
		t.Errorf("second remove = %v, %v", o, known)
	}
	b, _ := tab.Add(kindSnapshot, "b")
	if b&0xffffff != a&0xffffff {
		t.Error("the slot was not used again")
	}
	check(a, kindDB, nil, true)
	check(b, kindSnapshot, "b", true)
	check(b, kindDB, nil, false)
	// A slot at its last generation is retired.
	tab.at(uint32(b & 0xffffff)).generation.Store(^uint32(0))
	tab.Remove(b, kindSnapshot)
	if c, _ := tab.Add(kindDB, "c"); c&0xffffff == b&0xffffff {
		t.Error("a slot without generations was used again")
	}
}

// TestHandlesRace lets many remove and look up the same handles: each object
// is handed to one of them.
func TestHandlesRace(t *testing.T) {
	var tab Table
	const n = 2000
	var hs [n]Handle
	for i := range hs {
		hs[i], _ = tab.Add(kindDB, i)
	}
	var removed [8]int
	var wg sync.WaitGroup
	for g := range removed {
		wg.Go(func() {
			for i, h := range hs {
				if o, _ := tab.Lookup(h, kindDB); o != nil && o != i {
					t.Errorf("handle of %d gives %v", i, o)
				}
				if o, _ := tab.Remove(h, kindDB); o != nil {
					removed[g]++
					if extra, ok := tab.Add(kindDB, -1); !ok || extra == h {
						t.Error("a handle came twice")
					}
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, r := range removed {
		sum += r
	}
	if sum != n {
		t.Errorf("%d removed, want %d", sum, n)
	}
}
