package follow

import (
	"context"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// idleEvery is how often a Follower catches up that nobody reads: the tables of its state keep
// their space on the disk while it has them open.
const idleEvery = 5 * time.Second

// Run begins to catch up in the background. It is called at most once.
//
// Most of a writer's data is overwritten or in a table before a follower is read. So at the end of
// an interval in which something was read the Follower catches up; after one without a read it does
// not, but the next read waits until it has: the log is then read from where the MANIFEST says that
// tables end. To a read the state is never older than the interval and one catch-up.
func (f *Follower) Run(interval time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop, f.done = cancel, make(chan struct{})
	go func() {
		defer close(f.done)
		t := time.NewTicker(interval)
		defer t.Stop()
		demand, told := f.o.Seqs.Demand, ""
		for last := time.Now(); ; last = time.Now() {
			for due := false; !due; {
				select {
				case <-ctx.Done():
					return
				case <-demand.Wanted:
					due = true
				case <-t.C:
					if due = demand.Take() || time.Since(last) >= idleEvery; !due {
						demand.Expire()
					}
				}
			}
			err := base.Alone(func() error { return f.CatchUp(ctx) })
			switch {
			case err == nil:
				told = ""
			case ctx.Err() == nil && err.Error() != told:
				told = err.Error()
				f.o.Warn("catching up failed; it will be tried again", err)
			}
		}
	}()
}
