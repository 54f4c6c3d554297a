package arch

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page names a function as `folder/file.go: Function` or `folder/file.go:
// Type.Method`, and a file as `folder/file.go`, from the root or from internal.
var pageName = regexp.MustCompile("`([a-z0-9_./-]+\\.(?:go|s|c|h|py|js))(?:: ([A-Za-z0-9_.]+))?`")

// TestPagesNameWhatExists: each file and function that a page of docs names exists.
func TestPagesNameWhatExists(t *testing.T) {
	tr := loadModule(t)
	pages, err := filepath.Glob(filepath.Join(moduleRoot(t), "docs", "*.md"))
	if err != nil || len(pages) < 8 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	functions := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		bad, n := missingNames(tr, string(text))
		functions += n
		for _, b := range bad {
			t.Errorf("%s: %s", filepath.Base(page), b)
		}
	}
	if functions < 60 {
		t.Errorf("the pages name %d functions", functions)
	}
}

// cName is how a page names a function or constant of the C interface.
var cName = regexp.MustCompile(`\b(?:loam_[a-z_]*[a-z]|LOAM_(?:ERR_)?[A-Z_]*[A-Z])\b`)

// notC are the names that look like one.
var notC = []string{"LOAM_COMMAND", "LOAM_ENCRYPTION", "LOAM_LIBRARY", "LOAM_INSPECT", "LOAM_ADDR",
	"LOAM_TOKEN",   // of the environment
	"loam_leveldb"} // a header of C++

// TestPagesNameWhatIsInC: the names of the C interface on pages of docs and in READMEs are in
// loam.h.
func TestPagesNameWhatIsInC(t *testing.T) {
	root := moduleRoot(t)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	known := cName.FindAllString(read(filepath.Join(root, "cabi", "loam.h")), -1)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join(root, "README.md"),
		filepath.Join(root, "bindings", "python", "README.md"),
		filepath.Join(root, "bindings", "node", "README.md"),
		filepath.Join(root, "bindings", "java", "README.md"))
	seen := 0
	for _, page := range pages {
		if filepath.Base(page) == "metrics.md" {
			continue // its names are those of Prometheus, which package loamhttp tests
		}
		for _, name := range cName.FindAllString(read(page), -1) {
			seen++
			if !slices.Contains(known, name) && !slices.Contains(notC, name) {
				t.Errorf("%s: %s is not in loam.h", filepath.Base(page), name)
			}
		}
	}
	if seen < 60 {
		t.Errorf("the pages name %d things of C", seen)
	}
}

// TestQuestionsHaveAnswers: the page on architecture answers at least twenty
// questions, each with a function.
func TestQuestionsHaveAnswers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Where is ...?")
	table, _, _ = strings.Cut(table, "\n## ")
	questions := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "?") {
			continue
		}
		questions++
		if m := pageName.FindStringSubmatch(cells[2]); m == nil || m[2] == "" {
			t.Errorf("no function answers%s", cells[1])
		}
	}
	if questions < 20 {
		t.Errorf("%d questions, want 20", questions)
	}
}

// TestMissingNamesAreSeen plants a page.
func TestMissingNamesAreSeen(t *testing.T) {
	tr := mustTree(t, map[string]string{
		"lsm/a.go": "package lsm\n\nfunc F() {}\n\nfunc (t *T) M() {}\n\nfunc (t G[K]) " +
			"N() {}\n",
		"internal/x/y/b.go": "package y\n\nfunc f() {}\n",
	})
	bad, n := missingNames(tr, "`lsm/a.go: F`, `lsm/a.go: T.M`, `lsm/a.go: G.N` and `x/y/b.go: "+
		"f`, `lsm/a.go`, `doc.go`\n"+
		"`lsm/a.go: M`, `lsm/a.go: T.F`, `x/b.go`, `y/b.go: f`, `lsm/b.go: F`")
	want := []string{"no lsm/a.go: M", "no lsm/a.go: T.F", "no x/b.go", "no y/b.go: f",
		"no lsm/b.go: F"}
	if !slices.Equal(bad, want) || n != 8 {
		t.Errorf("%d functions, missing: %q, want %q", n, bad, want)
	}
}

// missingNames is what a page names that does not exist, and how many functions it
// names. A file without a folder is one of the folder that the text speaks of.
func missingNames(tr *tree, page string) (bad []string, functions int) {
	for _, m := range pageName.FindAllStringSubmatch(page, -1) {
		name, function := m[1], m[2]
		if function != "" {
			functions++
		}
		if !strings.Contains(name, "/") {
			continue
		}
		i := slices.IndexFunc(tr.files, func(f *file) bool {
			return f.path == name || f.path == "internal/"+name
		})
		switch {
		case i < 0:
			bad = append(bad, "no "+strings.Trim(m[0], "`"))
		case function != "" && !declares(tr.files[i], function):
			bad = append(bad, "no "+strings.Trim(m[0], "`"))
		}
	}
	return bad, functions
}

// declares reports whether a Go file has a function "Name" or a method "Type.Name".
func declares(f *file, name string) bool {
	if !f.isGo() {
		return false
	}
	return slices.ContainsFunc(f.ast.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			return false
		}
		if fn.Recv == nil {
			return fn.Name.Name == name
		}
		of := fn.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		if g, ok := of.(*ast.IndexExpr); ok {
			of = g.X
		}
		id, ok := of.(*ast.Ident)
		return ok && id.Name+"."+fn.Name.Name == name
	})
}

// versionFiles name the version: the part of each that is before it.
var versionFiles = map[string]string{
	"bindings/node/package.json":                 `"version": "`,
	"bindings/node/package-lock.json":            `"version": "`,
	"bindings/node/npm/linux-x64/package.json":   `"version": "`,
	"bindings/node/npm/linux-arm64/package.json": `"version": "`,
	"bindings/node/README.md":                    `{ "loamdb": "^`,
	"bindings/java/README.md":                    "<version>",
	"bindings/java/pom.xml":                      "<artifactId>loamdb</artifactId>\n  <version>",
	"bindings/python/pyproject.toml":             "\nversion = \"",
	"bindings/python/src/loamdb/__init__.py":     `__version__ = "`,
	"cabi/loam.h":                                `version, such as "`,
	"cabi/shim.c":                                `loam_version(void) { return "`,
}

// TestOneVersion: the library and its packages have the version that CHANGELOG.md begins with.
func TestOneVersion(t *testing.T) {
	root := moduleRoot(t)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	changes := regexp.MustCompile(`(?m)^## (\d+\.\d+)`).FindStringSubmatch(read("CHANGELOG.md"))
	if changes == nil {
		t.Fatal("CHANGELOG.md has no version")
	}
	for name, before := range versionFiles {
		_, after, found := strings.Cut(read(name), before)
		version := after[:max(0, strings.IndexAny(after, `"<`))]
		if !found || version != changes[1]+".0" {
			t.Errorf("%s has version %q, CHANGELOG.md begins with %s", name, version, changes[1])
		}
	}
}
