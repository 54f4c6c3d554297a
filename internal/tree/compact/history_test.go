package compact

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/compaction"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/internal/tree/iters"
	"github.com/loamdb/loam/internal/tree/picker"
)

// store is the smallest database that picker.Pick, Run, picker.FlushLevel and Flush can serve:
// a memtable, a version, plans in flight that end in any order, and the model.
type store struct {
	t     testing.TB
	rng   *rand.Rand
	cmp   *base.Comparer
	cfg   picker.Config
	ts    *tables
	v     *manifest.Version
	mem   []model.Entry
	model *model.Model
	seq   base.SeqNum
	snaps []base.SeqNum
	keys  int

	inProgress picker.InProgress
	pending    map[*picker.Plan]*manifest.Edit // results of plans that are not installed
	reasons    map[string]int
	dense      bool
	filters    bool // flushes and compactions ask filters of tables
	deletes    int  // how many of three entries are deletions
	merges     int  // how many of ten writes that are no deletions are merges
	long       bool // much data, so that merges are large for their parameters
}

func newStore(t testing.TB, seed uint64) *store {
	rng := rand.New(rand.NewPCG(seed, 3))
	cmp := []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.Fold}[rng.IntN(3)]
	s := &store{t: t, rng: rng, cmp: cmp, model: model.New(cmp), ts: newTables(t, cmp),
		pending: map[*picker.Plan]*manifest.Edit{}, reasons: map[string]int{}}
	s.cfg = picker.Config{Comparer: cmp, FileSize: []uint64{40, 200, 2000}[rng.IntN(3)],
		WriteBuffer: 400,
		L0Trigger:   1 + rng.IntN(4), MaxSubcompactions: 1 + rng.IntN(3)}
	s.keys = []int{5, 60, 1000}[rng.IntN(3)]
	if s.long = seed%20 == 7; s.long {
		s.keys, s.cfg.WriteBuffer, s.cfg.FileSize, s.cfg.L0Trigger = 1000, 40, 40, 2
	}
	s.deletes = 1
	if s.dense = rng.IntN(2) == 0 && !s.long; s.dense {
		s.cfg.TombstoneDense = s.isDense
		s.deletes += rng.IntN(2)
	}
	s.filters = seed%2 == 0
	var levels [manifest.NumLevels][]*manifest.FileMeta
	if rng.IntN(2) == 0 {
		s.legacy(&levels)
	}
	s.merges = []int{0, 0, 3, 9}[rng.IntN(4)] // LevelDB's tables have none
	v, err := manifest.NewVersion(cmp, levels)
	if err != nil {
		t.Fatal(err)
	}
	s.v = v
	return s
}

func (s *store) isDense(f *manifest.FileMeta) bool {
	deletes := 0
	for _, e := range s.ts.data[f.Num] {
		if len(s.snaps) > 0 && e.Trailer.Seq() >= s.snaps[0] {
			return false
		}
		if e.Trailer.Kind() == base.KindDelete {
			deletes++
		}
	}
	return 2*deletes >= len(s.ts.data[f.Num])
}

func (s *store) key() []byte {
	k := fmt.Appendf(nil, "k%03d", s.rng.IntN(s.keys))
	switch s.rng.IntN(s.keys + 20) {
	case 0:
		return nil
	case 1:
		k[0] = 'K'
	}
	return k
}

func (s *store) entry() model.Entry {
	s.seq++
	if s.rng.IntN(3) < s.deletes {
		return model.Tombstone(string(s.key()), s.seq)
	}
	if s.rng.IntN(10) < s.merges {
		return model.Entry{Key: s.key(), Value: fmt.Appendf(nil, "+%d", s.seq),
			Trailer: base.MakeTrailer(s.seq, base.KindMerge)}
	}
	return model.Set(string(s.key()), s.seq, fmt.Sprintf("v%d", s.seq))
}

// appendOperator does what model.JoinByComma does.
var appendOperator, _ = mergeop.Named("append")

// legacy fills levels as LevelDB may have left them: a key's entries split over
// neighbouring files, and files of any size.
func (s *store) legacy(levels *[manifest.NumLevels][]*manifest.FileMeta) {
	for l := manifest.NumLevels - 1; l >= 1; l-- {
		var es []model.Entry
		for range s.rng.IntN(60) {
			e := s.entry()
			es = append(es, e)
			s.model.Add(e)
		}
		model.Sort(s.cmp, es)
		for len(es) > 0 {
			n := 1 + s.rng.IntN(min(len(es), 8))
			levels[l] = append(levels[l], s.ts.put(es[:n]))
			es = es[n:]
		}
	}
}

