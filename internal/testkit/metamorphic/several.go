package metamorphic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
)

const (
	databases = 3
	// blocked is the database whose disk stops at times.
	blocked = databases - 1
)

// gate is a file system whose calls wait while it is shut.
type gate struct {
	vfs.FS
	mu   sync.Mutex
	open sync.Cond
	shut bool
}

func newGate() *gate {
	g := &gate{}
	g.open.L = &g.mu
	g.FS = vfs.NewFault(vfs.NewMem(), func(vfs.Op) vfs.Outcome {
		g.mu.Lock()
		for g.shut {
			g.open.Wait()
		}
		g.mu.Unlock()
		return vfs.Outcome{}
	})
	return g
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	g.shut = shut
	g.open.Broadcast()
	g.mu.Unlock()
}

// progress counts the operations of each database.
type progress struct {
	mu    sync.Mutex
	moved sync.Cond
	steps [databases]int
	done  [databases]bool
	late  bool // the limit is over
}

func (p *progress) step(i int) {
	p.mu.Lock()
	p.steps[i]++
	p.moved.Broadcast()
	p.mu.Unlock()
}

func (p *progress) end(i int) {
	p.mu.Lock()
	p.done[i] = true
	p.moved.Broadcast()
	p.mu.Unlock()
}

// wait returns when each database named has made n more operations, or has no
// more to make. It reports false when that hangs.
func (p *progress) wait(n int, who ...int) bool {
	t := time.AfterFunc(hang.Limit(), func() {
		p.mu.Lock()
		p.late = true
		p.moved.Broadcast()
		p.mu.Unlock()
	})
	defer t.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.steps
	for _, i := range who {
		for !p.done[i] && p.steps[i] < from[i]+n {
			if p.late {
				return false
			}
			p.moved.Wait()
		}
	}
	return true
}

func (p *progress) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[0] && p.done[1]
}

// Several runs three histories of n operations side by side, each in a database of its own with its
// own model, all with one cache or with shared resources. They are closed and opened again often,
// and some iterators outlive their database. The disk of one is blocked time and again; meanwhile
// the others have to make a number of operations, openings and closings among them. In the end
// nothing may be left in memory. stops is how often the disk was blocked.
func Several(seed int64, n int) (stops int, err error) {
	before := offheap.InUse()
	rng := rand.New(rand.NewPCG(uint64(seed), 0x736576))
	var cache *lsm.Cache
	var shared *lsm.Resources
	if rng.IntN(2) == 0 {
		cache = lsm.NewCache(256 << 10 << rng.IntN(5))
		defer cache.Close()
	} else {
		shared = lsm.NewResources(lsm.ResourcesOptions{
			Memory: []int64{0, 8 << 20, 32 << 20}[rng.IntN(3)], BackgroundJobs: 1 + rng.IntN(2),
			IOBytesPerSecond: []int64{0, 20 << 20}[rng.IntN(2)],
			OpenFiles:        []int{0, 4, 20}[rng.IntN(3)],
		})
		defer shared.Close()
	}
	disk := newGate()
	p := &progress{}
	p.moved.L = &p.mu
	errs := make([]error, databases)
	var wg sync.WaitGroup
	for i := range databases {
		ops, cmp := generate(seed*databases+int64(i), n)
		for at := range ops {
			if rng.IntN(150) == 0 {
				ops[at] = op{kind: opReopen, n: rng.IntN(1 << 20), from: -1}
			}
		}
		s := Setup{Name: fmt.Sprintf("database %d", i), seed: seed*databases + int64(i) + 2,
			cache: cache, resources: shared, step: func() {
				p.step(i)
			}, Format: testkit.Format(seed + int64(i)), Keyspaces: i == 1}
		if i == blocked {
			s.disk = disk
		}
		wg.Go(func() {
			defer p.end(i)
			if e := run(ops, cmp, s); e != nil {
				errs[i] = fmt.Errorf("%s, options %+v, comparer %s: %w", s.Name, *s.options(0),
					cmp.Name, e)
			}
		})
	}
	for !p.over() {
		if !p.wait(1+rng.IntN(n/20), 0, 1, 2) {
			return stops, hangs("an operation")
		}
		disk.set(true)
		ok := p.wait(n/20, 0, 1)
		disk.set(false)
		if !ok {
			return stops, hangs("an operation beside a blocked disk")
		}
		stops++
	}
	wg.Wait()
	if cache != nil {
		cache.Close()
	} else {
		shared.Close()
	}
	if err := errors.Join(errs...); err != nil {
		return stops, fmt.Errorf("seed %d, %d operations each: %w", seed, n, err)
	}
	if !hang.Until(func() bool { return offheap.InUse() <= before }) {
		return stops, fmt.Errorf("seed %d: %d bytes off the heap, %d before", seed, offheap.InUse(),
			before)
	}
	return stops, nil
}

func hangs(what string) error {
	stacks := make([]byte, 1<<20)
	return fmt.Errorf("%s hangs:\n%s", what, stacks[:runtime.Stack(stacks, true)])
}
