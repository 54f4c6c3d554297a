package picker

import (
	"math"

	"github.com/loamdb/loam/internal/format/manifest"
)

// The bounds on space, as multiples of Config.Live. A merge writes its outputs
// before its inputs go, and writers go on meanwhile: so merges for the sake of
// space begin well below the bound that holds at every moment.
const (
	defaultMaxSpace = 1.3
	// fastSpace is where merges begin beside fast writers.
	fastSpace = 1.5
	// delaySpace is where writers begin to be delayed, peakSpace where they are
	// held up for as long as a merge takes.
	delaySpace = 1.7
	peakSpace  = 2.0
	// maxSpacePressure: an estimate holds nobody up for good.
	maxSpacePressure = 0.95
)

const (
	minFileSize = 1 << 20
	// runFiles is how many files a run has at least, as far as they are not smaller
	// than minFileSize: the finer the files, the less disk a merge of a slice needs.
	runFiles = 64
	// A merge of whole runs, of which there is a slice at a time, has no more bytes
	// than 2 GiB or a tenth of the tree, whichever is more, and so needs no more
	// free disk than that; and so many of its files at least.
	maxSlice      = 2 << 30
	sliceOfTree   = 10
	minSliceFiles = 8
)

// outputSize is where a run merged from those of two levels is split: FileSize, but
// less if it is small, so that it can be merged a slice at a time.
func (p *picker) outputSize(from, to int) uint64 {
	return min(p.FileSize, max(minFileSize, sum(p.runs[from:to+1])/runFiles))
}

// sliceBytes bounds a merge of whole runs, where the tables' ranges allow: by the
// disk that it may need, and by the space that is left below the bound.
func (p *picker) sliceBytes() uint64 {
	tenth := sum(p.runs[:]) / sliceOfTree
	bytes := max(maxSlice, tenth)
	if p.mostBytes > 0 {
		bytes = min(bytes, p.mostBytes)
	}
	if room := p.room(); room < float64(bytes) {
		bytes = max(min(tenth, bytes), uint64(max(room, 0)))
	}
	return max(bytes, minSliceFiles*min(p.FileSize, minFileSize))
}

// slack is space that no bound counts: what level 0 has before it is merged.
func (p *picker) slack() uint64 { return uint64(p.L0Trigger) * p.WriteBuffer / 4 }

// spaceUsed is the space taken as a multiple of the live bytes, 0 if not known.
func (p *picker) spaceUsed() float64 {
	all, slack := sum(p.runs[:]), p.slack()
	if p.Live == 0 || all <= slack {
		return 0
	}
	return float64(all-slack) / p.liveBytes()
}

// liveBytes are Config.Live, but at least what level 0 brings at a time: the bounds
// say nothing of smaller trees.
func (p *picker) liveBytes() float64 { return float64(max(p.Live, 2*p.slack())) }

// room is how many bytes the outputs of merges may take. While the tree holds
// little that is not live, it has no bound: what they take they give back.
func (p *picker) room() float64 {
	if p.spaceUsed() <= p.MaxSpace {
		return math.Inf(1)
	}
	return p.spaceBound()*p.liveBytes() + float64(p.slack()) - float64(sum(p.runs[:]))
}

// spaceBound is what the space taken stays below, outputs of merges included.
func (p *picker) spaceBound() float64 { return peakSpace * max(1, p.MaxSpace/fastSpace) }

// fits reports that there is space for the outputs of a merge of so many bytes.
func (p *picker) fits(bytes uint64) bool { return float64(bytes) <= p.room() }

// spaceLimit is where merges for the sake of space begin.
func (p *picker) spaceLimit() float64 {
	if p.Fast {
		return max(p.MaxSpace, fastSpace)
	}
	return p.MaxSpace
}

// spaceFirst reports that space is further towards its limit than level 0.
func (p *picker) spaceFirst() bool {
	return p.spacePressure() > p.zeroPressure()
}

// valuesFirst reports that values are further towards their limit than level 0.
func (p *picker) valuesFirst() bool {
	return p.Values != nil && p.pressureOf(p.valueSpace()) > p.zeroPressure()
}

// zeroPressure is how far level 0 is towards the number of files at which its merge goes before
// space.
func (p *picker) zeroPressure() float64 {
	return float64(len(p.v.Levels[0].Files)) / float64(min(p.L0Stop, crowdedZero))
}

// spacePressure is 0 where merges for the sake of space begin, and 1 at the bound.
func (p *picker) spacePressure() float64 { return p.pressureOf(p.spaceUsed()) }

func (p *picker) pressureOf(used float64) float64 {
	limit := p.spaceLimit()
	return (used - limit) / (peakSpace/fastSpace*limit - limit)
}

// Pressure is how far level 0 or the space taken is towards its limit, at which
// writers wait: 0 or less in the first half of the way, 1 at the limit.
func Pressure(v *manifest.Version, c Config) float64 {
	p := newPicker(v, nil, c)
	zero := 2*float64(len(v.Levels[0].Files))/float64(p.L0Stop) - 1
	scale := max(1, p.MaxSpace/fastSpace)
	used := max(p.spaceUsed(), p.valuePeak())
	space := (used/scale - delaySpace) / (peakSpace - delaySpace)
	return max(zero, min(space, maxSpacePressure))
}