func (s *store) write() {
	ascending, narrow := s.rng.IntN(4) == 0, s.rng.IntN(4) == 0
	prefix := fmt.Sprintf("k%03dx", s.rng.IntN(s.keys))
	n := 1 + s.rng.IntN(12)
	if s.long {
		n *= 5
	}
	for range n {
		e := s.entry()
		switch {
		case ascending:
			e.Key = fmt.Appendf(nil, "z%06d", s.seq)
		case narrow:
			e.Key = fmt.Appendf(nil, "%s%06d", prefix, s.seq)
		}
		s.mem = append(s.mem, e)
		s.model.Add(e)
	}
}

func (s *store) install(e *manifest.Edit) { s.v = compaction.Apply(s.t, s.cmp, s.v, e) }

// flush writes the memtable. Other steps happen while it runs.
func (s *store) flush() {
	if len(s.mem) == 0 {
		return
	}
	mem := s.mem
	model.Sort(s.cmp, mem)
	smallest, largest := mem[0].Key, mem[len(mem)-1].Key
	level := picker.FlushLevel(s.v, s.inProgress, s.cmp, smallest, largest)
	plan := picker.FlushPlan(level, smallest, largest)
	if level > 0 {
		s.inProgress = append(s.inProgress, plan)
	}
	r, err := Flush(newTableSource(s.t, s.cmp, mem, 4), uint64(len(mem)), nil, s.v, level, 0,
		s.env(), s.snapshots())
	if err != nil {
		s.t.Fatal(err)
	}
	for range s.rng.IntN(4) {
		s.compaction()
	}
	s.install(&manifest.Edit{Added: r.Added})
	s.mem = nil
	s.done(plan)
}

func (s *store) env() *Env {
	env := s.ts.env()
	if s.filters {
		env.MayHold = s.ts.mayHold
	}
	return env
}

func (s *store) snapshots() []base.SeqNum { return slices.Clone(s.snaps) }

func (s *store) done(plan *picker.Plan) {
	s.inProgress = slices.DeleteFunc(slices.Clone(s.inProgress), func(p *picker.Plan) bool {
		return p == plan
	})
	delete(s.pending, plan)
}

// compaction picks, or runs, or installs.
func (s *store) compaction() {
	if len(s.inProgress) > 0 && s.rng.IntN(2) == 0 {
		plan := s.inProgress[s.rng.IntN(len(s.inProgress))]
		if plan.NumFiles() == 0 {
			return // a flush
		}
		if e := s.pending[plan]; e != nil {
			s.install(e)
			s.done(plan)
		} else {
			s.run(plan)
		}
		return
	}
	s.start(picker.Pick(s.v, s.inProgress, s.cfg))
}

func (s *store) start(plan *picker.Plan) {
	if plan == nil {
		return
	}
	compaction.CheckPlan(s.t, s.v, s.inProgress, plan, s.cmp)
	s.reasons[plan.Reason]++
	s.inProgress = append(s.inProgress, plan)
}

