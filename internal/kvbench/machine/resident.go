package machine

import (
	"sync/atomic"
	"time"
)

// ResidentWatch looks at the resident set of the process again and again.
type ResidentWatch struct {
	before     int64
	stop, done chan struct{}
	most       atomic.Int64
}

// WatchResident begins to watch.
func WatchResident() *ResidentWatch {
	w := &ResidentWatch{before: resident(), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			Look(w.look)
			select {
			case <-w.stop:
				return
			case <-time.After(residentEvery):
			}
		}
	}()
	return w
}

func (w *ResidentWatch) look() {
	for now := resident(); ; {
		if most := w.most.Load(); now <= most || w.most.CompareAndSwap(most, now) {
			return
		}
	}
}

const residentEvery = 5 * time.Millisecond

// Finish ends it, and returns by how much the resident set had grown at most; ok is false where the
// system does not say.
func (w *ResidentWatch) Finish() (most int64, ok bool) {
	close(w.stop)
	<-w.done
	return max(w.most.Load()-w.before, 0), w.before >= 0
}
