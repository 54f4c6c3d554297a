package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/bench/oltp/engines"
	"github.com/loamdb/loam/internal/kvbench"
)

// TestRun measures all engines with few rows and transactions, without a bar, and reads the report.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"--dir=" + dir, "--rows=300", "--threads=1,5",
		"--transactions=30", "--time=1h", "--json=" + file("json"), "--html=" + file("html"),
		"--tsv=" + file("tsv")}, &out, &errs); err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Errorf("a bar that is no terminal's: %q", errs.String())
	}
	text, err := os.ReadFile(file("json"))
	var r kvbench.Report
	if err = errors.Join(err, json.Unmarshal(text, &r)); err != nil {
		t.Fatal(err)
	}
	if !r.Complete || len(r.Runs) != len(engines.Engines) {
		t.Fatalf("complete: %v, %d runs", r.Complete, len(r.Runs))
	}
	for _, run := range r.Runs {
		if len(run.Steps) != 12 {
			t.Errorf("%s has %d steps", run.Engine, len(run.Steps))
		}
		for _, s := range run.Steps {
			if s.Ops != 30 || s.OpsPerSecond <= 0 || s.Latency.Mean <= 0 ||
				s.Latency.Quantiles["P95"] <= 0 {
				t.Errorf("%s: %+v", run.Engine, s)
			}
			// What deletes took before is there again for other numbers of workers.
			if !strings.HasPrefix(s.Name, "delete/") && (*s.Asked != 30 || *s.Found != 30) {
				t.Errorf("%s %s: %d of %d transactions found a row", run.Engine, s.Name, *s.Found,
					*s.Asked)
			}
		}
	}
	for _, name := range []string{"html", "tsv"} {
		page, err := os.ReadFile(file(name))
		if err != nil || !strings.Contains(string(page), "update_index/5") {
			t.Errorf("%s has %d bytes, %v", name, len(page), err)
		}
	}
	if n := strings.Count(out.String(), "range_select"); n != 12*len(engines.Engines)/6+2 {
		t.Errorf("range_select is told of %d times in %s", n, out.String())
	}
	if left, err := filepath.Glob(file("oltp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestFailure has an engine that cannot make its directory: the report is written, incomplete.
func TestFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "json")
	var out bytes.Buffer
	err := run(t.Context(), []string{"--dir=" + filepath.Join(file, "none"), "--engines=bbolt",
		"--json=" + file}, &out, &out)
	text, readErr := os.ReadFile(file)
	if err == nil || readErr != nil || !strings.Contains(string(text), `"complete": false`) {
		t.Errorf("%v, %v: %s", err, readErr, text)
	}
}

// TestStopped: a run that a signal ends leaves its report and no database.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "json")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	err := run(ctx, []string{"--dir=" + dir, "--engines=loam", "--json=" + file}, &out, &out)
	text, readErr := os.ReadFile(file)
	if !errors.Is(err, context.Canceled) || readErr != nil ||
		!strings.Contains(string(text), `"complete": false`) {
		t.Errorf("%v, %v: %s", err, readErr, text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "oltp-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"--engines=none", "--threads=0", "--threads=x", "--rows=0",
		"--time=0s", "--transactions=-1", "--rounds=0"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{args}, &out, &out); err == nil {
			t.Errorf("%s was taken", args)
		}
	}
}
