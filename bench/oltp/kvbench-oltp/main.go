// Kvbench-oltp measures the transactions of sysbench, each of one statement, in one embedded Loam,
// in three replicas on the loopback interface, and in other engines beside.
//
//	go run ./kvbench-oltp --rows=1000000 --threads=1,8,64,512 --seconds=2
//
// Every engine gets a table of its own, which is checked in the end: the index has one entry for
// each row. The report has kvbench's formats.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/loamdb/loam/bench/oltp/engines"
	"github.com/loamdb/loam/internal/kvbench"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "kvbench-oltp:", err)
		stop()
		os.Exit(1)
	}
}

// plan is what the flags ask for.
type plan struct {
	dir      string
	engines  []engines.Engine
	rows     int64
	threads  []int
	limit    limit
	rounds   int
	progress string
	files    kvbench.Files
}

func parse(args []string, errs io.Writer) (p plan, err error) {
	fs := flag.NewFlagSet("kvbench-oltp", flag.ContinueOnError)
	fs.SetOutput(errs)
	var all []string
	for _, e := range engines.Engines {
		all = append(all, e.Name)
	}
	names := fs.String("engines", strings.Join(all, ","), "engines")
	threads := fs.String("threads", "1,8,64,512", "numbers of workers, each a cell")
	fs.StringVar(&p.dir, "dir", ".", "where the directories of the tables are made")
	fs.Int64Var(&p.rows, "rows", 1000000, "rows of a table")
	fs.DurationVar(&p.limit.time, "time", 2*time.Second, "how long a cell takes")
	fs.Int64Var(&p.limit.transactions, "transactions", 0, "transactions of a cell at most; 0: any")
	fs.IntVar(&p.rounds, "rounds", 1, "rounds over all engines")
	fs.StringVar(&p.progress, "progress", "auto", "a bar: auto (on a terminal), always, never")
	fs.StringVar(&p.files.JSON, "json", "", "write the report to this file")
	fs.StringVar(&p.files.HTML, "html", "", "write a page with charts to this file")
	fs.StringVar(&p.files.TSV, "tsv", "", "write a table for programs to this file")
	if err := fs.Parse(args); err != nil {
		return p, err
	}
	for n := range strings.SplitSeq(*names, ",") {
		e, err := engines.Find(n)
		if err != nil {
			return p, err
		}
		p.engines = append(p.engines, e)
	}
	for s := range strings.SplitSeq(*threads, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1<<16 {
			return p, fmt.Errorf("--threads: %q is no number of workers", s)
		}
		p.threads = append(p.threads, n)
	}
	if p.rows < 1 || p.rounds < 1 || p.limit.time <= 0 || p.limit.transactions < 0 {
		return p, errors.New("--rows, --rounds and --time are above 0")
	}
	return p, nil
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	p, err := parse(args, errs)
	if err != nil {
		return err
	}
	r := newReport(p, args)
	bar := progress.New(errs, p.progress)
	defer bar.Close()
	cells := len(p.threads) * 6 * len(p.engines) * p.rounds
	s := &session{plan: p, out: out, bar: bar, cells: cells}
	for round := range p.rounds {
		for _, e := range p.engines {
			one, failed := s.engine(ctx, e, round)
			r.Runs = append(r.Runs, one)
			err = errors.Join(err, failed) // the others go on
			if ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	bar.Close()
	r.Complete = err == nil
	write(out, &r)
	return errors.Join(err, r.Save(out, p.files))
}

func newReport(p plan, args []string) kvbench.Report {
	r := kvbench.Report{Schema: 1, Tool: "kvbench oltp", Args: append([]string{"oltp"}, args...),
		Environment: machine.Read(p.dir), Harness: map[string]float64{}}
	for _, e := range p.engines {
		r.Engines = append(r.Engines, kvbench.Engine{Name: e.Name, Title: e.Title,
			Version: e.Version(), Notes: e.Notes, Durability: e.Durability})
	}
	r.Engine = r.Engines[0]
	return r
}
