package tables

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// flagSets are the ways to read.
var flagSets = []sstable.ReadFlags{0, sstable.NoFill, sstable.Scan, sstable.Private, sstable.Scan |
	sstable.NoFill, sstable.Private | sstable.Scan}

func (s *suite) contents(t *testing.T) {
	rounds := seed.Scale(24, 12, 120)
	var spare sstable.Spare // each table after the first has the buffers of another one
	defer spare.Free()
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 1))
		c := comparers[round%len(comparers)]
		es := Random(rng, c, 1+rng.IntN(400))
		o := RandomOptions(rng, c)
		o.Spare = &spare
		if round%3 == 1 {
			list := ingested(rng)
			o.ForRepair = &sstable.ForRepair{Ingested: func() []sstable.Ingested { return list }}
		}
		b, meta := s.write(t, o, es)
		withCache([]int64{1 << 20, 64 << 10}[rng.IntN(2)], func(ca *cache.Cache) {
			r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
			checkProps(t, es, o, meta, r.Props())
			for _, flags := range flagSets {
				checkScan(t, c, r, flags, es)
				checkSeeks(t, rng, c, r, flags, es)
				checkGets(t, rng, c, r, flags, es)
			}
			checkOffsets(t, r, es, uint64(len(b)))
			checkSplitKeys(t, r, c, es)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		if t.Failed() {
			t.Fatalf("round %d: comparer %s, options %+v, %d entries", round, c.Name, o, len(es))
		}
	}
}

// ingested is a random list of ingested tables.
func ingested(rng *rand.Rand) (list []sstable.Ingested) {
	num := uint64(0)
	for range rng.IntN(20) {
		num += 1 + rng.Uint64N(1000)
		list = append(list, sstable.Ingested{Num: num, Keyspace: base.KeyspaceID(rng.IntN(3)),
			Seq: 1 + base.SeqNum(rng.Uint64N(uint64(base.MaxSeqNum)))})
	}
	return list
}

func checkProps(t *testing.T, es []model.Entry, o sstable.WriterOptions, meta sstable.Meta,
	p sstable.Props) {
	t.Helper()
	want := sstable.Props{Size: meta.Size, Entries: uint64(len(es)), Blocks: meta.Blocks,
		Format:  meta.Format,
		Outside: meta.Format == "native" && o.FileNum == 0}
	if meta.Format == "native" {
		want.FileNum = o.FileNum
	}
	if want.Outside {
		want.Recorded = meta.Checksum
	}
	for _, e := range es {
		if e.Trailer.Kind() == base.KindDelete {
			want.Deletes++
		}
		want.RawKeys += uint64(len(e.Key) + base.TrailerLen)
		want.RawValues += uint64(len(e.Value))
	}
	if o.Comparer.EqualIsBytewise {
		want.FilterBits = o.BloomBits
		want.PrefixLength = o.Prefixes()
	}
	content(es, &want, meta.Props.Kinds != 0)
	if meta.Comparer != "" { // the format records it
		want.Keyspace, want.KeyspaceName, want.Comparer =
			o.Keyspace, o.KeyspaceName, o.Comparer.Name
		if o.ForRepair != nil {
			want.Ingested = o.ForRepair.Ingested()
		}
	}
	// pointers: the format's own tests compare what they point at
	meta.Props.Sample, p.Sample = nil, nil
	if !reflect.DeepEqual(meta.Props, want) {
		t.Errorf("writer says %+v, want %+v", meta.Props, want)
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("reader says %+v, want %+v", p, want)
	}
	if n := len(es); n > 0 {
		first, last := model.Entry{Key: meta.Smallest.User,
			Trailer: meta.Smallest.Trailer}, model.Entry{Key: meta.Largest.User,
			Trailer: meta.Largest.Trailer}
		if o.Comparer.CompareInternal(first.Key, first.Trailer, es[0].Key, es[0].Trailer) != 0 ||
			o.Comparer.CompareInternal(last.Key, last.Trailer, es[n-1].Key, es[n-1].Trailer) != 0 {
			t.Errorf("bounds are %v .. %v", first, last)
		}
	}
}

