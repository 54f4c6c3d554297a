package kvbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/loamdb/loam/internal/kvbench/follower"
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload/store"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the engine or the system failed
	exitUsage       = 2 // the command line is wrong
	exitWrong       = 3 // reads found wrong values
	exitInterrupted = 130
)

// patience is how long an interrupted benchmark may take to end by itself. Tests change it before
// they call Main.
var patience = 5 * time.Second

// Main runs a command line, without the program's name, and returns the exit
// code. The first driver is the default engine.
func Main(args []string, stdout, stderr io.Writer, drivers ...store.Driver) int {
	out := &table.Output{W: stdout}
	code := run(args, out, stderr, drivers)
	if code == exitOK && out.Failed() != nil {
		fmt.Fprintf(stderr, "kvbench: %v\n", out.Failed())
		return exitFailed
	}
	return code
}

func run(args []string, stdout, stderr io.Writer, drivers []store.Driver) int {
	ctx, release := signal.NotifyContext(context.Background(), endings()...)
	defer release()
	if len(args) == 1 && strings.HasPrefix(args[0], taskFlag) {
		return runTask(ctx, strings.TrimPrefix(args[0], taskFlag), stdout, stderr, drivers)
	}
	if len(args) == 1 && args[0] == follower.Flag {
		return follower.Main(os.Stdin, stdout, drivers)
	}
	if len(args) > 0 && commands[args[0]] != nil {
		if err := commands[args[0]](args[1:], stdout); err != nil {
			fmt.Fprintf(stderr, "kvbench %s: %v\n", args[0], err)
			if errors.Is(err, errAlarm) {
				return exitFailed
			}
			return exitUsage
		}
		return exitOK
	}
	c, driver, err := parse(args, drivers)
	if err != nil {
		fmt.Fprintf(stderr, "kvbench: %v\nTry kvbench --help.\n", err)
		return exitUsage
	}
	switch {
	case c.help:
		printHelp(stdout, driver, drivers)
		return exitOK
	case c.list:
		printList(stdout)
		return exitOK
	case c.version:
		fmt.Fprintf(stdout, "kvbench, %s %s\n", driver.Title(), driver.Version())
		return exitOK
	}
	if err := c.checkReports(); err != nil {
		fmt.Fprintf(stderr, "kvbench: %v\n", err)
		return exitUsage
	}
	place, err := newPlace(c.db)
	if err != nil {
		fmt.Fprintf(stderr, "kvbench: %v\n", err)
		return exitFailed
	}
	defer place.remove()
	s := newSession(c, place.dir, stdout, stderr)
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, args) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		// A second interrupt ends the process at once, unless it arrives with the first, as it
		// does when both the process and its group get one.
		time.AfterFunc(time.Second, release)
		select {
		case err = <-done:
		case <-time.After(patience):
			err = runner.ErrInterrupted
		}
	}
	return exitCode(err, stderr)
}

// endings are the signals that end a run in order, its directories removed: those of users, that of
// a terminal which is closed, unless nohup ignores it, and that of a reader of the lines which has
// ended.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, runner.ErrInterrupted):
		fmt.Fprintln(stderr, "kvbench: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(stderr, "kvbench: %v\n", err)
	var wrong *usageError
	switch {
	case errors.Is(err, runner.ErrWrong):
		return exitWrong
	case errors.Is(err, runner.ErrForeign), errors.As(err, &wrong):
		return exitUsage
	}
	return exitFailed
}

// place is the directory of a run's databases.
type place struct {
	dir  string
	temp string // removed at the end; "": the user's own
	once sync.Once
}

func newPlace(db string) (*place, error) {
	if db != "" {
		dir, err := resolved(db)
		return &place{dir: dir}, err
	}
	temp, err := os.MkdirTemp("", "kvbench-")
	if err != nil {
		return nil, err
	}
	return &place{dir: temp + string(os.PathSeparator) + "db", temp: temp}, nil
}

// resolved is a directory by its full name, without a link in the end: an engine that removes the
// directory would remove the link, and files that benchmarks put beside the directory, by its name
// and more, would be in it if that ended with a separator.
func resolved(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil
	}
	return real, err
}

// remove may meet an engine that still makes files, after an interrupt.
func (p *place) remove() {
	p.once.Do(func() {
		for range 10 {
			if p.temp == "" || os.RemoveAll(p.temp) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// revision is set by the linker where the build does not record it.
var revision string

// commit is the revision the program was built from, with "+" when it had
// changes.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var rev, mod string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				mod = "+"
			}
		}
	}
	return rev + mod
}
