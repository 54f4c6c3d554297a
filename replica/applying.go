package replica

import (
	"bytes"
	"errors"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/wire"
)

// applying makes one batch of the changes of an entry. A change sees those before it, whose
// operations are in the batch and not in the database: written has them for its conditions.
type applying struct {
	f     *fsm
	d     *database
	at    place
	more  bool // changes with conditions follow
	batch *lsm.Batch

	written map[string][]byte // by key, nil: deleted; nil while nothing is written
	deleted []lsm.Range       // before what written has
}

// apply adds a change to the batch if its conditions hold. Keys of changes are remembered at once:
// where the batch cannot be written the node halts, and reads them again from the database.
func (a *applying) apply(c *wire.Change) (outcome, error) {
	once := a.f.once
	if out, known := once.outcome(string(c.Once)); known {
		return out, nil
	}
	for i := range c.Conditions {
		v, err := a.get(c.Conditions[i].Key)
		if err != nil {
			return 0, err
		}
		if !c.Conditions[i].Holds(v) {
			return notHeld, nil
		}
	}
	given, err := lsm.BatchFromBytes(c.Batch)
	if err != nil {
		return 0, err
	}
	for _, r := range c.Ranges {
		a.batch.DeleteRange(r.Start, r.Limit)
	}
	a.batch.Append(given)
	if a.more {
		if err := a.remember(c, given); err != nil {
			return 0, err
		}
	}
	if len(c.Once) > 0 {
		system := a.batch.In(a.d.system)
		system.Put(onceKey(a.at), append([]byte{byte(done)}, c.Once...))
		if oldest, full := once.oldest(); full {
			system.Delete(onceKey(oldest))
		}
		once.add(a.at, string(c.Once), done)
	}
	return done, nil
}

// get returns the value of a key, nil if it has none.
func (a *applying) get(key []byte) ([]byte, error) {
	if v, ok := a.written[string(key)]; ok {
		return v, nil
	}
	for _, r := range a.deleted {
		if bytes.Compare(key, r.Start) >= 0 && bytes.Compare(key, r.Limit) < 0 {
			return nil, nil
		}
	}
	v, err := a.d.db.Get(key, []byte{})
	if errors.Is(err, lsm.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

// remember notes what a change writes.
func (a *applying) remember(c *wire.Change, given *lsm.Batch) error {
	if a.written == nil {
		a.written = map[string][]byte{}
	}
	for _, r := range c.Ranges {
		for k := range a.written {
			if k >= string(r.Start) && k < string(r.Limit) {
				a.written[k] = nil
			}
		}
	}
	a.deleted = append(a.deleted, c.Ranges...)
	return given.Each(func(key, value []byte) error {
		a.written[string(key)] = append([]byte{}, value...)
		return nil
	}, func(key []byte) error {
		a.written[string(key)] = nil
		return nil
	})
}
