package runner

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/loamdb/loam/internal/workload"
)

// maxOracle bounds the memory of the oracle: 128 MiB.
const maxOracle = 1 << 30

// oracle knows which key numbers must be in the database. Keys follow from seeds alone, so each
// benchmark is replayed on a bit set after its clock has stopped, and the number of keys found is
// compared with the expected one.
type oracle struct {
	present []uint64
	count   int64
	held    []uint64 // present when a snapshot was taken
	counts  []uint32 // what was added to counters; nil: nothing, or too many to know
}

func newOracle(num int64) *oracle {
	if num > maxOracle {
		return nil
	}
	return &oracle{present: make([]uint64, (num+63)/64+1)}
}

func (o *oracle) has(n uint64) bool {
	i := n / 64
	return i < uint64(len(o.present)) && o.present[i]>>(n%64)&1 == 1
}

func (o *oracle) set(n uint64, on bool) {
	for n/64 >= uint64(len(o.present)) { // inserted beyond the run's number
		o.present = append(o.present, 0)
	}
	w := &o.present[n/64]
	before := bits.OnesCount64(*w)
	if on {
		*w |= 1 << (n % 64)
	} else {
		*w &^= 1 << (n % 64)
	}
	o.count += int64(bits.OnesCount64(*w) - before)
}

// replay repeats on the bit set what the threads did and returns how many of
// their reads had to be found.
func (o *oracle) replay(spec *workload.Spec, team, writers []*thread) (expect int64) {
	if spec.Writes() && spec.Kind != workload.Add {
		o.counts = nil
	}
	for _, w := range writers {
		if w.role != overwriter {
			continue
		}
		r, pick := workload.NewRand(w.seed), w.picker(workload.Random)
		for range w.done {
			o.set(pick.next(&r), true)
		}
	}
	for _, t := range team {
		r, pick := workload.NewRand(t.seed), t.picker(spec.Order)
		switch spec.Kind {
		case workload.Put, workload.Delete:
			for range t.done {
				o.set(pick.next(&r), spec.Kind == workload.Put)
			}
		case workload.Changes:
			for range t.ops {
				o.set(pick.next(&r), true)
			}
			expect += t.ops
		case workload.DeleteRange:
			pick, width := t.rangePicker(spec)
			for range t.done {
				o.deleted(pick.next(&r)*width, width)
			}
		case workload.Add:
			for range t.done {
				o.add(pick.next(&r), pick.n)
			}
		case workload.Transact:
			expect += o.transact(spec, t)
		case workload.Queue:
			expect += o.queue(spec, t)
		case workload.Stretch:
			for range t.done {
				if spec.Before {
					expect += o.stretchBefore(pick.next(&r), spec.Length)
					continue
				}
				expect += o.stretch(pick.next(&r), spec.Length)
			}
		case workload.PrefixScan:
			for range t.done {
				if n := pick.next(&r); !spec.Missing {
					expect += o.decade(n)
				}
			}
		case workload.Update:
			for range t.done {
				n := pick.next(&r)
				expect += o.one(n)
				o.set(n, true)
			}
		case workload.Mixed:
			expect += o.mixed(spec, t, &r)
		case workload.Hold:
			if spec.Subject == workload.HeldSnapshot {
				o.held = slices.Clone(o.present)
			}
		case workload.Release:
			expect += t.asked
		case workload.Get, workload.MultiGet, workload.Seek:
			seen := o
			if spec.Held {
				seen = &oracle{present: o.held}
			}
			for range t.done {
				if n := pick.next(&r); !spec.Missing && seen.has(n) {
					expect++
				}
			}
		case workload.Scan:
			expect += min(t.ops, o.count)
		}
	}
	return expect
}

// maxCounts bounds the memory for the sums of counters: 256 MiB.
const maxCounts = 1 << 26

// add notes that 1 was added to a counter, of so many.
func (o *oracle) add(n, of uint64) {
	if o.counts == nil && of <= maxCounts {
		o.counts = make([]uint32, of)
	}
	if n < uint64(len(o.counts)) {
		o.counts[n]++
	}
	o.set(n, true)
}

// sum is that of the counters which the threads have read.
func (o *oracle) sum(spec *workload.Spec, team []*thread) (sum uint64) {
	for _, t := range team {
		r, pick := workload.NewRand(t.seed), t.picker(spec.Order)
		for range t.done {
			sum += uint64(o.counts[pick.next(&r)])
		}
	}
	return sum
}

func (o *oracle) one(n uint64) int64 {
	if o.has(n) {
		return 1
	}
	return 0
}

func (o *oracle) mixed(spec *workload.Spec, t *thread, r *workload.Rand) (expect int64) {
	mixer := t.mixer(spec)
	for range t.done {
		action, n, _ := mixer.Next(r)
		switch action {
		case workload.ReadAction, workload.ScanAction, workload.ModifyAction:
			expect += o.one(n)
		}
		switch action {
		case workload.UpdateAction, workload.InsertAction, workload.ModifyAction:
			o.set(n, true)
		}
	}
	return expect
}

// foretold reports whether what reads find is certain: not beside writers, nor
// with several threads that write the same keys.
func foretold(spec *workload.Spec, team []*thread) bool {
	if spec.Kind == workload.Transact {
		return spec.Order != workload.Few
	}
	return spec.Writers == 0 && (len(team) == 1 || !spec.Writes())
}

// check replays a benchmark and compares. Reads beside writers cannot be
// foretold.
func (r *Runner) check(spec *workload.Spec, res *Result, team, writers []*thread) error {
	if r.oracle == nil {
		if spec.Missing && res.Found > 0 && !r.Params.UseExisting {
			return fmt.Errorf("%w: %s found %d keys that were never written", ErrWrong, spec.Name,
				res.Found)
		}
		return nil
	}
	if spec.Keyspaces > 0 || spec.Kind == workload.Shared {
		return nil // the oracle knows one keyspace of one database
	}
	expect := r.oracle.replay(spec, team, writers)
	if spec.Counters && r.oracle.counts != nil {
		var sum uint64
		for _, t := range team {
			sum += t.sum
		}
		if want := r.oracle.sum(spec, team); sum != want {
			return fmt.Errorf("%w: the counters of %s amount to %d, what was added to %d", ErrWrong,
				spec.Name, sum, want)
		}
	}
	if !foretold(spec, team) || res.Asked == 0 || expect == res.Found {
		return nil
	}
	return fmt.Errorf("%w: %s found %d, what was written before says %d", ErrWrong, spec.Name,
		res.Found, expect)
}
