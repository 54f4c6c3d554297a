package lsm

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestLeftoversOfACopy: a checkpoint or an export that cannot remove what an earlier one left fails
// with the cause: it is never made among these files.
func TestLeftoversOfACopy(t *testing.T) {
	for _, name := range []string{"checkpoint", "export"} {
		failed := errors.New("not now")
		var mu sync.Mutex // of the next three: files are deleted in the background, too
		every, at := false, 0
		n := 0 // removals
		o := &Options{FS: vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (out vfs.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(op.Name, ".incomplete") {
				return out
			}
			if op.Kind == vfs.OpRemove {
				n++
			}
			if every && (op.Kind == vfs.OpRename || op.Kind == vfs.OpRemove) ||
				op.Kind == vfs.OpRemove && n == at {
				out.Err = failed
			}
			return out
		})}
		db := mustOpen(t, "db", o)
		mustPut(t, db, 1)
		mustFlush(t, db)
		mustPut(t, db, 2)
		if name == "export" {
			mustClose(t, db)
		}
		// copying has every removal and rename fail, or the nth removal.
		copying := func(all bool, nth int) error {
			mu.Lock()
			every, at, n = all, nth, 0
			mu.Unlock()
			if name == "checkpoint" {
				return db.Checkpoint(context.Background(), "to")
			}
			return Export(context.Background(), "db", "to", FormatLevelDB, o, nil)
		}
		for nth := 1; ; nth++ {
			if err := copying(true, 0); !errors.Is(err, failed) { // it leaves everything
				t.Fatalf("%s: %v", name, err)
			}
			err := copying(false, nth)
			mu.Lock()
			made := n
			mu.Unlock()
			if made < nth {
				must(t, err)
				break
			}
			if err == nil { // what stays is the marker, or LOCK
				must(t, Destroy("to", o))
			} else if !errors.Is(err, failed) {
				t.Errorf("%s, removal %d fails: %v", name, nth, err)
			}
		}
		if name == "checkpoint" {
			mustClose(t, db)
		}
		to := mustOpen(t, "to", o)
		if n := countKeys(t, to); n != 2 {
			t.Errorf("%s: %d keys", name, n)
		}
		mustClose(t, to)
	}
}
