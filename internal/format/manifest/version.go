package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/base/prefix"
)

// Level is one level of a Version. In level 0 Files are newest first (numbers
// descending) and may overlap. In the others they ascend and do not overlap in
// internal order; one user key may end one file and begin the next, with older
// entries there, because LevelDB splits keys that way.
type Level struct {
	Files []*FileMeta
	Size  uint64 // sum of the files' sizes
	// RangeDels are those of Files with range tombstones, in their order; mostly none.
	RangeDels []*FileMeta
	// Expiring are the Files in which all entries expire, in their order; mostly none.
	Expiring []*FileMeta

	sorted bool // Files ascend; false also for a Level made by hand
	// abbrevs[i] abbreviates Files[i].Largest after prefix, which all Largest
	// keys share; nil when the comparer has no abbreviations.
	abbrevs []uint64
	prefix  prefix.Prefix
}

// makeLevel takes ownership of files, which are in the level's order already.
func makeLevel(c *base.Comparer, level int, files []*FileMeta) Level {
	l := Level{Files: files, sorted: level > 0}
	for _, f := range files {
		l.Size = min(l.Size+f.Size, math.MaxInt64) // sizes are below 1<<48
		f.Level.Store(int32(level))
		if f.hasRangeDels() {
			l.RangeDels = append(l.RangeDels, f)
		}
		if f.AllExpire() {
			l.Expiring = append(l.Expiring, f)
		}
	}
	l.prefix = l.sharedPrefix(c)
	l.abbrevs = l.abbreviate(c, files)
	return l
}

// sharedPrefix is what the largest keys of all files begin with.
func (l *Level) sharedPrefix(c *base.Comparer) prefix.Prefix {
	if !l.sorted || len(l.Files) == 0 {
		return nil
	}
	return prefix.Of(c, l.Files[0].Largest.User, l.Files[len(l.Files)-1].Largest.User)
}

func (l *Level) abbreviate(c *base.Comparer, files []*FileMeta) []uint64 {
	if !l.sorted || len(l.Files) == 0 || !c.HasAbbrev() {
		return nil
	}
	abbrevs := make([]uint64, len(files))
	for i, f := range files {
		abbrevs[i] = l.prefix.Abbrev(c, f.Largest.User)
	}
	return abbrevs
}

