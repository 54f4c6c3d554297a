package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// counted is the order of bytes, which counts how often it is asked.
func counted(n *atomic.Int64) *Comparer {
	return &Comparer{Name: "test.Counted", EqualIsBytewise: true, Compare: func(a, b []byte) int {
		n.Add(1)
		return bytes.Compare(a, b)
	}}
}

// queues are programs that take what they put before: take looks at one message and deletes it.
// Message i was put by put(i).
var queues = []struct {
	name      string
	put, take func(q *queue, i int) error
}{
	{"first in, first out", func(q *queue, i int) error { return q.db.Put(key(i), nil, NoSync) },
		func(q *queue, i int) error { return q.delete(q.db.Iter(nil), (*Iterator).First, i) }},
	{"from the back", func(q *queue, i int) error {
		return q.db.Put(key(1e6-i), nil, NoSync)
	}, func(q *queue, i int) error { return q.delete(q.db.Iter(nil), (*Iterator).Last, 1e6-i) }},
	{"by bounds", func(q *queue, i int) error { return q.db.Put(key(i), nil, NoSync) },
		func(q *queue, i int) error {
			o := &IterOptions{Lower: key(0), Upper: key(i + 500)}
			return q.delete(q.db.Iter(o), (*Iterator).First, i)
		}},
	{"stack", func(q *queue, i int) error { return q.db.Put(key(i), nil, NoSync) },
		func(q *queue, i int) error {
			return q.delete(q.db.Iter(nil), (*Iterator).Last, i+queueDepth)
		}},
	{"of prefixes", func(q *queue, i int) error { return q.db.Put(prefixed(i), nil, NoSync) },
		func(q *queue, i int) error {
			it := q.db.Iter(&IterOptions{Prefix: prefixed(i)[:2]})
			return q.deleteKey(it, (*Iterator).First, prefixed(i))
		}},
	{"of many prefixes", func(q *queue, i int) error {
		return q.db.Put(many(i), nil, NoSync)
	}, func(q *queue, i int) error {
		it := q.db.Iter(&IterOptions{Prefix: many(i)[:5]})
		return q.deleteKey(it, (*Iterator).First, many(i))
	}},
	{"in transactions", func(q *queue, i int) error { return q.db.Put(key(i), nil, NoSync) },
		func(q *queue, i int) error {
			tx := q.db.Begin(nil)
			defer tx.Close()
			it := tx.Iter(nil)
			if !it.First() || !bytes.Equal(it.Key(), key(i)) {
				return fmt.Errorf("it is at %q, %w", it.Key(), it.Err())
			}
			return errors.Join(it.Close(), tx.Delete(key(i)), tx.Commit(NoSync))
		}},
	{"by priority", func(q *queue, i int) error { return q.putFirst(urgent(i)) },
		(*queue).takeFirst},
	{"in random order", func(q *queue, i int) error {
		return q.putFirst(fmt.Appendf(nil, "%08x", uint32(i)*2654435761))
	}, (*queue).takeFirst},
	{"deleted by ranges", func(q *queue, i int) error { return q.db.Put(key(i), nil, NoSync) },
		func(q *queue, i int) error {
			it := q.db.Iter(nil)
			if !it.First() || !bytes.Equal(it.Key(), key(i/10*10)) {
				return fmt.Errorf("it is at %q, %w", it.Key(), it.Err())
			}
			err := it.Close()
			if i%10 == 9 {
				err = errors.Join(err, q.db.DeleteRange(key(i-9), key(i+1), NoSync))
			}
			return err
		}},
}

// prefixed is the key of message i in one of ten queues.
func prefixed(i int) []byte { return fmt.Appendf(nil, "%02d-%08d", i%10, i) }

// many is prefixed for a thousand queues, of which each is busy for some time.
func many(i int) []byte { return fmt.Appendf(nil, "%04d-%08d", i/200*7%1000, i) }

// urgent is the key of message i, of one of eight priorities.
func urgent(i int) []byte { return fmt.Appendf(nil, "%d-%08d", uint32(i)*2654435761>>29, i) }

const queueDepth = 50

type queue struct {
	db    *DB
	there []string // what putFirst put, in order
}

// putFirst and takeFirst put a message somewhere, and take the first one.
func (q *queue) putFirst(key []byte) error {
	at, _ := slices.BinarySearch(q.there, string(key))
	q.there = slices.Insert(q.there, at, string(key))
	return q.db.Put(key, nil, NoSync)
}

func (q *queue) takeFirst(int) error {
	first := q.there[0]
	q.there = q.there[1:]
	return q.deleteKey(q.db.Iter(nil), (*Iterator).First, []byte(first))
}

func (q *queue) delete(it *Iterator, move func(*Iterator) bool, i int) error {
	return q.deleteKey(it, move, key(i))
}

func (q *queue) deleteKey(it *Iterator, move func(*Iterator) bool, want []byte) error {
	if !move(it) || !bytes.Equal(it.Key(), want) {
		return fmt.Errorf("it is at %q instead of %q, %w", it.Key(), want, it.Err())
	}
	return errors.Join(it.Close(), q.db.Delete(want, NoSync))
}

