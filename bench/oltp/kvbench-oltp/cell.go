package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/bench/oltp/engines"
	"github.com/loamdb/loam/bench/oltp/rows"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/kvbench"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/progress"
)

// session runs the cells of all engines.
type session struct {
	plan
	out   io.Writer
	bar   *progress.Bar
	cells int // of all
	cell  int // under way
	ids   atomic.Int64
}

// loadRows is how many rows a transaction of the load has.
const loadRows = 1000

// engine loads a table for each number of workers, runs the cells on it, and checks and removes it:
// the rows that an engine deletes, which are more the faster it is, are there again.
func (s *session) engine(ctx context.Context, e engines.Engine, round int) (r *kvbench.Run,
	err error) {
	r = &kvbench.Run{Engine: e.Name, Experiment: experiment, Round: round, Num: s.rows, Sync: true,
		KeyFormat: "8 bytes", ValueSize: rows.ValueSize, Load: machine.Read(".").Load,
		Busy: machine.BusyCores(), Steps: []kvbench.Step{}}
	dir, err := os.MkdirTemp(s.dir, "oltp-")
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", e.Name, err)
		}
		err = errors.Join(err, os.RemoveAll(dir))
		runtime.GC()
	}()
	for _, threads := range s.threads {
		at := filepath.Join(dir, fmt.Sprint(e.Name, threads))
		t, err := e.Open(at)
		if err != nil {
			return r, err
		}
		if err = s.load(ctx, t); err == nil {
			err = s.all(ctx, t, r, threads)
		}
		if err == nil {
			_, err = t.Check(ctx)
		}
		if err = errors.Join(err, t.Close(), os.RemoveAll(at)); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (s *session) load(ctx context.Context, t rows.Table) error {
	var done atomic.Int64
	s.bar.Watch(func() progress.Place {
		return progress.Place{Name: "load", Done: done.Load(), Total: s.rows}
	})
	defer s.bar.Watch(nil)
	m := rows.NewMaker(1)
	var batch []rows.Row
	for id := int64(1); id <= s.rows; id++ {
		batch = append(batch, m.Row(id, s.rows))
		if len(batch) == loadRows || id == s.rows {
			if err := errors.Join(ctx.Err(), t.Load(ctx, batch)); err != nil {
				return fmt.Errorf("loading: %w", err)
			}
			batch = batch[:0]
			done.Store(id)
		}
	}
	s.ids.Store(s.rows)
	return nil
}

// all runs the cells of a number of workers.
func (s *session) all(ctx context.Context, t rows.Table, r *kvbench.Run, threads int) error {
	for _, op := range rows.Ops {
		s.cell++
		s.bar.Step(s.cell, s.cells)
		step, err := s.one(ctx, t, op.Op, op.Name, threads)
		if err != nil {
			return fmt.Errorf("%s with %d workers: %w", op.Name, threads, err)
		}
		r.Steps = append(r.Steps, step)
		s.bar.Clear()
		fmt.Fprintf(s.out, "%-10s %-17s %4d workers %10.0f tx/s  %9.3f ms  P95 %9.3f ms%s\n",
			r.Engine, op.Name, threads, step.OpsPerSecond, step.Latency.Mean/1e6,
			float64(step.Latency.Quantiles["P95"])/1e6, missed(&step))
	}
	return nil
}

// missed tells of transactions that found no row.
func missed(step *kvbench.Step) string {
	if n := *step.Asked - *step.Found; n > 0 {
		return fmt.Sprintf("  %.0f%% found no row", float64(n)*100/float64(*step.Asked))
	}
	return ""
}

// limit ends a cell: the first one of both.
type limit struct {
	time         time.Duration
	transactions int64 // 0: any number
}

// one runs a cell: workers that run transactions until the limit.
func (s *session) one(ctx context.Context, t rows.Table, op rows.Op, name string,
	threads int) (step kvbench.Step, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool
	alarm := time.AfterFunc(s.limit.time, func() { over.Store(true) })
	defer alarm.Stop()
	var h hist.Histogram
	var begun, busy, found atomic.Int64
	s.bar.Watch(func() progress.Place {
		return progress.Place{Name: name, Done: h.Count(), Total: s.limit.transactions}
	})
	defer s.bar.Watch(nil)
	conflicts, began := t.Conflicts(), time.Now()
	var all sync.WaitGroup
	for worker := range threads {
		all.Go(func() {
			m := rows.NewMaker(uint64(worker)<<8 | uint64(op))
			first := time.Now()
			for last := first; !over.Load(); {
				if n := begun.Add(1); s.limit.transactions > 0 && n > s.limit.transactions {
					break
				}
				hit, err := m.Run(ctx, t, worker, op, s.rows, s.next)
				if err != nil {
					cancel(err)
					over.Store(true)
					break
				}
				if hit {
					found.Add(1)
				}
				now := time.Now()
				h.Record(int64(now.Sub(last)))
				last = now
			}
			busy.Add(int64(time.Since(first)))
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return step, err
	}
	took := time.Since(began)
	asked, hits := h.Count(), found.Load()
	step = kvbench.Step{Name: fmt.Sprintf("%s/%d", name, threads), Threads: threads,
		Found: &hits, Asked: &asked,
		Start: began.Format(time.RFC3339Nano), Ops: h.Count(), Seconds: took.Seconds(),
		OpsPerSecond: float64(h.Count()) / took.Seconds(), MicrosPerOp: h.Mean() / 1e3,
		Conflicts: t.Conflicts() - conflicts,
		Latency: &kvbench.Latency{Count: h.Count(), Mean: h.Mean(), Min: h.Min(), Max: h.Max(),
			Quantiles: map[string]int64{}}}
	for _, q := range quantiles {
		step.Latency.Quantiles[q.name] = h.Quantile(q.q)
	}
	return step, nil
}

var quantiles = []struct {
	name string
	q    float64
}{{"P50", .5}, {"P75", .75}, {"P95", .95}, {"P99", .99}, {"P99.9", .999}}

func (s *session) next() int64 { return s.ids.Add(1) }
