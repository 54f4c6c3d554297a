package picker

import "github.com/loamdb/loam/internal/format/manifest"

// What the simulator measures decisions by.
const (
	SpaceRatio      = spaceRatio
	PeakSpace       = peakSpace
	DefaultMaxSpace = defaultMaxSpace
	LastLevel       = lastLevel
)

// Filled is c with defaults.
func (c Config) Filled() Config { return c.filled() }

// Slack is the bytes that no bound on space counts.
func Slack(v *manifest.Version, c Config) uint64 { return newPicker(v, nil, c).slack() }
