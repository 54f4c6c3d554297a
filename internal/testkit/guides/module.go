// Package guides follows pages of docs as a reader does. Its test follows the guides; tests of
// modules of their own follow the page of their module.
package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goBlock      = regexp.MustCompile("(?s)\n```go ([a-z.]+)\n(.*?)\n```\n")
	consoleBlock = regexp.MustCompile("(?s)\n```console\n(.*?)\n```\n")
	goLine       = regexp.MustCompile(`(?m)^go .*$`)
	localPath    = regexp.MustCompile(`=> (\.\.\S*)`)
)

// RunModule runs the program of ../docs/NAME.md, by the commands of the page, in a module that
// requires the one in the working directory, github.com/loamdb/loam/NAME.
func RunModule(t *testing.T, name string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(name)
		check(err)
		return string(b)
	}
	page := read("../docs/" + name + ".md")
	file, console := goBlock.FindStringSubmatch(page), consoleBlock.FindStringSubmatch(page)
	if file == nil || console == nil {
		t.Fatal("the page has no program, or nothing that it prints")
	}
	here, err := filepath.Abs(".")
	check(err)
	_, rest, _ := strings.Cut(read("go.mod"), "\n")
	module := "module cluster\n" + localPath.ReplaceAllStringFunc(rest, func(path string) string {
		return "=> " + filepath.Join(here, strings.TrimPrefix(path, "=> "))
	}) + "\nrequire github.com/loamdb/loam/" + name + " v0.0.0\n" +
		"replace github.com/loamdb/loam/" + name + " => " + here + "\n"
	dir := t.TempDir()
	uses := []string{here}
	for _, path := range localPath.FindAllStringSubmatch(rest, -1) {
		uses = append(uses, filepath.Join(here, path[1]))
	}
	for name, text := range map[string]string{"go.mod": module, "go.sum": read("go.sum"),
		"go.work": workspace(module, uses...), file[1]: file[2] + "\n"} {
		check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, part := range strings.Split("\n"+console[1], "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		run := exec.CommandContext(t.Context(), "sh", "-c", command)
		run.Dir, run.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK="+
			filepath.Join(dir, "go.work"))
		out, err := run.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != strings.TrimSpace(want) || err != nil {
			t.Fatalf("%s prints %q, %v, and the page has %q", command, got, err, want)
		}
	}
}

// workspace is the go.work of a reader's module and the modules that it replaces by folders. Their
// packages are then built as all other tests build them, and come from Go's cache.
func workspace(module string, uses ...string) string {
	version := goLine.FindString(module)
	return version + "\nuse .\nuse " + strings.Join(uses, "\nuse ") + "\n"
}
