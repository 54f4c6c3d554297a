package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

const (
	// oldestEvery is how many messages pass between two reads of the oldest ones, by TakeKnown.
	oldestEvery = 1000
	oldest      = 10
	// emptyRest is how long nothing is done after half of the looks of TakeNone.
	emptyRest = 10 * time.Second
)

// queue is a Queue benchmark, of one thread. Messages are numbered as they are put.
type queue struct {
	*thread
	take  workload.Take
	depth uint64
	looks time.Duration // of TakeKnown: the reads of the oldest
	times int64         // how many there were
	txns  store.Transactional
	last  store.Txn
	key   []byte
}

// queue puts and takes t.ops messages. What is there before is put before the clock starts.
func (t *thread) queue(spec *workload.Spec) {
	q := &queue{thread: t, take: spec.Queue.Take, depth: depthOf(&spec.Queue, t.r.Params.Num)}
	if spec.Queue.Txn {
		q.txns = t.db.(store.Transactional)
	}
	if !t.away(q.prepare) {
		return
	}
	if t.samples != nil {
		t.samples.restart()
	}
	t.start = t.clock()
	t.last = t.start
	begun := t.start
	for i := range t.ops {
		if q.take == workload.TakeNone && i == (t.ops+1)/2 {
			begun += q.rest()
		}
		if err := q.message(uint64(i)); err != nil {
			t.fail(err)
			return
		}
		if tenth := (i + 1) * 10 / t.ops; tenth > i*10/t.ops && t.ops >= 10 {
			now := t.clock()
			t.tenths = append(t.tenths, now-begun)
			begun = now
		}
		if !t.tick() {
			break
		}
	}
	if q.times > 0 {
		t.note = fmt.Sprintf("oldest ten %.1f us", q.looks.Seconds()*1e6/float64(q.times))
	}
}

// rest does nothing for emptyRest, which does not count, and returns how long that was.
func (q *queue) rest() time.Duration {
	begun, sleep := q.clock(), q.r.Sleep
	if sleep == nil {
		sleep = time.Sleep
	}
	sleep(emptyRest)
	d := q.clock() - begun
	q.start += d
	q.thread.last += d
	return d
}

// depthOf is how many messages are there before.
func depthOf(m *workload.Messages, num int64) uint64 {
	if m.Share > 0 {
		return uint64(max(num/m.Share, 1))
	}
	return uint64(m.Depth)
}

// prepare puts what is there before; of TakeNone it deletes it, too.
func (q *queue) prepare() error {
	if q.take != workload.TakeNone {
		for n := range q.depth {
			if err := q.put(n); err != nil {
				return err
			}
		}
		q.bytes = 0
		return nil
	}
	perm := workload.NewPermutation(q.depth, q.seed)
	for n := range q.depth {
		if err := q.put(perm.At(n)); err != nil {
			return err
		}
	}
	for n := range q.depth {
		if err := q.db.Delete(q.keys.Present(n), q.durable()); err != nil {
			return err
		}
	}
	q.bytes = 0
	return nil
}

func (q *queue) put(n uint64) error {
	key, value := q.keys.Present(n), q.value(n)
	q.bytes += int64(len(key) + len(value))
	return q.db.Put(key, value, q.durable())
}

// message does what there is to do for message i, which comes when depth others are there.
func (q *queue) message(i uint64) error {
	switch {
	case q.take == workload.TakeNone:
		_, err := q.look(0)
		q.asked++
		return err
	case q.txns != nil:
		return q.transaction(i)
	}
	if err := q.put(i + q.depth); err != nil {
		return err
	}
	if q.take == workload.TakeKnown {
		if err := q.db.Delete(q.keys.Present(i), q.durable()); err != nil {
			return err
		}
		if (i+1)%oldestEvery != 0 {
			return nil
		}
		return q.readOldest(i + 1)
	}
	taken := i
	if q.take == workload.TakeLast {
		taken = i + q.depth
	}
	q.asked++
	if found, err := q.look(taken); err != nil || !found {
		return err
	}
	return q.db.Delete(q.key, q.durable())
}

