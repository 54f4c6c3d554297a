package memtable

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit/model"
)

// checkNode compares a node's summary with its entries. same is what the first one's
// bit should be.
func checkNode(t *testing.T, m *MemTable, x *node, leaf bool, before []byte) {
	t.Helper()
	mem := m.mem.Load()
	if x.n == 0 || x.n > fanout || x.version.Load()&1 != 0 {
		t.Fatalf("a node of %d entries, version %d", x.n, x.version.Load())
	}
	prefix := x.prefix(mem)
	for i := range fanout {
		if i >= int(x.n) {
			if x.ab[i] != ^uint64(0) {
				t.Fatalf("abbreviation %x behind the last entry", x.ab[i])
			}
			continue
		}
		key := mem.key(x.offs[i])
		if !bytes.HasPrefix(key, prefix) || x.ab[i] != m.cmp.Abbrev(key, len(prefix)) ||
			x.keyLen >= 0 && len(key) != int(x.keyLen) {
			t.Fatalf("entry %d, %q: prefix %q, abbreviation %x, key length %d", i, key, prefix,
				x.ab[i], x.keyLen)
		}
		if i > 0 {
			before = mem.key(x.offs[i-1])
			if mem.compare(m.cmp, x.offs[i-1], x.offs[i]) > 0 {
				t.Fatalf("%q stands after %q", key, before)
			}
		}
		same := before != nil && m.cmp.Cmp(before, key) == 0
		if leaf && same != (x.same>>i&1 != 0) {
			t.Fatalf("entry %d, %q, has the key of the one before: %v, as it says: %v", i, key,
				same, !same)
		}
	}
	if leaf && x.same>>(x.n-1)>>1 != 0 {
		t.Fatalf("bits behind the last entry: %x", x.same)
	}
}

// checkTree looks at the whole tree while nobody writes.
func checkTree(t *testing.T, m *MemTable) {
	t.Helper()
	o, mem := &m.order, m.mem.Load()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.root == 0 {
		return
	}
	seen := int64(0)
	leaf, before := uint32(0), []byte(nil)
	var last uint32
	var down func(id uint32, height int, first uint32)
	down = func(id uint32, height int, first uint32) {
		if height == 0 {
			x := o.leaves.at(id)
			if leaf == 0 && id != firstLeaf || leaf != 0 && o.leaves.at(leaf).next != id {
				t.Fatalf("leaf %d follows %d", id, leaf)
			}
			checkNode(t, m, x, true, before)
			if first != 0 && x.offs[0] != first {
				t.Fatalf("leaf %d begins with another entry than its branch says", id)
			}
			leaf, last, seen = id, x.offs[x.n-1], seen+int64(x.n)
			before = mem.key(last)
			return
		}
		b := o.branches.at(id)
		checkNode(t, m, &b.node, false, nil)
		for i := range b.n {
			if i == 0 {
				down(b.kids[i], height-1, first)
			} else {
				down(b.kids[i], height-1, b.offs[i])
			}
		}
	}
	down(o.root, o.height, 0)
	if o.leaves.at(leaf).next != 0 || o.last.Load() != leaf || seen != o.sorted {
		t.Fatalf("%d entries, %d in the leaves; the last one is %d, %d is thought to be", o.sorted,
			seen, leaf, o.last.Load())
	}
}

// checkSources compares m with the model at full length, all versions and as of a few
// sequences.
func checkSources(t *testing.T, o *model.Model, m *MemTable, key func() string, rng *rand.Rand,
	last base.SeqNum) {
	t.Helper()
	src := m.NewSource()
	full(t, m.cmp, o.Entries(), src)
	checkTree(t, m)
	src.Close()
	seqs := []base.SeqNum{base.SeqNum(rng.Int63n(int64(last) + 1)), base.MaxSeqNum, 0}
	if testing.Short() {
		seqs = seqs[:1]
	}
	for _, seq := range seqs {
		es, src := o.EntriesAt(seq), m.NewSourceAt(seq)
		full(t, m.cmp, es, src)
		walk(t, m.cmp, es, src, key, rng, 60)
		src.Close()
	}
}

