package picker_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/testkit/compaction"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/internal/tree/picker"
)

// sim replays a write load through picker.Pick and picker.FlushLevel with sizes only: a table
// is a key range and a number of entries spread evenly over it. A clock lets
// compactions run beside the flushes.
type sim struct {
	t   testing.TB
	cfg picker.Config
	v   *manifest.Version
	// entries of each table, by number
	entries    map[uint64]float64
	nextNum    uint64
	clock      float64 // seconds
	running    []*simJob
	inProgress picker.InProgress

	universe      float64 // keys are drawn from [0, universe)
	entryBytes    float64 // on disk
	flushEntries  float64
	flushSeconds  float64 // that the writers take to fill a memtable
	secondsPerKey float64 // merging, per input entry and worker
	workers, stop int

	drawn, flushed, rewritten   float64
	stalled                     float64
	maxL0, maxRuns, maxJobFiles int
	sumRuns                     float64
	flushes, jobs, moves        int
	maxSpace                    float64 // entries on disk / live keys
	reasons                     map[string]float64

	known bool // decisions are told of the live bytes
	idle  bool // nobody writes
	// entries on disk, outputs of merges included / live keys; once all keys are written
	peak    float64
	delayed float64 // seconds
}

type simJob struct {
	plan *picker.Plan
	end  float64
}

func newSim(t testing.TB, cfg picker.Config) *sim {
	cfg = cfg.Filled()
	v, err := manifest.NewVersion(cfg.Comparer, [manifest.NumLevels][]*manifest.FileMeta{})
	if err != nil {
		t.Fatal(err)
	}
	flush := float64(cfg.WriteBuffer) / 150
	return &sim{t: t, cfg: cfg, v: v, entries: map[uint64]float64{}, entryBytes: 65,
		flushEntries: flush, flushSeconds: flush * 1.6e-6, secondsPerKey: 0.3e-6, workers: 2,
		stop: 40, reasons: map[string]float64{}}
}

func simKey(x float64) []byte { return fmt.Appendf(nil, "%016d", int64(x)) }
func simPos(k []byte) (x float64) {
	for _, c := range k {
		x = x*10 + float64(c-'0')
	}
	return x
}

func (s *sim) newFile(lo, hi, n float64) *manifest.FileMeta {
	s.nextNum++
	s.entries[s.nextNum] = n
	return &manifest.FileMeta{Num: s.nextNum, Size: uint64(n * s.entryBytes),
		Smallest: base.InternalKey{User: simKey(lo), Trailer: base.MakeTrailer(1, base.KindSet)},
		Largest:  base.InternalKey{User: simKey(hi), Trailer: base.MakeTrailer(1, base.KindSet)}}
}

func (s *sim) install(e *manifest.Edit) { s.v = compaction.Apply(s.t, s.cfg.Comparer, s.v, e) }

// flush adds a table of n entries over [lo, hi).
func (s *sim) flush(lo, hi, n float64) {
	f := s.newFile(lo, hi-1, n)
	e := new(manifest.Edit)
	e.Add(picker.FlushLevel(s.v, s.inProgress, s.cfg.Comparer, f.Smallest.User, f.Largest.User), f)
	s.install(e)
	s.flushed += n
	s.flushes++
}

// schedule starts what can be started.
func (s *sim) schedule() {
	for {
		used := 0
		for _, j := range s.running {
			used += j.plan.MaxPieces
		}
		if used >= s.workers {
			return
		}
		plan := s.pick()
		if plan == nil {
			return
		}
		compaction.CheckPlan(s.t, s.v, s.inProgress, plan, s.cfg.Comparer)
		var n float64
		plan.Files(func(_ int, m *manifest.FileMeta) { n += s.entries[m.Num] })
		d := n * s.secondsPerKey / float64(plan.MaxPieces)
		if plan.TrivialMove {
			d = 0
			s.moves++
		} else {
			s.jobs++
			s.rewritten += n
			s.reasons[plan.Reason] += n
		}
		s.maxJobFiles = max(s.maxJobFiles, plan.NumFiles())
		s.running = append(s.running, &simJob{plan, s.clock + d})
		s.inProgress = append(s.inProgress, plan)
	}
}

func (s *sim) pick() *picker.Plan {
	s.tell()
	plan := picker.Pick(s.v, s.inProgress, s.cfg)
	if plan == nil && s.idle {
		plan = picker.PickIdle(s.v, s.inProgress, s.cfg)
	}
	return plan
}

