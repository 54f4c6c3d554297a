package tables

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
)

var errInjected = errors.New("injected failure")

func (s *suite) writerRefuses(t *testing.T) {
	type add struct {
		key   string
		t     base.Trailer
		codec base.Codec
	}
	set := func(key string, seq base.SeqNum) add {
		return add{key, base.MakeTrailer(seq, base.KindSet), 0}
	}
	for name, adds := range map[string][]add{
		"keys that descend":   {set("b", 1), set("a", 1)},
		"the same entry":      {set("a", 1), set("a", 1)},
		"older version first": {set("a", 1), set("a", 2)},
		"unknown kind":        {{"a", base.MakeTrailer(1, base.KindForSeek-1), 0}},
		"seek kind":           {{"a", base.MakeTrailer(1, base.KindForSeek), 0}},
		"unknown codec":       {{"a", base.MakeTrailer(1, base.KindSet), 200}},
	} {
		w := s.New(new(memFile), usual(base.Bytewise))
		for i, a := range adds {
			err := w.Add([]byte(a.key), a.t, a.codec, nil)
			if last := i == len(adds)-1; errors.Is(err, base.ErrInvalidArgument) != last {
				t.Errorf("%s: entry %d: %v", name, i, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	w := s.New(new(memFile), sstable.WriterOptions{Comparer: base.Bytewise, Compression: 77})
	if _, err := w.Finish(); !errors.Is(err, base.ErrInvalidArgument) {
		t.Errorf("unknown compression: %v", err)
	}
	w.Close()
	w.Close()
	if err := w.Add(nil, 0, 0, nil); err == nil {
		t.Error("Add after Close")
	}
}

// writeFailures fails each write and sync in turn.
func (s *suite) writeFailures(t *testing.T) {
	big := noise(1 << 20)
	o := usual(base.Bytewise)
	o.Spare = new(sstable.Spare)
	defer o.Spare.Free()
	for n := 1; ; n++ {
		f := &memFile{failAt: n, fail: errInjected}
		w := s.New(f, o)
		var err error
		for i := range 10 {
			if err = w.Add([]byte{byte(i)}, base.MakeTrailer(1, base.KindSet), 0, big); err != nil {
				break
			}
		}
		if err == nil {
			_, err = w.Finish()
		}
		if err == nil {
			err = w.Sync()
		}
		if err != nil {
			if again := w.Add([]byte{200}, base.MakeTrailer(1, base.KindSet), 0,
				nil); again == nil {
				t.Error("a write after a failure succeeds")
			}
			if _, again := w.Finish(); again == nil {
				t.Error("a table is finished after a failure")
			}
			if again := w.Sync(); again == nil {
				t.Error("a sync after a failure succeeds")
			}
		}
		closed := w.Close()
		if f.failAt > 0 {
			if err != nil || closed != nil {
				t.Error("fails without a failure", err, closed)
			}
			// Nothing is left in the buffers of tables that were given up.
			if err := s.open(t, f.b, Env{Name: "t", Comparer: o.Comparer}).Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, errInjected) && !errors.Is(closed, errInjected) {
			t.Errorf("failure of operation %d got lost: %v, %v", n, err, closed)
		}
	}
}

// readFailures fails each read in turn: the failure comes out as itself.
func (s *suite) readFailures(t *testing.T) {
	c := base.Bytewise
	es := Random(rand.New(rand.NewPCG(2, 2)), c, 60)
	b, _ := s.write(t, usual(c), es)
	failEachRead(t, b, func(f *memFile) (err error) {
		withCache(1<<20, func(ca *cache.Cache) {
			err = s.readAll(t, f, Env{Name: "t", Cache: ca, Comparer: c}, es)
		})
		return err
	})
}

// failEachRead calls do with a file whose first read fails, then its second, until none
// fails any more. The failure must come out of do as itself.
func failEachRead(t *testing.T, b []byte, do func(f *memFile) error) {
	t.Helper()
	for n := 1; ; n++ {
		f := &memFile{b: b, failAt: n, fail: errInjected}
		err := do(f)
		if f.failAt > 0 {
			if err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, errInjected) || errors.Is(err, base.ErrCorruption) {
			t.Fatalf("failure of read %d: %v", n, err)
		}
	}
}

// readAll opens the table and reads it by all means. It returns the first
// error; a wrong answer without one fails the test.
func (s *suite) readAll(t *testing.T, f *memFile, env Env, es []model.Entry) error {
	t.Helper()
	r, err := s.Open(s.file(t, f), env)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, flags := range []sstable.ReadFlags{sstable.Private, 0} {
		if err := scanAll(t, r, flags, es); err != nil {
			return err
		}
	}
	for _, want := range es {
		v, hit, found, err := r.Get(base.MakeLookup(env.Comparer, want.Key, want.Trailer.Seq()),
			sstable.NoFill, nil)
		if err != nil {
			return err
		}
		want, _ := newest(env.Comparer, es, want.Key, want.Trailer.Seq())
		if !found || hit.Trailer != want.Trailer || !bytes.Equal(v, want.Value) {
			t.Fatalf("Get %v: found %v %d %q", want, found, hit.Trailer, v)
		}
		l := base.MakeLookup(env.Comparer, want.Key, base.MaxSeqNum)
		if _, err := walkVersions(t, r, l, sstable.NoFill,
			versions(env.Comparer, es, want.Key, base.MaxSeqNum)); err != nil {
			return err
		}
	}
	if _, err = r.Warm(1<<30, func() error { return nil }); err != nil {
		return err
	}
	return r.VerifyMeta()
}

func scanAll(t *testing.T, r sstable.Reader, flags sstable.ReadFlags, es []model.Entry) error {
	t.Helper()
	src := r.NewSource(flags)
	defer src.Close()
	n := 0
	err := base.Scan(src, func(e *base.Chunk) error {
		for i := range e.Len() {
			if n >= len(es) || !same(e, i, es[n]) {
				t.Fatalf("entry %d is wrong", n)
			}
			n++
		}
		return nil
	})
	if err == nil && n != len(es) {
		t.Fatalf("%d of %d entries", n, len(es))
	}
	return err
}

// located checks that err is a Corruption that says where.
func located(t *testing.T, err error) {
	t.Helper()
	var c *base.Corruption
	if !errors.As(err, &c) || !errors.Is(err, base.ErrCorruption) {
		t.Fatalf("not a corruption: %v", err)
	}
	if c.File != "000007.ldb" || c.Offset < 0 || c.Kind == "" || c.Reason == "" {
		t.Fatalf("does not say where or what: %+v", c)
	}
}

// small is a table of a few KiB with all that a table can have.
func (s *suite) small(t *testing.T) ([]byte, []model.Entry) {
	t.Helper()
	es := Random(rand.New(rand.NewPCG(3, 3)), base.Bytewise, 60)
	o := usual(base.Bytewise)
	o.BlockSize = 512
	b, _ := s.write(t, o, es)
	return b, es
}

// flips changes each byte: the change is found, or makes no difference.
func (s *suite) flips(t *testing.T) {
	b, es := s.small(t)
	silent := 0
	masks := []byte{0xff, 0x01, 0x80}[:seed.Scale(1, 1, 3)]
	withCache(1<<20, func(ca *cache.Cache) {
		for i := 0; i < len(b); i += seed.Scale(7, 13, 1) {
			for _, m := range masks {
				d := bytes.Clone(b)
				d[i] ^= m
				err := s.readAll(t, &memFile{b: d},
					Env{Name: "000007.ldb", Cache: ca, Comparer: base.Bytewise}, es)
				if err == nil {
					silent++
					t.Errorf("byte %d of %d changed by %#x and nobody noticed", i, len(b), m)
					continue
				}
				located(t, err)
			}
			if silent > 10 {
				return
			}
		}
	})
}

func (s *suite) truncations(t *testing.T) {
	b, es := s.small(t)
	for n := 0; n < len(b); n += seed.Scale(7, 13, 1) {
		err := s.readAll(t, &memFile{b: b[:n]}, Env{Name: "000007.ldb", Comparer: base.Bytewise},
			es)
		if err == nil {
			t.Fatalf("cut to %d of %d bytes and nobody noticed", n, len(b))
		}
		located(t, err)
	}
}

// garbage replaces chunks by random bytes, zeros, or other parts of the
// table: no crash, no wrong answer.
func (s *suite) garbage(t *testing.T) {
	b, es := s.small(t)
	rng := rand.New(rand.NewPCG(8, 8))
	for range seed.Scale(2000, 1000, 2000) {
		d := bytes.Clone(b)
		at := rng.IntN(len(d))
		n := min(1+rng.IntN(64), len(d)-at)
		switch rng.IntN(3) {
		case 0:
			clear(d[at : at+n])
		case 1:
			copy(d[at:at+n], b[rng.IntN(len(b)):])
		default:
			for i := at; i < at+n; i++ {
				d[i] = byte(rng.Uint32())
			}
		}
		err := s.readAll(t, &memFile{b: d}, Env{Name: "000007.ldb", Comparer: base.Bytewise}, es)
		if errors.Is(err, base.ErrNewerFormat) && at+n > len(b)-16 {
			continue // garbage that reads as another version with another checksum
		}
		if err != nil {
			located(t, err)
		} else if !bytes.Equal(b, d) {
			t.Fatalf("%d bytes at %d changed and nobody noticed", n, at)
		}
	}
}

// concurrent reads one table from many goroutines through a cache that holds a
// part of it.
func (s *suite) concurrent(t *testing.T) {
	c := base.Bytewise
	es := Random(rand.New(rand.NewPCG(7, 7)), c, 2000)
	b, _ := s.write(t, usual(c), es)
	withCache(64<<10, func(ca *cache.Cache) {
		r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 7))
				for range 3 {
					if err := scanAll(t, r, flagSets[g%len(flagSets)], es); err != nil {
						t.Error(err)
					}
					for range 500 {
						key, seq := probe(rng, es)
						want, ok := newest(c, es, key, seq)
						v, hit, found, err := r.Get(base.MakeLookup(base.Bytewise, key, seq), 0,
							nil)
						if err != nil || found != ok || found &&
							(hit.Trailer != want.Trailer || !bytes.Equal(v, want.Value)) {
							t.Errorf("Get %q@%d is %q %d %v %v, want %v %v", key, seq, v,
								hit.Trailer, found, err, want, ok)
							return
						}
					}
				}
			})
		}
		wg.Wait()
		r.Close()
	})
}

