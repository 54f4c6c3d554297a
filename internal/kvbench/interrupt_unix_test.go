//go:build unix

package kvbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

func init() { child = interruptedChild }

// interruptedChild runs the command line instead of the tests. It writes a byte into
// descriptor 3 when it may be interrupted.
func interruptedChild() {
	mode := os.Getenv("KVBENCH_CHILD")
	if mode == "" {
		return
	}
	if mode == "busy" { // it ends by itself, however slow the machine is
		patience = time.Hour
	}
	var once sync.Once
	e := newEngine()
	e.Fail = func(op string) error {
		if mode == "busy" || op == "compact" {
			once.Do(func() { _, _ = os.NewFile(3, "ready").Write([]byte{1}) })
		}
		switch {
		case mode == "stuck" && op == "compact":
			select {}
		case mode == "busy": // for minutes: it is not done before the signal comes
			time.Sleep(100 * time.Microsecond)
		}
		return nil
	}
	os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr, e))
}

func send(s os.Signal) func(*os.Process, *os.File) error {
	return func(p *os.Process, _ *os.File) error { return p.Signal(s) }
}

// TestInterrupt: a run that is interrupted, whose terminal is closed, or whose reader has ended,
// leaves no database, writes its results and exits with the code for an interrupt, even when the
// engine does not return.
func TestInterrupt(t *testing.T) {
	busy := []string{"--benchmarks=fillseq,overwrite", "--num=1000", "--rounds=1000"}
	for name, tt := range map[string]struct {
		mode string
		args []string
		end  func(p *os.Process, lines *os.File) error
	}{
		"busy":     {"busy", busy, send(syscall.SIGINT)},
		"terminal": {"busy", busy, send(syscall.SIGHUP)},
		"reader": {"busy", busy, func(_ *os.Process, lines *os.File) error {
			return lines.Close()
		}},
		"stuck": {"stuck", []string{"--benchmarks=fillseq,compact", "--num=1000"},
			send(syscall.SIGINT)},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "terminal" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("SIGHUP is ignored, as nohup has it: then a run goes on")
			}
			t.Parallel()
			mode, args := tt.mode, tt.args
			temp, file := t.TempDir(), filepath.Join(t.TempDir(), "r.json")
			ready, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer ready.Close()
			cmd := exec.Command(os.Args[0], append(args, "--json="+file)...)
			cmd.Env = append(os.Environ(), "KVBENCH_CHILD="+mode, "TMPDIR="+temp)
			cmd.ExtraFiles = []*os.File{w}
			lines, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer lines.Close()
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = to, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = errors.Join(w.Close(), to.Close()) // the child's ends stay
			if _, err := ready.Read(make([]byte, 1)); err != nil {
				t.Fatalf("the program ended before it was ready: %v\n%s", cmd.Wait(), out.String())
			}
			if err := tt.end(cmd.Process, lines); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
				t.Errorf("%v\n%s", err, out.String())
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left %v behind", left)
			}
			var r Report
			if b, err := os.ReadFile(file); mode == "busy" &&
				(err != nil || json.Unmarshal(b, &r) != nil || r.Complete) {
				t.Errorf("report: %v %+v", err, r)
			}
		})
	}
}

// TestReportsIntoPipesAndLinks: a pipe gets the report and stays; the file that a link leads to is
// replaced, not the link.
func TestReportsIntoPipesAndLinks(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir,
		"link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("old"), 0o600),
		os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(pipe, os.O_RDWR, 0) // a report of one step fits into the pipe
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	code, out, errs := invoke(t, newEngine(), "--num=10", "--benchmarks=fillseq", "--tsv="+pipe,
		"--json="+link)
	if code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is %v now, %v", info.Mode(), err)
	}
	b := make([]byte, 1<<16)
	n, err := end.Read(b)
	if err != nil || !bytes.HasPrefix(b[:n], []byte("ops_sec\t")) {
		t.Errorf("%q, %v", b[:n], err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if _, err := readReport(file); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
}
