package runner

import (
	"bytes"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// rangePicker draws the ranges of a DeleteRange benchmark, of width keys each, by their number.
func (t *thread) rangePicker(spec *workload.Spec) (p pick, width uint64) {
	num := t.r.Params.Num
	w := spec.Width
	if spec.Parts > 0 {
		w = max(num/spec.Parts, 1)
	}
	return t.pickerOf(spec.Order, uint64(max(num/w, 1))), uint64(w)
}

// deleteRange deletes all keys of a range but the last one, which scans must find. An engine
// without range deletes gets each key, in batches.
func (t *thread) deleteRange(spec *workload.Spec) {
	pick, width := t.rangePicker(spec)
	db, ok := t.db.(store.RangeDeleter)
	if !ok {
		t.deleteEach(pick, width)
		return
	}
	var start []byte
	for range t.ops {
		first := pick.next(&t.rand) * width
		start = append(start[:0], t.keys.Present(first)...)
		if err := db.DeleteRange(start, t.keys.Present(first+width-1), t.durable()); err != nil {
			t.fail(err)
			return
		}
		if !t.tick() {
			return
		}
	}
}

func (t *thread) deleteEach(pick pick, width uint64) {
	batch := t.db.NewBatch()
	for range t.ops {
		first := pick.next(&t.rand) * width
		for last := first + width - 1; first < last; {
			batch.Clear()
			for end := min(first+mostDeleted, last); first < end; first++ {
				batch.Delete(t.keys.Present(first))
			}
			if err := t.db.Write(batch, t.durable()); err != nil {
				t.fail(err)
				return
			}
		}
		if !t.tick() {
			return
		}
	}
}

// mostDeleted is how many keys a batch of deleteEach has at most: engines bound what a transaction
// writes.
const mostDeleted = 1000

// stretches scans spec.Length entries from a key on, or backwards from before it, again and again.
func (t *thread) stretches(spec *workload.Spec) {
	pick := t.picker(spec.Order)
	seek, move := store.Iterator.SeekGE, store.Iterator.Next
	if spec.Before {
		seek, move = store.Iterator.SeekLT, store.Iterator.Prev
	}
	for range t.ops {
		it, err := t.db.NewIterator()
		if err != nil {
			t.fail(err)
			return
		}
		left := spec.Length
		for ok := seek(it, t.keys.Present(pick.next(&t.rand))); ok; ok = move(it) {
			t.bytes += int64(len(it.Key()) + len(it.Value()))
			if left--; left == 0 {
				break
			}
		}
		t.asked += int64(spec.Length)
		t.found += int64(spec.Length - left)
		if !t.closeIterator(it) || !t.tick() {
			return
		}
	}
}

// prefixScans scans the keys with a prefix: all but the last digit of a key.
func (t *thread) prefixScans(spec *workload.Spec) {
	pick := t.picker(spec.Order)
	var prefix []byte
	for range t.ops {
		key := t.keys.Present(pick.next(&t.rand))
		prefix = append(prefix[:0], key[:len(key)-1]...)
		if spec.Missing {
			prefix[len(prefix)-1] = '.'
		}
		it, err := t.prefixIterator(prefix)
		if err != nil {
			t.fail(err)
			return
		}
		for ok := it.SeekGE(prefix); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
			t.bytes += int64(len(it.Key()) + len(it.Value()))
			t.found++
		}
		t.asked += decade
		if !t.closeIterator(it) || !t.tick() {
			return
		}
	}
}

// decade is how many keys differ in their last digit.
const decade = 10

func (t *thread) prefixIterator(prefix []byte) (store.Iterator, error) {
	if db, ok := t.db.(store.PrefixReader); ok {
		return db.NewPrefixIterator(prefix)
	}
	return t.db.NewIterator()
}

// decade is how many keys there are that differ from key n in their last digit.
func (o *oracle) decade(n uint64) (found int64) {
	for i := range uint64(decade) {
		if at := n - n%decade + i; at/64 < uint64(len(o.present)) {
			found += o.one(at)
		}
	}
	return found
}

// add adds 1 to counters.
func (t *thread) add(spec *workload.Spec) {
	db, pick := t.db.(store.Counters), t.picker(spec.Order)
	for range t.ops {
		key := t.keys.Present(pick.next(&t.rand))
		if err := db.Add(key, 1, t.durable()); err != nil {
			t.fail(err)
			return
		}
		t.bytes += int64(len(key) + counterLen)
		if !t.tick() {
			return
		}
	}
}

// counterLen is the length of a counter's value.
const counterLen = 8

// deleted takes the keys of a range from the oracle.
func (o *oracle) deleted(first, width uint64) {
	for n := first; n < first+width-1; n++ {
		o.set(n, false)
	}
}

// stretchBefore is how many entries a scan backwards of length entries finds before n.
func (o *oracle) stretchBefore(n uint64, length int) (found int64) {
	for ; found < int64(length) && n > 0; n-- {
		found += o.one(n - 1)
	}
	return found
}

// stretch is how many entries a scan of length entries from n on finds.
func (o *oracle) stretch(n uint64, length int) (found int64) {
	for ; found < int64(length) && n/64 < uint64(len(o.present)); n++ {
		if o.present[n/64]>>(n%64) == 0 {
			n |= 63 // nothing in the rest of the word
			continue
		}
		found += o.one(n)
	}
	return found
}
