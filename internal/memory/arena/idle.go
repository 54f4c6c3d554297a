package arena

import "time"

// Idle finds out when a writer that needs memory soon is unlikely: nobody wrote for IdleWriter, or
// for IdleLook while blocks were read, which fill the cache.
type Idle struct {
	written uint64 // stays since the time
	since   time.Time
	lookups int64 // at that time
}

const (
	IdleWriter = 500 * time.Millisecond
	IdleLook   = 50 * time.Millisecond // also between two looks
	// IdleLookups is how many blocks readers look up before they count.
	IdleLookups = 256
)

// Look is called now and then, with a number that each write changes, and how many blocks were
// looked up. It reports whether the memory is to be given back.
func (i *Idle) Look(now time.Time, written uint64, lookups int64) bool {
	if written != i.written || i.since.IsZero() {
		*i = Idle{written: written, since: now, lookups: lookups}
	}
	d := now.Sub(i.since)
	return d >= IdleWriter || d >= IdleLook && lookups >= i.lookups+IdleLookups
}
