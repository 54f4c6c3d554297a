package testkit

import "time"

// Patience returns a channel that is closed when a goroutine of its own has been woken
// for d in all, every tick of a clock once at most: a machine that is too busy to run the
// process does not use it up. stop ends it.
func Patience(d time.Duration) (over <-chan struct{}, stop func()) {
	const tick = 10 * time.Millisecond
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for range d / tick {
			select {
			case <-clock.C:
			case <-stopped:
				return
			}
		}
		close(ended)
	}()
	return ended, func() { close(stopped) }
}
