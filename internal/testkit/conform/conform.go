// Package conform is the suites that every kv.Store passes, whichever engine is below, and every
// target of replicas.
package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
)

// Run runs the suite. open returns an empty Store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) kv.Store) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, kv.Store)
	}{
		{"Single", single}, {"Batches", batches}, {"MultiGet", multiGet},
		{"Copies", copies}, {"Bounds", bounds}, {"States", states}, {"History", history},
		{"Concurrent", concurrent}, {"Contexts", contexts}, {"Close", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.run(t, s)
			if c.name != "Close" {
				must(t, s.Close())
			}
		})
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// write writes puts of pairs; a nil value deletes.
func write(t testing.TB, s kv.Store, pairs ...[]byte) {
	t.Helper()
	b := kv.NewBatch()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			b.Delete(pairs[i])
		} else {
			b.Put(pairs[i], pairs[i+1])
		}
	}
	must(t, s.Write(t.Context(), b))
}

func puts(t testing.TB, s kv.Store, pairs ...string) {
	t.Helper()
	var p [][]byte
	for _, x := range pairs {
		p = append(p, []byte(x))
	}
	write(t, s, p...)
}

// holds checks the value of a key; nil stands for none.
func holds(t testing.TB, r kv.Reader, key string, want []byte) {
	t.Helper()
	got, err := r.Get(t.Context(), []byte(key))
	if want == nil {
		if !errors.Is(err, lsm.ErrNotFound) || got != nil {
			t.Errorf("Get(%.20q) = %.20q, %v", key, got, err)
		}
	} else if err != nil || got == nil || !bytes.Equal(got, want) {
		t.Errorf("Get(%.20q) = %.20q, %v, not %.20q", key, got, err, want)
	}
	if has, err := r.Has(t.Context(), []byte(key)); err != nil || has != (want != nil) {
		t.Errorf("Has(%.20q) = %v, %v", key, has, err)
	}
}

func single(t *testing.T, s kv.Store) {
	holds(t, s, "a", nil)
	puts(t, s, "a", "1", "", "empty key", "zero\x00", "\x00\xff")
	puts(t, s, "empty", "")
	holds(t, s, "a", []byte("1"))
	holds(t, s, "", []byte("empty key"))
	holds(t, s, "zero\x00", []byte("\x00\xff"))
	holds(t, s, "zero", nil)
	holds(t, s, "empty", []byte{})
	puts(t, s, "a", "2")
	holds(t, s, "a", []byte("2"))
	write(t, s, []byte("a"), nil)
	write(t, s, []byte("a"), nil)
	holds(t, s, "a", nil)
	long := bytes.Repeat([]byte("long"), 1<<16)
	write(t, s, []byte("long"), long)
	holds(t, s, "long", long)
}

func batches(t *testing.T, s kv.Store) {
	b := kv.NewBatch()
	must(t, s.Write(t.Context(), b)) // an empty one
	b.Put([]byte("a"), []byte("1"))
	b.Delete([]byte("a"))
	b.Put([]byte("a"), []byte("2"))
	b.Put([]byte("b"), []byte("3"))
	b.Delete([]byte("b"))
	must(t, s.Write(t.Context(), b))
	if b.Count() != 5 {
		t.Errorf("the batch has %d operations after Write", b.Count())
	}
	holds(t, s, "a", []byte("2"))
	holds(t, s, "b", nil)
	write(t, s, []byte("a"), nil, []byte("b"), []byte("4"))
	must(t, s.Write(t.Context(), b))
	holds(t, s, "a", []byte("2"))
	holds(t, s, "b", nil)
	b.Clear()
	b.Put([]byte("c"), []byte("5"))
	must(t, s.Write(t.Context(), b))
	holds(t, s, "c", []byte("5"))
}

