package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestCrossCompile type-checks the module, tests too, for every supported
// system and processor. The long version builds and vets it.
func TestCrossCompile(t *testing.T) {
	root, src := moduleRoot(t), newSources()
	for i, p := range platforms {
		t.Run(p[0]+"-"+p[1], func(t *testing.T) {
			if p == [2]string{runtime.GOOS, runtime.GOARCH} && os.Getenv("LOAM_T2") != "1" {
				t.Skip("the build of all tests checks it")
			}
			if i%seed.Scale(len(platforms), 4, 1) != 0 {
				t.Skip("loads the standard library for every system: one processor of each only " +
					"in the long version")
			}
			n, err := typeCheck(src, root, p[0], p[1])
			if err != nil {
				t.Errorf("%v", err)
			}
			if err == nil && n < 20 {
				t.Errorf("only %d packages were checked", n)
			}
			if os.Getenv("LOAM_T2") != "1" {
				return
			}
			for _, verb := range []string{"build", "vet"} {
				if out, err := compile(root, verb, p[0], p[1]); err != nil {
					t.Errorf("go %s: %v\n%s", verb, err, out)
				}
			}
		})
	}
}

func compile(dir, verb, goos, goarch string) ([]byte, error) {
	cmd := exec.Command("go", verb, "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	return cmd.CombinedOutput()
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Standard        bool
	Module          *struct{ Main bool }
	Error           *struct{ Err string }
}

// sources are parsed files, most of which all platforms share.
type sources struct {
	fset  *token.FileSet
	files map[string]*ast.File // by path
}

func newSources() *sources {
	return &sources{token.NewFileSet(), make(map[string]*ast.File)}
}

func (s *sources) parse(path string) (*ast.File, error) {
	if f := s.files[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
	if err == nil {
		s.files[path] = f
	}
	return f, err
}

// typeCheck checks all packages below dir, tests too, for a platform and returns
// how many of the module's own that were.
func typeCheck(src *sources, dir, goos, goarch string) (own int, err error) {
	c := newChecker(src, goarch)
	err = c.checkAll(dir, goos, goarch, "-test")
	return c.own, err
}

// checker holds the packages that were checked, which come in the order of
// their imports.
type checker struct {
	*sources
	sizes types.Sizes
	done  map[string]*types.Package
	own   int // packages of the module

	// visit is called for each package of the module, unless it is nil.
	visit func(pkg *types.Package, files []*ast.File, info *types.Info)
}

func newChecker(src *sources, goarch string) *checker {
	return &checker{
		sources: src, sizes: types.SizesFor("gc", goarch),
		done: map[string]*types.Package{"unsafe": types.Unsafe},
	}
}

// checkAll checks all packages below dir and their imports, of which it reads only the
// declarations. flags are for go list.
func (c *checker) checkAll(dir, goos, goarch string, flags ...string) error {
	args := append([]string{"list", "-e", "-deps",
		"-json=ImportPath,Dir,GoFiles,ImportMap,Standard,Module,Error"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, said.String())
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		mine := p.Module != nil && p.Module.Main
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		if mine && p.Error != nil {
			return fmt.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		if err := c.check(&p, mine); mine && err != nil {
			return err
		}
		if mine {
			c.own++
		}
	}
}

func (c *checker) check(p *listed, mine bool) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := c.parse(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	var first error
	conf := types.Config{
		Sizes: c.sizes, IgnoreFuncBodies: !mine, FakeImportC: true,
		Importer: importer{c, p.ImportMap}, Error: func(err error) {
			if first == nil {
				first = err
			}
		},
	}
	var info *types.Info
	if mine && c.visit != nil {
		info = &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Types: map[ast.Expr]types.TypeAndValue{}}
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	pkg, _ := conf.Check(path, c.fset, files, info) // the error is first
	c.done[p.ImportPath] = pkg
	if info != nil {
		c.visit(pkg, files, info)
	}
	return first
}

type importer struct {
	c   *checker
	own map[string]string // import path in the source -> the package's name in go list
}

func (i importer) Import(path string) (*types.Package, error) {
	if to := i.own[path]; to != "" {
		path = to
	}
	if p := i.c.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not there", path)
}

// TestCrossCompileFires plants files that only one platform cannot compile.
func TestCrossCompileFires(t *testing.T) {
	dir, src := t.TempDir(), newSources()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module planted\n\ngo 1.25\n")
	write("a_freebsd.go", "package planted\n\nvar x int = \"\"\n")
	write("b_windows_test.go", "package planted\n\nimport \"syscall\"\n\nvar _ = syscall.Flock\n")
	write("c_386.go", "package planted\n\nvar y int = 1 << 40\n")
	write("d.go", "package planted\n\nimport _ \"os\"\n")
	for platform, want := range map[[2]string]string{
		{"linux", "amd64"}:   "",
		{"freebsd", "amd64"}: "a_freebsd.go",
		{"windows", "arm64"}: "b_windows_test.go",
		{"linux", "386"}:     "c_386.go",
	} {
		_, err := typeCheck(src, dir, platform[0], platform[1])
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, want a report of %q", platform, err, want)
		}
	}
	if os.Getenv("LOAM_T2") != "1" {
		return
	}
	if out, err := compile(dir, "build", "linux", "amd64"); err != nil {
		t.Errorf("linux: %v\n%s", err, out)
	}
	if _, err := compile(dir, "build", "freebsd", "amd64"); err == nil {
		t.Error("a file that cannot compile on freebsd was not reported")
	}
}
