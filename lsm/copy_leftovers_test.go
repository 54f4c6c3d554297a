package lsm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestLeftoversOfACopy: a checkpoint or an export that cannot remove what an earlier one left fails
// with the cause: it is never made among these files.
func TestLeftoversOfACopy(t *testing.T) {
	for _, name := range []string{"checkpoint", "export"} {
		failed := errors.New("not now")
		fails := func(vfs.Op) bool { return false }
		mem := vfs.NewMem()
		o := &Options{FS: vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if fails(op) {
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
		copying := func() error {
			if name == "checkpoint" {
				return db.Checkpoint(context.Background(), "to")
			}
			return Export(context.Background(), "db", "to", FormatLevelDB, o, nil)
		}
		for at := 1; ; at++ {
			// An earlier one leaves everything.
			fails = func(op vfs.Op) bool {
				return op.Kind == vfs.OpRename && strings.Contains(op.Name, ".incomplete") ||
					op.Kind == vfs.OpRemove
			}
			if err := copying(); !errors.Is(err, failed) {
				t.Fatalf("%s: %v", name, err)
			}
			n := 0
			fails = func(op vfs.Op) bool {
				if op.Kind == vfs.OpRemove && strings.Contains(op.Name, ".incomplete") {
					n++
				}
				return n == at && op.Kind == vfs.OpRemove
			}
			err := copying()
			fails = func(vfs.Op) bool { return false }
			if n < at {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			if err == nil { // what stays is the marker, or LOCK
				must(t, Destroy("to", o))
			} else if !errors.Is(err, failed) {
				t.Errorf("%s, removal %d fails: %v", name, at, err)
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
