package wal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestExpiryPanics: a panic when the time of a log is over, on the timer's goroutine, is reported
// and ends no other work.
func TestExpiryPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		must(t, mem.MkdirAll("db"))
		next, told := uint64(3), make(chan any, 1)
		s := New(Options{
			FS: mem, Dir: "db", NewFileNum: func() uint64 { next++; return next },
			Fail:      func(err error) error { t.Error(err); return err },
			Panicked:  func(r any) error { told <- r; return nil },
			Delete:    func(string) { panic("out of order") },
			Retention: Retention{For: time.Minute},
		})
		for range 2 {
			_, err := s.Rotate(0)
			must(t, err)
		}
		if got := s.TakeObsolete(s.Num()); len(got) > 0 {
			t.Fatalf("%d go at once", got)
		}
		s.fullMu.Lock()
		s.retained[0].ended = time.Now().Add(-time.Hour)
		s.fullMu.Unlock()
		s.expire() // as the timer does
		if r := <-told; r != "out of order" {
			t.Errorf("told is %v", r)
		}
		must(t, s.Close(true))
	})
}
