package locks

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
)

const forever = -1

func mustAcquire(t *testing.T, table *Table, o *Owner, key string) {
	t.Helper()
	if _, err := table.Acquire(o, 0, base.Bytewise, []byte(key), forever); err != nil {
		t.Fatal(err)
	}
}

// waiting, in a bubble, fails unless n owners have come to wait for locks.
func waiting(t *testing.T, table *Table, n int64) {
	t.Helper()
	synctest.Wait()
	if got := table.Stats().Waits; got < n {
		t.Errorf("%d waits, want %d", got, n)
	}
}

// TestFair: a lock goes to waiting transactions in their order, without overtaking.
func TestFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New()
		first := &Owner{Name: "first"}
		mustAcquire(t, table, first, "k")
		mustAcquire(t, table, first, "k") // its own
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				o := &Owner{Name: fmt.Sprint(i)}
				if waited, err := table.Acquire(o, 0, base.Bytewise, []byte("k"),
					forever); err != nil || !waited {
					t.Errorf("%v %v", waited, err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				table.ReleaseAll(o)
			})
			waiting(t, table, int64(i+1))
		}
		table.ReleaseAll(first)
		wg.Wait()
		for i, got := range order {
			if got != i {
				t.Fatalf("order %v", order)
			}
		}
		if s := table.Stats(); s.Held != 0 || s.Waits != 20 {
			t.Fatalf("%+v", s)
		}
	})
}

// TestDeadlock closes a circle of owners; the one that closes it fails, with both names.
func TestDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := 2; n < 6; n++ {
			table := New()
			owners := make([]*Owner, n)
			for i := range owners {
				owners[i] = &Owner{Name: fmt.Sprintf("txn %d", i)}
				mustAcquire(t, table, owners[i], fmt.Sprint("key", i))
			}
			var wg sync.WaitGroup
			for i := range n - 1 {
				wg.Go(func() {
					if _, err := table.Acquire(owners[i], 0, base.Bytewise,
						[]byte(fmt.Sprint("key", i+1)), forever); err != nil {
						t.Error(err)
					}
					table.ReleaseAll(owners[i])
				})
			}
			waiting(t, table, int64(n-1))
			last := owners[n-1]
			_, err := table.Acquire(last, 0, base.Bytewise, []byte("key0"), forever)
			var d *Deadlock
			if !errors.Is(err, ErrDeadlock) || !errors.As(err, &d) || d.Waiter != last.Name ||
				d.Holder != "txn 0" || string(d.WaiterKey) != "key0" ||
				string(d.HolderKey) != "key1" || d.Between != n-2 {
				t.Fatalf("%d owners: %+v", n, err)
			}
			if !strings.Contains(err.Error(), "txn 0") ||
				!strings.Contains(err.Error(), last.Name) {
				t.Fatal(err)
			}
			table.ReleaseAll(last)
			wg.Wait()
			if s := table.Stats(); s.Held != 0 || s.Deadlocks != 1 {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New()
		a, b, c := &Owner{Name: "a"}, &Owner{Name: "b"}, &Owner{Name: "c"}
		mustAcquire(t, table, a, "k")
		for _, d := range []time.Duration{0, time.Millisecond} {
			_, err := table.Acquire(b, 0, base.Bytewise, []byte("k"), d)
			if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), `b waited`) ||
				!strings.Contains(err.Error(), `"k", which a holds`) {
				t.Fatal(err)
			}
		}
		done := make(chan error)
		go func() {
			_, err := table.Acquire(c, 0, base.Bytewise, []byte("k"), forever)
			done <- err
		}()
		waiting(t, table, 2)
		table.ReleaseAll(a)
		if err := <-done; err != nil {
			t.Fatal(err) // b left no trace in the queue
		}
		go func() {
			_, err := table.Acquire(b, 0, base.Bytewise, []byte("k"), forever)
			done <- err
		}()
		waiting(t, table, 3)
		table.Close()
		if err := <-done; !errors.Is(err, base.ErrClosed) {
			t.Fatal(err)
		}
		table.ReleaseAll(c)
		if s := table.Stats(); s.Held != 0 || s.Timeouts != 2 {
			t.Fatalf("%+v", s)
		}
	})
}

// caseless calls keys equal that differ in case.
var caseless = &base.Comparer{Name: "caseless", Compare: func(a, b []byte) int {
	return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b))
}}

