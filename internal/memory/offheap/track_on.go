//go:build invariants

package offheap

import "sync"

var live = struct {
	sync.Mutex
	m map[uintptr]int
}{m: map[uintptr]int{}}

// track remembers every piece handed out, so that untrack can name a piece that
// is freed twice, or with another base or capacity than it was allocated with.
func track(b []byte) {
	live.Lock()
	live.m[address(b)] = cap(b)
	live.Unlock()
}

func untrack(b []byte) {
	live.Lock()
	n, ok := live.m[address(b)]
	delete(live.m, address(b))
	live.Unlock()
	if !ok || n != cap(b) {
		panic("offheap: freed twice, or not as allocated")
	}
}