// tell sets what decisions are told of the live bytes.
func (s *sim) tell() {
	if s.known {
		s.cfg.Live = uint64(s.live() * s.entryBytes)
	}
}

// finish ends the job that ends first and installs what it made.
func (s *sim) finish() {
	k := 0
	for i, j := range s.running {
		if j.end < s.running[k].end {
			k = i
		}
	}
	j := s.running[k]
	s.clock = max(s.clock, j.end)
	s.running = slices.Delete(s.running, k, k+1)
	s.inProgress = slices.Delete(slices.Clone(s.inProgress), k, k+1)
	var added []manifest.AddedFile
	made := 0.0
	if !j.plan.TrivialMove {
		for _, f := range s.mergeFiles(j.plan) {
			added = append(added, manifest.AddedFile{Level: j.plan.OutputLevel, Meta: f})
			made += s.entries[f.Num]
		}
	}
	if s.drawn > s.universe {
		s.peak = max(s.peak, (s.onDisk()+made)/s.live())
	}
	s.install(j.plan.Edit(added))
	s.schedule()
}

// mergeFiles cuts the union of a plan's inputs into tables.
func (s *sim) mergeFiles(p *picker.Plan) []*manifest.FileMeta {
	lo, hi := simPos(p.Smallest), simPos(p.Largest)+1
	const buckets = 400
	w := (hi - lo) / buckets
	var out []*manifest.FileMeta
	start, n := lo, 0.0
	for b := range buckets {
		from, to := lo+float64(b)*w, lo+float64(b+1)*w
		missing := 1.0
		for l, files := range p.Inputs {
			level := 0.0
			for _, f := range files {
				flo, fhi := simPos(f.Smallest.User), simPos(f.Largest.User)+1
				part := max(0, min(to, fhi)-max(from, flo)) / (fhi - flo) * s.entries[f.Num]
				if l == 0 {
					missing *= 1 - min(1, part/w)
				} else {
					level += part
				}
			}
			missing *= 1 - min(1, level/w)
		}
		n += (1 - missing) * w
		if n*s.entryBytes >= float64(p.FileSize) || b == buckets-1 {
			end := hi - 1
			if b < buckets-1 {
				end = math.Floor(to) - 1
			}
			if n >= 1 && end >= start {
				out = append(out, s.newFile(start, end, n))
			}
			start, n = end+1, 0
		}
	}
	return out
}

func (s *sim) onDisk() (total float64) {
	for l := range s.v.Levels {
		for _, f := range s.v.Levels[l].Files {
			total += s.entries[f.Num]
		}
	}
	return total
}

func (s *sim) live() float64 { return s.universe * (1 - math.Exp(-s.drawn/s.universe)) }

// fill writes n random keys.
func (s *sim) fill(n float64) {
	for end := s.drawn + n; s.drawn < end; {
		s.write(0, s.universe, s.universe*(1-math.Exp(-s.flushEntries/s.universe)))
	}
}

// write lets the writers fill one memtable, runs what runs meanwhile, and
// flushes it.
func (s *sim) write(lo, hi, n float64) {
	s.cfg.Fast = true
	delay := s.delay()
	s.delayed += delay
	until := s.clock + s.flushSeconds + delay
	for len(s.running) > 0 && s.earliest() <= until {
		s.finish()
	}
	s.clock = max(s.clock, until)
	for len(s.v.Levels[0].Files) >= s.stop {
		before := s.clock
		s.finish()
		s.stalled += s.clock - before
	}
	s.drawn += s.flushEntries
	s.flush(lo, hi, n)
	s.schedule()
	s.maxL0 = max(s.maxL0, len(s.v.Levels[0].Files))
	runs := s.numRuns()
	s.maxRuns = max(s.maxRuns, runs)
	s.sumRuns += float64(runs)
	s.maxSpace = max(s.maxSpace, s.onDisk()/(s.live()+float64(s.cfg.L0Trigger+4)*s.flushEntries))
}

// delay is what the writers of a memtable are made to wait, see jobs.
func (s *sim) delay() float64 {
	s.tell()
	p := picker.Pressure(s.v, s.cfg)
	if p <= 0 {
		return 0
	}
	return float64(s.cfg.WriteBuffer>>10) * 10e-6 * min(p/max(1-p, 0.01), 100)
}

