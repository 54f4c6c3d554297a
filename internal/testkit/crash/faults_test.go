package crash

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAheadOfTime: each function that aheadOfTime names is declared. A renamed one is in no stack,
// and the trials that meet its calls fail.
func TestAheadOfTime(t *testing.T) {
	declared := map[string]bool{}
	fset := token.NewFileSet()
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "node_modules" { // npm may be filling it
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		of := path.Base(path.Dir(filepath.ToSlash(name))) + "."
		if !slices.ContainsFunc(aheadOfTime, func(f string) bool {
			return strings.HasPrefix(f, of)
		}) {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				declared[of+receiver(fn)+fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range aheadOfTime {
		if !declared[name] {
			t.Errorf("aheadOfTime has %s, which no package declares", name)
		}
	}
}

// receiver is a method's receiver as the names of running functions have it, with a period.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	switch x := fn.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		if name, ok := x.X.(*ast.Ident); ok {
			return "(*" + name.Name + ")."
		}
	case *ast.Ident:
		return x.Name + "."
	}
	return ""
}
