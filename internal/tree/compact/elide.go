package compact

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// deeper tells, for user keys that come in ascending order, whether any file of
// some levels can hold the key. Where none can, a deletion has nothing to hide.
type deeper struct {
	cmp *base.Comparer
	// sorted, without overlap; what lies before the last key is cut off
	levels [][]*manifest.FileMeta
	mixed  []*manifest.FileMeta // of level 0, in any order
	// admits is Env.MayHold, asked of the files whose ranges include the key
	admits func(f *manifest.FileMeta, key []byte) bool
}

// newDeeper looks at the levels from first on, without the files that are inputs.
func newDeeper(env *Env, v *manifest.Version, first int) deeper {
	d := deeper{cmp: env.Comparer, admits: env.MayHold}
	if d.admits == nil {
		d.admits = func(*manifest.FileMeta, []byte) bool { return true }
	}
	for i := first; i < manifest.NumLevels; i++ {
		files := v.Levels[i].Files
		switch {
		case len(files) == 0:
		case i == 0:
			d.mixed = files
		default:
			d.levels = append(d.levels, files)
		}
	}
	return d
}

// mayHold reports whether one of the files' ranges includes key, and the file admits it. Keys
// must not descend from call to call.
func (d *deeper) mayHold(key []byte) bool {
	for _, f := range d.mixed {
		if d.cmp.Cmp(f.Smallest.User, key) <= 0 && d.cmp.Cmp(f.Largest.User, key) >= 0 &&
			d.admits(f, key) {
			return true
		}
	}
	for i, files := range d.levels {
		// Consecutive deletions usually meet the same file.
		for len(files) > 0 && d.cmp.Cmp(files[0].Largest.User, key) < 0 {
			files = files[1:]
		}
		d.levels[i] = files
		for _, f := range files { // one may end where the next begins
			if d.cmp.Cmp(f.Smallest.User, key) > 0 {
				break
			}
			if d.admits(f, key) {
				return true
			}
		}
	}
	return false
}
