package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain makes the test binary a child of run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childVerb {
		if err := child(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestRun runs all phases of all engines with few entries: every entry is read back, and is there
// behind the kill.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	if err := run(t.Context(), []string{"--dir=" + t.TempDir(), "--sizes=2KiB", "--num=2000",
		"--batch=50", "--syncs=false", "--json=" + file}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []result
	if err := json.Unmarshal(text, &all); err != nil || len(all) != 7 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	for _, r := range all {
		if r.Append <= 0 || r.Written <= 0 || r.AppendLatency.Max <= 0 {
			t.Errorf("%s appends %v", r.Engine, r)
		}
		if r.Engine != floorName && (r.ReadAll <= 0 || r.CatchUp <= 0 || r.Reopen <= 0 ||
			r.SpaceFull <= 0) {
			t.Errorf("%s: %+v", r.Engine, r)
		}
	}
}

// TestInterrupted: a run that is interrupted, and one with an engine that fails, leave no log, and
// write the results that there are.
func TestInterrupted(t *testing.T) {
	for name, failing := range map[string]bool{"interrupted": false, "failed": true} {
		dir := t.TempDir()
		file := filepath.Join(t.TempDir(), "results.json")
		ctx, stop := context.WithCancel(t.Context())
		args := []string{"--dir=" + dir, "--sizes=2KiB", "--num=200", "--syncs=false",
			"--json=" + file, "--engines=loam"}
		if failing {
			args = append(args, "--jraft=none")
			t.Setenv("PATH", "") // there is no Java
		} else {
			stop()
		}
		err := run(ctx, args)
		stop()
		if err == nil || failing == errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
		var all []result
		text, err := os.ReadFile(file)
		if err = errors.Join(err, json.Unmarshal(text, &all)); err != nil || failing != (len(
			all) == 2) {
			t.Errorf("%s: %d results, %v", name, len(all), err)
		}
	}
	for _, size := range []string{"7", "16MiB"} {
		if _, err := parse([]string{"--sizes=" + size}); err == nil {
			t.Errorf("entries of %s", size)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"16KiB": 16384, "7": 7, "2GiB": 2 << 30, "": 0,
		"0": 0, "-1KiB": 0, "KiB": 0, "9000000GiB": 0} {
		if got, err := size(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
}
