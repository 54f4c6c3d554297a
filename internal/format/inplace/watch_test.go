package inplace

import (
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestWatch: reads ask whether their pages are there from a fault on that had to wait for a
// disk, until enough of them in a row were there.
func TestWatch(t *testing.T) {
	b, _ := open(t, vfs.NewMem(), "t", content())
	var p pressure
	asks := func() bool { return p.asking.Load() > 0 }
	p.sample(100) // the first sample knows no other
	if asks() {
		t.Error("asks after the first sample")
	}
	p.sample(100)
	if asks() {
		t.Error("asks without a fault")
	}
	p.sample(101)
	if !asks() {
		t.Fatal("does not ask after a fault")
	}
	for i := range askFor {
		if !asks() {
			t.Fatalf("asked only %d times", i)
		}
		if !p.mayTouch(b.data[:1]) {
			t.Fatal("a page of memory is missing")
		}
	}
	if asks() {
		t.Error("still asks")
	}
	p.sample(101)
	if asks() {
		t.Error("asks again without a fault")
	}
}