// keyMaker makes keys of a few shapes: shared prefixes of changing length, tails
// of zeros (which abbreviations cannot tell apart), either case.
func keyMaker(rng *rand.Rand, space int) func() string {
	return func() string {
		k := rng.Intn(space)
		switch k % 7 {
		case 0:
			return fmt.Sprintf("user:%08d", k)
		case 1:
			return fmt.Sprintf("user:profile:settings:%d", k)
		case 2:
			return "u" + strings.Repeat("\x00", k%13)
		case 3:
			return strings.Repeat("ab", k%40)
		case 4:
			return fmt.Sprintf("User:%08d", k)
		case 5:
			return string([]byte{byte(k), byte(k >> 8), 0xff, 0xff})
		}
		return fmt.Sprintf("user:%08d:%d", k/100, k)
	}
}

// checkChunk verifies that a chunk holds the entries s[at:], as far as it goes.
func checkChunk(t *testing.T, cmp *base.Comparer, s []model.Entry, e *base.Chunk, at int) {
	t.Helper()
	var newest base.SeqNum
	plain := true
	for i := range e.Len() {
		got := model.Entry{Key: e.Key(i), Value: e.Value(i), Trailer: e.Trailers[i]}
		if at+i >= len(s) || !got.Equal(s[at+i]) {
			t.Fatalf("entry %d: got %q", at+i, got)
		}
		newest = max(newest, e.Trailers[i].Seq())
		same := at+i > 0 && cmp.Compare(s[at+i-1].Key, e.Key(i)) == 0
		plain = plain && e.Trailers[i].Kind() == base.KindSet && !same
	}
	if e.MaxSeq != newest {
		t.Fatalf("MaxSeq %d, want %d", e.MaxSeq, newest)
	}
	if e.AllLiveSets && !plain {
		t.Fatalf("chunk at %d says AllLiveSets", at)
	}
}

// walk moves a source of the entries s about.
func walk(t *testing.T, cmp *base.Comparer, s []model.Entry, src base.Source, key func() string,
	rng *rand.Rand, steps int) {
	t.Helper()
	var e base.Chunk
	for range steps {
		start := 0 // index in s of e's first entry
		var i int
		var err error
		tr := base.MakeTrailer(base.SeqNum(rng.Intn(len(s)+2)), base.Kind(rng.Intn(2)))
		switch k := key(); rng.Intn(6) {
		case 0:
			i, err = src.First(&e)
		case 1:
			i, err = src.Last(&e)
			start = len(s) - 1 - i
		case 2, 3:
			i, err = src.SeekGE([]byte(k), tr, &e)
			start = model.Search(cmp, s, []byte(k), tr) - max(i, 0)
		default:
			if rng.Intn(2) == 0 {
				tr = base.MaxTrailer
			}
			i, err = src.SeekLT([]byte(k), tr, &e)
			start = model.Search(cmp, s, []byte(k), tr) - 1 - i
		}
		if err != nil {
			t.Fatal(err)
		}
		if i < 0 {
			if e.Len() != 0 || start > 0 && start < len(s) {
				t.Fatalf("nothing found at %d of %d", start, len(s))
			}
			continue
		}
		if i > 1 && i != e.Len()-1 {
			t.Fatalf("index %d in a chunk of %d", i, e.Len())
		}
		checkChunk(t, cmp, s, &e, start)
		for range rng.Intn(12) {
			if rng.Intn(5) < 3 {
				start += e.Len()
				if ok, err := src.Next(&e); !ok {
					if start != len(s) || err != nil {
						t.Fatalf("ended at %d of %d, %v", start, len(s), err)
					}
					break
				}
			} else {
				if ok, err := src.Prev(&e); !ok {
					if start != 0 || err != nil {
						t.Fatalf("began at %d, %v", start, err)
					}
					break
				}
				start -= e.Len()
			}
			checkChunk(t, cmp, s, &e, start)
		}
	}
}

// full scans a source of the entries s both ways.
func full(t *testing.T, cmp *base.Comparer, s []model.Entry, src base.Source) {
	t.Helper()
	var e base.Chunk
	at := 0
	i, err := src.First(&e)
	for ok := i >= 0; ok; ok, err = src.Next(&e) {
		checkChunk(t, cmp, s, &e, at)
		at += e.Len()
	}
	if at != len(s) || err != nil {
		t.Fatalf("%d of %d entries forward, %v", at, len(s), err)
	}
	i, err = src.Last(&e)
	for ok := i >= 0; ok; ok, err = src.Prev(&e) {
		at -= e.Len()
		checkChunk(t, cmp, s, &e, at)
	}
	if at != 0 || err != nil {
		t.Fatalf("%d entries missing backward, %v", at, err)
	}
}