// content fills in what only some formats record.
func content(es []model.Entry, p *sstable.Props, recorded bool) {
	for i, e := range es {
		if !recorded {
			return
		}
		seq := e.Trailer.Seq()
		if i == 0 {
			p.MinSeq = seq
		}
		p.MinSeq, p.MaxSeq = min(p.MinSeq, seq), max(p.MaxSeq, seq)
		p.Kinds |= 1 << e.Trailer.Kind()
	}
}

// same reports whether entry i of e is want. Its value may be packed.
func same(e *base.Chunk, i int, want model.Entry) bool {
	return bytes.Equal(e.Key(i), want.Key) && e.Trailers[i] == want.Trailer &&
		isValue(e.Codec(i), e.Value(i), want.Value)
}

func isValue(codec base.Codec, value, want []byte) bool {
	if codec != base.CodecRaw {
		var err error
		if value, err = colblk.AppendUnpacked(nil, value, codec, nil, 1<<32); err != nil {
			return false
		}
	}
	return bytes.Equal(value, want)
}

func checkScan(t *testing.T, c *base.Comparer, r sstable.Reader, flags sstable.ReadFlags,
	es []model.Entry) {
	t.Helper()
	src := r.NewSource(flags)
	var e base.Chunk
	n := 0
	first, err := src.First(&e)
	for ok := first == 0; ok; ok, err = src.Next(&e) {
		checkStretch(t, c, &e)
		for i := range e.Len() {
			if e.Codec(i) != base.CodecRaw && flags&sstable.Private == 0 {
				t.Fatalf("flags %d: entry %d is packed", flags, n)
			}
			if n >= len(es) || !same(&e, i, es[n]) {
				t.Fatalf("flags %d: entry %d is wrong", flags, n)
			}
			n++
		}
	}
	if n != len(es) || err != nil {
		t.Fatalf("flags %d: %d of %d entries forward: %v", flags, n, len(es), err)
	}
	last, err := src.Last(&e)
	for ok := last >= 0; ok; ok, err = src.Prev(&e) {
		for i := e.Len() - 1; i >= 0; i-- {
			n--
			if n < 0 || !same(&e, i, es[n]) {
				t.Fatalf("flags %d: entry %d is wrong backward", flags, n)
			}
		}
	}
	if n != 0 || err != nil {
		t.Fatalf("flags %d: %d entries left backward, %v", flags, n, err)
	}
	src.Close()
}

// checkStretch checks what a chunk says of itself.
func checkStretch(t *testing.T, c *base.Comparer, e *base.Chunk) {
	t.Helper()
	plain, maxSeq := true, base.SeqNum(0)
	for i := range e.Len() {
		plain = plain && e.Trailers[i].Kind() == base.KindSet &&
			(i == 0 || c.Cmp(e.Key(i), e.Key(i-1)) != 0)
		maxSeq = max(maxSeq, e.Trailers[i].Seq())
	}
	if e.MaxSeq < maxSeq || e.AllLiveSets && !plain {
		t.Errorf("chunk says plain %v, max %d; is %v, %d", e.AllLiveSets, e.MaxSeq, plain, maxSeq)
	}
}

// probe returns a key that is in the table, or near one.
func probe(rng *rand.Rand, es []model.Entry) ([]byte, base.SeqNum) {
	key := bytes.Clone(es[rng.IntN(len(es))].Key)
	switch rng.IntN(5) {
	case 0:
		key = append(key, "\x00aZ\xff"[rng.IntN(4)])
	case 1:
		key = key[:rng.IntN(len(key)+1)]
	}
	return key, base.SeqNum(rng.IntN(1100))
}

