package kvbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/kvbench/cgroup"
	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/progress"
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload/store"
)

// taskFlag runs one plan of a comparison in a process of its own. It is given
// by kvbench itself: the file holds a task and gets the outcome.
const taskFlag = "--run-task="

// task is a plan on its way to another process.
type task struct {
	Engine     string
	Pair       string
	Dir        string
	Keep       bool   // leave the database
	Cgroup     string // to be joined; "": none
	Progress   string
	Experiment string
	Variant    string
	Round      int
	Params     runner.Params
	Settings   []store.Setting
	Ignored    []store.Setting
	Steps      []string
	Published  []float64
}

// outcome is what comes back.
type outcome struct {
	Run   *Run
	Notes []string
	Error string
	Code  int
}

// runApart runs a plan by calling this program again.
func (s *session) runApart(ctx context.Context, p *plan) (_ *Run, rerr error) {
	if ctx.Err() != nil {
		return nil, runner.ErrInterrupted
	}
	t := task{
		Engine: p.driver.Name(), Pair: p.pair, Dir: filepath.Join(s.dir, p.driver.Name()),
		Keep: s.c.db != "", Progress: s.c.progress, Experiment: p.experiment, Variant: p.variant,
		Round: p.round, Params: p.params, Settings: p.settings, Ignored: p.ignored,
	}
	if !s.apart() {
		t.Dir = s.dir
	}
	for _, st := range p.steps {
		t.Steps = append(t.Steps, st.Bench)
		t.Published = append(t.Published, st.Published)
	}
	dir, err := os.MkdirTemp("", "kvbench-task-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var group *cgroup.Group
	if s.c.memory > 0 {
		if group, err = s.limit(p, t.Dir); err != nil {
			return nil, fmt.Errorf("--memory: %w", err)
		}
		defer func() { rerr = errors.Join(rerr, group.Remove()) }()
		t.Cgroup = group.Dir()
	}
	file := filepath.Join(dir, "task.json")
	if err := writeJSON(file, &t); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if s.apart() {
		fmt.Fprintf(s.out, "-- %s, round %d beside %s\n", p.driver.Title(), p.round, p.pair)
	}
	cmd := exec.CommandContext(ctx, program, taskFlag+file)
	cmd.Stdout, cmd.Stderr = table.Under(s.out), s.errs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	runErr := cmd.Run()
	var o outcome
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	switch {
	case ctx.Err() != nil:
		return nil, runner.ErrInterrupted
	case err != nil:
		return nil, err
	case o.Run == nil && group != nil && group.Killed():
		return nil, fmt.Errorf("%s: %w the %d MB of --memory", p.driver.Name(), errKilled,
			s.c.memory>>20)
	case o.Run == nil && o.Code == exitOK: // it ended before it could say why
		return nil,
			fmt.Errorf("%s: %w", p.driver.Name(), errors.Join(runErr, errors.New("no result")))
	}
	if o.Run != nil {
		if group != nil {
			o.Run.MemoryLimit = s.c.memory
			if n, ok := group.Peak(); ok {
				o.Run.MemoryPeak = n
			}
		}
		s.report.Runs = append(s.report.Runs, o.Run)
	}
	s.report.noteText(p.driver.Name(), o.Notes)
	return o.Run, o.failure(p.driver.Name())
}

var errKilled = errors.New("killed for taking more than")

// limit makes the cgroup of a run. What the page cache holds of a database that
// was there before is dropped: it would be counted elsewhere.
func (s *session) limit(p *plan, dir string) (*cgroup.Group, error) {
	if p.params.UseExisting {
		if err := runner.DropCache(dir); err != nil {
			return nil, err
		}
	}
	return cgroup.New(s.c.memory)
}

// failure is the error that the other process ended with.
func (o *outcome) failure(engine string) error {
	switch o.Code {
	case exitOK:
		return nil
	case exitWrong:
		return fmt.Errorf("%s: %w", engine, coded{o.Error, runner.ErrWrong})
	case exitUsage:
		return fmt.Errorf("%s: %w", engine, coded{o.Error, runner.ErrForeign})
	case exitInterrupted:
		return runner.ErrInterrupted
	}
	return fmt.Errorf("%s: %s", engine, o.Error)
}

// coded is the text of an error of another process, and its kind here.
type coded struct {
	text string
	kind error
}

func (e coded) Error() string { return e.text }
func (e coded) Unwrap() error { return e.kind }

// runTask is the other end of runApart.
func runTask(ctx context.Context, file string, stdout, stderr io.Writer,
	drivers []store.Driver) int {
	var t task
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err == nil && t.Cgroup != "" {
		err = cgroup.Join(t.Cgroup)
	}
	i := slices.IndexFunc(drivers, func(d store.Driver) bool { return d.Name() == t.Engine })
	if err == nil && i < 0 {
		err = fmt.Errorf("no engine %q", t.Engine)
	}
	if err != nil {
		fmt.Fprintf(stderr, "kvbench: %v\n", err)
		return exitFailed
	}
	c := &command{drivers: drivers[i : i+1]}
	if t.Keep {
		c.db = t.Dir
	}
	s := newSession(c, t.Dir, stdout, stderr)
	s.bar = progress.New(stderr, t.Progress)
	defer s.bar.Close()
	p := plan{
		driver: s.driver, pair: t.Pair, experiment: t.Experiment, variant: t.Variant,
		round: t.Round, params: t.Params, settings: t.Settings, ignored: t.Ignored,
	}
	for i, name := range t.Steps {
		p.steps = append(p.steps, experiment.Step{Bench: name, Published: t.Published[i]})
	}
	var o outcome
	o.Run, err = s.runHere(ctx, &p)
	s.bar.Close()
	var text strings.Builder
	o.Code = exitCode(err, &text)
	if err != nil {
		o.Error = err.Error()
	}
	if n, ok := s.driver.(store.Noted); ok {
		o.Notes = n.Notes()
	}
	if err := writeJSON(file, &o); err != nil {
		fmt.Fprintf(stderr, "kvbench: %v\n", err)
		return exitFailed
	}
	return o.Code
}

func writeJSON(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(file, b)
}
