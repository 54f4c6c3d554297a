package runner

import (
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// pick draws key numbers in a benchmark's order.
type pick struct {
	order workload.Order
	n     uint64 // keys to draw from
	at    uint64
	perm  workload.Permutation
	// of Interleaved and SeriesEnds: how many series there are, and keys of each
	series, each uint64
}

func (t *thread) picker(order workload.Order) pick {
	n := uint64(max(t.r.Params.Num, 1))
	switch order {
	case workload.Hot:
		n = (n + 99) / 100
	case workload.Few:
		n = min(n, 8)
	}
	return t.pickerOf(order, n)
}

// Series of Interleaved and SeriesEnds: at most so many, with at least so many keys each.
const (
	mostSeries   = 10_000
	fewestPoints = 100
)

// pickerOf draws from the first n numbers.
func (t *thread) pickerOf(order workload.Order, n uint64) pick {
	p := pick{order: order, n: n}
	p.series = min(mostSeries, max(n/fewestPoints, 1))
	p.each = n / p.series
	if order == workload.Unique {
		p.perm = workload.NewPermutation(n, t.seed)
	}
	return p
}

func (p *pick) next(r *workload.Rand) uint64 {
	switch p.order {
	case workload.Sequential:
		p.at++
		return p.at - 1
	case workload.Unique:
		p.at++
		return p.perm.At((p.at - 1) % p.n)
	case workload.Interleaved:
		i := p.at % (p.series * p.each)
		p.at++
		return i%p.series*p.each + i/p.series
	case workload.SeriesEnds:
		return (r.Uniform(p.series) + 1) * p.each
	case workload.Ascending:
		p.at = (p.at + r.Uniform(100)) % p.n
		return p.at
	}
	return r.Uniform(p.n)
}

// value returns the value for key number n.
func (t *thread) value(n uint64) []byte {
	if t.named {
		return t.names.Name(n)
	}
	return t.vals.Next(t.size)
}

func (t *thread) put(spec *workload.Spec) {
	db, pick := t.db, t.picker(spec.Order)
	for range t.ops {
		n := pick.next(&t.rand)
		key, value := t.keys.Present(n), t.value(n)
		if err := db.Put(key, value, t.durable()); err != nil {
			t.fail(err)
			return
		}
		t.bytes += int64(len(key) + len(value))
		if !t.tick() {
			return
		}
		t.keepRate()
	}
}

func (t *thread) putBatches(spec *workload.Spec) {
	pick, batch := t.picker(spec.Order), t.db.NewBatch()
	for i := int64(0); i < t.ops; i += int64(t.batch) {
		batch.Clear()
		count := min(int64(t.batch), t.ops-i)
		for range count {
			n := pick.next(&t.rand)
			key, value := t.keys.Present(n), t.value(n)
			batch.Put(key, value)
			t.bytes += int64(len(key) + len(value))
		}
		if err := t.db.Write(batch, t.durable()); err != nil {
			t.fail(err)
			return
		}
		if !t.ticks(count) {
			return
		}
		t.keepRate()
	}
}

// putSpread is putBatches over keyspaces.
func (t *thread) putSpread(spec *workload.Spec, db store.Keyspaced) {
	pick, batch := t.picker(spec.Order), t.db.NewBatch()
	for i := int64(0); i < t.ops; i += int64(t.batch) {
		batch.Clear()
		count := min(int64(t.batch), t.ops-i)
		for j := range count {
			n := pick.next(&t.rand)
			key, value := t.keys.Present(n), t.value(n)
			db.PutIn(batch, int(i+j)%spec.Keyspaces, key, value)
			t.bytes += int64(len(key) + len(value))
		}
		if err := t.db.Write(batch, t.durable()); err != nil {
			t.fail(err)
			return
		}
		if !t.ticks(count) {
			return
		}
	}
}

func (t *thread) delete(spec *workload.Spec) {
	if t.batch > 1 {
		t.deleteBatches(spec)
		return
	}
	db, pick := t.db, t.picker(spec.Order)
	for range t.ops {
		if err := db.Delete(t.keys.Present(pick.next(&t.rand)), t.durable()); err != nil {
			t.fail(err)
			return
		}
		if !t.tick() {
			return
		}
	}
}

func (t *thread) deleteBatches(spec *workload.Spec) {
	pick, batch := t.picker(spec.Order), t.db.NewBatch()
	for i := int64(0); i < t.ops; i += int64(t.batch) {
		batch.Clear()
		count := min(int64(t.batch), t.ops-i)
		for range count {
			batch.Delete(t.keys.Present(pick.next(&t.rand)))
		}
		if err := t.db.Write(batch, t.durable()); err != nil {
			t.fail(err)
			return
		}
		if !t.ticks(count) {
			return
		}
	}
}

// overwrite is a background writer: it goes on until the measured threads end,
// and writes once at least.
func (t *thread) overwrite() {
	db, pick := t.db, t.picker(workload.Random)
	if t.own != nil {
		db = t.own
	}
	if t.rate > 0 {
		t.start = t.clock()
	}
	for more := true; more; more = !t.quit.Load() && !t.stop.Load() {
		t.keepRate()
		n := pick.next(&t.rand)
		if err := db.Put(t.keys.Present(n), t.value(n), t.durable()); err != nil {
			t.fail(err)
			return
		}
		t.done++
	}
}
