package compact

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/tree/picker"
)

// tombstones are the range tombstones of a run's inputs. As with entries, snapshots cut their
// sequence numbers into stripes (see collapse): of the tombstones over a key, only the newest
// of each stripe counts.
type tombstones struct {
	list *rangedel.List // the newest of each stripe; nil: there are none
	at   int            // fragments before it end at or before the last key asked for
}

// newest keeps of lists what counts, and joins them.
func (c *collapse) newest(lists []*rangedel.List) *rangedel.List {
	thin := func(f *rangedel.Fragment) []base.SeqNum {
		if len(f.Seqs) == 1 {
			return f.Seqs
		}
		keep := f.Seqs[:1:1]
		for _, s := range f.Seqs[1:] {
			if c.stripe(s) != c.stripe(keep[len(keep)-1]) {
				keep = append(keep, s)
			}
		}
		return keep
	}
	thinned := make([]*rangedel.List, len(lists))
	for i, l := range lists {
		thinned[i] = l.Filter(thin) // before they are joined: deep fragments would be many
	}
	return rangedel.Merge(c.cmp, thinned...).Filter(thin)
}

// hides reports whether a tombstone hides entry (key, t) from all readers that see the entry.
// Keys must not descend from call to call.
func (d *tombstones) hides(c *collapse, key []byte, t base.Trailer) bool {
	frags := d.list.Fragments()
	for d.at < len(frags) && c.cmp.Cmp(frags[d.at].Limit, key) <= 0 {
		d.at++
	}
	if d.at == len(frags) || c.cmp.Cmp(frags[d.at].Start, key) > 0 {
		return false
	}
	for _, s := range frags[d.at].Seqs {
		if s > t.Seq() && c.stripe(s) == c.stripe(t.Seq()) {
			return true
		}
	}
	return false
}

// needed drops the tombstones that hide nothing any more: those of the last stripe where no
// file of v, from level first on, has anything within them. What they hide in the inputs is
// dropped by the same run.
func (c *collapse) needed(list *rangedel.List, v *manifest.Version, first int) *rangedel.List {
	return list.Filter(func(f *rangedel.Fragment) []base.SeqNum {
		n := len(f.Seqs)
		if c.stripe(f.Seqs[n-1]) == 0 && !v.HasWithin(c.cmp, first, f.Start, f.Limit) {
			n--
		}
		return f.Seqs[:n:n]
	})
}

// rangeDels reads the range tombstones of a plan's inputs, within the bounds of a piece.
func rangeDels(p *picker.Plan, env *Env, lower, upper []byte) (lists []*rangedel.List, err error) {
	p.Files(func(_ int, f *manifest.FileMeta) {
		if f.RangeDels == 0 || err != nil {
			return
		}
		var l *rangedel.List
		l, err = env.RangeDels(f)
		if l = l.Clip(lower, upper); l != nil {
			lists = append(lists, l)
		}
	})
	return lists, err
}

// takeRangeDels gives a run its range tombstones. Files of v from level first on may have
// older entries than the inputs.
func (w *work) takeRangeDels(lists []*rangedel.List, v *manifest.Version, first int) {
	if len(lists) == 0 {
		return
	}
	w.dels.list = w.collapse.newest(lists)
	w.out.dels = w.collapse.needed(w.dels.list, v, first)
}

// addRangeDels writes to the table begun the tombstones from where the table before ended up
// to border, the first key of the next table, which it keeps; nil is no border. So a tombstone
// that spans several tables is cut where they meet.
func (o *output) addRangeDels(border []byte) error {
	if o.dels == nil {
		return nil
	}
	err := o.dels.Clip(o.cut, border).AddTo(o.w.Add)
	o.cut = border
	return err
}

// checkEnds refuses a table whose last key is before its first one. Its keys ascend, so that the
// comparer calls both of two keys the smaller one: no other comparer could read the table.
func (o *output) checkEnds(f *manifest.FileMeta) error {
	if o.env.Comparer.Cmp(f.Largest.User, f.Smallest.User) < 0 {
		return fmt.Errorf("compact: table %d ends before it begins: the comparer is no order",
			f.Num)
	}
	return nil
}

// checkBorder refuses a table that does not follow the previous one. A range tombstone may
// have been cut where they meet.
func (o *output) checkBorder(prev, f *manifest.FileMeta) error {
	c := o.env.Comparer.Cmp(prev.Largest.User, f.Smallest.User)
	if c > 0 || c == 0 && !prev.OpenEnd() {
		return fmt.Errorf("compact: table %d begins at or before the end of table %d", f.Num,
			prev.Num)
	}
	return nil
}
