package main

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExportsCatch reads the source: every export does its work within stk.Call,
// by a function that ends panics: through run or one of its own.
func TestExportsCatch(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	functions := map[string]*ast.FuncDecl{}
	for _, name := range names {
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[f.Name.Name] = f
			}
		}
	}
	exports := 0
	for name, f := range functions {
		frame := strings.HasPrefix(name, "with") // of exports, by way of run
		if name != "run" && !frame && !strings.HasPrefix(name, "loamgo_") {
			continue
		}
		exports++
		body := statements(files, f)
		switch m := within.FindStringSubmatch(body[0]); {
		case len(body) == 1 && body[0] == "stk.Call(func() {})": // does nothing
		case name != "run" && len(body) == 1 && through.MatchString(body[0]):
		case name != "run" && len(body) > 1 &&
			strings.HasPrefix(body[1], "s = run(message, func() error {"):
		case len(body) == 2 && m != nil && body[1] == "return s" && catches(files, functions[m[1]]):
		default:
			t.Errorf("%s: %s does not do its work within stk.Call by a function that "+
				"catches panics", files.Position(f.Pos()), name)
		}
	}
	if exports < 30 {
		t.Errorf("only %d exports found", exports)
	}
}

var (
	through = regexp.MustCompile(`^return (?:run|with[A-Za-z]*)\((?:message|nil), `)
	within  = regexp.MustCompile(`^stk\.Call\(func\(\) \{ s = (\w+)\(.*\) \}\)$`)
)

// statements are the text of a function's, however it is wrapped.
func statements(files *token.FileSet, f *ast.FuncDecl) (list []string) {
	for _, s := range f.Body.List {
		var text strings.Builder
		if err := printer.Fprint(&text, files, s); err != nil {
			return nil
		}
		list = append(list, strings.Join(strings.Fields(text.String()), " "))
	}
	return list
}

// catches tells whether a function begins by seeing to panics.
func catches(files *token.FileSet, f *ast.FuncDecl) bool {
	if f == nil {
		return false
	}
	first, result := statements(files, f), f.Type.Results
	return len(first) > 2 && first[0] == "s = running" && first[1] == "defer catch(&s, message)" &&
		result != nil &&
		len(result.List) == 1 && len(result.List[0].Names) == 1 &&
		result.List[0].Names[0].Name == "s"
}
