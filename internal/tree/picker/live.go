package picker

import (
	"iter"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// maxSampled is how many sampled keys an estimate looks at: then it is right to a
// few hundredths and takes a tenth of a millisecond or two.
const maxSampled = 8 << 10

// Live estimates how many bytes of a version's tables are live: neither hidden by a newer entry of
// the key nor a tombstone. It goes by the tables' samples of keys. The contents of tables without a
// sample (of an earlier opening and not opened since, or LevelDB's) are unknown: in the largest run
// it counts as live, elsewhere as hidden by or hiding that. The result is 0, not known, if no table
// has a sample.
//
// values is the same of the values in logs and value files that the tables refer to: all of them
// where it is not known.
func Live(v *manifest.Version) (tables, values uint64) {
	all := v.ValueBytes()
	e := newEstimate(v)
	if !e.some {
		return 0, all
	}
	e.count(v)
	if all > 0 {
		values = min(e.live(v, func(f *manifest.FileMeta) uint64 { return f.ValueBytes }), all)
	}
	return e.live(v, func(f *manifest.FileMeta) uint64 { return f.Size }), values
}

// estimate is the state of one call of Live.
type estimate struct {
	bottom int   // the level with the largest run
	shift  uint8 // of the samples looked at
	some   bool  // some table has a sample
	// samples are those of the tables; others may come meanwhile.
	samples map[*manifest.FileMeta]*base.KeySample
	share   map[*manifest.FileMeta]share
}

// share is the known part of a table: so many sampled keys, so many of them live.
type share struct{ live, all int }

func newEstimate(v *manifest.Version) *estimate {
	e := &estimate{samples: map[*manifest.FileMeta]*base.KeySample{},
		share: map[*manifest.FileMeta]share{}}
	perShift := map[uint8]int{}
	for l := range v.Levels {
		if size := v.Levels[l].Size; l > 0 && size > 0 &&
			(e.bottom == 0 || size >= v.Levels[e.bottom].Size) {
			e.bottom = l
		}
		for _, f := range v.Levels[l].Files {
			if s := f.Sample.Load(); s != nil {
				e.samples[f] = s
				perShift[s.Shift()] += s.Len()
				e.shift, e.some = max(e.shift, s.Shift()), true
			}
		}
	}
	for ; ; e.shift++ {
		keys := 0
		for shift, n := range perShift {
			keys += n >> (e.shift - shift)
		}
		if keys <= maxSampled {
			return e
		}
	}
}

// count goes through the tables from the newest entries to the oldest.
func (e *estimate) count(v *manifest.Version) {
	type sampledKey struct {
		key       uint64
		tombstone bool
		file      *manifest.FileMeta
	}
	var keys []sampledKey
	for l := range v.Levels {
		for f, s := range e.sampled(v.Levels[l].Files) {
			// A tombstone in the bottom run is kept for a snapshot, and what it hides with
			// it: no merge can drop it now.
			s.Each(e.shift, func(key uint64, tombstone bool) {
				keys = append(keys, sampledKey{key, tombstone && l != e.bottom, f})
			})
		}
	}
	seen := make(map[uint64]struct{}, len(keys))
	for _, k := range keys {
		s := e.share[k.file]
		s.all++
		if _, hidden := seen[k.key]; !hidden && !k.tombstone {
			s.live++
		}
		seen[k.key] = struct{}{}
		e.share[k.file] = s
	}
}

// live adds up the bytes of the tables. A table with no key in the sample is like the others of its
// level.
func (e *estimate) live(v *manifest.Version, bytes func(*manifest.FileMeta) uint64) uint64 {
	known := 1.0 // of the largest run
	if b := v.Levels[e.bottom]; b.Size > 0 {
		known = 0
		for f := range e.sampled(b.Files) {
			known += float64(f.Size) / float64(b.Size)
		}
	}
	total := 0.0
	for l := range v.Levels {
		var all share
		for f := range e.sampled(v.Levels[l].Files) {
			all.live += e.share[f].live
			all.all += e.share[f].all
		}
		for _, f := range v.Levels[l].Files {
			part := 1.0
			switch s := e.share[f]; {
			case e.samples[f] == nil && l != e.bottom:
				part = 0
			case e.samples[f] == nil:
			case s.all > 0:
				part = float64(s.live) / float64(s.all)
			case all.all > 0:
				part = float64(all.live) / float64(all.all)
			}
			if l != e.bottom {
				part *= known
			}
			total += part * float64(bytes(f))
		}
	}
	return max(uint64(total), 1)
}

// sampled are those of the files that have a sample.
func (e *estimate) sampled(
	files []*manifest.FileMeta) iter.Seq2[*manifest.FileMeta, *base.KeySample] {
	return func(yield func(*manifest.FileMeta, *base.KeySample) bool) {
		for _, f := range files {
			if s := e.samples[f]; s != nil && !yield(f, s) {
				return
			}
		}
	}
}
