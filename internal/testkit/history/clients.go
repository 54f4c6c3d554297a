package history

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// Shape is the size of a history.
type Shape struct {
	Clients, Keys, Ops int // Ops of each client
}

// recorder collects the events of one client by key.
type recorder struct {
	clock  *atomic.Int64
	client int
	events map[int][]Event
}

func (r *recorder) add(key int, write bool, value string, call, ret int64) {
	r.events[key] = append(r.events[key], Event{r.client, write, value, call, ret})
}

// small are options under which memtables, tables and merges turn over often.
func small() *lsm.Options {
	return &lsm.Options{FS: vfs.NewMem(), WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10,
		BlockSize: 512, CacheSize: 256 << 10, L0Compaction: 2}
}

// Run lets the clients work on a fresh database and checks every key.
func Run(seed int64, s Shape) error {
	db, err := lsm.Open("db", small())
	if err != nil {
		return err
	}
	defer db.Close()
	var clock atomic.Int64
	recorders := make([]*recorder, s.Clients)
	errs := make([]error, s.Clients)
	var wg sync.WaitGroup
	for c := range recorders {
		recorders[c] = &recorder{clock: &clock, client: c, events: map[int][]Event{}}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(c)))
			for i := range s.Ops {
				if errs[c] = recorders[c].step(db, rng, s, i); errs[c] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for key := range s.Keys {
		var all []Event
		for _, r := range recorders {
			all = append(all, r.events[key]...)
		}
		if !Linearizable(all) {
			return fmt.Errorf("seed %d: key %d is no register: %v", seed, key, all)
		}
	}
	return nil
}

func name(key int) []byte { return fmt.Appendf(nil, "key%03d", key) }

// step does one operation. A snapshot, an iterator and a MultiGet read the
// state at the moment when they were made.
func (r *recorder) step(db *lsm.DB, rng *rand.Rand, s Shape, i int) error {
	key, other := rng.IntN(s.Keys), rng.IntN(s.Keys)
	value := fmt.Sprintf("%d.%d.%0*d", r.client, i, rng.IntN(200), 0)
	call := r.clock.Add(1)
	switch op := rng.IntN(20); {
	case op < 6:
		err := db.Put(name(key), []byte(value), lsm.WriteMode(rng.IntN(8)/7))
		r.add(key, true, value, call, r.clock.Add(1))
		return err
	case op < 7:
		err := db.Delete(name(key), lsm.NoSync)
		r.add(key, true, "", call, r.clock.Add(1))
		return err
	case op < 9 && other != key:
		b := lsm.NewBatch()
		b.Put(name(key), []byte(value))
		b.Put(name(other), []byte(value))
		err := db.Write(b, lsm.NoSync)
		ret := r.clock.Add(1)
		r.add(key, true, value, call, ret)
		r.add(other, true, value, call, ret)
		return err
	case op < 16:
		v, err := db.Get(name(key), nil)
		r.add(key, false, string(v), call, r.clock.Add(1))
		return found(err)
	case op < 17:
		return r.snapshot(db, key, other, call)
	case op < 18:
		return r.iterate(db, key, call)
	case op < 19:
		var m lsm.MultiResult
		err := db.MultiGet([][]byte{name(key), name(other)}, &m)
		ret := r.clock.Add(1)
		if err != nil {
			return err
		}
		for j, k := range []int{key, other}[:1+min(1, abs(key-other))] {
			v, _ := m.Value(j)
			r.add(k, false, string(v), call, ret)
		}
		return nil
	}
	if rng.IntN(30) == 0 {
		return db.Flush()
	}
	return nil
}

func abs(x int) int { return max(x, -x) }

func found(err error) error {
	if errors.Is(err, lsm.ErrNotFound) {
		return nil
	}
	return err
}

func (r *recorder) snapshot(db *lsm.DB, key, other int, call int64) error {
	s := db.Snapshot()
	defer s.Close()
	ret := r.clock.Add(1)
	for _, k := range []int{key, other}[:1+min(1, abs(key-other))] {
		v, err := s.Get(name(k), nil)
		if err := found(err); err != nil {
			return err
		}
		r.add(k, false, string(v), call, ret)
	}
	return nil
}

func (r *recorder) iterate(db *lsm.DB, from int, call int64) error {
	it := db.Iter(nil)
	defer it.Close()
	ret := r.clock.Add(1)
	for ok, n := it.SeekGE(name(from)), 0; ok && n < 5; ok, n = it.Next(), n+1 {
		var k int
		if _, err := fmt.Sscanf(string(it.Key()), "key%03d", &k); err != nil {
			return fmt.Errorf("key %q was never written: %w", it.Key(), err)
		}
		r.add(k, false, string(it.Value()), call, ret)
	}
	return it.Err()
}
