package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
	testseed "github.com/loamdb/loam/internal/testkit/seed"
)

// TestVersions reads every version of a key with many.
func TestVersions(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	key := []byte("k")
	const n = 5000
	for i := 1; i <= n; i++ {
		m.Add(base.SeqNum(10*i), base.KindSet, key, fmt.Append(nil, i))
	}
	for i := 0; i <= n; i++ {
		for _, d := range []int{0, 5, 9} {
			v, _, ok := m.Get(MakeLookup(m.cmp, key, base.SeqNum(10*i+d)))
			if ok != (i > 0) || ok && string(v) != fmt.Sprint(i) {
				t.Fatalf("version at %d: %q, %v", 10*i+d, v, ok)
			}
		}
	}
	mem := m.mem.Load()
	_, off := mem.find(key, hashKey(key))
	if d := mem.links(off).depth; d != n-1 {
		t.Errorf("depth %d, want %d", d, n-1)
	}
	for steps := 0; off != 0; steps++ { // following jumps alone reaches the oldest fast
		off = mem.links(off).jump
		if steps > 30 {
			t.Fatal("jumps are short")
		}
	}
}

// TestDisorder adds sequences that do not only rise, as a log from elsewhere may.
func TestDisorder(t *testing.T) {
	o := model.New(base.Bytewise)
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	rng := rand.New(rand.NewSource(1))
	key := keyMaker(rng, 30)
	for _, s := range rng.Perm(3000) {
		k, v := key(), fmt.Sprint(s)
		m.Add(base.SeqNum(s), base.KindSet, []byte(k), []byte(v))
		o.Add(model.Entry{Key: []byte(k), Value: []byte(v),
			Trailer: base.MakeTrailer(base.SeqNum(s), base.KindSet)})
	}
	checkGets(t, o, m, key, rng, 3000, 3000)
	checkSources(t, o, m, key, rng, 3000)
	m.Seal()
	checkSources(t, o, m, key, rng, 3000)
}

func TestRoom(t *testing.T) {
	fillUp := func(m *MemTable, keyLen, valueLen int) (n int, bytes int64) {
		key := make([]byte, keyLen)
		rng := rand.New(rand.NewSource(1))
		for {
			rng.Read(key)
			b := batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSet, key,
				make([]byte, valueLen))
			if m.Room(int64(len(b)), 1) != nil {
				if err := m.Apply(b, 1); !errors.Is(err, ErrFull) {
					t.Fatalf("Apply without room: %v", err)
				}
				return n, m.Bytes()
			}
			if err := m.Apply(b, base.SeqNum(n+1)); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	for _, c := range []struct{ size, guess, key, value, wantN, wantBytes int }{
		{1 << 20, 0, 16, 100, 7900, 1 << 20 * 99 / 100},
		{1 << 20, 132, 16, 100, 7900, 1 << 20 * 99 / 100},
		{1 << 20, 1 << 20, 16, 100, 1700, 200 << 10}, // guess far too large: the index fills first
		{1 << 20, 1, 16, 100, 7900, 1 << 20 * 99 / 100},
		{0, 0, 16, 100, 480, 60 << 10},
	} {
		m := New(Options{Comparer: base.Bytewise, Size: int64(c.size),
			EntrySize: c.guess, Large: true})
		n, bytes := fillUp(m, c.key, c.value)
		if n < c.wantN || bytes < int64(c.wantBytes) {
			t.Errorf("%+v: %d entries, %d bytes", c, n, bytes)
		}
		m.Unref()
	}
}

// TestLargeBatch applies batches beyond the size that the table was made for.
func TestLargeBatch(t *testing.T) {
	before := offheap.InUse()
	for _, n := range []int{1, 40000} {
		m := New(Options{Comparer: base.Bytewise, Size: 64 << 10})
		if err := m.Room(1, 1); err != nil {
			t.Fatal(err)
		}
		early, empty := m.NewSource(), m.mem.Load()
		value := make([]byte, 3<<20/n)
		b := batchrepr.Init(nil)
		for i := range n {
			b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet,
				fmt.Appendf(nil, "%d", i), value)
		}
		if m.Room(int64(len(b)), n) != nil {
			t.Fatalf("a fresh table has no room for %d entries", n)
		}
		if err := m.Apply(b, 1); err != nil {
			t.Fatal(err)
		}
		if m.Room(1<<20, 1) == nil {
			t.Error("still room")
		}
		for i := range n {
			k := fmt.Appendf(nil, "%d", i)
			if v, _, ok := m.Get(MakeLookup(m.cmp, k, base.MaxSeqNum)); !ok ||
				len(v) != len(value) {
				t.Fatalf("key %d: %d bytes, %v", i, len(v), ok)
			}
		}
		if _, off := empty.find([]byte("0"), hashKey([]byte("0"))); off != 0 {
			t.Error("the memory before it grew is not empty")
		}
		early.Close()
		m.Unref()
	}
	if got := offheap.InUse(); got != before {
		t.Errorf("%d bytes in use before, %d after", before, got)
	}
	m := New(Options{Comparer: base.Bytewise, Size: 64 << 10})
	defer m.Unref()
	for _, c := range []struct {
		n       int64
		entries int
	}{{maxArena, 1}, {1 << 62, 1}, {-1, 1}, {100, -1}, {100, 1 << 30}, {1<<63 - 1, math.MaxInt}} {
		if m.Room(c.n, c.entries) == nil {
			t.Errorf("room for %d bytes, %d entries", c.n, c.entries)
		}
	}
	if m.Room(100, 1) != nil {
		t.Error("no room after refusals")
	}
}