// allocations: reads of cached and of cold blocks take nothing from the heap.
func (s *suite) allocations(t *testing.T) {
	c := base.Bytewise
	es := Random(rand.New(rand.NewPCG(10, 10)), c, 500)
	b, _ := s.write(t, usual(c), es)
	withCache(1<<20, func(ca *cache.Cache) {
		f := vfs.ReadFile(&quiet{b})
		if s.mapped != nil {
			f = s.file(t, &memFile{b: b})
		}
		r, err := s.Open(f, Env{Name: "t", Cache: ca, Comparer: c})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		dst := make([]byte, 0, 1024)
		get := func(flags sstable.ReadFlags) func() {
			return func() {
				for _, e := range es[:50] {
					l := base.MakeLookup(base.Bytewise, e.Key, base.MaxSeqNum)
					_, hit, found, err := r.Get(l, flags, dst)
					for found && err == nil {
						_, hit, found, err = r.GetNext(hit, l, flags, dst)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for _, flags := range []sstable.ReadFlags{sstable.NoFill, 0} {
			if n := testing.AllocsPerRun(20, get(flags)); n != 0 {
				t.Errorf("flags %d: %v allocations in 50 gets of all versions", flags, n)
			}
		}
		var e base.Chunk
		for _, flags := range flagSets {
			src := r.NewSource(flags)
			if n := testing.AllocsPerRun(10, func() {
				i, err := src.First(&e)
				for ok := i == 0; ok; ok, err = src.Next(&e) {
				}
				_, err2 := src.SeekGE(es[100].Key, base.MaxTrailer, &e)
				_, err3 := src.SeekLT(es[400].Key, base.MaxTrailer, &e)
				if err != nil || err2 != nil || err3 != nil {
					t.Error(err, err2, err3)
				}
			}); n != 0 {
				t.Errorf("flags %d: %v allocations in a scan", flags, n)
			}
			src.Close()
		}
	})
}

// quiet is a file whose reads allocate nothing.
type quiet struct{ b []byte }

func (q *quiet) ReadAt(p []byte, off int64) (int, error) { return copy(p, q.b[off:]), nil }
func (q *quiet) Close() error                            { return nil }
func (q *quiet) Size() int64                             { return int64(len(q.b)) }
func (q *quiet) Prefetch(off, n int64)                   {}
