package runner

import (
	"bytes"

	"github.com/loamdb/loam/internal/workload"
)

// multiGet reads t.batch keys at a time.
func (t *thread) multiGet(spec *workload.Spec) {
	pick, values := t.picker(spec.Order), t.db.NewValues()
	room := make([]byte, 0, t.batch*(len(t.keys.Present(0))+32))
	keys := make([][]byte, 0, t.batch)
	for i := int64(0); i < t.ops; i += int64(t.batch) {
		room, keys = room[:0], keys[:0]
		count := min(int64(t.batch), t.ops-i)
		for range count {
			start := len(room)
			room = append(room, t.keys.Present(pick.next(&t.rand))...)
			keys = append(keys, room[start:len(room):len(room)])
		}
		if err := t.db.MultiGet(keys, values); err != nil {
			t.fail(err)
			return
		}
		for j := range keys {
			if value, found := values.Value(j); found {
				t.found++
				t.bytes += int64(len(keys[j]) + len(value))
			}
		}
		t.asked += count
		if !t.ticks(count) {
			return
		}
	}
}

func (t *thread) update(spec *workload.Spec) {
	pick := t.picker(spec.Order)
	for range t.ops {
		if !t.read(pick.next(&t.rand), true) || !t.tick() {
			return
		}
	}
}

// read reads the key with a number and, if asked to, writes it.
func (t *thread) read(n uint64, write bool) bool {
	key := t.keys.Present(n)
	value, found, err := t.db.Get(key, t.buf[:0])
	if err != nil {
		t.fail(err)
		return false
	}
	t.buf = value
	t.asked++
	if found {
		t.found++
		t.bytes += int64(len(key) + len(value))
	}
	return !write || t.write(n)
}

func (t *thread) write(n uint64) bool {
	key, value := t.keys.Present(n), t.value(n)
	if err := t.db.Put(key, value, t.durable()); err != nil {
		t.fail(err)
		return false
	}
	t.bytes += int64(len(key) + len(value))
	return true
}

// mixer draws what the thread does in a mixed benchmark.
func (t *thread) mixer(spec *workload.Spec) workload.Mixer {
	return workload.NewMixer(spec.Mix, uint64(max(t.r.Params.Num, 1))+t.inserted, t.index, t.of)
}

func (t *thread) mixed() {
	mixer := t.mix
	for range t.ops {
		ok := false
		switch action, n, length := mixer.Next(&t.rand); action {
		case workload.ReadAction:
			ok = t.read(n, false)
		case workload.ModifyAction:
			ok = t.read(n, true)
		case workload.ScanAction:
			ok = t.stretch(n, length)
		default:
			ok = t.write(n)
		}
		if !ok || !t.tick() {
			break
		}
	}
	t.inserts = mixer.Inserted(t.index)
}

// stretch scans some entries from a key on.
func (t *thread) stretch(n uint64, length int) bool {
	it, err := t.db.NewIterator()
	if err != nil {
		t.fail(err)
		return false
	}
	key := t.keys.Present(n)
	t.asked++
	ok := it.SeekGE(key)
	if ok && bytes.Equal(it.Key(), key) {
		t.found++
	}
	for ; ok && length > 0; length-- {
		t.bytes += int64(len(it.Key()) + len(it.Value()))
		ok = it.Next()
	}
	return t.closeIterator(it)
}

func (t *thread) iterators() {
	for range t.ops {
		it, err := t.db.NewIterator()
		if err != nil {
			t.fail(err)
			return
		}
		if !t.closeIterator(it) || !t.tick() {
			return
		}
	}
}

// scanAll is a background scanner: it goes on until the measured threads end.
func (t *thread) scanAll() {
	for !t.quit.Load() && !t.stop.Load() {
		it, err := t.db.NewIterator()
		if err != nil {
			t.fail(err)
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			t.bytes += int64(len(it.Key()) + len(it.Value()))
			if t.done++; t.done%256 == 0 && (t.quit.Load() || t.stop.Load()) {
				break
			}
		}
		if !t.closeIterator(it) {
			return
		}
	}
}
