package wal

import (
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestTakeObsolete rotates logs, synced and not: each full log is handed out once,
// when no entry before its successor is needed.
func TestTakeObsolete(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("db"))
	next := uint64(3)
	s := New(Options{
		FS: mem, Dir: "db", NewFileNum: func() uint64 { next++; return next },
		Fail: func(err error) error {
			t.Error(err)
			return err
		}, Panicked: func(r any) error { t.Error(r); return nil },
	})
	for i, step := range []struct {
		synced   bool // the log before the rotation
		log      uint64
		oldest   uint64
		obsolete []uint64
		unsynced int // full logs that stay open without a sync
	}{
		{false, 4, 4, nil, 0},
		{false, 5, 4, nil, 1},
		{true, 6, 4, nil, 0},
		{false, 7, 6, []uint64{4, 5}, 1},
		{false, 8, 6, nil, 2},
		{false, 9, 8, []uint64{6, 7}, 1},
		{false, 10, 10, []uint64{8, 9}, 0},
	} {
		if step.synced {
			must(t, s.Sync())
		}
		num, err := s.Rotate(0)
		must(t, err)
		got := s.TakeObsolete(step.oldest)
		if num != step.log || s.Num() != num || !slices.Equal(got, step.obsolete) ||
			len(s.unsyncedFull) != step.unsynced {
			t.Errorf("step %d: log %d, obsolete %d, %d full logs without a sync; want %+v", i, num,
				got, len(s.unsyncedFull), step)
		}
	}
	must(t, s.Close(true))
	if left := s.TakeObsolete(100); len(left) != 0 {
		t.Errorf("the current log is obsolete: %d", left)
	}
}
