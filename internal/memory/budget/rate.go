package budget

import (
	"sync"
	"time"
)

// Rate is a token bucket of bytes that the jobs of databases read and write. Jobs pay after the
// fact: a piece is never split. A nil one, and one of rate 0, have no bound.
type Rate struct {
	mu        sync.Mutex
	perSecond int64
	tokens    float64 // bytes that may be moved now; negative: a debt
	at        time.Time
}

const (
	// burst is how long a bucket fills that nobody takes from.
	burst = 100 * time.Millisecond
	// flushDebt is the debt, as the time that pays it, from which on flushes wait, too. Up to it
	// only compactions wait.
	flushDebt = 500 * time.Millisecond
	// maxDebt bounds the debt that is left by those that did not wait.
	maxDebt = time.Second
	// maxNap is how long a job sleeps before it looks again whether it has to.
	maxNap = 10 * time.Millisecond
)

// NewRate makes a Rate; 0 is no bound.
func NewRate(bytesPerSecond int64) *Rate {
	r := &Rate{}
	r.Set(bytesPerSecond)
	return r
}

// Set changes the rate; 0 is no bound.
func (r *Rate) Set(bytesPerSecond int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.perSecond, r.tokens, r.at = bytesPerSecond, 0, time.Now()
}

// Get is the rate, 0 without a bound.
func (r *Rate) Get() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.perSecond
}

// Pay counts n bytes and waits until the rate allows them, or lifted says not to. A flush
// waits only for a large debt. It reports how long it waited.
func (r *Rate) Pay(n int64, flush bool, lifted func() bool) (waited time.Duration) {
	if r == nil {
		return 0
	}
	for nap := r.take(n, flush, time.Now()); nap > 0 &&
		!lifted(); nap = r.take(0, flush, time.Now()) {
		d := min(nap, maxNap)
		time.Sleep(d)
		waited += d
	}
	return waited
}

// take takes n bytes at a time and says how long a job has to wait then.
func (r *Rate) take(n int64, flush bool, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perSecond <= 0 {
		return 0
	}
	rate := float64(r.perSecond)
	r.tokens = min(r.tokens+now.Sub(r.at).Seconds()*rate, burst.Seconds()*rate)
	r.at = now
	r.tokens = max(r.tokens-float64(n), -max(maxDebt.Seconds()*rate, float64(n)))
	debt := time.Duration(-r.tokens / rate * float64(time.Second))
	if flush {
		debt -= flushDebt
	}
	return max(debt, 0)
}
