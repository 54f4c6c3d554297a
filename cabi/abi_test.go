package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record the interface as it is")

// TestABI wants the declarations of loam.h to be those that were recorded with
// the revision: programs find out by it alone what a library has.
func TestABI(t *testing.T) {
	const record = "testdata/abi"
	text, err := os.ReadFile("loam.h")
	if err != nil {
		t.Fatal(err)
	}
	header := string(text)
	for _, cut := range []string{`(?s)/\*.*?\*/`, `(?s)#ifdef __cplusplus.*?#endif`,
		`(?m)^#(?:include|ifndef|if|else|endif|define LOAM_(?:H|API)).*$`} {
		header = regexp.MustCompile(cut).ReplaceAllString(header, "")
	}
	// A declaration is one line, however the header wraps it.
	header = regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(header, "$0;")
	header = regexp.MustCompile(`\s+`).ReplaceAllString(header, " ")
	header = regexp.MustCompile(`([;{}]) ?`).ReplaceAllString(header, "$1\n")
	header = strings.TrimSpace(regexp.MustCompile(`\n+`).ReplaceAllString(header, "\n")) + "\n"
	if *update {
		if err := os.WriteFile(record, []byte(header), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if header == string(want) {
		return
	}
	revision := regexp.MustCompile(`LOAM_ABI_REVISION \d+`)
	if revision.FindString(header) == revision.FindString(string(want)) {
		t.Error("loam.h declares something else than was recorded: raise LOAM_ABI_REVISION, and " +
			"the version's name in loam.map")
	}
	got, had := strings.Split(header, "\n"), strings.Split(string(want), "\n")
	same(t, "loam.h against "+record+" (go test -run TestABI -update records it)", got, had)
}

// TestSymbolVersion wants the revision in the version of the symbols, by which
// the dynamic linker tells libraries apart.
func TestSymbolVersion(t *testing.T) {
	header, err := os.ReadFile("loam.h")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("loam.map")
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) string {
		return regexp.MustCompile(`#define LOAM_ABI_` + name + ` (\d+)`).FindStringSubmatch(
			string(header))[1]
	}
	if want := "LOAM_" + number("VERSION") + "." + number("REVISION") +
		" {"; !strings.HasPrefix(string(script), want) {
		t.Errorf("loam.map does not begin with %q", want)
	}
}
