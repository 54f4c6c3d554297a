package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// growing is a file whose first bytes are those of a log so far; after them come the former bytes.
type growing struct {
	log, before []byte
	shown       int
}

func (g *growing) bytes() []byte {
	b := bytes.Clone(g.log[:g.shown])
	return append(b, g.before[min(len(g.before), len(b)):]...)
}

func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := int(off) + n
		switch {
		case at < g.shown:
			n += copy(p[n:], g.log[at:g.shown])
		case at < len(g.before):
			n += copy(p[n:], g.before[at:])
		default:
			return n, io.EOF
		}
	}
	return n, nil
}

// tailed is the records that Next returns before ErrNotYet.
func tailed(t *testing.T, tail *Tail) (recs [][]byte) {
	t.Helper()
	for {
		rec, err := tail.Next()
		if errors.Is(err, ErrNotYet) {
			return recs
		}
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, bytes.Clone(rec))
	}
}

// TestTailAtEveryByte shows a log to a Tail byte by byte, over zeros and over a former life: it
// returns each record when its last byte is there, and finds no damage.
func TestTailAtEveryByte(t *testing.T) {
	l, former := chainSample(t)
	plain := &memLog{}
	w := NewWriter(plain)
	var ends []int64
	for _, rec := range l.recs {
		if err := w.Append(rec); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w.Size())
	}
	room := make([]byte, len(l.data)+3*blockSize)
	for _, c := range []struct {
		name string
		g    growing
		ends []int64
		tail func(r io.ReaderAt, pos int64) *Tail
	}{
		{"framing", growing{log: plain.data}, ends, func(r io.ReaderAt, pos int64) *Tail {
			return NewTail(r, "000007.log", pos)
		}},
		{"framing over zeros", growing{log: plain.data, before: room}, ends,
			func(r io.ReaderAt, pos int64) *Tail { return NewTail(r, "000007.log", pos) }},
		{"chained", growing{log: l.data}, l.ends, func(r io.ReaderAt, pos int64) *Tail {
			return NewChainTail(r, "000007.wal", chainNum, pos)
		}},
		{"chained over zeros", growing{log: l.data, before: room}, l.ends,
			func(r io.ReaderAt, pos int64) *Tail {
				return NewChainTail(r, "000007.wal", chainNum, pos)
			}},
		{"chained over a former life", growing{log: l.data, before: former}, l.ends,
			func(r io.ReaderAt, pos int64) *Tail {
				return NewChainTail(r, "000007.wal", chainNum, pos)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &c.g
			tail := c.tail(g, 0)
			var got [][]byte
			near := func(at, of int64) bool {
				return at >= of-chainHeaderLen && at <= of+chainHeaderLen+1
			}
			for g.shown = range len(g.log) + 1 {
				at := int64(g.shown)
				if g.shown%37 != 0 && !near(at, at/blockSize*blockSize) &&
					!near(at, (at/blockSize+1)*blockSize) &&
					g.shown < len(g.log) && !slices.ContainsFunc(c.ends, func(end int64) bool {
					return near(at, end)
				}) {
					continue
				}
				got = append(got, tailed(t, tail)...)
				there := g.shown // the next bytes may be those of the former life
				for there < min(len(g.log), len(g.before)) && g.before[there] == g.log[there] {
					there++
				}
				whole := 0
				for whole < len(c.ends) && c.ends[whole] <= int64(there) {
					whole++
				}
				if !equal(got, l.recs[:whole]) {
					t.Fatalf("%d bytes: %d records of %d", g.shown, len(got), whole)
				}
				if g.shown%333 == 0 {
					if resume, err := tail.Examine(int64(len(g.bytes()))); resume != 0 ||
						err != nil {
						t.Fatalf("%d bytes: %d, %v", g.shown, resume, err)
					}
					if whole > 0 && whole < len(c.ends) {
						again := c.tail(g, c.ends[whole-1])
						if more := tailed(t, again); len(more) > 0 {
							t.Fatalf("%d bytes: %d records from %d on", g.shown, len(more),
								c.ends[whole-1])
						}
						if again.End() != c.ends[whole-1] {
							t.Fatalf("a Tail of %d stands at %d", c.ends[whole-1], again.End())
						}
					}
				}
			}
			for i, end := range c.ends {
				if rest := tailed(t, c.tail(g, end)); !equal(rest, l.recs[i+1:]) {
					t.Fatalf("from %d on: %d records", end, len(rest))
				}
			}
		})
	}
}