func multiGet(t *testing.T, s kv.Store) {
	puts(t, s, "a", "1", "b", "", "c", "3")
	keys := [][]byte{[]byte("c"), []byte("x"), []byte("b"), []byte("a"), []byte("c")}
	want := [][]byte{[]byte("3"), nil, {}, []byte("1"), []byte("3")}
	got, err := s.MultiGet(t.Context(), keys)
	must(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d values of %d keys", len(got), len(keys))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) || (got[i] == nil) != (want[i] == nil) {
			t.Errorf("value %d is %q, not %q", i, got[i], want[i])
		}
	}
	if got, err := s.MultiGet(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("no keys: %q, %v", got, err)
	}
}

// copies changes what calls were given and what they returned.
func copies(t *testing.T, s kv.Store) {
	key, value := []byte("key"), []byte("value")
	b := kv.NewBatch()
	b.Put(key, value)
	key[0], value[0] = 'x', 'x'
	must(t, s.Write(t.Context(), b))
	b.Clear()
	b.Put([]byte("xey"), []byte("xalue"))
	holds(t, s, "key", []byte("value"))
	holds(t, s, "xey", nil)
	v, err := s.Get(t.Context(), []byte("key"))
	must(t, err)
	v[0] = 'y'
	vs, err := s.MultiGet(t.Context(), [][]byte{[]byte("key")})
	must(t, err)
	vs[0][0] = 'z'
	holds(t, s, "key", []byte("value"))
	o := kv.IterOptions{Lower: []byte("a"), Upper: []byte("z")}
	it, err := s.Iter(t.Context(), &o)
	must(t, err)
	o.Lower[0], o.Upper[0] = 'z', 'a'
	if !it.First() || string(it.Key()) != "key" {
		t.Errorf("behind changed bounds: %q", it.Key())
	}
	must(t, it.Close())
}

// bounds moves iterators with and without bounds in every direction, and compares each with a list.
func bounds(t *testing.T, s kv.Store) {
	m := model{}
	b := kv.NewBatch()
	for i := range 30 {
		k, v := fmt.Sprintf("k%02d", i*2), fmt.Sprint(i)
		b.Put([]byte(k), []byte(v))
		m[k] = []byte(v)
	}
	must(t, s.Write(t.Context(), b))
	for _, lower := range []string{"-", "", "k", "k10", "k11", "k60"} {
		for _, upper := range []string{"-", "k", "k11", "k12", "k58", "z"} {
			o := &kv.IterOptions{KeysOnly: upper == "z"}
			if lower != "-" {
				o.Lower = []byte(lower)
			}
			if upper != "-" {
				o.Upper = []byte(upper)
			}
			walk(t, s, m, o, rand.New(rand.NewPCG(1, uint64(seed.Of(t)))))
		}
	}
}

// model is what a Store has to hold.
type model map[string][]byte

func (m model) keys(o *kv.IterOptions) (out []string) {
	for k := range m {
		if (o.Lower == nil || k >= string(o.Lower)) && (o.Upper == nil || k < string(o.Upper)) {
			out = append(out, k)
		}
	}
	sort.Strings(out)
	return out
}

