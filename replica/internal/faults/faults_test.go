package faults

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestProcesses kills, stops and restarts nodes under load. Its limit ends a hang only.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "loamd")
	build := exec.Command("go", "build", "-o", program, "../../cmd/loamd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	report, err := Run(t.Context(), Options{Program: program, Dir: t.TempDir(),
		Seed: uint64(seed.Of(t)), Faults: seed.Scale(2, 3, 40), Answers: 60,
		Limit: 10 * time.Minute,
		Log:   t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", *report)
	if report.Operations < 200 || report.Kept < 100 {
		t.Errorf("%+v", *report)
	}
}