func (s *sim) earliest() float64 {
	e := math.Inf(1)
	for _, j := range s.running {
		e = min(e, j.end)
	}
	return e
}

func (s *sim) quiet() float64 {
	before := s.clock
	for len(s.running) > 0 {
		s.finish()
	}
	return s.clock - before
}

// rest lets what is in the tree become quiet and then one run. It returns the space
// taken in between, as a multiple of the live keys, and the entries rewritten for one run.
func (s *sim) rest() (space, rewritten float64) {
	s.cfg.Fast = false
	s.schedule()
	s.quiet()
	space, rewritten = s.onDisk()/s.live(), s.rewritten
	s.idle = true
	s.schedule()
	s.quiet()
	s.idle = false
	return space, s.rewritten - rewritten
}

func (s *sim) numRuns() int {
	runs := len(s.v.Levels[0].Files)
	for l := 1; l < manifest.NumLevels; l++ {
		if len(s.v.Levels[l].Files) > 0 {
			runs++
		}
	}
	return runs
}

func (s *sim) shape() string {
	var b strings.Builder
	for l := range s.v.Levels {
		fmt.Fprintf(&b, "L%d:%d/%dM ", l, len(s.v.Levels[l].Files), s.v.Levels[l].Size>>20)
	}
	return b.String()
}

func (s *sim) report(name string, quiet float64) string {
	return fmt.Sprintf("%s: rewrites per entry %.2f, runs avg %.1f max %d, L0 max %d, space max "+
		"%.2f peak %.2f, delayed %.0f s, %d flushes %d jobs %d moves (most files %d), stalled "+
		"%.0f s of %.0f s, quiet after %.1f s, %s",
		name, s.rewritten/s.flushed, s.sumRuns/float64(s.flushes), s.maxRuns, s.maxL0, s.maxSpace,
		s.peak, s.delayed, s.flushes, s.jobs, s.moves, s.maxJobFiles, s.stalled, s.clock, quiet,
		s.shape())
}

func TestSimulateFillRandom(t *testing.T) {
	big := picker.Config{FileSize: 64 << 20, WriteBuffer: 64 << 20, L0Trigger: 4,
		MaxSubcompactions: 2}
	small := picker.Config{FileSize: 2 << 20, WriteBuffer: 4 << 20, L0Trigger: 4,
		MaxSubcompactions: 2}
	for _, tc := range []struct {
		name     string
		cfg      picker.Config
		universe float64
		draws    float64
		// rewrites per entry; with all keys new, while the live bytes are not known
		most  float64
		known float64 // rewrites per entry when they are
	}{
		{"64 MB, 10M", big, 10e6, 10e6, 1.8, 1},
		{"64 MB, 100M", big, 100e6, 100e6, 2.6, 2.3},
		{"64 MB, 1000M", big, 1000e6, 1000e6, 6.5, 6.6},
		{"64 MB, 100M of 10M", big, 10e6, 100e6, 2.5, 3.3},
		{"64 MB, 400M of 50M", big, 50e6, 400e6, 3.6, 3.9},
		{"4 MB, 10M", small, 10e6, 10e6, 3.3, 2.5},
		{"4 MB, 50M", small, 50e6, 50e6, 6, 5.2},
		{"4 MB, 20M of 1M", small, 1e6, 20e6, 3, 3.9},
	} {
		if !seed.Full() && tc.draws > 500e6 {
			continue
		}
		for _, known := range []bool{false, true} {
			s := newSim(t, tc.cfg)
			s.universe, s.known = tc.universe, known
			most, space := tc.most, 1+picker.SpaceRatio+0.2
			if known {
				most, space = tc.known, picker.PeakSpace
			}
			s.fill(tc.draws)
			t.Log(s.report(tc.name, s.quiet()), s.reasons)
			if got := s.rewritten / s.flushed; got > most {
				t.Errorf("%s: %.2f rewrites per entry", tc.name, got)
			}
			if s.maxSpace > space || s.stalled > s.clock/100 || s.delayed > s.clock/20 {
				t.Errorf("%s: space %.2f, stalled %.0f s, delayed %.0f s", tc.name, s.maxSpace,
					s.stalled, s.delayed)
			}
		}
	}
}

