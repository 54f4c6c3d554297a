package budget

import (
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// runtimeShare: what the Go runtime has taken since the Memory was made counts, up to one part in
// so many of the limit. More is the host's doing.
const runtimeShare = 16

// runtimeEvery is how long one look at the runtime's memory counts.
const runtimeEvery = 50 * time.Millisecond

// goMemory is how much the Go runtime has taken from the system since init.
type goMemory struct {
	begun time.Time
	next  atomic.Int64 // nanoseconds after begun
	value atomic.Int64

	mu      sync.Mutex
	first   int64
	samples [2]metrics.Sample
}

func (g *goMemory) init() {
	g.begun = time.Now()
	g.samples = [2]metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	g.first = g.read()
}

func (g *goMemory) read() int64 {
	metrics.Read(g.samples[:])
	return int64(g.samples[0].Value.Uint64()) - int64(g.samples[1].Value.Uint64())
}

// grown is how many bytes it is, at most most.
func (g *goMemory) grown(most int64) int64 {
	if now := time.Since(g.begun); int64(now) >= g.next.Load() && g.mu.TryLock() {
		g.value.Store(g.read() - g.first)
		g.next.Store(int64(now + runtimeEvery))
		g.mu.Unlock()
	}
	return min(max(g.value.Load(), 0), most)
}
