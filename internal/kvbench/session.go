package kvbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// session is one command line at work.
type session struct {
	c      *command
	driver store.Driver
	dir    string
	out    io.Writer
	bar    *bar
	env    Environment
	report Report
}

func newSession(c *command, d store.Driver, dir string, stdout, stderr io.Writer) *session {
	return &session{c: c, driver: d, dir: dir, out: stdout, bar: newBar(stderr, c.progress)}
}

// plan is one database from its beginning to its end: a variant of an
// experiment, or the benchmarks of the command line.
type plan struct {
	experiment string
	variant    string
	round      int
	params     runner.Params
	settings   []store.Setting
	steps      []step
}

func (s *session) run(ctx context.Context, args []string) error {
	s.env = readEnvironment(s.dir)
	s.report = newReport(s.driver, s.env, args)
	defer s.bar.close()
	err := s.runAll(ctx)
	s.bar.close()
	s.report.Complete = err == nil
	if s.c.json == "" {
		return err
	}
	if werr := s.report.write(s.c.json); werr != nil {
		return errors.Join(err, fmt.Errorf("--json: %w", werr))
	}
	fmt.Fprintf(s.out, "\nReport: %s\n", s.c.json)
	return err
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
	p := plan{params: s.c.params, settings: s.c.settings}
	for _, n := range names {
		p.steps = append(p.steps, step{bench: n})
	}
	s.banner(&p)
	var runs []*Run
	for i := range s.c.rounds {
		p.round = i + 1
		run, err := s.runPlan(ctx, &p)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	if len(p.steps) > 1 || s.c.rounds > 1 {
		s.summary([]column{{"", runs}}, "", nil)
	}
	return nil
}

func (s *session) runExperiment(ctx context.Context, e chosen) error {
	fmt.Fprintf(s.out, "\n== %s: %s\n", e.name, e.title)
	columns := make([]column, len(e.variants))
	for round := range s.c.rounds {
		for i, v := range e.variants {
			p := s.planOf(e, v)
			p.round = round + 1
			if round == 0 && i == 0 {
				s.banner(&p)
			}
			fmt.Fprintf(s.out, "-- %s%s\n", p.variant, settingsText(p.settings))
			run, err := s.runPlan(ctx, &p)
			if err != nil {
				return err
			}
			columns[i].name = p.variant
			columns[i].runs = append(columns[i].runs, run)
		}
	}
	s.summary(columns, e.source, e.notes)
	return nil
}

// planOf applies the command line to a variant: flags win.
func (s *session) planOf(e chosen, v variant) plan {
	p := plan{experiment: e.name, params: s.c.params, steps: v.steps}
	p.variant = strings.ReplaceAll(v.name, "%s", s.driver.Title())
	switch {
	case e.num > 0:
		p.params.Num = e.num
	case !s.c.given["num"]:
		p.params.Num = max(int64(math.Round(float64(e.experiment.num)*s.c.scale)), 1)
	}
	if e.adjust != nil {
		e.adjust(&p.params)
	}
	p.settings = slices.Concat(v.settings, s.c.settings)
	return p
}

func settingsText(settings []store.Setting) string {
	var parts []string
	for _, s := range settings {
		parts = append(parts, s.Name+"="+s.Value)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, " ") + ")"
}

// runPlan runs the steps of a plan and prints their lines.
func (s *session) runPlan(ctx context.Context, p *plan) (*Run, error) {
	r := &runner.Runner{
		Driver: s.driver,
		Config: store.Config{Settings: p.settings},
		Dir:    s.dir,
		Params: p.params,
	}
	run := s.report.begin(p)
	s.bar.watch(r)
	defer s.bar.watch(nil)
	err := s.runSteps(ctx, r, p, run)
	if cerr := r.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	if err == nil && s.c.db == "" {
		err = s.driver.Destroy(s.dir)
	}
	return run, err
}

func (s *session) runSteps(ctx context.Context, r *runner.Runner, p *plan, run *Run) error {
	for i, st := range p.steps {
		spec, ok := workload.Find(st.bench)
		if !ok {
			return fmt.Errorf("no benchmark %q", st.bench)
		}
		if ctx.Err() != nil {
			return runner.ErrInterrupted
		}
		s.bar.step(i+1, len(p.steps))
		started := time.Now()
		res, err := r.Run(ctx, spec)
		if err != nil && !errors.Is(err, runner.ErrWrong) {
			return err
		}
		run.add(&res, st.published, started)
		s.bar.clear()
		fmt.Fprintln(s.out, res.Line())
		if err != nil {
			return err
		}
	}
	return nil
}