// TestTailOfARecordTakenBack has a writer cut off what a failed append left, and write another
// record there, after a Tail saw it.
func TestTailOfARecordTakenBack(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 200 {
		l := newChainLog(t, nil)
		g := &growing{}
		tail := NewChainTail(g, "000007.wal", chainNum, 0)
		var want, got [][]byte
		for i := range 6 {
			rec := pattern(round*10+i, rng.IntN(3*blockSize))
			if rng.IntN(2) == 0 {
				l.memLog.err, l.memLog.partial = errors.New("full"), rng.IntN(len(rec)+20)
				if err := l.w.Append(rec); err == nil {
					t.Fatal("no error")
				}
				l.memLog.err = nil
				g.log, g.shown = l.data, len(l.data)
				if l.memLog.partial < len(rec) {
					got = append(got, tailed(t, tail)...)
				}
				if err := l.w.Cut(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			l.add(t, rec)
			want = append(want, rec)
			g.log, g.shown = l.data, len(l.data)
			got = append(got, tailed(t, tail)...)
			if !equal(got, want) {
				t.Fatalf("seed %d, round %d: %d records of %d", seed, round, len(got), len(want))
			}
		}
	}
}

// TestTailFindsDamage changes a byte of each record before the last ones: the records before it
// are returned, and Examine tells of damage where records follow that prove it.
func TestTailFindsDamage(t *testing.T) {
	l := newChainLog(t, nil)
	plain := &memLog{}
	w := NewWriter(plain)
	var ends []int64
	for i := range 20 {
		rec := pattern(i, 100+3000*i)
		l.add(t, rec)
		l.sync(t)
		if err := w.Append(rec); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, w.Size())
	}
	for i := range 18 {
		b := bytes.Clone(l.data)
		b[l.ends[i]-1] ^= 1
		tail := NewChainTail(bytes.NewReader(b), "000007.wal", chainNum, 0)
		if got := tailed(t, tail); !equal(got, l.recs[:i]) {
			t.Fatalf("chained, record %d: %d records", i, len(got))
		}
		if _, err := tail.Examine(int64(len(b))); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("chained, record %d: %v", i, err)
		}
		b = bytes.Clone(plain.data)
		b[ends[i]-1] ^= 1
		tail = NewTail(bytes.NewReader(b), "000007.log", 0)
		if got := tailed(t, tail); !equal(got, l.recs[:i]) {
			t.Fatalf("framing, record %d: %d records", i, len(got))
		}
		if _, err := tail.Examine(int64(len(b))); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("framing, record %d: %v", i, err)
		}
	}
}

