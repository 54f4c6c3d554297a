//go:build cgo && !windows

package main

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"
)

func TestHandles(t *testing.T) {
	var tab table
	a, ok := tab.add(kindDB, "a")
	if !ok {
		t.Fatal("no room")
	}
	check := func(h handle, k kind, object any, known bool) {
		t.Helper()
		if o, kn := tab.lookup(h, k); o != object || kn != known {
			t.Errorf("lookup(%x, %d) = %v, %v; want %v, %v", h, k, o, kn, object, known)
		}
	}
	check(a, kindDB, "a", true)
	check(a, kindJob, nil, false)
	check(0, kindDB, nil, false)
	check(a+1, kindDB, nil, false)                               // a slot never used
	check(a+1<<24, kindDB, nil, false)                           // a generation yet to come
	check(a&^(0xffffffff<<24), kindDB, nil, false)               // generation 0
	check(handle(kindDB)<<56|1<<24|0xffffff, kindDB, nil, false) // no chunk
	if o, known := tab.remove(a, kindDB); o != "a" || !known {
		t.Errorf("remove = %v, %v", o, known)
	}
	if o, known := tab.remove(a, kindDB); o != nil || !known {
		t.Errorf("second remove = %v, %v", o, known)
	}
	b, _ := tab.add(kindSnapshot, "b")
	if b&0xffffff != a&0xffffff {
		t.Error("the slot was not used again")
	}
	check(a, kindDB, nil, true)
	check(b, kindSnapshot, "b", true)
	check(b, kindDB, nil, false)
	// A slot at its last generation is retired.
	tab.at(uint32(b & 0xffffff)).generation.Store(^uint32(0))
	tab.remove(b, kindSnapshot)
	if c, _ := tab.add(kindDB, "c"); c&0xffffff == b&0xffffff {
		t.Error("a slot without generations was used again")
	}
}

// TestHandlesRace lets many remove and look up the same handles: each object
// is handed to one of them.
func TestHandlesRace(t *testing.T) {
	var tab table
	const n = 2000
	var hs [n]handle
	for i := range hs {
		hs[i], _ = tab.add(kindDB, i)
	}
	var removed [8]int
	var wg sync.WaitGroup
	for g := range removed {
		wg.Go(func() {
			for i, h := range hs {
				if o, _ := tab.lookup(h, kindDB); o != nil && o != i {
					t.Errorf("handle of %d gives %v", i, o)
				}
				if o, _ := tab.remove(h, kindDB); o != nil {
					removed[g]++
					if extra, ok := tab.add(kindDB, -1); !ok || extra == h {
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

func TestPlain(t *testing.T) {
	type inner struct{ WALSync, WriteDelayPerKiB, P9999 int }
	type report struct {
		Took    time.Duration
		Inner   []inner
		Key     []byte
		Failure error
		None    error
		ByCause map[string]inner
		hidden  int
	}
	got := plain(reflect.ValueOf(&report{Took: 5, Inner: []inner{{1, 2, 3}}, Key: []byte{0xab}, Failure: errors.New("why"), ByCause: map[string]inner{"x": {}}, hidden: 1}))
	want := map[string]any{
		"took_ns": time.Duration(5), "key": "ab", "failure": "why", "none": nil,
		"inner":    []any{map[string]any{"wal_sync": 1, "write_delay_per_kib": 2, "p9999": 3}},
		"by_cause": map[string]any{"x": map[string]any{"wal_sync": 0, "write_delay_per_kib": 0, "p9999": 0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
