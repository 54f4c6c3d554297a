package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everywhere are the functions that every callback may call: those of batches, those of fetched
// blocks of an iterator, and those that close.
var everywhere = regexp.MustCompile(`^loam_(abi_check|batch_(create|put|put_ttl|merge|delete|` +
	`delete_range|clear|append|count|data|each|close)|change_operation|` +
	`iter_(place|entry|next|prev|next_block|prev_block|close)|(snapshot|options|cache|job|txn|` +
	`backup|changes|table_writer|bulk_load|pinned)_close)$`)

// reading are the functions that merge operators and compaction filters may call, too.
var reading = regexp.MustCompile(`^loam_(get|get_alloc|get_pinned|has|ttl|multi_get|` +
	`snapshot_create|` +
	`iter_(create|first|last|seek|seek_before|set_bounds))$`)

// TestInsideCallbacks makes every call of loam.h in every callback, on objects of which the call
// that the callback is of uses some: each is answered at once, and is LOAM_ERR_IN_USE unless
// convention 10 allows it. The calls are generated from the header.
func TestInsideCallbacks(t *testing.T) {
	functions := prototypes(t)
	// What closes comes last.
	slices.SortStableFunc(functions, func(a, b prototype) int {
		return strings.Compare(fmt.Sprint(strings.HasSuffix(a.name, "_close")),
			fmt.Sprint(strings.HasSuffix(b.name, "_close")))
	})
	var cases strings.Builder
	n := 0
	for _, f := range functions {
		if f.result != "loam_status" {
			continue
		}
		n++
		may := "ALONE"
		switch {
		case everywhere.MatchString(f.name):
			may = "EVERYWHERE"
		case reading.MatchString(f.name):
			may = "READING"
		}
		call := f.name + "(" + strings.Join(f.inside(&cases), ", ") + ")"
		fmt.Fprintf(&cases, "  INSIDE(%s, %s, %q);\n", may, call, f.name)
	}
	frame, err := os.ReadFile("testdata/inside.c")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(t.TempDir(), "inside.c")
	if err := os.WriteFile(src,
		[]byte(strings.Replace(string(frame), "/* CASES */", cases.String(), 1)), 0o600); err !=
		nil {
		t.Fatal(err)
	}
	for _, asan := range builds() {
		out := execute(t, compile(t, asan, src, "-O0", "-I"+filepath.Join(here, "testdata"),
			"-lloam"))
		for _, callback := range []string{"comparator", "filter", "merge", "partial"} {
			if want := fmt.Sprintf("%s: %d calls\n", callback, n); !strings.Contains(out, want) {
				t.Errorf("the program does not say %q:\n%s", want, out)
			}
		}
	}
}

// inside is good arguments of a call, and declares its results.
func (p prototype) inside(w *strings.Builder) (args []string) {
	for _, q := range p.params {
		a := p.good(q)
		if q.typ == "char **" && q.name == "err" {
			a = "&message"
		}
		if name, ok := strings.CutPrefix(a, "&out_"); ok {
			fmt.Fprintf(w, "  static %s out_%s[2];\n", strings.TrimSuffix(strings.TrimSpace(q.typ),
				"*"), name)
			a = "out_" + name
		}
		args = append(args, a)
	}
	return args
}
