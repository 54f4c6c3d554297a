package kvbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/follower"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/progress"
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// session is one command line at work.
type session struct {
	c       *command
	drivers []store.Driver
	driver  store.Driver // the first: what the others are compared with
	dir     string
	out     io.Writer
	errs    io.Writer
	bar     *progress.Bar
	env     machine.Environment
	report  Report
	killed  map[string]bool // peers that took more than --memory: they are left out
}

func newSession(c *command, dir string, stdout, stderr io.Writer) *session {
	return &session{c: c, drivers: c.drivers, driver: c.drivers[0], dir: dir, out: stdout,
		errs: stderr, killed: map[string]bool{}}
}

// plan is one database of one engine from its beginning to its end: a variant
// of an experiment, or the benchmarks of the command line.
type plan struct {
	driver     store.Driver
	pair       string // the engine that it is measured beside, "" if none
	experiment string
	variant    string
	round      int
	params     runner.Params
	settings   []store.Setting
	ignored    []store.Setting // asked for, but the engine does not have them
	steps      []experiment.Step
}

func (s *session) run(ctx context.Context, args []string) error {
	s.env = machine.Read(s.dir)
	s.env.Commit = commit()
	s.report = newReport(s.drivers, s.env, args)
	if !s.processes() {
		s.bar = progress.New(s.errs, s.c.progress)
	}
	defer s.bar.Close()
	err := s.runAll(ctx)
	s.bar.Close()
	s.report.Complete = err == nil
	return errors.Join(err, s.writeReports())
}

// writeReports writes the files asked for, what there is of a failed run too.
func (s *session) writeReports() error {
	return s.report.Save(s.out, Files{s.c.json, s.c.html, s.c.tsv})
}