// TestTailOfDamagedHead: a clear log in LevelDB's framing whose first chunk is zeros, or of a type
// that only sealed logs have, is seen to stand still, and Examine finds the damage.
func TestTailOfDamagedHead(t *testing.T) {
	plain := &memLog{}
	w := NewWriter(plain)
	for i := range 5 {
		if err := w.Append(pattern(i, 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	for what, damage := range map[string]func(b []byte){
		"zeros":         func(b []byte) { clear(b[:headerLen]) },
		"a sealed head": func(b []byte) { b[atType] = chunkBegin },
	} {
		b := bytes.Clone(plain.data)
		damage(b)
		tail := NewTail(bytes.NewReader(b), "000007.log", 0)
		for looks := range 3 {
			if _, err := tail.Next(); err != ErrNotYet || tail.stuck.looks != looks+1 {
				t.Fatalf("%s: %v, %d looks", what, err, tail.stuck.looks)
			}
		}
		if _, err := tail.Examine(int64(len(b))); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTailOfAnotherLog follows a file through its lives: before the first chunk the log is empty,
// and ReadBegin reports a file that is another log.
func TestTailOfAnotherLog(t *testing.T) {
	old, next := numbered(t, 3, nil), numbered(t, 9, nil)
	for i := range 30 {
		old.add(t, pattern(i, 50))
		next.add(t, pattern(-i, 60))
	}
	g := &growing{log: old.data, shown: len(old.data)}
	first, later := NewChainTail(g, "000003.wal", 3, 0), NewChainTail(g, "000009.wal", 9, 0)
	for range 10 {
		if _, err := first.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, gone, err := later.ReadBegin(); gone || !errors.Is(err, ErrNotYet) {
		t.Fatalf("a log that was not begun: gone %v, %v", gone, err)
	}
	g.before, g.log = old.data, next.data
	for g.shown = 0; g.shown <= len(next.data); g.shown += 7 {
		for {
			rec, err := first.Next()
			if errors.Is(err, ErrNotYet) {
				break
			}
			if err != nil || !bytes.Equal(rec, old.recs[indexOf(old.ends, first.End())]) {
				t.Fatalf("%d bytes of the next life: a record at %d, %v", g.shown, first.Start(),
					err)
			}
		}
		_, gone, _ := first.ReadBegin()
		if want := g.shown > 0; gone != want && g.shown >= chainHeaderLen+beginLen {
			t.Fatalf("%d bytes of the next life: gone %v", g.shown, gone)
		}
	}
	if got := tailed(t, later); len(got) != 29 && len(got) != 30 {
		t.Errorf("%d records of the next life", len(got))
	}
}

func indexOf(ends []int64, end int64) int {
	for i, e := range ends {
		if e == end {
			return i
		}
	}
	return -1
}

// TestTailReadErrors fails a read: the Tail goes on when reads succeed again.
func TestTailReadErrors(t *testing.T) {
	l, former := chainSample(t)
	b := l.over(former)
	for off := int64(0); off < int64(len(l.data)); off += 5000 {
		bad := &flaky{r: bytes.NewReader(b), off: off}
		tail := NewChainTail(bad, "000007.wal", chainNum, 0)
		var got [][]byte
		for {
			rec, err := tail.Next()
			if errors.Is(err, ErrNotYet) {
				break
			}
			if err != nil {
				if bad.off < 0 {
					t.Fatal(err)
				}
				bad.off = -1
				continue
			}
			got = append(got, bytes.Clone(rec))
		}
		if bad.off >= 0 || !equal(got, l.recs) {
			t.Errorf("from %d on: %d records of %d", off, len(got), len(l.recs))
		}
	}
}

// flaky cannot be read from an offset on, -1 for none.
type flaky struct {
	r   io.ReaderAt
	off int64
}

func (f *flaky) ReadAt(p []byte, off int64) (int, error) {
	if f.off >= 0 && off+int64(len(p)) > f.off {
		return 0, errors.New("EIO")
	}
	return f.r.ReadAt(p, off)
}

// TestTailReach grows logs over zeros and over a former life, and damages one block of them: Reach
// is never before the end, and at most two blocks behind it.
func TestTailReach(t *testing.T) {
	former := numbered(t, 3, nil)
	plain := &memLog{}
	w := NewWriter(plain)
	for i := range 60 {
		former.add(t, pattern(i, 30000))
	}
	l := newChainLog(t, former.data)
	for i := range 50 {
		l.add(t, pattern(i, 20000+i))
		if err := w.Append(pattern(i, 20000+i)); err != nil {
			t.Fatal(err)
		}
	}
	zeros := make([]byte, len(former.data))
	rng := rand.New(rand.NewPCG(7, 1))
	for _, c := range []struct {
		name        string
		log, before []byte
		tail        func(r io.ReaderAt) *Tail
	}{
		{"framing", plain.data, nil, func(r io.ReaderAt) *Tail { return NewTail(r, "7.log", 0) }},
		{"framing over zeros", plain.data, zeros, func(r io.ReaderAt) *Tail {
			return NewTail(r, "7.log", 0)
		}},
		{"chained", l.data, nil, func(r io.ReaderAt) *Tail {
			return NewChainTail(r, "7.wal", chainNum, 0)
		}},
		{"chained over zeros", l.data, zeros, func(r io.ReaderAt) *Tail {
			return NewChainTail(r, "7.wal", chainNum, 0)
		}},
		{"chained over a former life", l.data, former.data, func(r io.ReaderAt) *Tail {
			return NewChainTail(r, "7.wal", chainNum, 0)
		}},
	} {
		for range 300 {
			g := &growing{log: c.log, before: c.before, shown: 100 + rng.IntN(len(c.log)-100)}
			size := int64(max(g.shown, len(c.before)))
			tail := c.tail(g)
			for range rng.IntN(3) {
				if _, err := tail.Next(); err != nil && !errors.Is(err, ErrNotYet) {
					t.Fatal(c.name, err)
				}
			}
			got, err := tail.Reach(size)
			if err != nil || got < int64(g.shown) || got > int64(g.shown)+2*blockSize {
				t.Fatalf("%s: the end is %d, Reach says %d, %v", c.name, g.shown, got, err)
			}
			at := (1 + rng.IntN(g.shown/blockSize+1)) * blockSize
			if at >= g.shown-3*blockSize {
				continue
			}
			damaged := &growing{log: bytes.Clone(c.log), before: c.before, shown: g.shown}
			clear(damaged.log[at : at+64])
			if got, err := c.tail(damaged).Reach(size); err != nil || got < int64(g.shown) {
				t.Fatalf("%s, damaged at %d: the end is %d, Reach says %d, %v", c.name, at, g.shown,
					got, err)
			}
		}
	}
}
