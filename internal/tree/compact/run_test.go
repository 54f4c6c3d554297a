package compact

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/golang/snappy"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/script"
	"github.com/loamdb/loam/internal/tree/picker"
)

func versionOf(t testing.TB, levels [manifest.NumLevels][]*manifest.FileMeta) *manifest.Version {
	v, err := manifest.NewVersion(base.Bytewise, levels)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSurviveScript runs testdata/survive: what merges and flushes leave of the
// entries they are given. The commands:
//
//	tables   each line of the input is a table, "L4 a#1=x b#2- c..e#3": the newest version, a
//	         tombstone, a range tombstone. It forgets all tables before.
//	merge    merges the tables of all levels to to=4 into it; snapshots=(2 5); with settle=1,
//	         sequence numbers become 0 where they may; rangedels=1: an input has range tombstones;
//	         with filter, a compaction filter removes values that begin with r, adds ! to those
//	         that begin with c, and fails at those that begin with f; with nofold, there is no
//	         merge operator
//	flush    writes the entries of the input to level=0; memtable=5 is how many there
//	         should be, if not as many as there are
//
// With bloom, both ask filters of the tables below, which err for keys of odd lengths.
//
// Printed are the entries of each new table and how many were dropped.
func TestSurviveScript(t *testing.T) {
	var ts *tables
	var v *manifest.Version
	script.Run(t, "testdata/survive", func(c *script.Command) string {
		var snapshots []base.SeqNum
		for _, s := range c.List("snapshots") {
			n, err := strconv.Atoi(s)
			if err != nil {
				c.Fail("%v", err)
			}
			snapshots = append(snapshots, base.SeqNum(n))
		}
		entries := func(s string) []model.Entry {
			es, _, err := model.Parse(s)
			if err != nil {
				c.Fail("%v", err)
			}
			model.Sort(base.Bytewise, es)
			return es
		}
		var r Result
		var err error
		before := uint64(0)
		if ts != nil {
			before = ts.next
		}
		switch c.Name {
		case "tables":
			var levels [manifest.NumLevels][]*manifest.FileMeta
			ts = newTables(t, base.Bytewise)
			for _, line := range c.Lines() {
				var level int
				if _, err := fmt.Sscanf(line, "L%d", &level); err != nil {
					c.Fail("%v", err)
				}
				line, dels := cutRangeDels(base.Bytewise, line[2:])
				levels[level] = append(levels[level], ts.putWith(entries(line), dels))
			}
			v = versionOf(t, levels)
			return ""
		case "merge":
			to := c.Int("to", 0)
			plan := planOf(v, to)
			env := ts.env()
			if c.Has("bloom") {
				env.MayHold = ts.mayHold
			}
			env.SettleSeqs = c.Int("settle", 0) == 1
			v.Levels[to].Files[0].RangeDels = uint64(c.Int("rangedels", 0))
			if c.Has("filter") {
				env.Filter = scriptFilter
			}
			if c.Has("nofold") {
				env.Merge = nil
			}
			r, err = Run(plan, 0, env, snapshots)
			v.Levels[to].Files[0].RangeDels = 0
		case "flush":
			input, dels := cutRangeDels(base.Bytewise, c.Input)
			es := entries(input)
			env := ts.env()
			if c.Has("bloom") {
				env.MayHold = ts.mayHold
			}
			env.Filter = scriptFilter // which is not for flushes
			r, err = Flush(newTableSource(t, base.Bytewise, es, 4),
				uint64(c.Int("memtable", len(es))), []*rangedel.List{dels}, v, c.Int("level", 0), 0,
				env, snapshots)
		default:
			return c.Unknown()
		}
		if ts.open != 0 || uint64(len(r.Added)+len(r.Abandoned)) != ts.next-before {
			t.Errorf("line %d: %d writers are open; %d tables were made, %d added, %d abandoned",
				c.Line, ts.open, ts.next-before, len(r.Added), len(r.Abandoned))
		}
		if err != nil {
			return "error: " + err.Error()
		}
		var b strings.Builder
		for _, a := range r.Added {
			fmt.Fprintf(&b, "L%d %s%s\n", a.Level, model.Format(ts.data[a.Meta.Num]),
				formatRangeDels(ts.dels[a.Meta.Num]))
		}
		fmt.Fprintf(&b, "dropped %d", r.Dropped)
		if r.FilterRemoved+r.FilterChanged > 0 {
			fmt.Fprintf(&b, ", filter removed %d, changed %d", r.FilterRemoved, r.FilterChanged)
		}
		return b.String()
	})
}

// scriptFilter goes by the first byte of a value.
var scriptFilter = &base.CompactionFilter{Name: "test.First",
	Filter: func(level int, key, value []byte) (base.FilterDecision, error) {
		switch {
		case level != 4:
			return base.FilterKeep, fmt.Errorf("asked for level %d", level)
		case bytes.HasPrefix(value, []byte("r")):
			return base.FilterRemove, nil
		case bytes.HasPrefix(value, []byte("c")):
			return base.FilterChange(append(bytes.Clone(value), '!')), nil
		case bytes.HasPrefix(value, []byte("f")):
			return base.FilterKeep, errors.New("no decision")
		}
		return base.FilterKeep, nil
	}}

// TestFilterSeesPackedValues merges packed values with a filter: it is shown them as they
// are, those that it keeps stay packed, and those that it changes are not.
func TestFilterSeesPackedValues(t *testing.T) {
	packed := snappy.Encode(nil, []byte("a value to keep"))
	ts := newTables(t, base.Bytewise)
	ts.codec, ts.added = base.CodecSnappy, []base.Codec{}
	var levels [manifest.NumLevels][]*manifest.FileMeta
	levels[0] = append(levels[0], ts.put([]model.Entry{
		model.Set("a", 2, string(packed)),
		model.Set("b", 3, string(snappy.Encode(nil, []byte("change")))),
		model.Set("c", 4, string(snappy.Encode(nil, []byte("remove")))),
	}))
	v := versionOf(t, levels)
	run := func() (Result, error) {
		env := ts.env()
		env.Filter, env.MaxUnpacked = scriptFilter, 100
		return Run(planOf(v, 4), 0, env, nil)
	}
	r, err := run()
	if err != nil {
		t.Fatal(err)
	}
	got := ts.data[r.Added[0].Meta.Num]
	if len(got) != 2 || !bytes.Equal(got[0].Value, packed) || string(got[1].Value) != "change!" {
		t.Errorf("the merge leaves %s", model.Format(got))
	}
	if want := []base.Codec{base.CodecSnappy, base.CodecRaw}; !slices.Equal(ts.added, want) {
		t.Errorf("codecs %v, want %v", ts.added, want)
	}
	ts.data[1][0].Value = snappy.Encode(nil, make([]byte, 101))
	if _, err := run(); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("a value above the limit: %v", err)
	}
}

