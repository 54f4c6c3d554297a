package machine

import "time"

// Touched is how long it took to write to a page of memory that the process had not used.
type Touched struct {
	First, Second time.Duration // the second time the pages had been used a moment before
}

// Slow reports whether the system had to get the memory from elsewhere the first time, as a virtual
// machine does whose host has given it to nobody yet.
func (t Touched) Slow() bool { return t.First > 2*time.Microsecond && t.First > 3*t.Second }