// TestSpellings: keys that the comparer calls equal have one lock, in its keyspace alone.
func TestSpellings(t *testing.T) {
	table := New()
	a, b := &Owner{Name: "a"}, &Owner{Name: "b"}
	take := func(o *Owner, id base.KeyspaceID, key string) error {
		_, err := table.Acquire(o, id, caseless, []byte(key), 0)
		return err
	}
	keys := []string{"k", "a", "z", "m", "b", "y"}
	for round := range 3 {
		for i, key := range keys {
			if err := take(a, 1, key); err != nil {
				t.Fatal(err)
			}
			if err := take(a, 1, strings.ToUpper(key)); err != nil {
				t.Errorf("%s, which the owner has in another spelling: %v", key, err)
			}
			if err := take(b, 1, strings.ToUpper(key)); !errors.Is(err, ErrTimeout) ||
				!strings.Contains(err.Error(), "a holds") {
				t.Errorf("round %d: %s in another spelling: %v", round, key, err)
			}
			if n := table.Stats().Held; n != int64(i+1) {
				t.Errorf("%d locks after %d keys", n, i+1)
			}
		}
		if err := take(b, 2, "K"); err != nil {
			t.Errorf("a key of another keyspace: %v", err)
		}
		table.ReleaseAll(a)
		table.ReleaseAll(b)
		for _, key := range keys[:round] {
			if err := take(b, 1, strings.ToUpper(key)); err != nil {
				t.Errorf("%s, which was released: %v", key, err)
			}
		}
		table.ReleaseAll(b)
	}
	if n := table.Stats().Held; n != 0 {
		t.Errorf("%d locks are left", n)
	}
	if in, _ := table.byOrder.Load(base.KeyspaceID(1)); len(in.(*shard).sorted) > 1 {
		t.Errorf("%d locks are remembered that nobody holds", len(in.(*shard).sorted))
	}
}

// TestStress: owners take random keys in random order; each key has one owner at a time,
// and nobody waits for ever.
func TestStress(t *testing.T) {
	t.Run("bytewise", func(t *testing.T) { stress(t, base.Bytewise) })
	t.Run("caseless", func(t *testing.T) { stress(t, caseless) })
}

func stress(t *testing.T, c *base.Comparer) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rounds := 1000
	if testing.Short() {
		rounds = 300
	}
	table := New()
	const keys = 8
	var inside [keys]int // changed under the lock of the key
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for range rounds {
				o := &Owner{Name: fmt.Sprint(i)}
				held := map[int]bool{}
				for range 1 + rng.IntN(4) {
					k := rng.IntN(keys)
					timeout := time.Duration(forever)
					if rng.IntN(4) == 0 {
						timeout = time.Duration(rng.IntN(50)) * time.Microsecond
					}
					key := []byte{'a' + byte(k)}
					if c == caseless && rng.IntN(2) == 0 {
						key = []byte{'A' + byte(k)}
					}
					if _, err := table.Acquire(o, 3, c, key, timeout); err != nil {
						if !errors.Is(err, ErrDeadlock) && !errors.Is(err, ErrTimeout) {
							t.Error(err)
						}
						break
					}
					if !held[k] {
						held[k] = true
						if inside[k]++; inside[k] != 1 {
							t.Errorf("key %d has %d owners", k, inside[k])
						}
					}
					runtime.Gosched()
				}
				for k := range held {
					inside[k]--
				}
				table.ReleaseAll(o)
			}
		})
	}
	wg.Wait()
	s := table.Stats()
	if s.Held != 0 || s.Deadlocks == 0 || s.Waits == 0 {
		t.Fatalf("%+v", s)
	}
	t.Logf("%+v", s)
}

// TestMemory bounds what locks take: 200 MB a million.
func TestMemory(t *testing.T) {
	const n = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table, o := New(), &Owner{}
	for i := range n {
		mustAcquire(t, table, o, fmt.Sprintf("%016d", i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	bytes := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d bytes a lock", bytes/n)
	if bytes > 200*n {
		t.Errorf("%d locks take %d bytes", n, bytes)
	}
	table.ReleaseAll(o)
	if s := table.Stats(); s.Held != 0 {
		t.Fatalf("%+v", s)
	}
}