func checkSeeks(t *testing.T, rng *rand.Rand, c *base.Comparer, r sstable.Reader,
	flags sstable.ReadFlags, es []model.Entry) {
	t.Helper()
	src := r.NewSource(flags)
	var e base.Chunk
	for range 60 {
		key, seq := probe(rng, es)
		target := base.MakeTrailer(seq, base.KindForSeek)
		want := model.Search(c, es, key, target)
		var i int
		var err error
		if rng.IntN(2) == 0 {
			i, err = src.SeekGE(key, target, &e)
		} else {
			want--
			i, err = src.SeekLT(key, target, &e)
		}
		// Walk on from there, turning round at times.
		for step := range 12 {
			if want < 0 || want >= len(es) {
				if i >= 0 && i < e.Len() || err != nil {
					t.Fatalf("flags %d, %q@%d, step %d: an entry past the end (%v)", flags, key,
						seq, step, err)
				}
				break
			}
			if i < 0 || i >= e.Len() || !same(&e, i, es[want]) {
				t.Fatalf("flags %d, %q@%d, step %d: want entry %v (%v)", flags, key, seq, step,
					es[want], err)
			}
			if rng.IntN(3) == 0 {
				want, i = want-1, i-1
				if i < 0 {
					_, err = src.Prev(&e)
					i = e.Len() - 1
				}
			} else {
				want, i = want+1, i+1
				if i == e.Len() {
					i = -1
					var ok bool
					if ok, err = src.Next(&e); ok {
						i = 0
					}
				}
			}
		}
	}
	src.Close()
}

// newest finds what a Get must find.
func newest(c *base.Comparer, es []model.Entry, key []byte, seq base.SeqNum) (model.Entry, bool) {
	target := base.MakeTrailer(seq, base.KindForSeek)
	i := model.Search(c, es, key, target)
	if i < len(es) && c.Cmp(es[i].Key, key) == 0 {
		return es[i], true
	}
	return model.Entry{}, false
}

func checkGets(t *testing.T, rng *rand.Rand, c *base.Comparer, r sstable.Reader,
	flags sstable.ReadFlags, es []model.Entry) {
	t.Helper()
	for range 100 {
		key, seq := probe(rng, es)
		if rng.IntN(3) == 0 {
			seq = base.MaxSeqNum
		}
		want, ok := newest(c, es, key, seq)
		checkGet(t, c, r, flags, key, seq, want, ok)
	}
}

func checkGet(t *testing.T, c *base.Comparer, r sstable.Reader, flags sstable.ReadFlags, key []byte,
	seq base.SeqNum, want model.Entry, ok bool) {
	t.Helper()
	l := base.MakeLookup(c, key, seq)
	got, hit, found, err := r.Get(l, flags, []byte("dst:"))
	if err != nil || found != ok {
		t.Fatalf("flags %d: Get %q@%d: found %v, want %v (%v)", flags, key, seq, found, ok, err)
	}
	value := "dst:"
	if found && want.Trailer.Kind() == base.KindSet {
		value += string(want.Value)
	}
	if string(got) != value || found && hit.Trailer != want.Trailer {
		t.Fatalf("flags %d: Get %q@%d is %q@%d, want %v", flags, key, seq, got, hit.Trailer.Seq(),
			want)
	}
	if ok && !r.MayContain(l) {
		t.Fatalf("the filter denies %q", key)
	}
	p, in := r.Find(l)
	if !in {
		return
	}
	if b, pinned := r.Pin(p, l); pinned {
		again, pinnedHit, pinnedFound := r.GetPinned(b, p, l, []byte("dst:"))
		if pinnedFound != found || string(again) != string(got) || pinnedHit != hit && found {
			t.Fatalf("flags %d: GetPinned %q@%d is %q, %v, found %v; Get said %q, %v, %v", flags,
				key, seq, again, pinnedHit, pinnedFound, got, hit, found)
		}
	}
}

