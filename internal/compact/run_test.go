package compact

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

// parseEntries reads "k#5=v k#4- ...": a set and a deletion.
func parseEntries(t testing.TB, s string) (es []entry) {
	for _, w := range strings.Fields(s) {
		var e entry
		key, rest, _ := strings.Cut(w, "#")
		var seq int
		var value string
		if n, _ := fmt.Sscanf(rest, "%d=%s", &seq, &value); n == 2 {
			e = entry{[]byte(key), []byte(value), base.MakeTrailer(base.SeqNum(seq), base.KindSet)}
		} else if n, _ := fmt.Sscanf(rest, "%d-", &seq); n == 1 {
			e = entry{[]byte(key), nil, base.MakeTrailer(base.SeqNum(seq), base.KindDelete)}
		} else {
			t.Fatalf("entry %q", w)
		}
		es = append(es, e)
	}
	sortEntries(base.Bytewise, es)
	return es
}

func formatEntries(es []entry) string {
	var w []string
	for _, e := range es {
		if e.t.Kind() == base.KindDelete {
			w = append(w, fmt.Sprintf("%s#%d-", e.key, e.t.Seq()))
		} else {
			w = append(w, fmt.Sprintf("%s#%d=%s", e.key, e.t.Seq(), e.value))
		}
	}
	return strings.Join(w, " ")
}

func versionOf(t testing.TB, levels [manifest.NumLevels][]*manifest.FileMeta) *manifest.Version {
	v, err := manifest.NewVersion(base.Bytewise, levels)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWhatSurvives(t *testing.T) {
	for _, tc := range []struct {
		name, older, newer, below string
		snapshots                 []base.SeqNum
		want                      string
	}{
		{"newest only", "a#1=x b#2=x", "a#3=y", "", nil, "a#3=y b#2=x"},
		{"deletion goes with what it hides", "a#1=x b#2=x", "a#3-", "", nil, "b#2=x"},
		{"deletion stays above older data", "a#1=x", "a#3-", "a#0=w", nil, "a#3-"},
		{"deletion outside of the tables below", "a#1=x k#2=x", "a#3- k#4-", "b#0=w c#0=w", nil, ""},
		{"deletion between keys below", "k#2=x", "k#4-", "b#0=w z#0=w", nil, "k#4-"},
		{"a snapshot sees the older", "a#1=x", "a#3=y", "", []base.SeqNum{2}, "a#3=y a#1=x"},
		{"a snapshot sees the newer", "a#1=x", "a#3=y", "", []base.SeqNum{3}, "a#3=y"},
		{"a snapshot sees what is deleted", "a#1=x", "a#3-", "", []base.SeqNum{1}, "a#3- a#1=x"},
		{"a snapshot sees the deletion", "a#1=x", "a#3-", "", []base.SeqNum{3}, ""},
		{"stripes", "k#3=c k#4- k#8=h", "k#10=j k#12=l", "", []base.SeqNum{5, 9}, "k#12=l k#8=h"},
		{"stripes above older data", "k#3=c k#4- k#8=h", "k#10=j k#12=l", "k#1=a", []base.SeqNum{5, 9}, "k#12=l k#8=h k#4-"},
		{"deletion of a middle stripe", "k#3=c", "k#7- k#12=l", "", []base.SeqNum{5, 9}, "k#12=l k#7- k#3=c"},
		{"set over deletion", "k#3-", "k#7=g", "", nil, "k#7=g"},
		{"empty key", "#3=c", "#7-", "", nil, ""},
	} {
		ts := newTables(base.Bytewise)
		var levels [manifest.NumLevels][]*manifest.FileMeta
		levels[4] = append(levels[4], ts.put(parseEntries(t, tc.older)))
		levels[0] = append(levels[0], ts.put(parseEntries(t, tc.newer)))
		if tc.below != "" {
			levels[6] = append(levels[6], ts.put(parseEntries(t, tc.below)))
		}
		v := versionOf(t, levels)
		p := newPicker(v, nil, Config{})
		plan := p.plan(0, levels[0], 4, "test")
		if len(plan.Inputs[4]) == 0 { // no overlap: taken along for the test
			plan.Inputs[4] = levels[4]
		}
		r, err := plan.Run(0, ts.env(), tc.snapshots)
		if err != nil {
			t.Fatal(err)
		}
		var got []entry
		for _, a := range r.Added {
			got = append(got, ts.data[a.Meta.Num]...)
		}
		if s := formatEntries(got); s != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, s, tc.want)
		}
	}
}