// TestRoomAsPlanned makes tables that are just large enough for one batch.
func TestRoomAsPlanned(t *testing.T) {
	for _, n := range []int{1, 100, 20000} {
		b := batchrepr.Init(nil)
		for i := range n {
			b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindDelete, fmt.Append(nil, i),
				nil)
		}
		size := int64(len(b)) + int64(n)*maxHeader + arenaStart
		m := New(Options{Comparer: base.Bytewise, Size: size,
			EntrySize: maxEntryGuess, Large: true})
		if got := int64(m.planned.arena); got < size {
			t.Errorf("arena of %d bytes for %d entries", got, n)
		}
		if m.Room(int64(len(b)), n) != nil {
			t.Errorf("no room for %d entries", n)
		} else if err := m.Apply(b, 1); err != nil {
			t.Error(err)
		}
		if m.Iterated() {
			t.Error("iterated without a source")
		}
		m.NewSource().Close()
		if !m.Iterated() || !m.order.on.Load() {
			t.Error("not kept in order after a source")
		}
		m.Unref()
	}
}

func TestEmpty(t *testing.T) {
	for _, c := range []*base.Comparer{base.Bytewise, model.Fold} {
		m := New(Options{Comparer: c, Size: 1 << 20})
		if _, _, ok := m.Get(MakeLookup(m.cmp, []byte("a"), base.MaxSeqNum)); ok {
			t.Error("found in an empty table")
		}
		src := m.NewSource()
		full(t, c, nil, src)
		src.Close()
		src.Close()
		m.Seal()
		if m.Len() != 0 || m.Bytes() != 0 || m.MemoryUsage() != 0 || m.EntrySize() != 0 {
			t.Error("an empty table has a size")
		}
		m.Unref()
	}
}

