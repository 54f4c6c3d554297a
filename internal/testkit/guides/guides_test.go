package guides

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the guides, from the root of the module.
var pages = []string{"docs/first-hour.md", "docs/migrate.md", "docs/queues.md", "docs/repair.md",
	"docs/tune.md", "testdata/users/README.md"}

// tools are what blocks need that not every machine has, and the variable of the environment that
// says where it is.
var tools = map[string]string{
	"python": "LOAM_GUIDE_PYTHON", // an interpreter that has loamdb
	"node":   "LOAM_GUIDE_NODE",   // the folder of the package
	"c":      "LOAM_GUIDE_LIB",    // the folder of libloam.so
}

// TestGuides runs the blocks of each page in their order, in one directory. A block "```go a.go" is
// the file a.go. In a block "```console", a line that begins with "$ " is a command, and the lines
// up to the next one what it prints; "..." stands for any text. "```console python" needs that
// tool. The folders of testdata/users are in the directory. Where the environment names tools, only
// the pages that need one of them are followed: the step go follows all pages without tools.
func TestGuides(t *testing.T) {
	root, err := filepath.Abs("../../..")
	must(t, err)
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin, "./cmd/loam")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, page))
			must(t, err)
			if !needed(string(text)) {
				t.Skip("no block needs the tools at hand")
			}
			g := newGuide(t, root, bin)
			commands := 0
			for _, b := range block.FindAllStringSubmatch(string(text), -1) {
				commands += g.follow(b[1], b[2])
			}
			if commands == 0 {
				t.Error("the page has no command")
			}
		})
	}
}

var block = regexp.MustCompile("(?ms)^```(\\w+(?: [\\w.-]+)?)\n(.*?)^```$")

// needed reports whether a page has a block for a tool that the environment names, or whether it
// names none.
func needed(page string) bool {
	none := true
	for tool, variable := range tools {
		if os.Getenv(variable) == "" {
			continue
		}
		if none = false; strings.Contains(page, "\n```console "+tool+"\n") {
			return true
		}
	}
	return none
}

// guide is a page's directory and environment.
type guide struct {
	t   *testing.T
	dir string
	env []string
}

func newGuide(t *testing.T, root, bin string) *guide {
	g := &guide{t: t, dir: t.TempDir()}
	must(t, os.CopyFS(g.dir, os.DirFS(filepath.Join(root, "testdata", "users"))))
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	must(t, err)
	_, rest, _ := strings.Cut(string(module), "\n")
	must(t, os.WriteFile(filepath.Join(g.dir, "go.mod"), fmt.Appendf(nil,
		"module guide\n%s\nrequire github.com/loamdb/loam v0.0.0\n"+
			"replace github.com/loamdb/loam => %s\n", rest, root), 0o600))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(g.dir, "go.sum"), sums, 0o600))
	work := filepath.Join(g.dir, "go.work")
	must(t, os.WriteFile(work, []byte(workspace(string(module), root)), 0o600))
	path := bin + ":" + os.Getenv("PATH")
	if python := os.Getenv(tools["python"]); python != "" {
		python, err := filepath.Abs(python)
		must(t, err)
		path = filepath.Dir(python) + ":" + path
	}
	if node := os.Getenv(tools["node"]); node != "" {
		must(t, os.Mkdir(filepath.Join(g.dir, "node_modules"), 0o700))
		must(t, os.Symlink(node, filepath.Join(g.dir, "node_modules", "loamdb")))
	}
	lib := os.Getenv(tools["c"])
	g.env = append(os.Environ(), "PATH="+path, "GOFLAGS=-trimpath", "GOWORK="+work,
		"CPATH="+filepath.Join(root, "cabi"), "LIBRARY_PATH="+lib, "LD_LIBRARY_PATH="+lib)
	return g
}

// follow saves a block as a file or runs its commands, and returns how many there are.
func (g *guide) follow(info, text string) (commands int) {
	language, name, named := strings.Cut(info, " ")
	if language != "console" {
		if named {
			must(g.t, os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600))
		}
		return 0
	}
	for _, part := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part+"\n", "\n")
		commands++
		if named && os.Getenv(tools[name]) == "" {
			continue
		}
		run := exec.Command("sh", "-c", command)
		run.Dir, run.Env = g.dir, g.env
		got, err := run.CombinedOutput()
		if same := pattern(want).MatchString(strings.TrimSpace(string(got))); !same {
			g.t.Errorf("%s prints\n%s\nthe page has\n%s(%v)", command, got, want, err)
		}
	}
	return commands
}

func pattern(want string) *regexp.Regexp {
	text := regexp.QuoteMeta(strings.TrimSpace(want))
	return regexp.MustCompile("^(?s:" + strings.ReplaceAll(text, `\.\.\.`, ".*") + ")$")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
