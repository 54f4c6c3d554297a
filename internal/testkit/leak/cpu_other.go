//go:build !unix

package leak

import "time"

// processorTime is not known here.
func processorTime() time.Duration { return 0 }