// TestComparerPanics has a user's comparer fail in every place where order is
// made: the error comes out of the source, and nothing leaks.
func TestComparerPanics(t *testing.T) {
	before := offheap.InUse()
	for _, allow := range []int64{1, 500, 50000, 120000, 200000} {
		var left atomic.Int64
		left.Store(allow)
		c := &base.Comparer{Name: "test.Panics", Compare: func(a, b []byte) int {
			if left.Add(-1) == 0 {
				panic("comparer gave up")
			}
			return bytes.Compare(a, b)
		}}
		m := New(Options{Comparer: c, Size: 4 << 20, Ordered: allow != 500})
		for i := range 10000 {
			m.Add(base.SeqNum(i+1), base.KindSet, fmt.Append(nil, i*7919%10007), nil)
		}
		m.order.bg.Wait()
		m.Add(10001, base.KindSet, []byte("not in order yet"), nil)
		left.Store(min(left.Load(), 1))
		m.Seal()
		src := m.NewSource()
		var e base.Chunk
		if i, err := src.First(&e); err == nil ||
			!strings.Contains(err.Error(), "comparer gave up") || i >= 0 {
			t.Errorf("after %d compares: %v", allow, err)
		}
		src.Close()
		left.Store(1 << 60)
		if _, hit, ok := m.Get(MakeLookup(m.cmp, []byte("5"), base.MaxSeqNum)); !ok ||
			hit.Trailer.Seq() == 0 {
			t.Error("Get needs the order that could not be made")
		}
		m.Unref()
	}
	if got := offheap.InUse(); got != before {
		t.Errorf("%d bytes in use before, %d after", before, got)
	}
}

// TestComparerPanicsBetweenArrays has a comparer panic while parts of an arena are merged, which
// were sorted side by side: their memory is freed.
func TestComparerPanicsBetweenArrays(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const n = 2 * parallelFrom
	panics := func(at int64) bool {
		var calls atomic.Int64
		c := &base.Comparer{Name: "test.Panics", Compare: func(a, b []byte) int {
			if calls.Add(1) == at {
				panic("comparer gave up")
			}
			return bytes.Compare(a, b)
		}}
		m := New(Options{Comparer: c, Size: 4 << 20})
		defer m.Unref()
		for i := range n {
			m.Add(base.SeqNum(i+1), base.KindSet, fmt.Append(nil, i*7919%n), nil)
		}
		m.NewSource().Close()
		return m.order.err != nil
	}
	before := offheap.InUse()
	for at := int64(10 * n); panics(at); at += at / 16 { // sorting takes as many calls, or more
		if got := offheap.InUse(); got != before {
			t.Fatalf("call %d: %d bytes in use before, %d after", at, before, got)
		}
	}
}

// TestConcurrent has readers of all kinds beside the writer.
func TestConcurrent(t *testing.T) {
	for _, c := range []*base.Comparer{base.Bytewise, model.Fold} {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { concurrent(t, c) })
		})
	}
}

// checkScan reads all entries of m, which has at least seen, in order and each with its value.
func checkScan(t *testing.T, m *MemTable, seen int64) {
	src := m.NewSource()
	defer src.Close()
	n, last, lastT := int64(0), []byte(nil), base.Trailer(0)
	err := base.Scan(src, func(e *base.Chunk) error {
		for i := range e.Len() {
			if n > 0 && m.cmp.CompareInternal(last, lastT, e.Key(i), e.Trailers[i]) >= 0 {
				t.Error("out of order")
			}
			last, lastT = append(last[:0], e.Key(i)...), e.Trailers[i]
			if string(e.Value(i)) != fmt.Sprint(lastT.Seq()-1) {
				t.Error("value of another entry")
			}
			n++
		}
		return nil
	})
	if n < seen || err != nil {
		t.Errorf("%d entries, at least %d expected, %v", n, seen, err)
	}
}

