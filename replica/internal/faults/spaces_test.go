//go:build linux

package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// inSpace is set where TestSpaces runs in a network namespace of its own.
const inSpace = "LOAM_SPACE"

// TestSpaces cuts nodes off in namespaces of the network: from all others, and in one direction. It
// needs the rights of root, and programs of Linux.
func TestSpaces(t *testing.T) {
	if !seed.Full() {
		t.Skip("set LOAM_T2=1: it waits for elections")
	}
	if os.Getenv(inSpace) == "" {
		try := exec.Command("ip", "link")
		try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if out, err := try.CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: no namespaces of the network here: %v: %s", err, out)
		}
		if err := InSpace(inSpace+"=1", "-test.run=^TestSpaces$", "-test.v"); err != nil {
			t.Fatal(err)
		}
		return
	}
	program := filepath.Join(t.TempDir(), "loamd")
	build := exec.Command("go", "build", "-o", program, "../../cmd/loamd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	report, err := Run(t.Context(), Options{Program: program, Dir: t.TempDir(), Spaces: true,
		Seed: uint64(seed.Of(t)), Faults: 12, Answers: 60, Limit: 10 * time.Minute, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *report)
	if report.Operations < 500 || report.Kept < 300 {
		t.Errorf("%+v", *report)
	}
}