func (s *store) run(plan *picker.Plan) {
	var results []Result
	if !plan.TrivialMove {
		plan.Cut(s.cmp, s.ts.splitKeys)
		for piece := range plan.Pieces() {
			r, err := Run(plan, piece, s.env(), s.snapshots())
			if err != nil {
				s.t.Fatal(err)
			}
			if r.EntriesIn != r.EntriesOut+r.Dropped {
				s.t.Fatalf("%d entries in, %d out, %d dropped", r.EntriesIn, r.EntriesOut,
					r.Dropped)
			}
			results = append(results, r)
		}
	}
	e, err := Edit(plan, results...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.pending[plan] = e
}

func (s *store) settle() {
	for len(s.inProgress) > 0 {
		plan := s.inProgress[0]
		if s.pending[plan] == nil {
			s.run(plan)
		}
		s.install(s.pending[plan])
		s.done(plan)
	}
}

// check reads everything at a sequence number and compares with the model.
func (s *store) check(seq base.SeqNum) {
	mem := slices.Clone(s.mem)
	model.Sort(s.cmp, mem)
	sources := []base.Source{newTableSource(s.t, s.cmp, mem, 5)}
	open := func(m *manifest.FileMeta) (base.Source, error) { return s.ts.source(m.Num), nil }
	for l := range s.v.Levels {
		files := s.v.Levels[l].Files
		if l == 0 {
			for i := range files {
				sources = append(sources, s.ts.source(files[i].Num))
			}
		} else if len(files) > 0 {
			sources = append(sources, iters.NewLevel(s.cmp, files, open))
		}
	}
	want := s.model.Scan(seq, nil, nil)
	var c iters.Cursor
	c.Reset(s.cmp, sources, iters.Options{Seq: seq, Merge: appendOperator})
	defer c.Close()
	i := 0
	for ok := c.First(); ok; ok = c.Next() {
		if i >= len(want) || string(c.Key()) != want[i].Key || string(c.Value()) != want[i].Value {
			s.t.Fatalf("at %d: read %q=%q, want %v\n%v", seq, c.Key(), c.Value(),
				want[min(i, len(want)):min(i+1, len(want))], s.v)
		}
		i++
	}
	if i != len(want) || c.Err() != nil {
		s.t.Fatalf("at %d: read %d keys, want %d, error %v\n%v", seq, i, len(want), c.Err(), s.v)
	}
	// A read that looks level by level, as Get does, needs the newest entry of a
	// key to lie in the shallowest place.
	newest := map[string]base.SeqNum{}
	id := func(k []byte) string {
		if s.cmp == model.Fold {
			return string(bytes.ToLower(k))
		}
		return string(k)
	}
	for l := range s.v.Levels {
		oldest := map[string]base.SeqNum{}
		for _, f := range s.v.Levels[l].Files {
			inFile := map[string]base.SeqNum{}
			for _, e := range s.ts.data[f.Num] {
				if limit, ok := newest[id(e.Key)]; ok && e.Trailer.Seq() > limit {
					s.t.Fatalf("level %d table %d: %v is newer than #%d above it", l, f.Num, e,
						limit)
				}
				inFile[id(e.Key)] = e.Trailer.Seq() // ends with the oldest
			}
			for k, q := range inFile {
				if l == 0 {
					newest[k] = q
				} else if old, ok := oldest[k]; !ok || q < old {
					oldest[k] = q
				}
			}
		}
		for k, q := range oldest {
			newest[k] = q
		}
	}
}

func TestHistories(t *testing.T) {
	histories := uint64(seed.Scale(60, 70, 300))
	reasons := map[string]int{}
	for n := range histories {
		s := newStore(t, n)
		if !t.Run(fmt.Sprint(n), func(t *testing.T) { s.t = t; s.history() }) {
			return
		}
		for r, n := range s.reasons {
			reasons[r] += n
		}
	}
	t.Log(reasons)
	for _, r := range []string{"level 0 is full", "level 0 is full, no level is free",
		"too much space",
		"to a free level", "overlaps nothing", "full of deletions", "manual"} {
		if reasons[r] == 0 {
			t.Errorf("no plan was made because of %q", r)
		}
	}
}

func (s *store) history() {
	steps := 120
	if s.long {
		steps = 700
	}
	for range steps {
		switch r := s.rng.IntN(100); {
		case r < 30:
			s.write()
		case r < 50:
			s.flush()
		case r < 85:
			s.compaction()
		case r < 88:
			s.snaps = append(s.snaps, s.seq)
		case r < 92:
			if n := len(s.snaps); n > 0 {
				i := s.rng.IntN(n)
				s.snaps = slices.Delete(slices.Clone(s.snaps), i, i+1)
			}
		case r < 94 && !s.long:
			var lo, hi []byte
			if s.rng.IntN(2) == 0 {
				lo = s.key()
			}
			if s.rng.IntN(2) == 0 {
				hi = s.key()
			}
			if lo == nil || hi == nil || s.cmp.Compare(lo, hi) <= 0 {
				s.start(picker.PickRange(s.v, s.inProgress, s.cfg, lo, hi))
			}
		case s.long && r < 99:
		default:
			s.check(s.seq)
			for _, q := range s.snaps {
				s.check(q)
			}
		}
	}
	s.settle()
	s.check(s.seq)
	for _, q := range s.snaps {
		s.check(q)
	}
	s.compactAll()
}

// compactAll merges everything and expects no entry that nobody can read.
func (s *store) compactAll() {
	s.snaps = nil
	s.flush()
	s.settle()
	for range 2000 {
		if plan := picker.Pick(s.v, s.inProgress, s.cfg); plan != nil {
			s.start(plan)
			s.settle()
			continue
		}
		break
	}
	if picker.Pick(s.v, s.inProgress, s.cfg) != nil {
		s.t.Fatalf("compactions never end\n%v", s.v)
	}
	plan := picker.PickRange(s.v, s.inProgress, s.cfg, nil, nil)
	if plan == nil {
		return
	}
	s.start(plan)
	s.settle()
	s.check(s.seq)
	n := 0
	for l := range s.v.Levels {
		for _, f := range s.v.Levels[l].Files {
			n += len(s.ts.data[f.Num])
		}
	}
	if want := len(s.model.Scan(s.seq, nil, nil)); n != want {
		s.t.Fatalf("%d entries after a full compaction, want %d", n, want)
	}
	if s.ts.open != 0 {
		s.t.Fatalf("%d writers left open", s.ts.open)
	}
}
