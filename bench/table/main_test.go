package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `{"complete": true, "engines": [{"name": "loam", "title": "Loam", "version": "3"},
{"name": "slow", "title": "Slow", "version": "1.2"},
{"name": "big", "title": "Big", "version": "7", "notes": ["big: killed"]}],
"environment": {"time": "2026-11-23T10:00:00Z", "cpu": "a CPU", "cores": 2},
"runs": [
{"engine": "loam", "num": 2000000, "value_size": 100, "memory_limit_bytes": 536870912,
 "steps": [{"name": "fill", "micros_per_op": 0.5}, {"name": "read", "micros_per_op": 300}]},
{"engine": "slow", "num": 2000000, "value_size": 100,
 "steps": [{"name": "fill", "micros_per_op": 2}, {"name": "read", "micros_per_op": 20.04}]},
{"engine": "loam", "num": 2000000, "value_size": 100,
 "steps": [{"name": "fill", "micros_per_op": 0.7}, {"name": "read", "micros_per_op": 100}]}]}`

func TestMarkdown(t *testing.T) {
	var r report
	if err := json.Unmarshal([]byte(sample), &r); err != nil {
		t.Fatal(err)
	}
	table := r.table()
	const want = `| | Loam | Slow |
|---|---|---|
| fill | **0.60** | 2.00 |
| read | 200 | **20.0** |

Microseconds per operation, less is better, the best in bold. 2026-11-23, 2 cores (a CPU), ` +
		`2 million entries of 16 + 100 bytes, in 512 MB of memory with the page cache. Loam 3, ` +
		`Slow 1.2. Left out: Big, big: killed.
`
	if got := table.markdown(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestPlot: the plot is XML with a dot for each figure and each engine's name.
func TestPlot(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "r.json"), filepath.Join(dir, "p.svg")
	if err := os.WriteFile(from, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(from, to); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	circles := 0
	for d := xml.NewDecoder(strings.NewReader(string(b))); ; {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.StartElement); ok && s.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 4+2 {
		t.Errorf("%d circles", circles)
	}
}

// TestNoFigures: a report without figures is refused.
func TestNoFigures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(file, file+".svg"); err == nil {
		t.Error("no error")
	}
}

// TestTableOfOneState: a benchmark that a run has twice is two rows, runs of different variants or
// sizes are refused, and the caption tells how many entries there are and of a run that failed.
func TestTableOfOneState(t *testing.T) {
	text := func(more string) string {
		return `{"engines": [{"name": "loam", "title": "Loam", "version": "3"}],
"environment": {"time": "2026-11-23T10:00:00Z"}, "runs": [{"engine": "loam", "num": 20000,
"variant": "native format", "steps": [{"name": "read", "micros_per_op": 8}, {"name": "compact",
"micros_per_op": 9}, {"name": "read", "micros_per_op": 2}]}` + more + `]}`
	}
	var r report
	if err := json.Unmarshal([]byte(text("")), &r); err != nil {
		t.Fatal(err)
	}
	table := r.table()
	got := table.markdown()
	for _, want := range []string{"| read | **8.00** |", "| read, again (2) | **2.00** |",
		", 20000 entries of ", "The run was not completed."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, other := range []string{`"num": 20000, "variant": "leveldb format"`, `"num": 30000,
		"variant": "native format"`} {
		file := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(file, []byte(text(`, {"engine": "loam", "steps": [{"name": "read",
			"micros_per_op": 1}], `+other+"}")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(file, file+".svg"); err == nil {
			t.Errorf("runs with %s have one table with others", other)
		}
	}
}