// walk makes random moves of an iterator within the bounds of o.
func walk(t *testing.T, r kv.Reader, m model, o *kv.IterOptions, rnd *rand.Rand) {
	t.Helper()
	it, err := r.Iter(t.Context(), o)
	must(t, err)
	keys := m.keys(o)
	at := -1 // in keys; outside: at no entry
	if it.Valid() {
		t.Errorf("%+v: at %q before the first move", *o, it.Key())
	}
	for range 40 {
		var moved bool
		target := fmt.Sprintf("k%02d", rnd.IntN(62))
		place := sort.SearchStrings(keys, target)
		var move string
		switch n := rnd.IntN(10); {
		case n == 0:
			move, moved, at = "First", it.First(), 0
		case n == 1:
			move, moved, at = "Last", it.Last(), len(keys)-1
		case n == 2:
			move, moved, at = "SeekGE "+target, it.SeekGE([]byte(target)), place
		case n == 3:
			move, moved, at = "SeekLT "+target, it.SeekLT([]byte(target)), place-1
		case at < 0 || at >= len(keys):
			continue // Next and Prev are for iterators at an entry
		case n < 7:
			move, moved = "Next", it.Next()
			at++
		default:
			move, moved = "Prev", it.Prev()
			at--
		}
		there := at >= 0 && at < len(keys)
		switch {
		case moved != there || it.Valid() != there || it.Err() != nil:
			t.Fatalf("%+v: %s: %v, %v, not %v, of %q", *o, move, moved, it.Err(), there, keys)
		case !there:
		case string(it.Key()) != keys[at]:
			t.Fatalf("%+v: %s: at %q, not %q", *o, move, it.Key(), keys[at])
		case o.KeysOnly && len(it.Value()) != 0:
			t.Fatalf("%+v: %s: a value with KeysOnly", *o, move)
		case !o.KeysOnly && !bytes.Equal(it.Value(), m[keys[at]]):
			t.Fatalf("%+v: %s: %q has %q, not %q", *o, move, it.Key(), it.Value(), m[keys[at]])
		}
	}
	must(t, it.Close())
}

// states checks that snapshots and iterators keep their state, and outlive what they were made from
// as they should.
func states(t *testing.T, s kv.Store) {
	puts(t, s, "a", "1", "b", "1")
	snap, err := s.Snapshot(t.Context())
	must(t, err)
	it, err := s.Iter(t.Context(), nil)
	must(t, err)
	of, err := snap.Iter(t.Context(), nil)
	must(t, err)
	puts(t, s, "a", "2", "c", "2")
	write(t, s, []byte("b"), nil)
	old := model{"a": []byte("1"), "b": []byte("1")}
	for _, i := range []kv.Iterator{it, of} {
		same(t, i, old)
		must(t, i.Close())
	}
	holds(t, snap, "a", []byte("1"))
	holds(t, snap, "b", []byte("1"))
	holds(t, snap, "c", nil)
	values, err := snap.MultiGet(t.Context(), [][]byte{[]byte("c"), []byte("b")})
	must(t, err)
	if values[0] != nil || string(values[1]) != "1" {
		t.Errorf("MultiGet of the snapshot: %q", values)
	}
	of, err = snap.Iter(t.Context(), nil)
	must(t, err)
	must(t, snap.Close(), snap.Close())
	same(t, of, old)
	must(t, of.Close())
	if _, err := snap.Get(t.Context(), []byte("a")); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("Get of a closed snapshot: %v", err)
	}
	if _, err := snap.Iter(t.Context(), nil); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("Iter of a closed snapshot: %v", err)
	}
	holds(t, s, "a", []byte("2"))
}

// same compares all that an iterator shows, in both directions, with a model.
func same(t *testing.T, it kv.Iterator, m model) {
	t.Helper()
	keys := m.keys(&kv.IterOptions{})
	for _, backward := range []bool{false, true} {
		start, move := it.First, it.Next
		if backward {
			start, move = it.Last, it.Prev
		}
		var got []string
		for ok := start(); ok; ok = move() {
			got = append(got, string(it.Key()))
			if !bytes.Equal(it.Value(), m[string(it.Key())]) {
				t.Errorf("%q has %q, not %q", it.Key(), it.Value(), m[string(it.Key())])
			}
		}
		must(t, it.Err())
		if backward {
			slices.Reverse(got)
		}
		if !slices.Equal(got, keys) {
			t.Errorf("the iterator shows %q, not %q", got, keys)
		}
	}
}