func TestModel(t *testing.T) {
	for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.Fold} {
		for seed := range int64(6) {
			t.Run(fmt.Sprintf("%s/%d", c.Name, seed), func(t *testing.T) {
				runModel(t, c, seed)
			})
		}
	}
}

func runModel(t *testing.T, c *base.Comparer, seed int64) {
	before := offheap.InUse()
	rng := rand.New(rand.NewSource(seed))
	o, written := model.New(c), 0
	m := New(Options{Comparer: c, Size: 8 << 20, EntrySize: 40, Large: true, Ordered: seed%3 == 0})
	key := keyMaker(rng, 50<<(2*seed))
	total := []int{300, 3000, 9000, 20000, 45000, 45000}[seed]
	if !c.EqualIsBytewise {
		total = min(total, 2500)
	}
	if testing.Short() {
		total = min(total, 800)
	}
	seq := base.SeqNum(1)
	nextSource := total / 10
	if seed == 4 {
		nextSource = total // the one-time sort of a large table
	}
	for written < total {
		b := batchrepr.Init(nil)
		n := 1 + rng.Intn(40)*rng.Intn(2)
		for i := range n {
			k, v := key(), strings.Repeat("v", rng.Intn(60))
			kind := base.KindSet
			if rng.Intn(8) == 0 {
				kind, v = base.KindDelete, ""
				b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindDelete, []byte(k), nil)
			} else {
				b = batchrepr.AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte(k),
					[]byte(v))
			}
			o.Add(model.Entry{Key: []byte(k), Value: []byte(v),
				Trailer: base.MakeTrailer(seq+base.SeqNum(i), kind)})
		}
		written += n
		if m.Room(int64(len(b)), n) != nil {
			t.Fatal("no room")
		}
		if err := m.Apply(b, seq); err != nil {
			t.Fatal(err)
		}
		seq += base.SeqNum(n)
		if written >= nextSource {
			nextSource += 1 + rng.Intn(total/6)
			src := m.NewSource()
			walk(t, c, o.Entries(), src, key, rng, 20)
			checkGets(t, o, m, key, rng, seq, 20)
			src.Close()
			at := base.SeqNum(rng.Int63n(int64(seq) + 1))
			src = m.NewSourceAt(at)
			walk(t, c, o.EntriesAt(at), src, key, rng, 20)
			src.Close()
		}
	}
	src, all := m.NewSource(), o.Entries()
	full(t, c, all, src)
	checkSources(t, o, m, key, rng, seq)
	m.Seal()
	checkSources(t, o, m, key, rng, seq)
	sealed := m.NewSource()
	full(t, c, all, src)
	full(t, c, all, sealed)
	walk(t, c, all, sealed, key, rng, 100)
	checkGets(t, o, m, key, rng, seq, 2000)
	if m.Len() != written || m.Bytes() <= 0 || m.MemoryUsage() < m.Bytes() ||
		m.EntrySize() <= headerLen {
		t.Errorf("len %d bytes %d usage %d entry %d", m.Len(), m.Bytes(), m.MemoryUsage(),
			m.EntrySize())
	}
	src.Close()
	m.Unref()
	full(t, c, all, sealed) // holds its own reference
	sealed.Close()
	if got := offheap.InUse(); got != before {
		t.Errorf("%d bytes in use before, %d after", before, got)
	}
}

func checkGets(t *testing.T, o *model.Model, m *MemTable, key func() string, rng *rand.Rand,
	last base.SeqNum, n int) {
	t.Helper()
	for range n {
		k, seq := key(), base.SeqNum(rng.Int63n(int64(last)+1))
		if rng.Intn(2) == 0 {
			seq = base.MaxSeqNum
		}
		l := MakeLookup(m.cmp, []byte(k), seq)
		m.Prefetch(l)
		v, hit, found := m.Get(l)
		tr := hit.Trailer
		want, ok := o.Newest(seq, []byte(k))
		if found != ok || tr != want.Trailer || !bytes.Equal(v, want.Value) || found &&
			(v == nil) != (tr.Kind() == base.KindDelete) {
			t.Fatalf("Get(%q, %d) = %q, %d, %v; want %q, %d, %v", k, seq, v, tr, found, want.Value,
				want.Trailer, ok)
		}
	}
}
