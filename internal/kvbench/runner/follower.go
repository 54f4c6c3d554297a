package runner

import (
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/kvbench/follower"
	"github.com/loamdb/loam/internal/workload"
)

// follow starts the follower of a benchmark. stop is nil if it has none.
func (r *Runner) follow(spec *workload.Spec) (stop func() ([]time.Duration, error), err error) {
	if !spec.Followed {
		return nil, nil
	}
	return r.Follow(r.Dir, r.Config)
}

// addLag ends the follower.
func (r *Result) addLag(stop func() ([]time.Duration, error)) error {
	if stop == nil {
		return nil
	}
	lags, err := stop()
	if err != nil {
		return err
	}
	r.Lag = new(hist.Histogram)
	for _, l := range lags {
		r.Lag.Record(int64(l))
	}
	return nil
}

// lagText says how far the follower was behind.
func (r *Result) lagText() string {
	if r.Lag == nil || r.Lag.Count() == 0 {
		return "(the follower caught up at the end only)"
	}
	ms := func(q float64) float64 { return float64(r.Lag.Quantile(q)) / 1e6 }
	return fmt.Sprintf("(follower behind by P50: %.1f P99: %.1f max: %.1f ms)", ms(0.5), ms(0.99),
		float64(r.Lag.Max())/1e6)
}

// beat is a background thread that writes what the follower measures its lag by, once at least.
func (t *thread) beat() {
	key := []byte(follower.BeatKey)
	for more := true; more; more = !t.quit.Load() && !t.stop.Load() {
		if err := t.db.Put(key, follower.Beat(), false); err != nil {
			t.fail(err)
			return
		}
		time.Sleep(follower.BeatEvery)
	}
	if err := t.db.Delete(key, false); err != nil {
		t.fail(err)
	}
}
