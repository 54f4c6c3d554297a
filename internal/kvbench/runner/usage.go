package runner

import "time"

// usage is what the process has used so far. written is -1 where the system
// does not say.
type usage struct {
	user, system time.Duration
	maxRSS       int64
	written      int64
}