// TestPackedValuesPass merges packed values: what comes out has the codec that went in.
func TestPackedValuesPass(t *testing.T) {
	for _, codec := range []base.Codec{base.CodecRaw, base.CodecSnappy, base.CodecZstd} {
		ts := newTables(t, base.Bytewise)
		ts.codec = codec
		r, err := Run(bigPlan(t, ts, 1000, 1), 0, ts.env(), nil)
		if err != nil || r.EntriesOut != 2000-334 {
			t.Errorf("codec %d: %d entries, %v", codec, r.EntriesOut, err)
		}
	}
}

// bigPlan merges a table and a run of n entries each; a third of the keys are the same.
func bigPlan(t testing.TB, ts *tables, n int, pieces int) *picker.Plan {
	var a, b []model.Entry
	for i := range n {
		a = append(a, model.Entry{Key: fmt.Appendf(nil, "%06d", 2*i), Value: make([]byte, 50),
			Trailer: base.MakeTrailer(2, base.KindSet)})
		b = append(b, model.Entry{Key: fmt.Appendf(nil, "%06d", 2*i+min(i%3, 1)),
			Value: make([]byte, 50), Trailer: base.MakeTrailer(1, base.KindSet)})
	}
	var levels [manifest.NumLevels][]*manifest.FileMeta
	levels[0] = append(levels[0], ts.put(a))
	for part := range slices.Chunk(b, n/8) {
		levels[5] = append(levels[5], ts.put(part))
	}
	plan := planOf(versionOf(t, levels), 5)
	plan.FileSize, plan.MaxPieces = 5000, pieces
	plan.Cut(base.Bytewise, ts.splitKeys)
	return plan
}