// bigPlan merges a table and a run of n entries each; a third of the keys are the same.
func bigPlan(t testing.TB, ts *tables, n int, pieces int) *Plan {
	var a, b []entry
	for i := range n {
		a = append(a, entry{fmt.Appendf(nil, "%06d", 2*i), make([]byte, 50), base.MakeTrailer(2, base.KindSet)})
		b = append(b, entry{fmt.Appendf(nil, "%06d", 2*i+min(i%3, 1)), make([]byte, 50), base.MakeTrailer(1, base.KindSet)})
	}
	var levels [manifest.NumLevels][]*manifest.FileMeta
	levels[0] = append(levels[0], ts.put(a))
	for part := range slices.Chunk(b, n/8) {
		levels[5] = append(levels[5], ts.put(part))
	}
	p := newPicker(versionOf(t, levels), nil, Config{FileSize: 5000, MaxSubcompactions: pieces})
	return p.plan(0, levels[0], 5, "test")
}

func TestPiecesCoverEverythingOnce(t *testing.T) {
	for _, pieces := range []int{1, 2, 5} {
		ts := newTables(base.Bytewise)
		plan := bigPlan(t, ts, 1000, pieces)
		if plan.Pieces() != pieces {
			t.Fatalf("%d pieces, want %d", plan.Pieces(), pieces)
		}
		var results []Result
		var in uint64
		for i := range plan.Pieces() {
			r, err := plan.Run(i, ts.env(), nil)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, r)
			in += r.EntriesIn
		}
		slices.Reverse(results)
		e, err := plan.Edit(results...)
		if err != nil {
			t.Fatal(err)
		}
		var levels [manifest.NumLevels][]*manifest.FileMeta
		n := 0
		for _, a := range e.Added {
			levels[a.Level] = append(levels[a.Level], a.Meta)
			n += len(ts.data[a.Meta.Num])
			if a.Meta.Size > plan.FileSize+sizeCheck+200 {
				t.Errorf("a table of %d bytes", a.Meta.Size)
			}
		}
		versionOf(t, levels)
		if in != 2000 || n != 2000-334 || len(e.Deleted) != plan.NumFiles() {
			t.Errorf("%d pieces: %d entries in, %d out, %d tables deleted", pieces, in, n, len(e.Deleted))
		}
	}
}

func TestRunFails(t *testing.T) {
	errOpen, errRead := errors.New("open"), errors.New("read")
	for _, tc := range []struct {
		name string
		set  func(ts *tables, env *Env, plan *Plan)
		want error
	}{
		{"writer cannot be made", func(ts *tables, env *Env, _ *Plan) {
			inner := env.NewWriter
			env.NewWriter = func() (uint64, sstable.Writer, error) {
				if ts.next > 10 {
					return 0, nil, errAdd
				}
				return inner()
			}
		}, errAdd},
		{"first add", func(ts *tables, _ *Env, _ *Plan) { ts.failAdd = 1 }, errAdd},
		{"add in the third table", func(ts *tables, _ *Env, _ *Plan) { ts.failAdd = 700 }, errAdd},
		{"stop", func(_ *tables, env *Env, _ *Plan) {
			n := 0
			env.Stop = func() error {
				if n++; n > 1 {
					return base.ErrClosed
				}
				return nil
			}
		}, base.ErrClosed},
		{"open", func(ts *tables, env *Env, plan *Plan) {
			inner := env.Open
			env.Open = func(m *manifest.FileMeta, f sstable.ReadFlags) (base.Source, error) {
				if m == plan.Inputs[5][3] {
					return nil, errOpen
				}
				return inner(m, f)
			}
		}, errOpen},
		{"open in level 0", func(_ *tables, env *Env, _ *Plan) {
			env.Open = func(*manifest.FileMeta, sstable.ReadFlags) (base.Source, error) { return nil, errOpen }
		}, errOpen},
		{"read", func(ts *tables, env *Env, plan *Plan) {
			inner := env.Open
			env.Open = func(m *manifest.FileMeta, f sstable.ReadFlags) (base.Source, error) {
				src, err := inner(m, f)
				if m == plan.Inputs[5][4] {
					src.(*tableSource).err = errRead
				}
				return src, err
			}
		}, errRead},
		{"unknown kind", func(ts *tables, _ *Env, plan *Plan) {
			ts.data[plan.Inputs[0][0].Num][400].t = base.MakeTrailer(2, 9)
		}, base.ErrCorruption},
		{"order of the input", func(ts *tables, _ *Env, plan *Plan) {
			es := ts.data[plan.Inputs[0][0].Num]
			es[400].key, es[500].key = es[500].key, es[400].key
		}, nil},
	} {
		ts := newTables(base.Bytewise)
		plan := bigPlan(t, ts, 1000, 1)
		before := ts.next
		env := ts.env()
		tc.set(ts, env, plan)
		r, err := plan.Run(0, env, nil)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if len(r.Added) != 0 || uint64(len(r.Abandoned)) != ts.next-before || ts.open != 0 {
			t.Errorf("%s: %d tables, %d abandoned of %d, %d writers open", tc.name, len(r.Added), len(r.Abandoned), ts.next-before, ts.open)
		}
	}
}

