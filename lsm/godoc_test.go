package lsm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base/options"
)

const modulePath = "github.com/loamdb/loam/"

// TestEveryNameIsDocumented: every exported name of the package, every exported field
// and method of its types, those of other packages that it renames included, has a
// comment.
func TestEveryNameIsDocumented(t *testing.T) {
	p := parsePackage(t, ".")
	for _, name := range slices.Sorted(maps.Keys(p.undocumented("", nil))) {
		t.Errorf("%s has no comment", name)
	}
	if n := len(p.aliases); n != 3 {
		t.Errorf("types of %d other packages are renamed, want those of base, mergeop and repair",
			n)
	}
	for dir, types := range p.aliases {
		behind := parsePackage(t, filepath.Join("..", dir))
		for _, name := range slices.Sorted(maps.Keys(behind.undocumented("", types))) {
			t.Errorf("%s: %s has no comment", dir, name)
		}
		for name := range types {
			if !behind.types[name] {
				t.Errorf("%s has no type %s", dir, name)
			}
		}
	}
}

// TestUndocumentedNamesAreSeen plants names without a comment.
func TestUndocumentedNamesAreSeen(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a

// T is documented.
type T struct {
	A int // is documented
	// B is documented.
	B int
	C, d int
	e int
}

func (t *T) M() {}
func (t *t) M() {}

type I interface {
	// M is documented.
	M()
	N()
}

// Errors.
var (
	V = 1
	// W is documented.
	W = 2
	x = 3
)

// X is documented.
const X = 1

func F() {}
func f() {}
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys((&docs{files: []*ast.File{f}}).undocumented("", nil)))
	if want := []string{"F", "I", "I.N", "T.C", "T.M", "V"}; !slices.Equal(got, want) {
		t.Errorf("without a comment: %q, want %q", got, want)
	}
}

// TestOptionsSayTheirDefault: the comment of each field of Options has the word
// "default" and, for a number, its value as the options table has it, and "bytes"
// where that is its unit.
func TestOptionsSayTheirDefault(t *testing.T) {
	comments := parsePackage(t, ".").fields("Options")
	o := reflect.TypeFor[Options]()
	if len(comments) != o.NumField() {
		t.Fatalf("%d fields have comments of %d", len(comments), o.NumField())
	}
	for name, text := range comments {
		if !strings.Contains(text, "default") {
			t.Errorf("Options.%s does not say its default: %s", name, text)
		}
	}
	var with Options
	fields := reflect.ValueOf(&with).Elem()
	for _, row := range optionTable {
		field := row.Field(&with)
		if c, ok := field.(options.Choice); ok {
			field = c.Value
		}
		if c, ok := field.(options.Choices); ok {
			field = c.Value
		}
		at := reflect.ValueOf(field)
		for i := range o.NumField() {
			if fields.Field(i).Addr().Pointer() != at.Pointer() ||
				fields.Field(i).Kind() != at.Type().Elem().Kind() {
				continue
			}
			text := comments[o.Field(i).Name]
			if row.Default > 0 && row.Max > 3 && !strings.Contains(text, sizeText(row.Default)) {
				t.Errorf("Options.%s: the default is %s: %s", o.Field(i).Name,
					sizeText(row.Default), text)
			}
			if row.Unit == "bytes" && !strings.Contains(text, "bytes") {
				t.Errorf("Options.%s is in bytes: %s", o.Field(i).Name, text)
			}
		}
	}
}

// sizeText is a number as a comment has it.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprint(n)
}

// docs is a package as its documentation is read.
type docs struct {
	files   []*ast.File
	types   map[string]bool
	aliases map[string]map[string]bool // directory of another package -> types
}

// parsePackage reads the package in dir, without its tests.
func parsePackage(t *testing.T, dir string) *docs {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &docs{types: map[string]bool{}, aliases: map[string]map[string]bool{}}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil,
			parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		d.files = append(d.files, f)
		d.findTypes(f)
	}
	return d
}

// findTypes notes the types of a file, and of which other types they are new names.
func (d *docs) findTypes(f *ast.File) {
	imports := map[string]string{}
	for _, im := range f.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		imports[path[strings.LastIndex(path, "/")+1:]] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		d.types[spec.Name.Name] = true
		if of, ok := spec.Type.(*ast.SelectorExpr); ok && spec.Assign.IsValid() &&
			spec.Name.IsExported() {
			dir := strings.TrimPrefix(imports[of.X.(*ast.Ident).Name], modulePath)
			if d.aliases[dir] == nil {
				d.aliases[dir] = map[string]bool{}
			}
			d.aliases[dir][of.Sel.Name] = true
		}
		return true
	})
}

// undocumented is the exported names without a comment, with prefix before them. If only is not
// nil, just those of the types in it.
func (d *docs) undocumented(prefix string, only map[string]bool) map[string]bool {
	bad := map[string]bool{}
	note := func(name string, comments ...*ast.CommentGroup) {
		last := name[strings.LastIndex(name, ".")+1:]
		if ast.IsExported(last) && !slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool {
			return c.Text() != ""
		}) {
			bad[prefix+name] = true
		}
	}
	for _, f := range d.files {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				of := receiver(decl)
				switch {
				case of == "" && only == nil:
					note(decl.Name.Name, decl.Doc)
				// those two are embedded
				case of != "" && (ast.IsExported(of) || of == "keyspace" || of == "reader") &&
					(only == nil || only[of]):
					note(of+"."+decl.Name.Name, decl.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					undocumentedIn(spec, decl, only, note)
				}
			}
		}
	}
	return bad
}

// undocumentedIn notes the names of one declaration of a type, variable or constant.
func undocumentedIn(spec ast.Spec, decl *ast.GenDecl, only map[string]bool,
	note func(string, ...*ast.CommentGroup)) {
	var whole *ast.CommentGroup // stands for the declaration, if that has one name
	if !decl.Lparen.IsValid() {
		whole = decl.Doc
	}
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if only == nil {
				note(name.Name, whole, spec.Doc, spec.Comment)
			}
		}
	case *ast.TypeSpec:
		name := spec.Name.Name
		if !spec.Name.IsExported() || only != nil && !only[name] {
			return
		}
		note(name, whole, spec.Doc, spec.Comment)
		for _, field := range members(spec) {
			for _, id := range field.Names {
				note(name+"."+id.Name, field.Doc, field.Comment)
			}
		}
	}
}

// members are the fields of a struct and the methods of an interface.
func members(spec *ast.TypeSpec) []*ast.Field {
	switch of := spec.Type.(type) {
	case *ast.StructType:
		return of.Fields.List
	case *ast.InterfaceType:
		return of.Methods.List
	}
	return nil
}

// receiver is the name of a method's type; "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if p, ok := of.(*ast.IndexExpr); ok { // with a type parameter
		of = p.X
	}
	return of.(*ast.Ident).Name
}

// fields is the comments of a struct's fields, each in one line.
func (d *docs) fields(name string) map[string]string {
	comments := map[string]string{}
	for _, f := range d.files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == name {
				for _, field := range members(spec) {
					for _, id := range field.Names {
						comments[id.Name] =
							strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()),
								" ")
					}
				}
			}
			return true
		})
	}
	return comments
}