func TestPiecesCoverEverythingOnce(t *testing.T) {
	for _, pieces := range []int{1, 2, 5} {
		ts := newTables(t, base.Bytewise)
		plan := bigPlan(t, ts, 1000, pieces)
		if plan.Pieces() != pieces {
			t.Fatalf("%d pieces, want %d", plan.Pieces(), pieces)
		}
		var results []Result
		var in uint64
		for i := range plan.Pieces() {
			r, err := Run(plan, i, ts.env(), nil)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, r)
			in += r.EntriesIn
		}
		slices.Reverse(results)
		e, err := Edit(plan, results...)
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
			t.Errorf("%d pieces: %d entries in, %d out, %d tables deleted", pieces, in, n,
				len(e.Deleted))
		}
	}
}

func TestRunFails(t *testing.T) {
	errOpen, errRead := errors.New("open"), errors.New("read")
	for _, tc := range []struct {
		name string
		set  func(ts *tables, env *Env, plan *picker.Plan)
		want error
	}{
		{"writer cannot be made", func(ts *tables, env *Env, _ *picker.Plan) {
			inner := env.NewWriter
			env.NewWriter = func() (uint64, sstable.Writer, error) {
				if ts.next > 10 {
					return 0, nil, errAdd
				}
				return inner()
			}
		}, errAdd},
		{"first add", func(ts *tables, _ *Env, _ *picker.Plan) { ts.failAdd = 1 }, errAdd},
		{"add in the third table", func(ts *tables, _ *Env, _ *picker.Plan) {
			ts.failAdd = 700
		}, errAdd},
		{"stop", func(_ *tables, env *Env, _ *picker.Plan) {
			n := 0
			env.Stop = func() error {
				if n++; n > 1 {
					return base.ErrClosed
				}
				return nil
			}
		}, base.ErrClosed},
		{"open", func(ts *tables, env *Env, plan *picker.Plan) {
			inner := env.Open
			env.Open = func(m *manifest.FileMeta, f sstable.ReadFlags) (base.Source, error) {
				if m == plan.Inputs[5][3] {
					return nil, errOpen
				}
				return inner(m, f)
			}
		}, errOpen},
		{"open in level 0", func(_ *tables, env *Env, _ *picker.Plan) {
			env.Open = func(*manifest.FileMeta, sstable.ReadFlags) (base.Source, error) {
				return nil, errOpen
			}
		}, errOpen},
		{"read", func(ts *tables, env *Env, plan *picker.Plan) {
			inner := env.Open
			env.Open = func(m *manifest.FileMeta, f sstable.ReadFlags) (base.Source, error) {
				src, err := inner(m, f)
				if m == plan.Inputs[5][4] {
					src.(*tableSource).err = errRead
				}
				return src, err
			}
		}, errRead},
		{"unknown kind", func(ts *tables, _ *Env, plan *picker.Plan) {
			ts.data[plan.Inputs[0][0].Num][400].Trailer = base.MakeTrailer(2, 9)
		}, base.ErrCorruption},
		{"order of the input", func(ts *tables, _ *Env, plan *picker.Plan) {
			es := ts.data[plan.Inputs[0][0].Num]
			es[400].Key, es[500].Key = es[500].Key, es[400].Key
		}, nil},
	} {
		ts := newTables(t, base.Bytewise)
		plan := bigPlan(t, ts, 1000, 1)
		before := ts.next
		env := ts.env()
		tc.set(ts, env, plan)
		r, err := Run(plan, 0, env, nil)
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if len(r.Added) != 0 || uint64(len(r.Abandoned)) != ts.next-before || ts.open != 0 {
			t.Errorf("%s: %d tables, %d abandoned of %d, %d writers open", tc.name, len(r.Added),
				len(r.Abandoned), ts.next-before, ts.open)
		}
	}
}

// TestSyncFails fails the sync of the first, of some and of the last table of a round.
func TestSyncFails(t *testing.T) {
	for _, n := range []int{1, syncRound / 2, syncRound, syncRound + 1} {
		ts := newTables(t, base.Bytewise)
		plan := bigPlan(t, ts, 6000, 1)
		before := ts.next
		ts.failSync = n
		r, err := Run(plan, 0, ts.env(), nil)
		if !errors.Is(err, errSync) || len(r.Added) != 0 ||
			uint64(len(r.Abandoned)) != ts.next-before || ts.open != 0 {
			t.Errorf("sync %d: %v; %d tables, %d abandoned of %d, %d writers open", n, err,
				len(r.Added), len(r.Abandoned), ts.next-before, ts.open)
		}
	}
}