func TestFlushOfNothingMakesNoTable(t *testing.T) {
	ts := newTables(base.Bytewise)
	v := versionOf(t, [manifest.NumLevels][]*manifest.FileMeta{})
	src := &tableSource{cmp: base.Bytewise, es: parseEntries(t, "a#1=x a#2-"), chunk: 4}
	r, err := Flush(src, 2, v, 6, 0, ts.env(), nil)
	if err != nil || len(r.Added) != 0 || ts.next != 0 || r.Dropped != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	// A memtable of deletions keeps those that older data needs.
	v = versionOf(t, [manifest.NumLevels][]*manifest.FileMeta{0: {ts.put(parseEntries(t, "a#1=x m#1=x"))}})
	src = &tableSource{cmp: base.Bytewise, es: parseEntries(t, "a#5- b#6- m#7- z#8-"), chunk: 4}
	r, err = Flush(src, 4, v, 0, 0, ts.env(), nil)
	if err != nil || len(r.Added) != 1 || r.Dropped != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// gapSource leaves out a chunk, or ends early, without a word.
type gapSource struct {
	*tableSource
	gap, end int // chunk to leave out, and where to end; 0 for neither
}

func (s *gapSource) Next(e *base.Chunk) (bool, error) {
	next := s.at/s.chunk + 1
	if next == s.end {
		return false, nil
	}
	ok, err := s.tableSource.Next(e)
	if ok && next == s.gap {
		ok, err = s.tableSource.Next(e)
		s.cover.From, s.cover.Entries = s.cover.To-1, uint64(e.Len())
	}
	return ok, err
}

// lyingWriter says that it wrote one entry less.
type lyingWriter struct{ sstable.Writer }

func (w lyingWriter) Finish() (sstable.Meta, error) {
	m, err := w.Writer.Finish()
	m.Entries--
	return m, err
}

// TestLostEntriesAreAnError loses entries on the way into a compaction or a flush
// and on the way out.
func TestLostEntriesAreAnError(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pieces int
		source func(s *tableSource) base.Source
		writer func(w sstable.Writer) sstable.Writer
	}{
		{name: "nothing lost", pieces: 1},
		{name: "nothing lost by three", pieces: 3},
		{name: "a chunk left out", pieces: 1, source: func(s *tableSource) base.Source { return &gapSource{s, 3, 0} }},
		{name: "a chunk left out by three", pieces: 3, source: func(s *tableSource) base.Source { return &gapSource{s, 3, 0} }},
		{name: "an early end", pieces: 1, source: func(s *tableSource) base.Source { return &gapSource{s, 0, 5} }},
		{name: "an early end by three", pieces: 3, source: func(s *tableSource) base.Source { return &gapSource{s, 0, 5} }},
		{name: "entries in a chunk", pieces: 1, source: func(s *tableSource) base.Source {
			s.total, s.es = len(s.es), s.es[:len(s.es)-1]
			return s
		}},
		{name: "entries in a chunk by three", pieces: 3, source: func(s *tableSource) base.Source {
			s.total, s.es = len(s.es), s.es[:len(s.es)-1]
			return s
		}},
		{name: "the writer", pieces: 1, writer: func(w sstable.Writer) sstable.Writer { return lyingWriter{w} }},
	} {
		ts := newTables(base.Bytewise)
		plan := bigPlan(t, ts, 1000, tc.pieces)
		env := ts.env()
		open, write := env.Open, env.NewWriter
		env.Open = func(m *manifest.FileMeta, f sstable.ReadFlags) (base.Source, error) {
			src, err := open(m, f)
			if m == plan.Inputs[5][4] && tc.source != nil {
				src = tc.source(src.(*tableSource))
			}
			return src, err
		}
		env.NewWriter = func() (uint64, sstable.Writer, error) {
			num, w, err := write()
			if tc.writer != nil {
				w = tc.writer(w)
			}
			return num, w, err
		}
		var results []Result
		var err error
		for i := range plan.Pieces() {
			r, e := plan.Run(i, env, nil)
			err = errors.Join(err, e)
			results = append(results, r)
		}
		if err == nil {
			_, err = plan.Edit(results...)
		}
		lost := errors.Is(err, errCount) || errors.Is(err, base.ErrCorruption)
		if want := tc.source != nil || tc.writer != nil; lost != want || !want && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	v := versionOf(t, [manifest.NumLevels][]*manifest.FileMeta{})
	es := parseEntries(t, "a#5=x b#6=x m#7=x z#8=x")
	for n, want := range map[uint64]bool{3: true, 4: false, 5: true} {
		ts := newTables(base.Bytewise)
		r, err := Flush(&tableSource{cmp: base.Bytewise, es: es, chunk: 2}, n, v, 6, 0, ts.env(), nil)
		if errors.Is(err, errCount) != want || want && len(r.Added) != 0 {
			t.Errorf("4 entries of %d: %+v, %v", n, r, err)
		}
	}
}

// countWriter takes entries and forgets them.
type countWriter struct{ n, bytes uint64 }

func (w *countWriter) Add(key []byte, _ base.Trailer, _ base.Codec, value []byte) error {
	w.n++
	w.bytes += uint64(len(key) + len(value))
	return nil
}
func (w *countWriter) EstimatedSize() uint64 { return w.bytes }
func (w *countWriter) Entries() uint64       { return w.n }
func (w *countWriter) Finish() (sstable.Meta, error) {
	return sstable.Meta{Props: sstable.Props{Entries: w.n, Size: w.bytes}}, nil
}
func (w *countWriter) Close() error { return nil }

// cachedSource hands out chunks made beforehand.
type cachedSource struct {
	tableSource
	chunks []base.Chunk
}

func (s *cachedSource) First(e *base.Chunk) (int, error) {
	s.at, *e = 0, s.chunks[0]
	return 0, nil
}

func (s *cachedSource) Next(e *base.Chunk) (bool, error) {
	if s.at++; s.at >= len(s.chunks) {
		return false, nil
	}
	*e = s.chunks[s.at]
	return true, nil
}

// BenchmarkRun is the cost per entry of merge and collapse, without tables.
func BenchmarkRun(b *testing.B) {
	for _, k := range []int{1, 4, 8} {
		b.Run(fmt.Sprint("k=", k), func(b *testing.B) {
			const n = 40_000
			parts := make([][]entry, k)
			value := make([]byte, 100)
			x := uint64(1)
			for i := range n {
				x = x*6364136223846793005 + 1442695040888963407
				j := int(x>>33) % k
				parts[j] = append(parts[j], entry{fmt.Appendf(nil, "%016d", i*7), value, base.MakeTrailer(base.SeqNum(i+1), base.KindSet)})
			}
			var levels [manifest.NumLevels][]*manifest.FileMeta
			sources := map[uint64][]base.Chunk{}
			for j, es := range parts {
				f := &manifest.FileMeta{Num: uint64(j + 1), Size: 1 << 20, Smallest: base.InternalKey{User: es[0].key, Trailer: es[0].t},
					Largest: base.InternalKey{User: es[len(es)-1].key, Trailer: es[len(es)-1].t}}
				levels[0] = append(levels[0], f)
				ts := &tableSource{cmp: base.Bytewise, es: es, chunk: 34}
				for at := 0; at < len(es); at += 34 {
					var e base.Chunk
					ts.old = nil
					ts.fill(at, &e)
					sources[f.Num] = append(sources[f.Num], e)
				}
			}
			v := versionOf(b, levels)
			plan := newPicker(v, nil, Config{}).plan(0, v.Levels[0].Files, 6, "bench")
			env := &Env{Comparer: base.Bytewise,
				Open: func(m *manifest.FileMeta, _ sstable.ReadFlags) (base.Source, error) {
					return &cachedSource{chunks: sources[m.Num]}, nil
				},
				NewWriter: func() (uint64, sstable.Writer, error) { return 1, &countWriter{}, nil },
			}
			b.ReportAllocs()
			for b.Loop() {
				if r, err := plan.Run(0, env, nil); err != nil || r.EntriesOut != n {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
			runtime.KeepAlive(sources)
		})
	}
}

// BenchmarkPick is a decision on a large version of LevelDB's shape.
func BenchmarkPick(b *testing.B) {
	var levels [manifest.NumLevels][]*manifest.FileMeta
	num := uint64(0)
	for l, n := range []int{4, 5, 50, 500, 5000} {
		for i := range n {
			num++
			lo, hi := i*1_000_000/n, (i+1)*1_000_000/n-1
			if l == 0 {
				lo, hi = 0, 999_999
			}
			levels[l] = append(levels[l], &manifest.FileMeta{Num: num, Size: 2 << 20,
				Smallest: base.InternalKey{User: fmt.Appendf(nil, "%08d", lo)}, Largest: base.InternalKey{User: fmt.Appendf(nil, "%08d", hi)}})
		}
	}
	v := versionOf(b, levels)
	for b.Loop() {
		if Pick(v, nil, Config{FileSize: 2 << 20, WriteBuffer: 4 << 20, MaxSubcompactions: 2}) == nil {
			b.Fatal("nothing to do")
		}
	}
}
