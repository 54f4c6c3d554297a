//go:build linux || darwin || freebsd

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
)

// onTerminal runs a verb whose standard error is a terminal. Each look at the clock is a second
// later than the one before, and calls look.
func onTerminal(ctx context.Context, errs io.Writer, look func(), args ...string) (code int) {
	a := newApp(strings.NewReader(""), io.Discard, errs)
	a.screen.err = true
	now := time.Unix(0, 0)
	var mu sync.Mutex
	a.clock = func() time.Time {
		look()
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
	return a.run(ctx, args)
}

// TestCheckProgress wants the share, the rate and the time left of check on a terminal, by a clock
// of its own, and the line removed at the end.
func TestCheckProgress(t *testing.T) {
	var errs bytes.Buffer
	if code := onTerminal(t.Context(), &errs, func() {}, "check", filled(t,
		&lsm.Options{Compression: lsm.NoCompression})); code != exitFine {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	lines := regexp.MustCompile(`\rchecking +(\d+) %  \S+ \S+ of \S+ \S+  \S+ \S+/s`+
		`(  \d+s left)?`).FindAllStringSubmatch(errs.String(), -1)
	last, left := -1, 0
	for _, l := range lines {
		share, err := strconv.Atoi(l[1])
		if err != nil || share < last {
			t.Errorf("%d %% after %d %%", share, last)
		}
		last = share
		if (l[2] == "") != (share == 100) && share < 99 {
			t.Errorf("%q", l[0])
		}
		if l[2] != "" {
			left++
		}
	}
	if len(lines) < 2 || last != 100 || left == 0 {
		t.Errorf("%q", errs.String())
	}
	whole := strings.TrimSuffix(errs.String(), "\r")
	if end := whole[strings.LastIndex(whole, "\r")+1:]; strings.TrimSpace(end) != "" {
		t.Errorf("%q stays", end)
	}
}

// TestInterruptedCheck: a check that ends early says so, also if it has found damage.
func TestInterruptedCheck(t *testing.T) {
	dir := filled(t, nil)
	db, err := lsm.Open(dir, nil)
	must(t, err)
	for i := range 300 {
		must(t, db.Put([]byte{9, byte(i >> 8), byte(i)}, make([]byte, 1000), lsm.NoSync))
	}
	must(t, errors.Join(db.Flush(), db.Close()))
	tables, err := filepath.Glob(filepath.Join(dir, "*.loam"))
	must(t, err)
	for _, name := range tables {
		b, err := os.ReadFile(name)
		must(t, err)
		b[len(b)/5] ^= 1
		must(t, os.WriteFile(name, b, 0o600))
	}
	seen := map[int]bool{}
	for last := 1; !seen[exitProblems]; last++ {
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs)
		a.screen.err = true
		looks := 0
		a.clock = func() time.Time {
			if looks++; looks == last {
				cancel()
			}
			return time.Unix(int64(looks), 0)
		}
		code := a.run(ctx, []string{"check", dir})
		cancel()
		found := strings.Count(out.String(), "\n") // places
		if len(tables) != 2 || code != exitSignal && (code != exitProblems || found != 2) {
			t.Fatalf("look %d: exit %d: %s%q", last, code, out.String(), errs.String())
		}
		seen[code], seen[-found] = true, true
	}
	if !seen[exitSignal] || !seen[-1] {
		t.Error(seen)
	}
}

// signalled is a context that tells when the first one made of it ends.
type signalled struct {
	context.Context
	once  *sync.Once
	ended chan struct{}
}

func (s signalled) Done() <-chan struct{} { return make(chan struct{}) }

// AfterFunc is what package context calls for one that is made of s. It calls the result when that
// ends.
func (s signalled) AfterFunc(func()) (stop func() bool) {
	return func() bool {
		s.once.Do(func() { close(s.ended) })
		return true
	}
}

// halted is a standard error with which the first line of progress tells the parent, and then waits
// for the signal.
type halted struct {
	once  sync.Once
	ended chan struct{}
}

func (h *halted) Write(b []byte) (int, error) {
	h.halt()
	return os.Stderr.Write(b)
}

func (h *halted) halt() {
	h.once.Do(func() {
		os.Stdout.WriteString("begun\n")
		<-h.ended
	})
}

const verbVariable = "LOAM_TEST_VERB"

// TestVerbProcess is the child of TestSignal.
func TestVerbProcess(t *testing.T) {
	args := strings.Split(os.Getenv(verbVariable), "\n")
	if len(args) < 2 {
		t.Skip("it is the child of TestSignal")
	}
	s := signalled{context.Background(), new(sync.Once), make(chan struct{})}
	h := &halted{ended: s.ended}
	look := func() {}
	if args[0] == "compact" || args[0] == "backup" {
		// They are halted as they begin: a small one may have ended when it first shows progress.
		look = h.halt
	}
	os.Exit(onTerminal(s, h, look, args...))
}

// TestSignal sends Ctrl-C to processes that are in the middle of a verb: the exit code is 130,
// nothing is left of them, and the database is sound.
func TestSignal(t *testing.T) {
	dir := filled(t, &lsm.Options{Compression: lsm.NoCompression})
	root := filepath.Dir(dir)
	for _, args := range [][]string{{"dump", dir, "-o", filepath.Join(root, "dump")},
		{"compact", dir}, {"backup", dir, filepath.Join(root, "backups")}, {"check", dir}} {
		child := exec.Command(os.Args[0], "-test.run=^TestVerbProcess$")
		child.Env = append(os.Environ(), verbVariable+"="+strings.Join(args, "\n"))
		var errs bytes.Buffer
		child.Stderr = &errs
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if line == "begun\n" {
			err = child.Process.Signal(syscall.SIGINT)
		}
		_ = child.Wait()
		if code := child.ProcessState.ExitCode(); err != nil || code != exitSignal ||
			!strings.Contains(errs.String(), "interrupted") {
			t.Errorf("%v: exit %d, %v: %q %s", args, code, err, line, errs.String())
		}
		if out, errs, code := loam(t.Context(), "check", dir); code != exitFine {
			t.Errorf("%v: %s%s", args, out, errs)
		}
	}
	if got := files(t, root); got != "backups\ndb\n" {
		t.Error(got)
	}
}
