package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// OnceKept is how many idempotency keys are known: the key of a change is forgotten when as many
// changes with other keys were applied after it. It is the same on all nodes, for ever, as nodes
// have to agree about every change.
const OnceKept = 1 << 16

// onceTable has the outcomes of the last changes with idempotency keys. It is in memory what is in
// the database. Only the goroutine of the state machine uses it.
type onceTable struct {
	byKey map[string]outcome
	queue []onceEntry // oldest first
}

type onceEntry struct {
	at  place
	key string
}

// place is that of a change in the Raft log: the index of its entry, and its number in the group.
type place struct {
	index uint64
	sub   uint32
}

// onceKey has the number only where it is not 0.
func onceKey(at place) []byte {
	k := binary.BigEndian.AppendUint64([]byte(oncePrefix), at.index)
	if at.sub == 0 {
		return k
	}
	return binary.BigEndian.AppendUint32(k, at.sub)
}

// placeOf reads a key of onceKey without its prefix.
func placeOf(k []byte) (at place, ok bool) {
	if len(k) != 8 && len(k) != 12 {
		return at, false
	}
	at.index = binary.BigEndian.Uint64(k)
	if len(k) == 12 {
		at.sub = binary.BigEndian.Uint32(k[8:])
	}
	return at, true
}

func loadOnce(system lsm.Reader) (t *onceTable, err error) {
	t = &onceTable{byKey: map[string]outcome{}}
	it := system.Iter(&lsm.IterOptions{Prefix: []byte(oncePrefix)})
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		k, v := it.Key(), it.Value()
		at, ok := placeOf(k[len(oncePrefix):])
		if !ok || len(v) < 2 {
			return nil, fmt.Errorf("replica: idempotency key %q: %w", k, ErrForeign)
		}
		t.add(at, string(v[1:]), outcome(v[0]))
	}
	return t, nil
}

// outcome returns that of a key; "" is no key.
func (t *onceTable) outcome(key string) (o outcome, known bool) {
	o, known = t.byKey[key]
	return o, known && key != ""
}

// oldest returns the entry that add forgets.
func (t *onceTable) oldest() (at place, full bool) {
	if len(t.queue) < OnceKept {
		return place{}, false
	}
	return t.queue[0].at, true
}

func (t *onceTable) add(at place, key string, o outcome) {
	if len(t.queue) >= OnceKept {
		delete(t.byKey, t.queue[0].key)
		t.queue = t.queue[1:]
	}
	t.byKey[key] = o
	t.queue = append(t.queue, onceEntry{at, key})
}