// FindAt returns the index of the first file whose largest key is at or after
// (key, t) in internal order, or len(Files): the file that holds the first
// entry at or after (key, t), so that a read that asks for Lookup.Trailer needs
// this file alone. Not for level 0.
func (l *Level) FindAt(c *base.Comparer, key []byte, t base.Trailer) int {
	lo, hi := 0, len(l.Files)
	if l.abbrevs != nil {
		if !l.prefix.In(key) {
			if l.prefix.Before(c, key) {
				return 0
			}
			return hi
		}
		x := l.prefix.Abbrev(c, key)
		lo = prefix.Search(l.abbrevs, x)
		if lo == hi || l.abbrevs[lo] != x {
			return lo
		}
		hi = prefix.TiesEnd(l.abbrevs, lo)
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		f := l.Files[mid]
		if c.CompareInternal(f.Largest.User, f.Largest.Trailer, key, t) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Overlaps returns the files that hold keys, or range tombstones over keys, in
// [smallest, largest], in the level's order; nil bounds are open. The result may share
// memory with Files and must not be changed.
func (l *Level) Overlaps(c *base.Comparer, smallest, largest []byte) []*FileMeta {
	if !l.sorted {
		var out []*FileMeta
		for _, f := range l.Files {
			if (largest == nil || c.Cmp(f.Smallest.User, largest) <= 0) &&
				(smallest == nil || !f.EndsBefore(c, smallest)) {
				out = append(out, f)
			}
		}
		return out
	}
	lo, hi := 0, len(l.Files)
	if smallest != nil {
		// that of the end of a range tombstone is before it
		lo = l.FindAt(c, smallest, base.RangeDelEnd-1)
	}
	if largest != nil {
		hi = lo
		for end := len(l.Files); hi < end; {
			mid := int(uint(hi+end) >> 1)
			if c.Cmp(l.Files[mid].Smallest.User, largest) <= 0 {
				hi = mid + 1
			} else {
				end = mid
			}
		}
	}
	return l.Files[lo:hi:hi]
}

// Version is an immutable set of tables by level. It starts with one reference, which
// belongs to the caller that it was returned to.
type Version struct {
	Levels [NumLevels]Level

	refs atomic.Int32

	// Set by a Set only; guarded by its versions.Mutex.
	set        *Set
	id         uint64 // ascending; a FileMeta born in it has it as born
	prev, next *Version
	dropped    []*FileMeta // files of this version that no newer one has
}

// NewVersion makes a Version of its own, in no Set. files may be in any order;
// an order that a level cannot have is a *base.Corruption naming the files.
func NewVersion(c *base.Comparer, files [NumLevels][]*FileMeta) (*Version, error) {
	v := &Version{}
	for i := range files {
		sorted := slices.Clone(files[i])
		sortLevel(c, i, sorted)
		if err := checkLevel(c, i, sorted); err != nil {
			return nil, err
		}
		v.Levels[i] = makeLevel(c, i, sorted)
	}
	v.refs.Store(1)
	return v, nil
}

// NoTables makes a Version of its own without tables.
func NoTables() *Version {
	v := &Version{}
	for i := range v.Levels {
		v.Levels[i].sorted = i > 0
	}
	v.refs.Store(1)
	return v
}

// Ref takes one more reference. The caller holds one, or v cannot be released
// meanwhile for another reason.
func (v *Version) Ref() {
	n := v.refs.Add(1)
	invariants.Check(n > 1, "manifest: version revived")
}

// Unref gives a reference back.
func (v *Version) Unref() {
	n := v.refs.Add(-1)
	invariants.Check(n >= 0, "manifest: version released too often")
	if n == 0 && v.set != nil {
		v.set.retire(v)
	}
}

// HasWithin reports whether a file from level first on has anything in [start, limit).
func (v *Version) HasWithin(c *base.Comparer, first int, start, limit []byte) bool {
	for l := first; l < NumLevels; l++ {
		for _, f := range v.Levels[l].Overlaps(c, start, limit) {
			if c.Cmp(f.Smallest.User, limit) < 0 {
				return true
			}
		}
	}
	return false
}

// Tables goes over the version's tables, each with its level: level 0 first, a level in its order.
func (v *Version) Tables() iter.Seq2[int, *FileMeta] {
	return func(yield func(int, *FileMeta) bool) {
		for level := range v.Levels {
			for _, f := range v.Levels[level].Files {
				if !yield(level, f) {
					return
				}
			}
		}
	}
}

// Overlaps goes over the tables with keys, or range tombstones over keys, in [smallest, largest].
func (v *Version) Overlaps(c *base.Comparer, smallest, largest []byte) iter.Seq[*FileMeta] {
	return func(yield func(*FileMeta) bool) {
		for l := range v.Levels {
			for _, f := range v.Levels[l].Overlaps(c, smallest, largest) {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// Overlapped reports whether Overlaps has a table.
func (v *Version) Overlapped(c *base.Comparer, smallest, largest []byte) bool {
	for range v.Overlaps(c, smallest, largest) {
		return true
	}
	return false
}

// Size is the sum of the sizes of the version's tables, in bytes.
func (v *Version) Size() (n uint64) {
	for i := range v.Levels {
		n += v.Levels[i].Size
	}
	return n
}

// ValueBytes is how many bytes of values in logs and value files the version's tables refer to.
func (v *Version) ValueBytes() (n uint64) {
	for _, f := range v.Tables() {
		n += f.ValueBytes
	}
	return n
}

// String lists the tables, a level a section.
func (v *Version) String() string {
	var b strings.Builder
	for i := range v.Levels {
		fmt.Fprintf(&b, "--- level %d ---\n", i)
		for _, f := range v.Levels[i].Files {
			fmt.Fprintf(&b, " %d:%d[%q @ %d : %d .. %q @ %d : %d]\n", f.Num, f.Size,
				f.Smallest.User, f.Smallest.Trailer.Seq(), f.Smallest.Trailer.Kind(),
				f.Largest.User, f.Largest.Trailer.Seq(), f.Largest.Trailer.Kind())
		}
	}
	return b.String()
}

// derive returns v with tables taken out and put in, by level; levels without
// changes are shared. removed are files of v. The result has no reference yet.
func (v *Version) derive(c *base.Comparer, removed,
	added [NumLevels][]*FileMeta) (*Version, error) {
	n := &Version{Levels: v.Levels}
	for i := range n.Levels {
		if len(removed[i]) == 0 && len(added[i]) == 0 {
			continue
		}
		l, err := v.Levels[i].splice(c, i, removed[i], added[i])
		if err != nil {
			return nil, err
		}
		n.Levels[i] = l
	}
	return n, nil
}

// splice returns the level with files taken out and put in. The cost beyond
// copying the list is that of the files which change.
func (l *Level) splice(c *base.Comparer, level int, removed, added []*FileMeta) (Level, error) {
	find := func(f *FileMeta) (int, bool) {
		return slices.BinarySearchFunc(l.Files, f, func(a, b *FileMeta) int {
			return compareFiles(c, level, a, b)
		})
	}
	out := make([]int, 0, len(removed))
	n := Level{sorted: level > 0, Size: l.Size}
	for _, f := range removed {
		i, ok := find(f)
		if !ok || l.Files[i] != f {
			return n, base.Corruptf(kindManifest, "level %d: %v is not there", level, f)
		}
		out = append(out, i)
		n.Size -= f.Size
	}
	slices.Sort(out)
	sortLevel(c, level, added)
	in := make([]int, 0, len(added))
	for _, f := range added {
		i, _ := find(f)
		in = append(in, i)
		n.Size += f.Size
		f.Level.Store(int32(level))
	}
	n.Files = splice(l.Files, out, added, in)
	for i, f := range added {
		at := in[i] + i - lowerBound(out, in[i])
		invariants.Check(n.Files[at] == f, "manifest: file misplaced")
		for j := at; j <= at+1 && j < len(n.Files); j++ {
			if err := checkFile(c, level, n.Files, j); err != nil {
				return n, err
			}
		}
	}
	n.RangeDels = spliceSome(c, level, l.RangeDels, removed, added, (*FileMeta).hasRangeDels)
	n.Expiring = spliceSome(c, level, l.Expiring, removed, added, (*FileMeta).AllExpire)
	n.prefix = n.sharedPrefix(c)
	if l.abbrevs != nil && len(n.Files) > 0 && bytes.Equal(n.prefix, l.prefix) {
		n.abbrevs = splice(l.abbrevs, out, n.abbreviate(c, added), in)
	} else {
		n.abbrevs = n.abbreviate(c, n.Files)
	}
	return n, nil
}

// spliceSome returns the files of a level that belong to some of them, in the level's order: those
// of old, without the removed ones and with those that are added.
func spliceSome(c *base.Comparer, level int, old, removed, added []*FileMeta,
	belongs func(*FileMeta) bool) []*FileMeta {
	none := func(f *FileMeta) bool { return !belongs(f) }
	removed = slices.DeleteFunc(slices.Clone(removed), none)
	added = slices.DeleteFunc(slices.Clone(added), none)
	if len(removed) == 0 && len(added) == 0 {
		return old
	}
	files := slices.Concat(old, added)
	files = slices.DeleteFunc(files, func(f *FileMeta) bool { return slices.Contains(removed, f) })
	sortLevel(c, level, files)
	return files
}

func (m *FileMeta) hasRangeDels() bool { return m.Facts.RangeDels > 0 }

func lowerBound(sorted []int, v int) int {
	i, _ := slices.BinarySearch(sorted, v)
	return i
}

// splice returns old without the elements at the indices out, and with added[i]
// before what was element in[i]. out and in ascend.
func splice[T any](old []T, out []int, added []T, in []int) []T {
	n := make([]T, 0, len(old)-len(out)+len(in))
	i := 0
	for len(out) > 0 || len(in) > 0 {
		if len(in) > 0 && (len(out) == 0 || in[0] <= out[0]) {
			n = append(append(n, old[i:in[0]]...), added[0])
			i, in, added = in[0], in[1:], added[1:]
		} else {
			n = append(n, old[i:out[0]]...)
			i, out = out[0]+1, out[1:]
		}
	}
	return append(n, old[i:]...)
}

// compareFiles is the order of files within a level.
func compareFiles(c *base.Comparer, level int, a, b *FileMeta) int {
	if level == 0 {
		return cmp.Compare(b.Num, a.Num)
	}
	return cmp.Or(
		c.CompareInternal(a.Smallest.User, a.Smallest.Trailer, b.Smallest.User, b.Smallest.Trailer),
		cmp.Compare(a.Num, b.Num))
}

func sortLevel(c *base.Comparer, level int, files []*FileMeta) {
	slices.SortFunc(files, func(a, b *FileMeta) int { return compareFiles(c, level, a, b) })
}

// checkLevel reports what checkFile does, for all files.
func checkLevel(c *base.Comparer, level int, files []*FileMeta) error {
	for i := range files {
		if err := checkFile(c, level, files, i); err != nil {
			return err
		}
	}
	return nil
}

// checkFile reports file i when its keys are the wrong way round, or when it
// does not fit behind its predecessor: in levels other than 0 files may not
// overlap. files are in the level's order.
func checkFile(c *base.Comparer, level int, files []*FileMeta, i int) error {
	f := files[i]
	if c.CompareInternal(f.Smallest.User, f.Smallest.Trailer, f.Largest.User, f.Largest.Trailer) >
		0 {
		return base.Corruptf(kindManifest, "level %d: %v: smallest key is after largest", level, f)
	}
	if i == 0 {
		return nil
	}
	p := files[i-1]
	if level > 0 && c.CompareInternal(p.Largest.User, p.Largest.Trailer, f.Smallest.User,
		f.Smallest.Trailer) >= 0 {
		return base.Corruptf(kindManifest, "level %d: %v overlaps %v", level, p, f)
	}
	return nil
}