// TestAllAreSyncedInTheEnd runs out of descriptors, too: then those of the tables that
// wait for their sync are given up.
func TestAllAreSyncedInTheEnd(t *testing.T) {
	for _, limit := range []int{1000, 5, 1} {
		ts := newTables(t, base.Bytewise)
		plan := bigPlan(t, ts, 6000, 1)
		before := ts.next
		env := ts.env()
		inner := env.NewWriter
		most := 0
		env.NewWriter = func() (uint64, sstable.Writer, error) {
			if ts.opened() >= limit {
				return 0, nil, fmt.Errorf("create: %w", syscall.EMFILE)
			}
			defer func() { most = max(most, ts.opened()) }()
			return inner()
		}
		r, err := Run(plan, 0, env, nil)
		if err != nil {
			t.Fatal(err)
		}
		if made := int(ts.next - before); made <= 4*syncRound || len(r.Added) != made ||
			len(ts.synced) != made || ts.open != 0 {
			t.Errorf("%d tables made, %d added, %d synced, %d writers open", made, len(r.Added),
				len(ts.synced), ts.open)
		}
		// A round that is synced, another one that waits, and the table being written.
		if most > min(limit, 2*syncRound+1) {
			t.Errorf("with %d descriptors, up to %d tables were open", limit, most)
		}
	}
}

// TestShortageIsReported: a compaction tries a creation again only for lack of descriptors,
// which it can give up itself.
func TestShortageIsReported(t *testing.T) {
	for _, shortage := range []error{syscall.ENOSPC, syscall.ENOMEM, base.ErrNoSpace} {
		ts := newTables(t, base.Bytewise)
		plan := bigPlan(t, ts, 6000, 1)
		before := ts.next
		env := ts.env()
		inner, failed := env.NewWriter, false
		env.NewWriter = func() (uint64, sstable.Writer, error) {
			if ts.opened() == 5 && !failed {
				failed = true
				return 0, nil, fmt.Errorf("create: %w", shortage)
			}
			return inner()
		}
		r, err := Run(plan, 0, env, nil)
		if !failed || !errors.Is(err, shortage) || len(r.Added) != 0 ||
			uint64(len(r.Abandoned)) != ts.next-before || ts.open != 0 {
			t.Errorf("%v, failed %v: %v; %d tables, %d abandoned of %d, %d writers open", shortage,
				failed, err, len(r.Added), len(r.Abandoned), ts.next-before, ts.open)
		}
		if len(ts.synced) != 0 {
			t.Errorf("%v: %d tables were synced", shortage, len(ts.synced))
		}
	}
}

// TestStopIsAskedOften: however large a table gets, Stop is asked at all times, and no entry is
// read after it has said no.
func TestStopIsAskedOften(t *testing.T) {
	const often = yieldWork/(6+50+entryWork) + 2 // entries of bigPlan
	for _, last := range []int{1, 2, 7, 0} {
		ts := newTables(t, base.Bytewise)
		plan := bigPlan(t, ts, 10*often, 1)
		plan.FileSize = 0 // one table
		env := ts.env()
		errStop := errors.New("stop")
		asked := 0
		env.Stop = func() error {
			if asked++; asked == last {
				return errStop
			}
			return nil
		}
		r, err := Run(plan, 0, env, nil)
		if last == 0 {
			if err != nil || asked < 20 {
				t.Errorf("asked %d times: %v", asked, err)
			}
			continue
		}
		// The entries of a span count when it begins.
		if !errors.Is(err, errStop) || asked != last || r.EntriesIn > uint64(last*often+100) {
			t.Errorf("stop at question %d: %v after %d, %d entries", last, err, asked, r.EntriesIn)
		}
	}
}

// gapSource leaves out a chunk, or ends early, without a word.
type gapSource struct {
	*tableSource
	gap, end int // chunk to leave out, and where to end; 0 for neither
}