// history makes random writes, and compares every read with a model.
func history(t *testing.T, s kv.Store) {
	from := seed.Of(t)
	rnd := rand.New(rand.NewPCG(uint64(from), 28))
	m := model{}
	type state struct {
		snap kv.Snapshot
		m    model
	}
	var kept []state
	for step := range 200 {
		b := kv.NewBatch()
		for range rnd.IntN(8) {
			k := fmt.Sprintf("k%02d", rnd.IntN(60))
			if rnd.IntN(3) == 0 {
				b.Delete([]byte(k))
				delete(m, k)
				continue
			}
			v := fmt.Appendf(nil, "%d", step)
			b.Put([]byte(k), v)
			m[k] = v
		}
		must(t, s.Write(t.Context(), b))
		k := fmt.Sprintf("k%02d", rnd.IntN(60))
		holds(t, s, k, m[k])
		switch rnd.IntN(10) {
		case 0:
			snap, err := s.Snapshot(t.Context())
			must(t, err)
			now := model{}
			for k, v := range m {
				now[k] = v
			}
			kept = append(kept, state{snap, now})
		case 1:
			walk(t, s, m, &kv.IterOptions{Lower: []byte(k)}, rnd)
		case 2:
			if len(kept) > 0 {
				i := rnd.IntN(len(kept))
				walk(t, kept[i].snap, kept[i].m, &kv.IterOptions{Upper: []byte(k)}, rnd)
				must(t, kept[i].snap.Close())
				kept = slices.Delete(kept, i, i+1)
			}
		}
		if t.Failed() {
			t.Fatalf("step %d, seed %d", step, from)
		}
	}
	for _, k := range kept {
		must(t, k.snap.Close())
	}
}

// concurrent has writers that move amounts between keys of their own, and readers that want to see
// each batch whole.
func concurrent(t *testing.T, s kv.Store) {
	const writers, total, moves = 4, 100, 40
	for w := range writers {
		puts(t, s, fmt.Sprintf("%d/a", w), fmt.Sprint(total), fmt.Sprintf("%d/b", w), "0")
	}
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		a, b := fmt.Appendf(nil, "%d/a", w), fmt.Appendf(nil, "%d/b", w)
		writing.Go(func() {
			for i := range moves {
				batch := kv.NewBatch()
				batch.Put(a, fmt.Append(nil, total-i))
				batch.Put(b, fmt.Append(nil, i))
				if err := s.Write(t.Context(), batch); err != nil {
					t.Error(err)
					return
				}
			}
		})
		reading.Go(func() {
			last := 0
			for over := false; !over; {
				select {
				case <-done:
					over = true // after one more look
				default:
				}
				values, err := s.MultiGet(t.Context(), [][]byte{a, b})
				var x, y int
				if err == nil {
					_, err = fmt.Sscan(string(values[0])+" "+string(values[1]), &x, &y)
				}
				if err != nil || x+y != total || y < last || over && y != moves-1 {
					t.Errorf("%d and %d after %d, %v", x, y, last, err)
					return
				}
				last = y
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
}

func contexts(t *testing.T, s kv.Store) {
	puts(t, s, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(s) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that is done: %v", name, err)
		}
	}
	holds(t, s, "a", []byte("1"))
	holds(t, s, "b", nil)
}

func closed(t *testing.T, s kv.Store) {
	puts(t, s, "a", "1")
	must(t, s.Close())
	for name, call := range calls(s) {
		if err := call(t.Context()); !errors.Is(err, lsm.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := s.Close(); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
}

// calls are all methods of a Store besides Close. The writing one puts b.
func calls(s kv.Store) map[string]func(context.Context) error {
	key := []byte("a")
	return map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := s.Get(ctx, key); return err },
		"Has": func(ctx context.Context) error { _, err := s.Has(ctx, key); return err },
		"MultiGet": func(ctx context.Context) error {
			_, err := s.MultiGet(ctx, [][]byte{key})
			return err
		},
		"Iter":     func(ctx context.Context) error { _, err := s.Iter(ctx, nil); return err },
		"Snapshot": func(ctx context.Context) error { _, err := s.Snapshot(ctx); return err },
		"Write": func(ctx context.Context) error {
			b := kv.NewBatch()
			b.Put([]byte("b"), nil)
			return s.Write(ctx, b)
		},
	}
}
