package runner

import "time"

// usage is what the process has used so far. written and dirtied are -1 where the system
// does not say.
type usage struct {
	user, system time.Duration // without machine.Looked
	maxRSS       int64
	written      int64 // bytes handed to the kernel by calls
	dirtied      int64 // bytes of the pages that calls and mappings made dirty
}