func (s *session) runAll(ctx context.Context) error {
	if len(s.c.experiments) == 0 {
		return s.runPlain(ctx)
	}
	for _, e := range s.c.experiments {
		if err := s.runExperiment(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) runPlain(ctx context.Context) error {
	names := s.c.benchmarks
	if len(names) == 0 {
		names = workload.DefaultSteps
	}
	p := plan{driver: s.driver, params: s.c.params, settings: slices.Concat(s.matched(&s.c.params),
		s.c.settings)}
	for _, n := range names {
		p.steps = append(p.steps, experiment.Step{Bench: n})
	}
	plans := []plan{p}
	if len(s.c.benchmarks) == 0 && s.c.db == "" && s.showsFormats() {
		plans = []plan{p.in(nativeFormat), p.in(leveldbFormat)}
	}
	s.banner(&p)
	var columns []column
	for _, t := range s.schedule() {
		for _, q := range plans {
			q.driver, q.pair, q.round = t.driver, t.pair, t.round
			if q.variant != "" {
				fmt.Fprintf(s.out, "-- %s\n", q.variant)
			}
			run, err := s.runPlan(ctx, &q)
			if err != nil {
				return err
			}
			columns = addRun(columns, s.title(&q), run)
		}
	}
	if len(p.steps) > 1 || s.c.rounds > 1 || s.apart() {
		s.summary(columns, &experiment.Experiment{})
	}
	return nil
}

// showsFormats reports whether tables show both formats: where one engine is measured, which
// has them, and none was asked for.
func (s *session) showsFormats() bool {
	return !s.apart() && s.c.format == "" && hasOption(s.driver, formatOption)
}

func inFormat(format string) []store.Setting {
	return []store.Setting{{Name: formatOption, Value: format}}
}

// in is the plan with new databases in a format.
func (p plan) in(format string) plan {
	p.variant, p.settings = format+" format", append(inFormat(format), p.settings...)
	return p
}

func (s *session) runExperiment(ctx context.Context, e chosen) error {
	fmt.Fprintf(s.out, "\n== %s: %s\n", e.Name, e.Title)
	var columns []column
	for i, t := range s.schedule() {
		for j, v := range e.Variants {
			if v.Alone && !s.showsFormats() || !s.wants(v, t) {
				continue
			}
			p := s.planOf(e, v)
			p.driver, p.pair, p.round = t.driver, t.pair, t.round
			p.variant = strings.ReplaceAll(v.Name, "%s", t.driver.Title())
			if i == 0 && j == 0 {
				s.banner(&p)
			}
			fmt.Fprintf(s.out, "-- %s%s\n", p.variant, settingsText(p.settings))
			run, err := s.runPlan(ctx, &p)
			if err != nil {
				return err
			}
			columns = addRun(columns, s.title(&p), run)
		}
	}
	if len(columns) == 0 {
		return usage("%s --variant=%q: it needs what the engines, or --format, do not have", e.Name,
			s.c.variant)
	}
	s.summary(columns, e.Experiment)
	if e.Grid {
		s.printGrids(e.Name)
	}
	return nil
}

// wants reports whether a variant is one of those of --variant, and both engines of a turn, if it
// has two, have what the variant needs.
func (s *session) wants(v experiment.Variant, t turn) bool {
	return strings.HasPrefix(v.Name, s.c.variant) && (v.Needs == "" ||
		!slices.ContainsFunc(s.drivers, func(d store.Driver) bool {
			return (d.Name() == t.driver.Name() || d.Name() == t.pair) && !hasOption(d, v.Needs)
		}))
}

// title names the column of a run.
func (s *session) title(p *plan) string {
	switch {
	case !s.apart():
		return p.variant
	case p.variant == "" || strings.Contains(p.variant, p.driver.Title()):
		return p.driver.Title() + strings.TrimPrefix(p.variant, p.driver.Title())
	}
	return p.driver.Title() + ", " + p.variant
}

// addRun puts a run into the column with the name.
func addRun(columns []column, name string, run *Run) []column {
	if run == nil {
		return columns
	}
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	if i < 0 {
		i = len(columns)
		columns = append(columns, column{name: name})
	}
	columns[i].runs = append(columns[i].runs, run)
	return columns
}

// planOf applies the command line to a variant: flags win.
func (s *session) planOf(e chosen, v experiment.Variant) plan {
	p := plan{experiment: e.Name, params: s.c.params, steps: v.Steps}
	switch {
	case e.num > 0:
		p.params.Num = e.num * int64(max(v.Scale, 1))
	case !s.c.given["num"]:
		p.params.Num = max(int64(math.Round(float64(e.Num)*s.c.scale*max(v.Scale, 1))),
			1)
	}
	// published for another size
	if v.Scale > 0 && p.params.Num != e.Num*int64(v.Scale) {
		p.steps = experiment.Steps(names(p.steps)...)
	}
	p.params.Quiet = p.params.Quiet || e.Costs && !s.c.given["quiet"]
	if e.Adjust != nil {
		e.Adjust(&p.params)
	}
	if v.Adjust != nil {
		v.Adjust(&p.params)
	}
	if e.Matched {
		p.settings = s.matched(&p.params)
	}
	p.settings = slices.Concat(p.settings, v.Settings, s.c.settings)
	if v.Format != "" && s.showsFormats() {
		p.settings = append(p.settings, inFormat(v.Format)...)
	}
	return p
}

func names(list []experiment.Step) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = list[i].Bench
	}
	return all
}

