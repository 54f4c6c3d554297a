package lsm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestLagOfMissingLog removes a log that the MANIFEST needs: Lag fails, and does not look for it
// again and again.
func TestLagOfMissingLog(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	other := mustSpace(t, db, "other")
	must(t, db.Put([]byte("own"), nil, NoSync)) // keeps the log
	must(t, other.Put([]byte("others"), nil, NoSync))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var opened atomic.Int64
	f, err := OpenFollower("db", &Options{FS: vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpOpen && opened.Add(1) == 1000 {
			cancel()
		}
		return vfs.Outcome{}
	})})
	must(t, err)
	defer f.Close()
	must(t, other.Flush()) // begins the next log
	must(t, db.Put([]byte("next"), nil, NoSync))
	logs, err := fstest.Find(mem, "db", base.FileLog)
	must(t, err)
	must(t, mem.Remove(logs[0]))
	if _, err := f.Lag(ctx); !errors.Is(err, ErrCorruption) || opened.Load() >= 1000 {
		t.Errorf("%d logs: after %d openings %v", len(logs), opened.Load(), err)
	}
	_ = db.Close() // it misses its log
}
