package runner

import (
	"bytes"
	"encoding/binary"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

func (t *thread) get(spec *workload.Spec) {
	if spec.Pinned {
		t.pin(spec)
		return
	}
	db, pick := store.Reader(t.db), t.picker(spec.Order)
	if spec.Held {
		db = t.r.held.snapshot
	}
	var (
		value []byte
		found bool
		err   error
	)
	for range t.ops {
		n := pick.next(&t.rand)
		var key []byte
		if spec.Missing {
			key = t.keys.Missing(n)
		} else {
			key = t.keys.Present(n)
		}
		value, found, err = db.Get(key, value[:0])
		if err != nil {
			t.fail(err)
			return
		}
		t.asked++
		if found {
			t.found++
			if spec.Counters && len(value) == counterLen {
				t.sum += binary.LittleEndian.Uint64(value)
			}
		}
		if !t.tick() {
			return
		}
	}
}

// pin is get of values that stay where they are. It looks at both ends of each.
func (t *thread) pin(spec *workload.Spec) {
	db := t.db.(store.Pinning)
	pick, v := t.picker(spec.Order), db.NewPinned()
	defer v.Close()
	for range t.ops {
		found, err := db.GetPinned(t.keys.Present(pick.next(&t.rand)), v)
		if err != nil {
			t.fail(err)
			return
		}
		t.asked++
		if b := v.Bytes(); found {
			t.found++
			if len(b) > 0 {
				t.sum += uint64(b[0]) + uint64(b[len(b)-1])
			}
			v.Release()
		}
		if !t.tick() {
			return
		}
	}
}

func (t *thread) scan(spec *workload.Spec) {
	it, err := t.db.NewIterator()
	if err != nil {
		t.fail(err)
		return
	}
	t.asked = t.ops
	if spec.Order == workload.Backward {
		for ok := it.Last(); ok && t.done < t.ops; ok = it.Prev() {
			t.bytes += int64(len(it.Key()) + len(it.Value()))
			if !t.tick() {
				break
			}
		}
	} else {
		for ok := it.First(); ok && t.done < t.ops; ok = it.Next() {
			t.bytes += int64(len(it.Key()) + len(it.Value()))
			if !t.tick() {
				break
			}
		}
	}
	t.found = t.done
	t.closeIterator(it)
}

func (t *thread) seek(spec *workload.Spec) {
	pick := t.picker(spec.Order)
	it, err := t.db.NewIterator()
	if err != nil {
		t.fail(err)
		return
	}
	for i := range t.ops {
		if spec.Reopen && i > 0 {
			if !t.closeIterator(it) {
				return
			}
			if it, err = t.db.NewIterator(); err != nil {
				t.fail(err)
				return
			}
		}
		key := t.keys.Present(pick.next(&t.rand))
		t.asked++
		if it.SeekGE(key) && bytes.Equal(it.Key(), key) {
			t.found++
		}
		if !t.tick() {
			break
		}
	}
	t.closeIterator(it)
}

// closeIterator ends a scan: an iterator that met an error has answered "no
// more entries", so the error is asked for here.
func (t *thread) closeIterator(it interface {
	Err() error
	Close() error
}) bool {
	err := it.Err()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		t.fail(err)
	}
	return err == nil
}
