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
	index uint64
	key   string
}

func onceKey(index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(oncePrefix), index)
}

func loadOnce(system lsm.Reader) (t *onceTable, err error) {
	t = &onceTable{byKey: map[string]outcome{}}
	it := system.Iter(&lsm.IterOptions{Prefix: []byte(oncePrefix)})
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		k, v := it.Key(), it.Value()
		if len(k) != len(oncePrefix)+8 || len(v) < 2 {
			return nil, fmt.Errorf("replica: idempotency key %q: %w", k, ErrForeign)
		}
		t.add(binary.BigEndian.Uint64(k[len(oncePrefix):]), string(v[1:]), outcome(v[0]))
	}
	return t, nil
}

// outcome returns that of a key; "" is no key.
func (t *onceTable) outcome(key string) (o outcome, known bool) {
	o, known = t.byKey[key]
	return o, known && key != ""
}

// oldest returns the entry that add forgets.
func (t *onceTable) oldest() (index uint64, full bool) {
	if len(t.queue) < OnceKept {
		return 0, false
	}
	return t.queue[0].index, true
}

func (t *onceTable) add(index uint64, key string, o outcome) {
	if len(t.queue) >= OnceKept {
		delete(t.byKey, t.queue[0].key)
		t.queue = t.queue[1:]
	}
	t.byKey[key] = o
	t.queue = append(t.queue, onceEntry{index, key})
}
