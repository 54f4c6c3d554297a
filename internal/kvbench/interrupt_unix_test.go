//go:build unix

package kvbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

func init() { child = interruptedChild }

// interruptedChild runs the command line instead of the tests. It makes the
// file KVBENCH_READY when it may be interrupted.
func interruptedChild() {
	mode := os.Getenv("KVBENCH_CHILD")
	if mode == "" {
		return
	}
	var once sync.Once
	e := newEngine()
	e.Fail = func(op string) error {
		if mode == "busy" || op == "compact" {
			once.Do(func() { _ = os.WriteFile(os.Getenv("KVBENCH_READY"), nil, 0o600) })
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

// TestInterrupt: an interrupted run leaves no database, writes what it has and
// says so by its exit code, even when the engine does not return.
func TestInterrupt(t *testing.T) {
	for mode, args := range map[string][]string{
		"busy":  {"--benchmarks=fillseq,overwrite", "--num=1000", "--rounds=1000"},
		"stuck": {"--benchmarks=fillseq,compact", "--num=1000"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			temp, file, ready := t.TempDir(), filepath.Join(t.TempDir(), "r.json"), filepath.Join(t.TempDir(), "ready")
			cmd := exec.Command(os.Args[0], append(args, "--json="+file)...)
			cmd.Env = append(os.Environ(), "KVBENCH_CHILD="+mode, "KVBENCH_READY="+ready, "TMPDIR="+temp)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for i := 0; ; i++ {
				if _, err := os.Stat(ready); err == nil {
					break
				}
				if i == 6000 {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					t.Fatalf("not ready within a minute\n%s", out.String())
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
				t.Errorf("%v\n%s", err, out.String())
			}
			if left, _ := os.ReadDir(temp); len(left) > 0 {
				t.Errorf("left %v behind", left)
			}
			var r Report
			if b, err := os.ReadFile(file); mode == "busy" && (err != nil || json.Unmarshal(b, &r) != nil || r.Complete) {
				t.Errorf("report: %v %+v", err, r)
			}
		})
	}
}
