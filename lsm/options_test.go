package lsm

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/options.md anew")

// TestOptionsPage keeps docs/options.md what the options table says.
func TestOptionsPage(t *testing.T) {
	const page = "../docs/options.md"
	var b strings.Builder
	b.WriteString("# Options\n\nBy name, for `Options.Set`, for C, Python and Node, and as flags of kvbench. Sizes take KiB, MiB or GiB behind the number.\n\n")
	b.WriteString("| name | meaning | default | unit | from | to |\n|---|---|---|---|---|---|\n")
	for _, d := range OptionDocs() {
		from, to := fmt.Sprint(d.Min), fmt.Sprint(d.Max)
		if d.Max == 0 || d.Name == "compression" {
			from, to = "", ""
		}
		if d.Name == "max_background_jobs" || d.Name == "max_subcompactions" {
			d.Default = "processors, at least 2" // whatever this machine has
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", d.Name, d.Doc, d.Default, d.Unit, from, to)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the table says (%v); go test ./lsm -run OptionsPage -rewrite", page, err)
	}
}

// TestNumbersBelowNone: by name, 0 alone means "none"; -1 is what the field of
// Options calls it, and no size.
func TestNumbersBelowNone(t *testing.T) {
	for _, d := range OptionDocs() {
		if d.Max == 0 || d.Name == "compression" {
			continue
		}
		var o Options
		err := o.Set(d.Name, fmt.Sprint(d.Min-1))
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), d.Name) || !strings.Contains(err.Error(), fmt.Sprintf("want %d to %d", d.Min, d.Max)) {
			t.Errorf("%s = %d: %v", d.Name, d.Min-1, err)
		}
		if err := o.Set(d.Name, fmt.Sprint(d.Min)); err != nil {
			t.Error(err)
		}
		if _, err := o.resolve(); err != nil {
			t.Errorf("%s = %d: %v", d.Name, d.Min, err)
		}
	}
}
