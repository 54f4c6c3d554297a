package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
		case p != root && d.IsDir() && (name[0] == '.' || name == "testdata" || made(name)):
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
	name, required := readMod(string(text))
	seen := map[string]bool{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != dir {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if base := d.Name(); other == nil || base == "testdata" || made(base) ||
				strings.HasPrefix(base, ".") {
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
			if why := notDirect(required, imported); why != "" {
				bad = append(bad, fmt.Sprintf("%s in %s: %s", imported, path, why))
			}
		}
		return nil
	})
	return bad, err
}

// requirement is how a module file requires a module.
type requirement struct {
	version  string
	indirect bool
}

// readMod returns the module's name and what its file requires, by module.
func readMod(text string) (name string, required map[string]requirement) {
	required = map[string]requirement{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		switch {
		case len(fields) == 2 && fields[0] == "module":
			name = fields[1]
		case len(fields) >= 2 && strings.HasPrefix(fields[1], "v") &&
			strings.Contains(fields[0], "."):
			required[fields[0]] = requirement{fields[1],
				strings.HasSuffix(strings.TrimSpace(line), "// indirect")}
		}
	}
	return name, required
}

// engineDir matches the directories of what every user of lsm imports.
var engineDir = regexp.MustCompile(
	`^(lsm$|internal/(base|feature|format|memory|os|store|tree)(/|$))`)

// TestEngineInModules: each module file that takes the engine from this tree has what the engine
// imports, with its checksum. Some of these files are read in long runs only.
func TestEngineInModules(t *testing.T) {
	root := moduleRoot(t)
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, required := readMod(string(text))
	needed := map[string]bool{}
	loadModule(t).goFiles(func(f *file) {
		if f.isTest() || !engineDir.MatchString(f.dir()) {
			return
		}
		for _, imported := range f.imports() {
			if m, ok := longest(required, imported); ok {
				needed[m] = true
			}
		}
	})
	if len(needed) < 4 {
		t.Fatalf("the engine imports %v only", needed)
	}
	checked := 0
	for _, dir := range nested {
		mods, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, mod := range mods {
			text, err := os.ReadFile(mod)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "github.com/loamdb/loam =>") {
				continue
			}
			sums, err := os.ReadFile(strings.TrimSuffix(mod, ".mod") + ".sum")
			if err != nil {
				t.Fatal(err)
			}
			checked++
			for _, b := range notTaken(string(text), string(sums), needed) {
				t.Errorf("%s: %s; run go mod tidy -modfile=%[1]s", mod, b)
			}
		}
	}
	if checked <= len(nested)/2 {
		t.Errorf("%d files take the engine from this tree: the search is broken", checked)
	}
}

// TestEngineInModulesFires has a module file without a module, and one without its checksum.
func TestEngineInModulesFires(t *testing.T) {
	bad := notTaken("module m\n\nrequire (\n\ta.org/x v1.0.0\n\ta.org/y v1.1.0 // indirect\n)\n",
		"a.org/x v1.0.0 h1:abc=\na.org/y v1.1.0/go.mod h1:def=\n",
		map[string]bool{"a.org/x": true, "a.org/y": true, "a.org/z": true})
	want := []string{"no checksum of a.org/y v1.1.0", "no line requires a.org/z"}
	if !slices.Equal(bad, want) {
		t.Errorf("%q, want %q", bad, want)
	}
}

// notTaken returns what a module file, or the file of its checksums, lacks of the modules needed.
func notTaken(mod, sums string, needed map[string]bool) (bad []string) {
	_, required := readMod(mod)
	for _, m := range slices.Sorted(maps.Keys(needed)) {
		r, ok := required[m]
		switch {
		case !ok:
			bad = append(bad, "no line requires "+m)
		case !strings.Contains("\n"+sums, "\n"+m+" "+r.version+" h1:"):
			bad = append(bad, "no checksum of "+m+" "+r.version)
		}
	}
	return bad
}

func notDirect(required map[string]requirement, imported string) string {
	m, ok := longest(required, imported)
	switch {
	case !ok:
		return "no go.mod line requires it"
	case required[m].indirect:
		return m + " is marked indirect"
	}
	return ""
}

// longest returns the required module with the longest path that holds the
// imported package.
func longest(required map[string]requirement,
	imported string) (module string, ok bool) {
	for m := range required {
		if (imported == m || strings.HasPrefix(imported, m+"/")) && len(m) >= len(module) {
			module, ok = m, true
		}
	}
	return module, ok
}
