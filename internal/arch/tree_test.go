package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

const module = "github.com/loamdb/loam"

// file is one Go source file of the tree, or a text file beside it.
type file struct {
	path string // slash-separated, from the root of the module
	src  string
	ast  *ast.File // nil for files that are not Go
}

func (f *file) dir() string   { return path.Dir(f.path) }
func (f *file) isTest() bool  { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) lines() int    { return strings.Count(f.src, "\n") }
func (f *file) isGo() bool    { return f.ast != nil }
func (f *file) command() bool { return f.isGo() && f.ast.Name.Name == "main" }
func (f *file) imports() []string {
	var out []string
	for _, im := range f.ast.Imports {
		out = append(out, strings.Trim(im.Path.Value, `"`))
	}
	return out
}

// tree is what the rules look at: the module's files, or a fixture's.
type tree struct {
	fset  *token.FileSet
	files []*file
}

// newTree parses sources given as path -> text.
func newTree(sources map[string]string) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	paths := make([]string, 0, len(sources))
	for p := range sources {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		f := &file{path: p, src: sources[p]}
		if strings.HasSuffix(p, ".go") {
			a, err := parser.ParseFile(t.fset, p, f.src, parser.ParseComments|
				parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			f.ast = a
		}
		t.files = append(t.files, f)
	}
	return t, nil
}

// moduleRoot is the directory of go.mod, found upwards from the test's own.
func moduleRoot(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = up
	}
}

// textFile says which files besides Go source the path rule reads.
func textFile(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".sh", ".py", ".js", ".ts", ".c", ".h", ".hpp", ".json", ".toml", ".yml",
		".yaml", ".mk", ".java", ".xml":
		return true
	}
	return name == "Makefile" || name == "run"
}

// nested are the modules below the root's, by directory.
var nested = []string{"internal/testkit/interop", "internal/testkit/lint", "bench/peers",
	"examples/ethdb", "examples/otel", "raftlog", "replica", "s3", "tikv", "bench/raftlog",
	"bench/oltp", "bench/replicas", "importers"}

// loadModule reads the module of the root from disk.
func loadModule(t testing.TB) *tree { return loadBelow(t, ".") }

// made reports whether a directory of this name is one that builds make and change: the steps of
// the bindings run beside these tests. libloam is the copy of the sources in Python's packages, and
// loamdb-VERSION what a package has.
func made(name string) bool {
	return name == "build" || name == "node_modules" || name == "libloam" ||
		strings.HasPrefix(name, "loamdb-") || strings.HasSuffix(name, ".egg-info")
}

// loadBelow reads the module in a directory of the root. Directories named testdata, and those
// whose name starts with a dot or an underscore, hold no source of the module,
// nor does any build, where make and Python put what they make; .ci is the exception.
func loadBelow(t testing.TB, dir string) *tree {
	top := moduleRoot(t)
	root := filepath.Join(top, filepath.FromSlash(dir))
	sources := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := p != root && (name[0] == '.' || name[0] == '_') && name != ".ci"
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != root {
				return filepath.SkipDir // a module of its own
			}
			if hidden || name == "testdata" || p != root && made(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !textFile(name) {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		sources[filepath.ToSlash(rel)] = string(b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTree(sources)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// goFiles calls f for every Go file.
func (t *tree) goFiles(f func(*file)) {
	for _, x := range t.files {
		if x.isGo() {
			f(x)
		}
	}
}

// at is "path:line" of a node.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// span is the number of lines that a node covers.
func (t *tree) span(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
}