func (s *gapSource) Next(e *base.Chunk) (bool, error) {
	_, next, _ := s.Walked()
	if next == s.end {
		return false, nil
	}
	ok, err := s.tableSource.Next(e)
	if ok && next == s.gap {
		if ok, err = s.tableSource.Next(e); ok {
			// what is covered begins here
			_, err = s.SeekGE(bytes.Clone(e.Key(0)), e.Trailers[0], e)
		}
	}
	return ok, err
}

// lessOne is a source of a table that lost its last entry, which its properties
// still count.
func lessOne(t testing.TB, s *tableSource) *tableSource {
	short := newTableSource(t, base.Bytewise, s.es[:len(s.es)-1], 3)
	short.total = len(s.es)
	return short
}

// lyingWriter says that it wrote one entry less.
type lyingWriter struct{ sstable.Writer }

func (w lyingWriter) Finish() (sstable.Meta, error) {
	m, err := w.Writer.Finish()
	m.Entries--
	return m, err
}

// TestLostEntriesAreAnError loses entries on the way into a compaction
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
		{name: "a chunk left out", pieces: 1, source: func(s *tableSource) base.Source {
			return &gapSource{s, 3, 0}
		}},
		{name: "a chunk left out by three", pieces: 3, source: func(s *tableSource) base.Source {
			return &gapSource{s, 3, 0}
		}},
		{name: "an early end", pieces: 1, source: func(s *tableSource) base.Source {
			return &gapSource{s, 0, 5}
		}},
		{name: "an early end by three", pieces: 3, source: func(s *tableSource) base.Source {
			return &gapSource{s, 0, 5}
		}},
		{name: "entries in a chunk", pieces: 1, source: func(s *tableSource) base.Source {
			return lessOne(t, s)
		}},
		{name: "entries in a chunk by three", pieces: 3, source: func(s *tableSource) base.Source {
			return lessOne(t, s)
		}},
		{name: "the writer", pieces: 1, writer: func(w sstable.Writer) sstable.Writer {
			return lyingWriter{w}
		}},
	} {
		ts := newTables(t, base.Bytewise)
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
			r, e := Run(plan, i, env, nil)
			err = errors.Join(err, e)
			results = append(results, r)
		}
		if err == nil {
			_, err = Edit(plan, results...)
		}
		lost := errors.Is(err, errCount) || errors.Is(err, base.ErrCorruption)
		if want := tc.source != nil || tc.writer != nil; lost != want || !want && err != nil {
			t.Errorf("%s: %v", tc.name, err)
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
func (w *countWriter) Sync() error  { return nil }
func (w *countWriter) Close() error { return nil }

// cachedSource hands out chunks made beforehand.
type cachedSource struct {
	base.Source
	chunks []base.Chunk
	at     int
}

func (s *cachedSource) Close() {}

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
			parts := make([][]model.Entry, k)
			value := make([]byte, 100)
			x := uint64(1)
			for i := range n {
				x = x*6364136223846793005 + 1442695040888963407
				j := int(x>>33) % k
				parts[j] = append(parts[j], model.Entry{Key: fmt.Appendf(nil, "%016d", i*7),
					Value: value, Trailer: base.MakeTrailer(base.SeqNum(i+1), base.KindSet)})
			}
			var levels [manifest.NumLevels][]*manifest.FileMeta
			sources := map[uint64][]base.Chunk{}
			for j, es := range parts {
				f := &manifest.FileMeta{Num: uint64(j + 1), Size: 1 << 20,
					Smallest: es[0].Internal(), Largest: es[len(es)-1].Internal()}
				levels[0] = append(levels[0], f)
				for chunk := range slices.Chunk(es, 34) {
					sources[f.Num] = append(sources[f.Num], model.Chunk(base.Bytewise, chunk))
				}
			}
			v := versionOf(b, levels)
			plan := planOf(v, 6)
			env := &Env{Comparer: base.Bytewise,
				Open: func(m *manifest.FileMeta, _ sstable.ReadFlags) (base.Source, error) {
					return &cachedSource{chunks: sources[m.Num]}, nil
				},
				NewWriter: func() (uint64, sstable.Writer, error) { return 1, &countWriter{}, nil },
			}
			b.ReportAllocs()
			for b.Loop() {
				if r, err := Run(plan, 0, env, nil); err != nil || r.EntriesOut != n {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
			runtime.KeepAlive(sources)
		})
	}
}
