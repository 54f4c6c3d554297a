package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestModules holds each go.mod against the imports of its module: what is
// imported is required, exactly one version of it, and not "// indirect".
func TestModules(t *testing.T) {
	root := moduleRoot(t)
	for _, dir := range append([]string{"."}, nested...) {
		bad, err := ruleModule(filepath.Join(root, filepath.FromSlash(dir)))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range bad {
			t.Errorf("%s: %s", dir, b)
		}
	}
}

// nestedSizes are packages above the cap, by module.
var nestedSizes = map[string]map[string]int{
	// It is one node: each part of it needs the session, and parts that do not are below internal.
	"replica": {"replica": 4300},
}

// TestNested holds the modules below the root's to the rules that do not know the floors.
func TestNested(t *testing.T) {
	for _, dir := range nested {
		tr := loadBelow(t, dir)
		for _, r := range []struct {
			name  string
			check func(*tree) []string
		}{
			{"file size", ruleFileSize}, {"columns", ruleColumns},
			{"package size", func(tr *tree) []string { return packageSize(tr, nestedSizes[dir]) }},
			{"function size", func(tr *tree) []string { return functionSize(tr, nil) }},
			{"names", ruleNames}, {"package comment", rulePackageDoc},
			{"machine paths", rulePaths}, {"errors", ruleErrors}, {"markers", ruleMarkers},
			{"clocks", func(tr *tree) []string { return goByClock(tr, nestedClocks[dir]) }},
		} {
			for _, b := range r.check(tr) {
				t.Errorf("%s: %s", r.name, b)
			}
		}
		found := false
		tr.goFiles(func(*file) { found = true })
		if !found {
			t.Errorf("%s: no file found: the walk is broken", dir)
		}
	}
}

// TestNestedModules: nested has every module of the tree.
func TestNestedModules(t *testing.T) {
	root := moduleRoot(t)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case p != root && d.IsDir() && (name[0] == '.' || name == "build" || name == "testdata" ||
			name == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || name != "go.mod":
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(p))
		if dir = filepath.ToSlash(dir); dir != "." && !slices.Contains(nested, dir) {
			t.Errorf("%s is a module: add it to nested", dir)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestModulesFires has a module with an import that is marked indirect, and
// one that is missing.
func TestModulesFires(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n\nrequire (\n\ta.org/x v1.0.0 // indirect\n\ta.org/y/v2 " +
			"v2.0.0\n)\n",
		"m.go": "package m\n\nimport (\n\t_ \"a.org/x/sub\"\n\t_ \"a.org/y/v2\"\n\t_ " +
			"\"a.org/z\"\n\t_ \"m/n\"\n\t_ \"os\"\n)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bad, err := ruleModule(dir)
	if err != nil || len(bad) != 2 || !strings.HasPrefix(bad[0], "a.org/x/sub ") ||
		!strings.HasPrefix(bad[1], "a.org/z ") {
		t.Errorf("%q, %v", bad, err)
	}
}

func ruleModule(dir string) (bad []string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	name := ""
	indirect := map[string]bool{} // by module that is required
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		switch {
		case len(fields) == 2 && fields[0] == "module":
			name = fields[1]
		case len(fields) >= 2 && strings.HasPrefix(fields[1], "v") &&
			strings.Contains(fields[0], "."):
			indirect[fields[0]] = strings.HasSuffix(strings.TrimSpace(line), "// indirect")
		}
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != dir {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if base := d.Name(); other == nil || base == "node_modules" || base == "testdata" ||
				base == "build" || strings.HasPrefix(base, ".") {
				return filepath.SkipDir
			}
		}
		if !strings.HasSuffix(path, ".go") || d.IsDir() {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, im := range f.Imports {
			imported, err := strconv.Unquote(im.Path.Value)
			if err != nil {
				return err
			}
			host, _, _ := strings.Cut(imported, "/")
			if !strings.Contains(host, ".") || strings.HasPrefix(imported+"/", name+"/") ||
				seen[imported] {
				continue
			}
			seen[imported] = true
			if why := notDirect(indirect, imported); why != "" {
				bad = append(bad, fmt.Sprintf("%s in %s: %s", imported, path, why))
			}
		}
		return nil
	})
	return bad, err
}

func notDirect(indirect map[string]bool, imported string) string {
	m, ok := longest(indirect, imported)
	switch {
	case !ok:
		return "no go.mod line requires it"
	case indirect[m]:
		return m + " is marked indirect"
	}
	return ""
}

// longest returns the required module with the longest path that holds the
// imported package.
func longest(indirect map[string]bool, imported string) (module string, ok bool) {
	for m := range indirect {
		if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) >= len(module) {
			module, ok = m, true
		}
	}
	return module, ok
}
