package follow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// TestOneRenewPerCatchUp: a catch-up lets reads go on once, before Moved is called. A state that
// expires after that stays expired: the next read waits for another catch-up.
func TestOneRenewPerCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		demand, catchUps := tree.NewDemand(), 0
		f := &Follower{busy: make(chan struct{}, 1), o: options{
			Dir:  "missing", // every catch-up fails
			Seqs: &tree.Sequences{Demand: demand},
			Warn: func(string, error) {},
			Followed: store.Followed{
				Path: vfs.NewMem(), Moved: func() { catchUps++; demand.Expire() },
			},
		}}
		f.busy <- struct{}{}
		demand.Expire()
		f.Run(24 * time.Hour)
		defer func() { f.stop(); <-f.done }()
		for want := 1; want <= 3; want++ {
			demand.Wait(nil)
			synctest.Wait()
			if catchUps != want {
				t.Fatalf("%d catch-ups of %d", catchUps, want)
			}
		}
	})
}
