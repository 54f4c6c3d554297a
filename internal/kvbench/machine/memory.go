package machine

import "time"

// Pages is what a process has resident, in bytes.
type Pages struct {
	Anon int64 `json:"anon_bytes"` // its own memory: heaps, stacks, private mappings
	// File is mapped files, the program's own among them: the page cache has them, too.
	File  int64 `json:"file_bytes"`
	Shmem int64 `json:"shmem_bytes"` // memory that processes share
}

// Total is the resident set.
func (p Pages) Total() int64 { return p.Anon + p.File + p.Shmem }

// Group is the memory of the cgroup that the process runs in, in bytes.
type Group struct {
	Own   int64 `json:"own_bytes"`   // of processes, and the kernel's for them
	Cache int64 `json:"cache_bytes"` // the page cache, mapped or not, and shared memory
}

// Memory is the resident set of the process during a benchmark and after it.
type Memory struct {
	// Peak is the most. The kernel counts it where that can be begun anew; else it is that of
	// AtPeak.
	Peak   int64 `json:"peak_bytes"`
	AtPeak Pages `json:"at_peak"` // the largest one seen, looking every memoryEvery
	// Quiet is that after the benchmark, and after the time to quiet where that is waited for.
	Quiet Pages  `json:"quiet"`
	Group *Group `json:"cgroup,omitempty"` // at the same time; nil: there is no limit
}

// MemoryTitles are those of the columns of MB.
var MemoryTitles = []string{"peak RSS MB", "own at peak", "quiet RSS MB", "own quiet",
	"cgroup own MB", "cgroup cache MB"}

// MemoryLegend explains them.
const MemoryLegend = "peak and quiet RSS: resident set of the process, during the benchmark and " +
	"after it; own: without mapped files and shared memory."

// MB is the figure of column i in units of 2^20 bytes; known is false where it is not.
func (m *Memory) MB(i int) (mb float64, known bool) {
	if m == nil || i >= 4 && m.Group == nil {
		return 0, false
	}
	all := []int64{m.Peak, m.AtPeak.Anon, m.Quiet.Total(), m.Quiet.Anon}
	if m.Group != nil {
		all = append(all, m.Group.Own, m.Group.Cache)
	}
	return float64(all[i]) / (1 << 20), true
}

// memoryEvery is rare: the kernel adds up counters of all processors for a look.
const memoryEvery = 20 * time.Millisecond

// MemoryWatch looks at the resident set again and again.
type MemoryWatch struct {
	known      bool
	counted    bool // the kernel's peak began with the watch
	stop, done chan struct{}
	peak       Pages
}

// WatchMemory begins to watch, and begins the kernel's count of the peak anew.
func WatchMemory() *MemoryWatch {
	w := &MemoryWatch{stop: make(chan struct{}), done: make(chan struct{}), counted: resetPeak()}
	w.peak, w.known = pages()
	go func() {
		defer close(w.done)
		tick := time.NewTicker(memoryEvery)
		defer tick.Stop()
		for w.known {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				Look(func() { w.look() })
			}
		}
	}()
	return w
}

func (w *MemoryWatch) look() (now Pages) {
	now, _ = pages()
	if now.Total() > w.peak.Total() {
		w.peak = now
	}
	return now
}

// Finish ends the watch; nil: the system does not tell.
func (w *MemoryWatch) Finish() *Memory {
	close(w.stop)
	<-w.done
	if !w.known {
		return nil
	}
	m := &Memory{Quiet: w.look()}
	m.Peak, m.AtPeak = w.peak.Total(), w.peak
	if n, ok := countedPeak(); ok && w.counted {
		m.Peak = max(m.Peak, n)
	}
	return m
}
