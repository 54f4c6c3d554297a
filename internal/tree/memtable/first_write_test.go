package memtable

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestGetBesideFirstWrite reads memtables without an index while their first entry comes, for which
// they get memory. A reader that stops anywhere in Get goes on afterwards.
func TestGetBesideFirstWrite(t *testing.T) {
	c := &base.Comparer{Name: "test.Plain", Compare: bytes.Compare}
	l := MakeLookup(c, []byte("a"), base.LastSeqNum)
	for range 15 {
		m := New(Options{Comparer: c, Size: 1 << 20})
		var over atomic.Bool
		var readers sync.WaitGroup
		for range 4 * runtime.GOMAXPROCS(0) {
			readers.Go(func() {
				for !over.Load() {
					if _, _, found := m.Get(l); found {
						t.Error("a key is found that was not written")
						return
					}
				}
			})
		}
		for range 4 { // until some of them have used up their time slices
			runtime.Gosched()
		}
		if err := m.Add(1, base.KindSet, []byte("b"), nil); err != nil {
			t.Error(err)
		}
		over.Store(true)
		readers.Wait()
		m.Unref()
	}
}