// concurrent is run in a bubble, which fails if a goroutine is left.
func concurrent(t *testing.T, c *base.Comparer) {
	total := 20000
	if c.EqualIsBytewise && !testing.Short() {
		total *= 3
	}
	const keys = 5000
	m, looked := New(Options{Comparer: c, Size: 16 << 20,
		EntrySize: 40, Large: true}), make(chan struct{})
	name := func(i int) []byte { return fmt.Appendf(nil, "key%06d", i%keys*7919%keys) }
	var visible atomic.Int64 // entry i, of sequence i+1, has key name(i) and value i
	var stop atomic.Bool
	var wg sync.WaitGroup
	reader := func(f func(rng *rand.Rand, seen int64)) {
		wg.Go(func() {
			rng := rand.New(rand.NewSource(1))
			for !stop.Load() {
				if seen := visible.Load(); seen > 0 {
					f(rng, seen)
				}
				select {
				case looked <- struct{}{}:
				default:
					runtime.Gosched()
				}
			}
		})
	}
	get := func(rng *rand.Rand, seen int64) {
		i := rng.Int63n(seen)
		seq := base.SeqNum(rng.Int63n(seen) + 1)
		k := name(int(i))
		v, _, ok := m.Get(MakeLookup(m.cmp, k, seq))
		want := int64(-1)
		if j := int64(seq-1) - ((int64(seq-1)-i)%keys+keys)%keys; j >= 0 {
			want = j
		}
		if ok != (want >= 0) || ok && string(v) != fmt.Sprint(want) {
			t.Errorf("Get(%s, %d) = %q, %v; want %d", k, seq, v, ok, want)
		}
	}
	scan := func(_ *rand.Rand, seen int64) { checkScan(t, m, seen) }
	seek := func(rng *rand.Rand, seen int64) {
		src := m.NewSource()
		defer src.Close()
		var e base.Chunk
		for range 50 {
			k := name(int(rng.Int63n(seen)))
			if i, err := src.SeekGE(k, base.MaxTrailer, &e); err != nil || i < 0 ||
				!bytes.Equal(e.Key(i), k) {
				t.Error("key not found by seek")
			}
			if i, err := src.SeekLT(k, 0, &e); err != nil || i < 0 || !bytes.Equal(e.Key(i), k) {
				t.Error("key not found by seek backward")
			}
		}
	}
	reader(get)
	reader(scan)
	reader(seek)
	for i := 0; i < total; {
		b := batchrepr.Init(nil)
		n := min(1+i%50, total-i)
		for j := range n {
			b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet, name(i+j),
				fmt.Append(nil, i+j))
		}
		if m.Room(int64(len(b)), n) != nil {
			t.Fatal("no room")
		}
		if err := m.Apply(b, base.SeqNum(i+1)); err != nil {
			t.Fatal(err)
		}
		i += n
		visible.Store(int64(i))
	}
	m.Seal()
	for range 20 {
		<-looked
	}
	stop.Store(true)
	wg.Wait()
	m.Unref()
}

// TestReadersBesideInserts: readers at one sequence number find exactly their entries, while many
// newer entries are inserted. (The mutants torn-leaf and torn-branch are found here.)
func TestReadersBesideInserts(t *testing.T) {
	for r := range testseed.Scale(10, 40, 150) {
		if readersBesideInserts(t, int64(r)); t.Failed() {
			return
		}
	}
}

