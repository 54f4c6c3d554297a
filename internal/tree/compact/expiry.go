package compact

import "github.com/loamdb/loam/internal/base"

// An entry whose deadline is over for all readers that see it is a tombstone for a run. The readers
// are the snapshots from its sequence number on, of which the oldest began first, and all to come.

// Clock is what a run goes by.
type Clock struct {
	Now   uint64   // when the run began, before its snapshots were listed; 0: nothing expires
	Begun []uint64 // when the snapshots of the run were opened, in their order
}

// expiring unpacks an entry that expires, or makes a tombstone of one that has expired.
func (w *work) expiring(t base.Trailer, codec base.Codec,
	value []byte) (base.Trailer, []byte, error) {
	value, err := w.unpack(codec, value)
	if err != nil {
		return t, nil, err
	}
	_, deadline, ok := base.CutDeadline(value)
	if !ok {
		return t, nil, base.NoDeadline()
	}
	now := w.env.Clock.Now
	if i := w.collapse.stripe(t.Seq()); i < len(w.env.Clock.Begun) {
		now = min(now, w.env.Clock.Begun[i])
	}
	if deadline > now {
		return t, value, nil
	}
	w.res.Expired++
	return base.MakeTrailer(t.Seq(), base.KindDelete), nil, nil
}
