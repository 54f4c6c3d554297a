package fstest

import "sync"

// Gate holds back the goroutines that come to it while it is shut. The zero Gate is open. A
// goroutine that it holds back waits durably in the sense of testing/synctest if Shut was called in
// the bubble. It is safe for concurrent use.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed by Open; nil: open
	came chan struct{} // closed by the first Pass that waits
}

// Shut shuts an open gate.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.came = make(chan struct{}), make(chan struct{})
}

// Open releases waiting calls, and lets later ones pass.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

// Pass returns when the gate is open.
func (g *Gate) Pass() {
	g.mu.Lock()
	shut, came := g.shut, g.came
	if shut != nil {
		select {
		case <-came:
		default:
			close(came)
		}
	}
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// Came returns when a goroutine waits that has come since Shut.
func (g *Gate) Came() {
	g.mu.Lock()
	came := g.came
	g.mu.Unlock()
	<-came
}
