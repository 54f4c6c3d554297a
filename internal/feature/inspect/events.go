package inspect

import (
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base/plain"
)

// maxEvents is how many events are kept.
const maxEvents = 256

// Event is something that happened in the background.
type Event struct {
	Number uint64 `json:"number"` // counts from 1
	Time   string `json:"time"`
	Kind   string `json:"kind"`
	Detail any    `json:"detail"`
}

// Events keeps the last events of a database. A nil Events keeps none. It is safe for concurrent
// use.
type Events struct {
	mu   sync.Mutex // a leaf
	last uint64     // number of the newest event
	ring [maxEvents]struct {
		at     time.Time
		kind   string
		detail any
	}
}

// Add notes an event. detail does not change any more.
func (e *Events) Add(kind string, detail any) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	slot := &e.ring[e.last%maxEvents]
	slot.at, slot.kind, slot.detail = time.Now(), kind, detail
}

// After lists the events behind number after that are still kept, and the number of the newest.
func (e *Events) After(after uint64) (list []Event, last uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list = []Event{}
	first := after + 1
	if e.last >= maxEvents {
		first = max(first, e.last-maxEvents+1)
	}
	for n := first; n <= e.last && n > after; n++ {
		slot := &e.ring[n%maxEvents]
		list = append(list, Event{Number: n, Time: slot.at.UTC().Format(time.RFC3339Nano),
			Kind: slot.kind, Detail: plain.Of(slot.detail)})
	}
	return list, e.last
}