// TestEmptiesAreKnown: what a message costs does not grow with the messages before it, with or
// without a snapshot as old as the queue.
func TestEmptiesAreKnown(t *testing.T) {
	n := seed.Scale(2000, 2500, 20000)
	for _, c := range queues {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, snapshot %v", c.name, held), func(t *testing.T) {
				var asked atomic.Int64
				db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
					Comparer: counted(&asked), WriteBufferSize: 4 << 20})
				defer mustClose(t, db)
				if held {
					defer db.Snapshot().Close()
				}
				q := &queue{db: db}
				for i := range queueDepth {
					mustAll(t, c.put(q, i))
				}
				var tenths []int64
				defer func() {
					if dead := db.Metrics().EmptyRanges.DeadEntries; dead > uint64(100*n) {
						t.Errorf("%d messages, and iterators passed over %d dead entries", n, dead)
					}
				}()
				for i := range n {
					mustAll(t, c.put(q, i+queueDepth))
					before := asked.Load()
					if err := c.take(q, i); err != nil {
						t.Fatalf("message %d: %v", i, err)
					}
					if i%(n/10) == 0 {
						tenths = append(tenths, 0)
					}
					tenths[len(tenths)-1] += asked.Load() - before
				}
				// Scouts in the background compare, too, perhaps most of them in one of the tenths.
				if last := slices.Min(tenths[7:]); last > 2*tenths[1]+int64(n/10*30) {
					t.Errorf("comparisons by tenths: %v", tenths)
				}
			})
		}
	}
}

// TestEmptiesOfSnapshots: a snapshot's second look does not depend on what was deleted, nor on what
// was written since, though known-empty ranges grow on. A snapshot that is opened while others look
// uses the ranges that were known then.
func TestEmptiesOfSnapshots(t *testing.T) {
	n := seed.Scale(5000, 5000, 20000)
	for _, flushed := range []bool{false, true} {
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
		look := func(r Reader, want int) (dead uint64) {
			t.Helper()
			before := db.Metrics().EmptyRanges.DeadEntries
			it := r.Iter(nil)
			switch ok := it.First(); {
			case ok != (want >= 0), ok && !bytes.Equal(it.Key(), key(want)):
				t.Errorf("First is at %q, want %d; %v", it.Key(), want, it.Err())
			}
			mustAll(t, it.Close())
			return db.Metrics().EmptyRanges.DeadEntries - before
		}
		blank := db.Snapshot()
		putKeys(t, db, n+1)
		var half *Snapshot
		for i := range n {
			if i == n/2 {
				half = db.Snapshot()
			}
			mustAll(t, db.Delete(key(i), NoSync))
			look(db, i+1)
		}
		begun := db.Snapshot()
		for i := range 200 {
			mustPut(t, db, n+1+i)
			mustAll(t, db.Delete(key(n+i), NoSync))
			look(db, n+i+1)
		}
		if dead := look(begun, n); dead > 8*400 {
			t.Errorf("flushed %v: a snapshot of before the last looks passes over %d", flushed,
				dead)
		}
		if flushed {
			mustAll(t, db.Flush())
		}
		for name, c := range map[string]struct {
			s    *Snapshot
			want int
		}{"blank": {blank, -1}, "half": {half, n / 2}, "begun": {begun, n}} {
			first, second := look(c.s, c.want), look(c.s, c.want)
			if second > 80 { // fewer than 64 are not learned
				t.Errorf("flushed %v: snapshot %s passes over %d, then over %d", flushed, name,
					first, second)
			}
			it := c.s.Iter(nil)
			rows := 0
			for ok := it.Last(); ok; ok = it.Prev() {
				rows++
			}
			mustAll(t, it.Close(), c.s.Close())
			if c.want >= 0 && rows != n+1-c.want || c.want < 0 && rows != 0 {
				t.Errorf("flushed %v: snapshot %s has %d rows", flushed, name, rows)
			}
		}
		mustClose(t, db)
	}
}

// TestWritersScout: each kind of write goes in place of a scout that is late, but for one that must
// not wait.
func TestWritersScout(t *testing.T) {
	needsNative(t)
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	late := db.engine.Parts().Shared.Late
	b := db.NewBatch()
	b.Delete(key(3))
	for _, w := range []struct {
		name  string
		waits bool
		write func() error
	}{
		{"Put", true, func() error { return db.Put(key(1), nil, NoSync) }},
		{"Delete", true, func() error { return db.Delete(key(1), NoSync) }},
		{"DeleteRange", true, func() error { return db.DeleteRange(key(1), key(2), NoSync) }},
		{"PutTTL", true, func() error { return db.PutTTL(key(2), nil, time.Hour, NoSync) }},
		{"Write", true, func() error { return db.Write(b, NoSync) }},
		{"Update", true, func() error {
			return db.Update(t.Context(), func(tx *Txn) error { return tx.Delete(key(2)) })
		}},
		{"without a stall", false, func() error { return db.Put(key(1), nil, NoSync|NoStall) }},
	} {
		late.Store(db.engine.Default().Tree)
		if err := w.write(); err != nil || (late.Load() == nil) != w.waits {
			t.Errorf("%s: %v; a scout is late: %v", w.name, err, late.Load() != nil)
		}
	}
}