// look finds the first key, or the last, by a new iterator, and copies it. It reports whether there
// is one; found counts it if it is message n.
func (q *queue) look(n uint64) (ok bool, err error) {
	it, err := q.db.NewIterator()
	if err != nil {
		return false, err
	}
	if q.take == workload.TakeLast {
		ok = it.Last()
	} else {
		ok = it.First()
	}
	if ok {
		q.key = append(q.key[:0], it.Key()...)
		q.bytes += int64(len(q.key) + len(it.Value()))
		if string(q.key) == string(q.keys.Present(n)) {
			q.found++
		}
	}
	q.closeIterator(it)
	return ok, q.err
}

// transaction puts message i and takes the first one. The iterator that finds it is the store's:
// nobody else takes messages.
func (q *queue) transaction(i uint64) error {
	q.asked++
	found, err := q.look(i)
	if err != nil || !found {
		return err
	}
	if q.last, err = q.txns.Begin(q.last); err != nil {
		return err
	}
	tx := q.last
	value, _, err := tx.GetForUpdate(q.key, q.buf[:0])
	q.buf = value
	if err == nil {
		err = tx.Delete(q.key)
	}
	if err == nil {
		err = tx.Put(q.keys.Present(i+q.depth), q.value(i+q.depth))
	}
	if err == nil {
		return tx.Commit(q.durable())
	}
	_ = tx.Rollback() // err is the one to report
	return err
}

// readOldest reads the oldest ten, of which the first is message n.
func (q *queue) readOldest(n uint64) error {
	begun := q.clock()
	it, err := q.db.NewIterator()
	if err != nil {
		return err
	}
	left := oldest
	for ok := it.First(); ok && left > 0; ok = it.Next() {
		if string(it.Key()) == string(q.keys.Present(n)) {
			q.found++
		}
		q.bytes += int64(len(it.Key()) + len(it.Value()))
		n++
		left--
	}
	q.asked += oldest
	q.closeIterator(it)
	q.looks += q.clock() - begun
	q.times++
	return q.err
}

// queue replays a Queue benchmark. It returns how many looks had to find the message that they
// looked for: of TakeNone none.
func (o *oracle) queue(spec *workload.Spec, t *thread) (expect int64) {
	depth, done := depthOf(&spec.Queue, t.r.Params.Num), uint64(t.done)
	switch spec.Queue.Take {
	case workload.TakeNone:
		return 0
	case workload.TakeLast:
		done = 0
		expect = t.done
	case workload.TakeKnown:
		left := min(depth, oldest)
		expect = t.done / oldestEvery * int64(left)
	default:
		expect = t.done
	}
	for n := range depth {
		o.set(done+n, true)
	}
	return expect
}

// addTenths notes how long an operation took in each tenth of a Queue benchmark.
func (r *Result) addTenths(t *thread) {
	for _, d := range t.tenths {
		r.Tenths = append(r.Tenths, d.Seconds()*1e7/float64(t.ops))
	}
	if len(r.Tenths) == 10 && r.Tenths[1] > 0 {
		r.Flat = r.Tenths[9] / r.Tenths[1]
	}
	r.note = t.note
}

// tenthsText is how long an operation took in each tenth.
func (r *Result) tenthsText() string {
	var parts []string
	if r.Asked > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d found", r.Found, r.Asked))
	}
	if len(r.Tenths) > 0 {
		var b strings.Builder
		for _, us := range r.Tenths {
			fmt.Fprintf(&b, " %.1f", us)
		}
		parts = append(parts, "by tenths"+b.String())
	}
	parts = slices.DeleteFunc(append(parts, r.note), func(s string) bool { return s == "" })
	return "(" + strings.Join(parts, "; ") + ")"
}