func readersBesideInserts(t *testing.T, seed int64) {
	const old, some = 500, 100
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20, EntrySize: 40, Large: true})
	defer m.Unref()
	name := func(i int) []byte { return fmt.Appendf(nil, "%06d", i) }
	for i := range old {
		m.Add(base.SeqNum(i+1), base.KindSet, name(i), nil)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	// walk checks that from entry i of e on come entries at, at+step and so on.
	walk := func(e *base.Chunk, i int, err error, at, step int,
		move func(*base.Chunk) (bool, error)) bool {
		for range some {
			if err != nil || i < 0 || i >= e.Len() || string(e.Key(i)) != string(name(at)) {
				t.Errorf("looking for entry %d: nothing, or another one", at)
				return false
			}
			at += step
			if i += step; i >= 0 && i < e.Len() {
				continue
			}
			if ok, err := move(e); !ok {
				t.Errorf("no entry %d, %v", at, err)
				return false
			}
			if i = 0; step < 0 {
				i = e.Len() - 1
			}
		}
		return true
	}
	for r := range 3 {
		src := m.NewSourceAt(old)
		wg.Go(func() {
			defer src.Close()
			rng := rand.New(rand.NewSource(seed*3 + int64(r)))
			var e base.Chunk
			for !stop.Load() {
				at := rng.Intn(old - some - 1)
				i, err := src.SeekGE(name(at), base.MaxTrailer, &e)
				if !walk(&e, i, err, at, 1, src.Next) {
					return
				}
				at = some + 1 + rng.Intn(old-some-1)
				i, err = src.SeekLT(name(at), base.MaxTrailer, &e)
				if !walk(&e, i, err, at-1, -1, src.Prev) {
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewSource(seed))
	for i := range 10 * old {
		m.Add(base.SeqNum(old+i+1), base.KindSet, fmt.Appendf(nil, "%06d%d", rng.Intn(old),
			rng.Intn(20)), nil)
		if i%7 == 0 {
			m.NewSource().Close()
		}
	}
}

// TestUnrefDuringWork frees tables while the background works on them. The bubble fails if a
// goroutine is left.
func TestUnrefDuringWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := offheap.InUse()
		rng := rand.New(rand.NewSource(1))
		tables := 10
		if testing.Short() {
			tables = 3
		}
		for i := range tables {
			m := New(Options{Comparer: base.Bytewise, Size: 8 << 20,
				EntrySize: 30, Large: true, Ordered: true})
			for j := range 33000 + i*300 {
				m.Add(base.SeqNum(j+1), base.KindSet, fmt.Append(nil, rng.Int()), nil)
			}
			m.Unref()
			synctest.Wait()
		}
		if got := offheap.InUse(); got != before {
			t.Errorf("%d bytes in use before, %d after", before, got)
		}
	})
}

// TestNoMemory asks again after the system had none.
func TestNoMemory(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	m.Add(1, base.KindSet, []byte("k"), nil)
	m.order.err = fmt.Errorf("sorting: %w", offheap.ErrNoMemory)
	src := m.NewSource()
	defer src.Close()
	var e base.Chunk
	if i, err := src.First(&e); i != 0 || err != nil {
		t.Error(i, err)
	}
}

// TestAscending checks that a table written in order is known to be.
func TestAscending(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
	defer m.Unref()
	for i := range 5000 {
		m.Add(base.SeqNum(i+1), base.KindSet, fmt.Appendf(nil, "%016d", i), nil)
	}
	s := &sorter{cmp: base.Bytewise, mem: m.mem.Load(), rising: true}
	if !s.collect(arenaStart, m.end.Load()) || len(s.prefix) != 12 {
		t.Errorf("sorted input not seen as such; prefix of %d", len(s.prefix))
	}
}

// TestAscendingWithVersions writes keys in order, one of them twice in a row.
func TestAscendingWithVersions(t *testing.T) {
	for _, twice := range []int{0, 1, 200} {
		m := New(Options{Comparer: base.Bytewise, Size: 1 << 20})
		seq := base.SeqNum(0)
		for i := range 3 * sortFrom {
			key := fmt.Appendf(nil, "%03d", i)
			for again := i == twice; ; again = false {
				seq++
				m.Add(seq, base.KindSet, key, nil)
				if !again {
					break
				}
			}
		}
		m.Seal()
		checkTree(t, m)
		m.Unref()
	}
}

// TestTies sorts keys that abbreviations tell apart late or not at all.
func TestTies(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise} {
		o := model.New(c)
		m := New(Options{Comparer: c, Size: 4 << 20})
		rng := rand.New(rand.NewSource(1))
		for i := range 6000 {
			k := ""
			switch i % 4 {
			case 0:
				k = "p" + strings.Repeat("\x00", rng.Intn(40))
			case 1:
				k = long + fmt.Sprintf("%012d", rng.Intn(3000))
			case 2:
				k = long[:rng.Intn(100)]
			case 3:
				k = long + "same"
			}
			m.Add(base.SeqNum(i+1), base.KindSet, []byte(k), nil)
			o.Add(model.Entry{Key: []byte(k), Trailer: base.MakeTrailer(base.SeqNum(i+1),
				base.KindSet)})
		}
		m.Seal()
		es := o.Entries()
		key := func() string { return string(es[rng.Intn(len(es))].Key) }
		src := m.NewSource()
		walk(t, c, es, src, key, rng, 300)
		src.Close()
		checkSources(t, o, m, key, rng, 6000)
		m.Unref()
	}
}