// TestSimulateOverwrite: the bounds on space hold while keys are written again at full
// speed, when that ends, and at rest, where one run is left after about one pass.
func TestSimulateOverwrite(t *testing.T) {
	const mib = 1 << 20
	for _, tc := range []struct {
		name             string
		buffer, fileSize uint64
		universe, draws  float64
	}{
		{"64 MB, 4M", 64 * mib, 64 * mib, 4e6, 20e6},
		{"64 MB, 10M", 64 * mib, 64 * mib, 10e6, 100e6},
		{"64 MB, 50M", 64 * mib, 64 * mib, 50e6, 250e6},
		{"8 MB, 1M", 8 * mib, 64 * mib, 1e6, 6e6},
		{"4 MB, 1M", 4 * mib, 2 * mib, 1e6, 20e6},
		{"1 MB, 1M", 1 * mib, 64 * mib, 1e6, 6e6},
	} {
		s := newSim(t, picker.Config{FileSize: tc.fileSize, WriteBuffer: tc.buffer,
			MaxSubcompactions: 2})
		s.universe, s.known = tc.universe, true
		s.fill(tc.draws)
		t.Log(s.report(tc.name, s.quiet()), s.reasons)
		slack := float64(picker.Slack(s.v, s.cfg)) / (s.live() * s.entryBytes)
		// Level 0 waits and is merged whole: that comes on top.
		if bound := picker.PeakSpace + 0.1 + 2*slack; s.peak > bound {
			t.Errorf("%s: peak %.2f, bound %.2f", tc.name, s.peak, bound)
		}
		all := s.onDisk()
		space, rewritten := s.rest()
		t.Logf("quiet %.2f, one run for %.2f of the tree", space, rewritten/all)
		if space > picker.DefaultMaxSpace+slack {
			t.Errorf("%s: %.2f when quiet, bound %.2f", tc.name, space,
				picker.DefaultMaxSpace+slack)
		}
		if rewritten > 1.4*all || s.numRuns() != 1 {
			t.Errorf("%s: %.0f of %.0f entries rewritten for %d run(s)", tc.name, rewritten, all,
				s.numRuns())
		}
		if moves := s.moves; s.jobs > 0 {
			s.rest()
			if s.moves != moves {
				t.Errorf("%s: work at rest", tc.name)
			}
		}
	}
}

// TestSimulateFillSeq: tables of ascending keys are never written again.
func TestSimulateFillSeq(t *testing.T) {
	s := newSim(t, picker.Config{})
	s.universe = 100e6
	for n := 0.0; n < s.universe; n += s.flushEntries {
		s.write(n, n+s.flushEntries, s.flushEntries)
	}
	t.Log(s.report("fillseq", s.quiet()))
	if s.rewritten != 0 || s.moves != 0 || len(s.v.Levels[picker.LastLevel].Files) != s.flushes {
		t.Error("tables were rewritten or not put into the last level")
	}
}

// TestSimulateLevelDB starts with a database as LevelDB leaves it.
func TestSimulateLevelDB(t *testing.T) {
	for _, sizes := range [][]float64{{10, 100, 1000}, {10, 100, 600, 0, 0}, {10, 100, 1000, 3000},
		{9, 95, 1000, 10000, 40000, 9000}} {
		s := newSim(t, picker.Config{FileSize: 2 << 20, WriteBuffer: 4 << 20, MaxSubcompactions: 2})
		total := 0.0
		for _, mib := range sizes {
			total += mib * (1 << 20) / s.entryBytes
		}
		s.universe = 1.5 * total
		s.drawn = s.universe // enough for live() to be about right
		e := new(manifest.Edit)
		for l, mib := range sizes {
			files := int(mib) / 2
			w := s.universe / float64(max(files, 1))
			for i := range files {
				e.Add(l+1, s.newFile(math.Floor(float64(i)*w), math.Floor(float64(i+1)*w)-1,
					(2<<20)/s.entryBytes))
			}
		}
		s.install(e)
		if plan := picker.Pick(s.v, nil, s.cfg); plan != nil && !plan.TrivialMove {
			t.Errorf("%v: %s at rest", sizes, plan.Reason)
		}
		s.fill(5e6)
		t.Log(s.report(fmt.Sprint(sizes), s.quiet()), s.reasons)
		// With all levels taken, freeing some costs one merge of the upper ones.
		if got := s.rewritten - 5*s.flushed; got > total/3 {
			t.Errorf("%v: %.0f of %.0f entries rewritten for %.0f new ones", sizes, s.rewritten,
				total, s.flushed)
		}
	}
}
