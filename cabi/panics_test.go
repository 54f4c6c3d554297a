//go:build cgo && !windows

package main

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPanics has the frame of the exports end panics as a status.
func TestPanics(t *testing.T) {
	const internal = -17 // LOAM_ERR_INTERNAL
	var none map[string]int
	for name, f := range map[string]func() error{
		"value":   func() error { panic("on purpose") },
		"runtime": func() error { none["a"] = 1; return nil },
		"nil":     func() error { panic(nil) },
	} {
		if s := run(nil, f); s != internal {
			t.Errorf("%s: status %d", name, s)
		}
	}
	if s := run(nil, func() error { return nil }); s != 0 {
		t.Errorf("status %d without a panic", s)
	}
	if s := run(nil, func() error { return errHandle }); s == internal || s >= 0 {
		t.Errorf("status %d of an error", s)
	}
}

// TestExportsCatch reads the source: every export ends panics, either through
// run or by itself.
func TestExportsCatch(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	exports := 0
	for _, name := range names {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != "run" && !strings.HasPrefix(f.Name.Name, "loamgo_") {
				continue
			}
			exports++
			if !catches(files, f) {
				t.Errorf("%s: %s does not begin by catching panics", files.Position(f.Pos()), f.Name.Name)
			}
		}
	}
	if exports < 30 {
		t.Errorf("only %d exports found", exports)
	}
}

// catches tells whether a function begins in one of these ways.
func catches(files *token.FileSet, f *ast.FuncDecl) bool {
	var first []string
	for _, s := range f.Body.List {
		var text strings.Builder
		if err := printer.Fprint(&text, files, s); err != nil {
			return false
		}
		first = append(first, text.String())
	}
	if len(first) == 1 {
		return strings.HasPrefix(first[0], "return run(message, func() error {") || strings.HasPrefix(first[0], "return run(nil, func() error {")
	}
	if len(first) > 1 && strings.HasPrefix(first[1], "s = run(message, func() error {") {
		return true
	}
	result := f.Type.Results
	return len(first) > 2 && first[0] == "s = running" && first[1] == "defer catch(&s, message)" && result != nil &&
		len(result.List) == 1 && len(result.List[0].Names) == 1 && result.List[0].Names[0].Name == "s"
}