// TestOverwrites has many versions of keys in several arrays, with keys of one
// length that abbreviations tell apart or do not, in order and not.
func TestOverwrites(t *testing.T) {
	formats := []string{"shared-prefix-%06[1]d", "%06[1]d-shared-suffix", "%[1]d",
		"%02[2]d------%[3]d"}
	comparers := []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.Fold}
	if testing.Short() { // one goroutine only
		formats, comparers = formats[:2], comparers[:2]
	}
	for _, c := range comparers {
		for f, format := range formats {
			for _, rising := range []bool{true, false} {
				o := model.New(c)
				m := New(Options{Comparer: c, Size: 4 << 20, Ordered: true})
				rng := rand.New(rand.NewSource(int64(f)))
				key := func() string { k := rng.Intn(900); return fmt.Sprintf(format, k, k/9, k%9) }
				const n = 14000
				seqs := make([]int, n)
				for i := range seqs {
					seqs[i] = i + 1
				}
				if !rising {
					slices.Reverse(seqs[n/2:])
				}
				for i, s := range seqs {
					k, kind := key(), base.KindSet
					if rng.Intn(20) == 0 {
						kind = base.KindDelete
					}
					if err := m.Add(base.SeqNum(s), kind, []byte(k), nil); err != nil {
						t.Fatal(err)
					}
					o.Add(model.Entry{Key: []byte(k), Trailer: base.MakeTrailer(base.SeqNum(s),
						kind)})
					if i%3100 == 3000 {
						m.NewSource().Close()
					}
				}
				if m.disorder.Load() == rising {
					t.Errorf("disorder %v", m.disorder.Load())
				}
				checkSources(t, o, m, key, rng, n)
				m.Seal()
				checkSources(t, o, m, key, rng, n)
				m.Unref()
			}
		}
	}
}

// TestBackground checks that the background leaves less than a chunk to do.
func TestBackground(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 32 << 20,
		EntrySize: 36, Large: true, Ordered: true})
	defer m.Unref()
	rng := rand.New(rand.NewSource(1))
	entries := 200000
	if testing.Short() {
		entries = 16 * backlogEntries
	}
	for i := range entries {
		if err := m.Add(base.SeqNum(i+1), base.KindSet, fmt.Append(nil, rng.Int()),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	m.order.bg.Wait()
	if m.order.sorted < int64(entries-2*backlogEntries) {
		t.Errorf("only %d entries in the tree", m.order.sorted)
	}
	checkTree(t, m)
}

// TestBesideWrites opens a source after every few writes, in several orders of the
// keys: all entries must be there in order.
func TestBesideWrites(t *testing.T) {
	sizes := []int{1, 100, 1000}
	if testing.Short() { // one goroutine only
		sizes = sizes[1:2]
	}
	rng := rand.New(rand.NewSource(1))
	total := 3 * backlogEntries
	keys := map[string]func(i int) []byte{
		"random":     func(int) []byte { return fmt.Append(nil, rng.Int()) },
		"ascending":  func(i int) []byte { return fmt.Appendf(nil, "key%08d", i) },
		"descending": func(i int) []byte { return fmt.Appendf(nil, "key%08d", total-i) },
		"long": func(int) []byte {
			return fmt.Appendf(nil, "%s/%d/%08d", strings.Repeat("shared ", 8), rng.Intn(3),
				rng.Intn(1<<30))
		},
	}
	for name, key := range keys {
		for _, each := range sizes {
			m := New(Options{Comparer: base.Bytewise, Size: 32 << 20, EntrySize: 64, Large: true})
			n := 0
			for n < total {
				for range each {
					n++
					if err := m.Add(base.SeqNum(n), base.KindSet, key(n), nil); err != nil {
						t.Fatal(err)
					}
				}
				m.NewSource().Close()
			}
			checkTree(t, m)
			if m.order.sorted != int64(n) {
				t.Errorf("%s: %d of %d entries, written %d at a time", name, m.order.sorted, n,
					each)
			}
			if leaves := int(m.order.leaves.n); leaves > 2*n/fanout+2 {
				t.Errorf("%s: %d leaves for %d entries", name, leaves, n)
			}
			m.Unref()
		}
	}
}

func TestAllLiveSets(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 1 << 20, Ordered: true})
	defer m.Unref()
	for i := range 9000 {
		m.Add(base.SeqNum(i+1), base.KindSet, fmt.Appendf(nil, "%d", i*7919%9001), nil)
		if i%1000 == 0 {
			m.NewSource().Close()
		}
	}
	check := func(want bool) {
		t.Helper()
		src := m.NewSource()
		defer src.Close()
		all := true
		err := base.Scan(src, func(e *base.Chunk) error {
			all = all && e.AllLiveSets
			return nil
		})
		if all != want || err != nil {
			t.Errorf("all %v, want %v, %v", all, want, err)
		}
	}
	check(true)
	m.Add(9001, base.KindDelete, []byte("zz"), nil)
	check(false)
	m.Seal()
	check(false)
}

