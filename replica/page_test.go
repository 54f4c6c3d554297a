package replica

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPage runs the program of docs/replica.md as a reader does.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	page, err := os.ReadFile("../docs/replica.md")
	must(t, err)
	file := regexp.MustCompile("(?s)\n```go ([a-z.]+)\n(.*?)\n```\n").FindSubmatch(page)
	console := regexp.MustCompile("(?s)\n```console\n(.*?)\n```\n").FindSubmatch(page)
	if file == nil || console == nil {
		t.Fatal("the page has no program, or nothing that it prints")
	}
	dir := t.TempDir()
	module, err := os.ReadFile("go.mod")
	must(t, err)
	sums, err := os.ReadFile("go.sum")
	must(t, err)
	root, err := filepath.Abs("..")
	must(t, err)
	_, rest, _ := strings.Cut(string(module), "\n")
	text := "module cluster\n" + strings.ReplaceAll(strings.ReplaceAll(rest, "=> ../raftlog",
		"=> "+filepath.Join(root, "raftlog")), "=> ..", "=> "+root) +
		"\nrequire github.com/loamdb/loam/replica v0.0.0\n" +
		"replace github.com/loamdb/loam/replica => " + filepath.Join(root, "replica") + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600),
		os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600),
		os.WriteFile(filepath.Join(dir, string(file[1])), append(file[2], '\n'), 0o600))
	for _, part := range strings.Split("\n"+string(console[1]), "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		run := exec.CommandContext(t.Context(), "sh", "-c", command)
		run.Dir, run.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := run.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != strings.TrimSpace(want) || err != nil {
			t.Fatalf("%s prints %q, %v, and the page has %q", command, got, err, want)
		}
	}
}
