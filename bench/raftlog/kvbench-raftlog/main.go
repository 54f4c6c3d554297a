// Kvbench-raftlog is the benchmark of SOFAJRaft's log storages, with more phases, for Raft logs:
// Loam's, raft-wal, raft-boltdb, and logs on Pebble and Badger.
//
//	go run ./kvbench-raftlog --bytes=2GiB
//
// SOFAJRaft's LogStorageBenchmark writes 1,048,576 entries of 16 KiB, 100 in a batch, and then
// reads all in order. --num sets that number of entries, --bytes the bytes of the entries instead.
// Every cell runs in a process and a directory of its own; the floor, batches of the same size
// appended to a preallocated file with one fdatasync each, runs before and behind the engines of
// each round.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/loamdb/loam/bench/raftlog/logs"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childVerb {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvbench-raftlog:", err)
		os.Exit(1)
	}
}

// plan is what the flags ask for.
type plan struct {
	dir     string
	sizes   []int
	num     int
	bytes   int64
	batch   int
	rounds  int
	engines []string
	syncs   bool
	jraft   string // the class path of jraft/
	out     string
}

func parse(args []string) (p plan, err error) {
	fs := flag.NewFlagSet("kvbench-raftlog", flag.ContinueOnError)
	var names []string
	for _, e := range logs.Engines {
		names = append(names, e.Name)
	}
	sizes := fs.String("sizes", "1KiB,4KiB,8KiB,16KiB", "bytes of an entry")
	bytes := fs.String("bytes", "", "bytes of the entries of a cell, instead of --num")
	engines := fs.String("engines", strings.Join(names, ","), "engines")
	fs.StringVar(&p.dir, "dir", ".", "where the directories of the logs are made")
	fs.IntVar(&p.num, "num", 1<<20, "entries of a cell, SOFAJRaft's number")
	fs.IntVar(&p.batch, "batch", 100, "entries of a batch")
	fs.IntVar(&p.rounds, "rounds", 1, "rounds over all cells")
	fs.BoolVar(&p.syncs, "syncs", true, "count syncs by strace, in short runs of their own")
	fs.StringVar(&p.jraft, "jraft", "", "class path of jraft/: measure SOFAJRaft's storages, too")
	fs.StringVar(&p.out, "json", "", "write the results to this file")
	if err := fs.Parse(args); err != nil {
		return p, err
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		n, err := size(s)
		if err != nil {
			return p, err
		}
		if n < leastSize || n > mostSize {
			return p, fmt.Errorf("--sizes: %s: entries have %d to %d bytes", s, leastSize, mostSize)
		}
		p.sizes = append(p.sizes, int(n))
	}
	if *bytes != "" {
		if p.bytes, err = size(*bytes); err != nil {
			return p, err
		}
	}
	p.engines = strings.Split(*engines, ",")
	for _, name := range p.engines {
		if _, err := logs.Find(name); err != nil {
			return p, err
		}
	}
	if p.jraft != "" {
		p.engines = append(p.engines, "jraft-rocksdb", "jraft-segments")
	}
	if p.batch < 1 || p.num < 1 || p.rounds < 1 {
		return p, fmt.Errorf("--num, --batch and --rounds are at least 1")
	}
	return p, nil
}

// size reads a number of bytes with KiB, MiB or GiB behind it.
func size(s string) (int64, error) {
	shift := 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if cut, ok := strings.CutSuffix(s, unit); ok {
			s, shift = cut, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > 1<<50>>shift {
		return 0, fmt.Errorf("%q is no size, as 16KiB is", s)
	}
	return n << shift, nil
}

// run measures all cells. It writes the results that there are of a run that failed or was
// interrupted, too, and leaves no log.
func run(ctx context.Context, args []string) (err error) {
	p, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(p.dir, "raftlog-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p.dir = dir
	for _, name := range p.engines {
		e, _ := logs.Find(name) // one that is not found is Java's
		fmt.Printf("%s %s; ", name, e.Version())
	}
	fmt.Printf("%s, %d processors\n", runtime.Version(), runtime.NumCPU())
	var all []result
	if p.out != "" {
		defer func() { err = errors.Join(err, save(p.out, all)) }()
	}
	for _, size := range p.sizes {
		num := p.num
		if p.bytes > 0 {
			num = int(p.bytes / int64(size))
		}
		num = max(num/p.batch, 20) * p.batch
		fmt.Printf("\nentries of %d bytes: %d, %d a batch, %.1f MB\n", size, num, p.batch,
			float64(num)*float64(size)/1e6)
		for round := range p.rounds {
			got, err := p.round(ctx, round, size, num)
			all = append(all, got...)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func save(file string, all []result) error {
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o666)
}

// round measures the floor, each engine, and the floor again; rounds go over the engines in turn
// from different ends.
func (p plan) round(ctx context.Context, round, size, num int) (all []result, err error) {
	engines := slices.Clone(p.engines)
	if round%2 == 1 {
		slices.Reverse(engines)
	}
	cells := append(append([]string{floorName}, engines...), floorName)
	defer func() { write(os.Stdout, all) }()
	for _, name := range cells {
		c := cell{Engine: name, Size: size, Num: num, Batch: p.batch, Round: round,
			Dir: filepath.Join(p.dir, name)}
		if strings.HasPrefix(name, "jraft-") {
			c.jraft = p.jraft
		}
		got, err := c.measure(ctx)
		if err == nil && p.syncs && name != floorName {
			got.Syncs, err = c.syncs(ctx)
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, got)
		if err := os.RemoveAll(c.Dir); err != nil {
			return all, err
		}
	}
	return all, nil
}

// measure runs the phases of a cell in two processes: the first one is killed after the phases, the
// second one opens its directory.
func (c cell) measure(ctx context.Context) (result, error) {
	r, err := c.child(ctx, modePhases)
	if err != nil || c.Engine == floorName {
		return r, err
	}
	again, err := c.child(ctx, modeReopen)
	if err == nil && again.Entries != r.Entries {
		err = fmt.Errorf("the last entry is %d behind kill -9, and was %d",
			again.Entries, r.Entries)
	}
	r.Reopen = again.Reopen
	return r, err
}

func (c cell) child(ctx context.Context, mode string) (r result, err error) {
	text, err := c.process(ctx, mode)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// process runs a mode and returns what it printed. A process that killed itself when it had
// printed is no error.
func (c cell) process(ctx context.Context, mode string, before ...string) ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	args := append(before, exe, childVerb, mode, string(text))
	if c.jraft != "" {
		args = append(before, "java", "-cp", c.jraft, "io.loamdb.bench.Jraft", mode, c.Engine,
			fmt.Sprint(c.Size), fmt.Sprint(c.Num), fmt.Sprint(c.Batch), c.Dir)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil && len(out) > 0 && mode == modePhases {
		err = nil
	}
	return out, err
}

// syncs counts the system calls that sync in a short run that only appends, by strace. It is 0
// where there is none.
func (c cell) syncs(ctx context.Context) (float64, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return 0, nil
	}
	c.Dir += "-traced"
	c.Num = tracedBatches * c.Batch
	trace := c.Dir + ".trace"
	defer os.RemoveAll(c.Dir)
	defer os.Remove(trace)
	if _, err := c.process(ctx, modeAppend, strace, "-f", "-o", trace, "-e",
		"trace=fsync,fdatasync,msync"); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		return 0, err
	}
	return float64(strings.Count(string(text), "sync(")) / tracedBatches, nil
}

// tracedBatches are enough that the calls of opening and closing do not count.
const tracedBatches = 200