func checkOffsets(t *testing.T, r sstable.Reader, es []model.Entry, size uint64) {
	t.Helper()
	last := uint64(0)
	for _, e := range es {
		o := r.OffsetOf(e.Key, e.Trailer)
		if o < last || o > size {
			t.Fatalf("OffsetOf %v is %d after %d in %d bytes", e, o, last, size)
		}
		last = o
	}
	if r.MemoryUsage() <= 0 {
		t.Error("MemoryUsage is not positive")
	}
}

// checkSplitKeys compares the parts that SplitKeys cuts the table into with each other.
func checkSplitKeys(t *testing.T, r sstable.Reader, cmp *base.Comparer, es []model.Entry) {
	t.Helper()
	blocks := r.Props().Blocks
	for _, n := range []int{0, 1, 2, 3, 16, blocks, blocks + 7} {
		keys := r.SplitKeys(n)
		if len(keys) > max(min(n, blocks)-1, 0) {
			t.Fatalf("%d keys for %d parts of %d blocks", len(keys), n, blocks)
		}
		for i := 1; i < len(keys); i++ {
			if cmp.Cmp(keys[i-1], keys[i]) >= 0 {
				t.Fatalf("%d parts: key %q after %q", n, keys[i], keys[i-1])
			}
		}
		if n < 2 || n > blocks/8 || len(es) < 100*n {
			continue
		}
		if len(keys) != n-1 {
			t.Fatalf("%d keys for %d parts of %d blocks", len(keys), n, blocks)
		}
		data := r.OffsetOf(es[len(es)-1].Key, base.MaxTrailer)
		from := uint64(0)
		for i, key := range keys {
			to := r.OffsetOf(key, base.MaxTrailer)
			if to-from > 2*data/uint64(n) {
				t.Fatalf("part %d of %d has %d of %d bytes", i, n, to-from, data)
			}
			from = to
		}
	}
}