func TestAllocs(t *testing.T) {
	m := New(Options{Comparer: base.Bytewise, Size: 4 << 20})
	defer m.Unref()
	var keys [][]byte
	for i := range 3000 {
		keys = append(keys, fmt.Appendf(nil, "%016d", i))
	}
	b := batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSet, keys[0],
		keys[1])
	i := 0
	gates := []struct {
		name string
		max  float64
		f    func()
	}{
		{"Apply", 0, func() { _ = m.Apply(b, base.SeqNum(i+1)) }},
		{"Get", 0, func() { m.Get(MakeLookup(m.cmp, keys[i], base.MaxSeqNum)) }},
	}
	var e base.Chunk
	src := m.NewSource()
	defer src.Close()
	gates = append(gates, struct {
		name string
		max  float64
		f    func()
	}{"Seek", 0, func() { _, _ = src.SeekGE(keys[i], base.MaxTrailer, &e); _, _ = src.Next(&e) }})
	for _, g := range gates {
		if n := testing.AllocsPerRun(500, func() { g.f(); i = (i + 1) % len(keys) }); n > g.max {
			t.Errorf("%s: %v allocations", g.name, n)
		}
	}
	m.Seal()
	if n := testing.AllocsPerRun(100, func() { m.NewSource().Close() }); n > 1 {
		t.Errorf("NewSource: %v allocations", n)
	}
}

// TestDeletionsAreOrdered: where much is deleted the background orders entries before somebody
// iterates, and not where little is.
func TestDeletionsAreOrdered(t *testing.T) {
	for _, n := range []int{0, orderDeletes / 2, 2 * orderDeletes} {
		m := New(Options{Comparer: base.Bytewise, Size: 8 << 20})
		seq := base.SeqNum(0)
		add := func(i int, kind base.Kind) {
			t.Helper()
			seq++
			if err := m.Add(seq, kind, fmt.Appendf(nil, "k%06d", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 * orderDeletes {
			add(i, base.KindSet)
		}
		for i := range n {
			add(i, base.KindDelete)
		}
		m.order.bg.Wait()
		m.order.mu.Lock()
		sorted := m.order.sorted
		m.order.mu.Unlock()
		if ordered := sorted > 0; ordered != (n >= orderDeletes) {
			t.Errorf("after %d deletions %d of %d entries are in order", n, sorted, seq)
		}
		m.Unref()
	}
}
