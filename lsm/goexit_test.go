package lsm

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestCallbacksThatEndTheirGoroutine: a callback that calls runtime.Goexit, as FailNow of a test
// does, ends writing as a panic does, and neither the flush nor the compaction stays under way.
func TestCallbacksThatEndTheirGoroutine(t *testing.T) {
	needsNative(t)
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"flush", "compaction"} {
			fsys, ends := vfs.NewMem(), false
			end := func() {
				if ends {
					runtime.Goexit()
				}
			}
			o := &Options{FS: fsys, DisableCompaction: true,
				MergeOperator: &MergeOperator{Name: "ends", Full: func(dst, _, existing []byte,
					operands [][]byte) ([]byte, error) {
					end()
					return append(append(dst, existing...), operands[0]...), nil
				}},
				CompactionFilter: &CompactionFilter{Name: "ends", Filter: func(int, []byte,
					[]byte) (FilterDecision, error) {
					end()
					return FilterKeep, nil
				}}}
			db := mustOpen(t, "db", o)
			if err := errors.Join(db.Put([]byte("a"), []byte("1"), NoSync),
				db.Merge([]byte("a"), []byte("2"), NoSync)); err != nil {
				t.Fatal(err)
			}
			call := db.Flush
			if name == "compaction" {
				mustFlush(t, db)
				call = func() error { return db.CompactRange(nil, nil) }
			}
			ends = true
			if err := call(); err == nil || !strings.Contains(err.Error(), "Goexit") {
				t.Errorf("%s: %v", name, err)
			}
			if err := db.Put([]byte("b"), nil, NoSync); !errors.Is(err, ErrReadOnly) {
				t.Errorf("a write after the %s: %v", name, err)
			}
			_ = db.Close()
			ends = false
			db = mustOpen(t, "db", o)
			if got, err := db.Get([]byte("a"), nil); err != nil || string(got) != "12" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