func settingsText(settings []store.Setting) string {
	var parts []string
	for i, s := range settings {
		if !overridden(settings, i) {
			parts = append(parts, s.Name+"="+s.Value)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, " ") + ")"
}

// runPlan runs a plan: here, or, when engines are compared, in a process of its
// own, so that neither memory nor garbage of one engine is another's. With
// --memory that process is in a cgroup; a peer that is killed for taking more is left out from
// then on, which the report says, and its run is nil.
func (s *session) runPlan(ctx context.Context, p *plan) (*Run, error) {
	s.filter(p)
	s.touchMemory(p)
	if s.processes() {
		name := p.driver.Name()
		if s.killed[name] {
			return nil, nil
		}
		run, err := s.runApart(ctx, p)
		if errors.Is(err, errKilled) && name != s.driver.Name() {
			fmt.Fprintf(s.errs, "kvbench: %v; it is left out from here on\n", err)
			s.killed[name] = true
			s.report.noteText(name, []string{err.Error()})
			return nil, nil
		}
		return run, err
	}
	run, err := s.runHere(ctx, p)
	s.report.Runs = append(s.report.Runs, run)
	s.report.note(p.driver)
	return run, err
}

// touchMemory uses as much memory as a plan's database may need with its files, so that the engine
// which comes first does not pay for memory that the machine has not used before.
func (s *session) touchMemory(p *plan) {
	q := &p.params
	t := machine.TouchMemory(touchedCopies * q.Num * int64(q.Keys.Len()+q.ValueSize))
	if t.Slow() {
		fmt.Fprintf(s.out, "memory that was never used was touched: %v a page, then %v\n", t.First,
			t.Second)
	}
}

// touchedCopies is how many times the entries of a database are in memory: in memtables, caches and
// the page cache, old ones among them.
const touchedCopies = 6

// runHere runs the steps of a plan and prints their lines. Latencies come from
// a pass of their own, as reading the clock costs as much as a read.
func (s *session) runHere(ctx context.Context, p *plan) (*Run, error) {
	timed := *p
	if p.params.Histogram && !p.params.UseExisting {
		p.params.Histogram = false
	}
	run, err := s.pass(ctx, p)
	if err != nil || p.params.Histogram == timed.params.Histogram {
		return run, err
	}
	fmt.Fprintln(s.out, "-- once more, with every operation timed")
	again, err := s.pass(ctx, &timed)
	for i := range again.Steps {
		run.Steps[i].Latency = again.Steps[i].Latency
	}
	return run, err
}

// pass runs the steps of a plan once.
func (s *session) pass(ctx context.Context, p *plan) (*Run, error) {
	r := &runner.Runner{
		Driver: p.driver,
		Config: store.Config{Settings: p.settings},
		Dir:    s.dir,
		Params: p.params,
		Follow: func(dir string, c store.Config) (func() ([]time.Duration, error), error) {
			program, err := os.Executable()
			if err != nil {
				return nil, err
			}
			f, err := follower.Start(program, follower.Task{Engine: p.driver.Name(), Dir: dir,
				Settings: c.Settings}, s.errs)
			if err != nil {
				return nil, err
			}
			return f.Stop, nil
		},
	}
	run := newRun(p)
	s.bar.Watch(func() progress.Place {
		live := r.Live()
		if live == nil {
			return progress.Place{}
		}
		return progress.Place{Name: live.Name, Done: live.Done(), Total: live.Total}
	})
	defer s.bar.Watch(nil)
	err := s.runSteps(ctx, r, p, run)
	if cerr := r.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	if err == nil && s.c.db == "" {
		err = p.driver.Destroy(s.dir)
	}
	return run, err
}

func (s *session) runSteps(ctx context.Context, r *runner.Runner, p *plan, run *Run) error {
	for i, st := range p.steps {
		spec, ok := workload.Find(st.Bench)
		if !ok {
			return fmt.Errorf("no benchmark %q", st.Bench)
		}
		if ctx.Err() != nil {
			return runner.ErrInterrupted
		}
		s.bar.Step(i+1, len(p.steps))
		started := time.Now()
		res, err := r.Run(ctx, spec)
		if err != nil && !errors.Is(err, runner.ErrWrong) {
			return err
		}
		run.add(&res, st.Published, started)
		s.bar.Clear()
		fmt.Fprintln(s.out, res.Line())
		if err != nil {
			return err
		}
	}
	return nil
}
