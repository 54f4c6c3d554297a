package compact

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
)

// filtering is Env.Filter at work in one piece of a compaction. It is asked about the
// newest version of each key in the inputs if that is a value which no snapshot sees. A
// newer version in a level above hides what it decides, as it hides the entry.
type filtering struct {
	env   *Env
	level int
	value []byte // unpacked
}

// filterWork is what a call of the filter counts as, see yieldWork.
const filterWork = 16 * entryWork

// filtered asks the filter about an entry and returns what it becomes: itself, the same
// with another value, or a tombstone in its place, so that no older version of the key
// comes back.
func (w *work) filtered(key []byte, t base.Trailer, codec base.Codec,
	value []byte) (base.Trailer, base.Codec, []byte, error) {
	f := w.filter
	plain, deadline := value, []byte(nil)
	if t.Kind().Expires() {
		plain, deadline = value[:len(value)-base.DeadlineLen], value[len(value)-base.DeadlineLen:]
	}
	if t.Kind().Refers() {
		var ok bool
		var err error
		if plain, ok, err = w.whole(base.MakeTrailer(t.Seq(), base.KindValueHandle), codec,
			plain); !ok {
			return t, codec, value, err // the filter is not asked about a value that cannot be read
		}
	} else if codec != base.CodecRaw {
		var err error
		if f.value, err = colblk.AppendUnpacked(f.value[:0], value, codec, nil,
			f.env.MaxUnpacked); err != nil {
			return t, codec, value, err
		}
		plain = f.value
	}
	w.work += filterWork
	d, err := f.env.Filter.Ask(f.level, key, plain)
	if err != nil {
		return t, codec, value, err
	}
	if d.Removes() {
		w.res.FilterRemoved++
		return base.MakeTrailer(t.Seq(), base.KindDelete), base.CodecRaw, nil, nil
	}
	if changed, ok := d.Changes(); ok {
		if !base.EntryFits(key, changed) {
			return t, codec, value, fmt.Errorf("%w: %s gives a value of %d bytes",
				base.ErrCompactionFilter, f.env.Filter.Name, len(changed))
		}
		w.res.FilterChanged++
		if t.Kind().Refers() {
			t = base.MakeTrailer(t.Seq(), t.Kind().Whole())
		}
		if t, changed, err = w.apart(t, changed); err != nil {
			return t, codec, value, err
		}
		if deadline != nil {
			f.value = append(append(f.value[:0], changed...), deadline...)
			changed = f.value
		}
		return t, base.CodecRaw, changed, nil
	}
	return t, codec, value, nil
}
