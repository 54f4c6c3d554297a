//go:build !unix

package hang

import "time"

// ProcessorTime is not known here.
func ProcessorTime() time.Duration { return 0 }