// noise is n bytes that no codec makes smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// copies writes what compactions read of a table, packed as it is, to another one.
func (s *suite) copies(t *testing.T) {
	for round := range seed.Scale(60, 30, 60) {
		rng := rand.New(rand.NewPCG(uint64(round), 2))
		c := comparers[round%len(comparers)]
		es := Random(rng, c, 1+rng.IntN(400))
		for i := range es {
			if es[i].Trailer.Kind() == base.KindSet && rng.IntN(2) == 0 {
				es[i].Value = benchValue(rng.IntN(benchEntries))
			}
		}
		from, to := RandomOptions(rng, c), RandomOptions(rng, c)
		b, _ := s.write(t, from, es)
		r := s.open(t, b, Env{Name: "t", Comparer: c})
		f := new(memFile)
		w := s.New(f, to)
		src := r.NewSource(sstable.Private | sstable.Scan)
		err := base.Scan(src, func(e *base.Chunk) error {
			for i := range e.Len() {
				if err := w.Add(e.Key(i), e.Trailers[i], e.Codec(i), e.Value(i)); err != nil {
					return err
				}
			}
			return nil
		})
		src.Close()
		if err == nil {
			_, err = w.Finish()
		}
		if err = errors.Join(err, w.Close(), r.Close()); err != nil {
			t.Fatalf("round %d: from %+v to %+v: %v", round, from, to, err)
		}
		r = s.open(t, f.b, Env{Name: "t", Comparer: c})
		checkScan(t, c, r, 0, es)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// shapes are tables that chunk something.
func (s *suite) shapes(t *testing.T) {
	// values that are larger than the cache, keys than what 16 bits count
	large, long := seed.Scale(5<<18, 5<<18, 3<<20), seed.Scale(1<<17, 1<<17, 1<<20)
	noise := noise(large)
	set := func(key string, seq base.SeqNum, value []byte) model.Entry {
		return model.Entry{Key: []byte(key), Trailer: base.MakeTrailer(seq, base.KindSet),
			Value: value}
	}
	var versions, ff []model.Entry
	for i := range 2000 {
		versions = append(versions, set("key", base.SeqNum(5000-i), []byte{byte(i)}))
		ff = append(ff, set(string(bytes.Repeat([]byte{0xff}, i%60)), base.SeqNum(i), nil))
	}
	versions = append(versions, set("kez", 1, nil), set("a", 1, nil))
	for name, es := range map[string][]model.Entry{
		"empty":        nil,
		"one":          {set("k", 1, []byte("v"))},
		"empty key":    {set("", 1, nil), set("", 0, []byte("older"))},
		"max sequence": {set("k", base.MaxSeqNum, []byte("v"))},
		"large value": {set("a", 1, nil), set("b", 1, noise), set("c", 1, nil),
			set("d", 1, make([]byte, large))},
		"large keys": {set(string(noise[:long]), 3, nil), set(string(noise[:long]), 2, nil),
			set(string(noise[:long+1]), 2, nil)},
		"many versions":    versions,
		"keys of 0xff":     ff,
		"only deletions":   {model.Tombstone("a", 3), model.Tombstone("b", 2)},
		"kinds at one key": {model.Tombstone("a", 3), set("a", 3, []byte("v")), set("a", 1, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			c := base.Bytewise
			es := model.SortUnique(c, es)
			wants := make([]model.Entry, len(es))
			for i, e := range es {
				wants[i], _ = newest(c, es, e.Key, e.Trailer.Seq())
			}
			for _, z := range []sstable.Compression{sstable.NoCompression, sstable.Snappy,
				sstable.Zstd} {
				o := usual(c)
				o.Compression = z
				o.LevelDBFilter = z == sstable.Snappy
				b, meta := s.write(t, o, es)
				withCache(1<<20, func(ca *cache.Cache) {
					r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
					checkProps(t, es, o, meta, r.Props())
					for _, flags := range flagSets {
						checkScan(t, c, r, flags, es)
						for i, e := range es {
							checkGet(t, c, r, flags, e.Key, e.Trailer.Seq(), wants[i], true)
						}
						checkGet(t, c, r, flags, []byte("absent"), base.MaxSeqNum, model.Entry{},
							false)
					}
					r.Close()
				})
			}
		})
	}
}

// staged reads by MayContain, Find, Prefetch, GetAt.
func (s *suite) staged(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, c := range comparers {
		es := Random(rng, c, 300)
		o := usual(c)
		b, _ := s.write(t, o, es)
		withCache(1<<20, func(ca *cache.Cache) {
			r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
			for range 500 {
				key, seq := probe(rng, es)
				want, ok := newest(c, es, key, seq)
				l := base.MakeLookup(c, key, seq)
				at, more := r.Find(l)
				if !more {
					if ok {
						t.Fatalf("Find %q@%d: the table ends before it, want %v", key, seq, want)
					}
					continue
				}
				r.Prefetch(at)
				v, hit, found, err := r.GetAt(at, l, 0, nil)
				if err != nil || found != ok || found &&
					(hit.Trailer != want.Trailer || !bytes.Equal(v, want.Value)) {
					t.Fatalf("GetAt %q@%d is %q %d %v %v, want %v %v", key, seq, v, hit.Trailer,
						found, err, want, ok)
				}
			}
			if _, _, found, err := r.GetAt(sstable.Position(r.Props().Blocks), base.Lookup{}, 0,
				nil); found || err != nil {
				t.Error("a block that is not there", found, err)
			}
			r.Close()
		})
	}
}

// memoryOnly checks ErrWouldBlock and NoFill.
func (s *suite) memoryOnly(t *testing.T) {
	c := base.Bytewise
	rng := rand.New(rand.NewPCG(5, 5))
	es := Random(rng, c, 200)
	b, _ := s.write(t, usual(c), es)
	withCache(4<<20, func(ca *cache.Cache) {
		r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
		defer r.Close()
		get := func(flags sstable.ReadFlags) error {
			_, _, found, err := r.Get(base.MakeLookup(base.Bytewise, es[0].Key, base.MaxSeqNum),
				flags, nil)
			if err == nil && !found {
				t.Error("not found")
			}
			return err
		}
		var e base.Chunk
		for _, flags := range []sstable.ReadFlags{sstable.NoFill, sstable.Private} {
			if err := get(flags); err != nil {
				t.Fatal(err)
			}
			checkScan(t, c, r, flags, es)
			if err := get(sstable.MemoryOnly); !errors.Is(err, base.ErrWouldBlock) &&
				(s.mapped == nil || err != nil) {
				t.Fatalf("after a read with flags %d: %v", flags, err)
			}
		}
		src := r.NewSource(sstable.MemoryOnly)
		if i, err := src.First(&e); s.mapped == nil &&
			(i >= 0 || !errors.Is(err, base.ErrWouldBlock)) {
			t.Error("a source read blocks", err)
		}
		if err := get(0); err != nil {
			t.Fatal(err)
		}
		if err := get(sstable.MemoryOnly); err != nil {
			t.Errorf("a cached block: %v", err)
		}
		if i, err := src.First(&e); i != 0 || err != nil {
			t.Error("a source does not see what is cached", err)
		}
		src.Close()
		checkScan(t, c, r, 0, es)
		checkScan(t, c, r, sstable.MemoryOnly, es)
	})
}

// warm checks that Warm fills the cache as far as it may.
func (s *suite) warm(t *testing.T) {
	c := base.Bytewise
	es := Random(rand.New(rand.NewPCG(7, 7)), c, 20000)
	b, _ := s.write(t, usual(c), es)
	never := func() error { return nil }
	withCache(32<<20, func(ca *cache.Cache) {
		r := s.open(t, b, Env{Name: "t", Cache: ca, Comparer: c})
		defer r.Close()
		blocks := r.Props().Blocks
		if r.Cached() != 0 || blocks < 100 {
			t.Fatalf("%d of %d blocks cached at first", r.Cached(), blocks)
		}
		if _, err := r.Warm(1<<30, func() error {
			return errInjected
		}); !errors.Is(err, errInjected) || r.Cached() != 0 {
			t.Errorf("told to stop: %v, and %d blocks", err, r.Cached())
		}
		const room = 64 << 10
		used, err := r.Warm(room, never)
		if err != nil || used < room || used > 2*room || r.Cached() == 0 || r.Cached() == blocks {
			t.Errorf("room of %d: used %d for %d of %d blocks, %v", room, used, r.Cached(), blocks,
				err)
		}
		all, err := r.Warm(1<<30, never)
		if err != nil || r.Cached() != blocks || all <= used {
			t.Errorf("%d of %d blocks cached in %d bytes, %v", r.Cached(), blocks, all, err)
		}
		if n := ca.Lookups(); n != 0 {
			t.Errorf("counted as %d reads", n)
		}
		checkScan(t, c, r, sstable.MemoryOnly, es)
	})
	r := s.open(t, b, Env{Name: "t", Comparer: c})
	defer r.Close()
	if used, err := r.Warm(1<<30, never); used != 0 || err != nil || r.Cached() != 0 {
		t.Errorf("without a cache: %d bytes, %v", used, err)
	}
}

func (s *suite) cacheless(t *testing.T) {
	c := base.Bytewise
	rng := rand.New(rand.NewPCG(6, 6))
	es := Random(rng, c, 300)
	b, _ := s.write(t, usual(c), es)
	r := s.open(t, b, Env{Name: "t", Comparer: c})
	for _, flags := range flagSets {
		checkScan(t, c, r, flags, es)
		checkSeeks(t, rng, c, r, flags, es)
		checkGets(t, rng, c, r, flags, es)
	}
	r.Close()
}
