package lsm

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base/options"
)

// publicPackages are the folders of the packages that programs import.
var publicPackages = []string{".", "backup", "crashfs", "dump", "replicate"}

// TestEveryNameIsDocumented: every exported name of the public packages, every exported field
// and method of their types, has a comment.
func TestEveryNameIsDocumented(t *testing.T) {
	for _, dir := range publicPackages {
		for _, name := range slices.Sorted(maps.Keys(parsePackage(t, dir).undocumented())) {
			t.Errorf("%s: %s has no comment", dir, name)
		}
	}
}

// TestPublicTypesAreDeclared: the public packages declare the types that they export, and name no
// type of an internal package in a signature, so that go doc shows fields and methods. An alias of
// an interface whose methods are written out is one that go doc shows.
func TestPublicTypesAreDeclared(t *testing.T) {
	for _, dir := range publicPackages {
		for _, f := range parsePackage(t, dir).files {
			for _, fault := range undeclared(f) {
				t.Errorf("%s: %s", dir, fault)
			}
		}
	}
}

// TestUndeclaredTypesAreSeen plants types of internal packages.
func TestUndeclaredTypesAreSeen(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a

import (
	"io"

	"github.com/loamdb/loam/internal/base"
	own "github.com/loamdb/loam/internal/store"
)

type Alias = base.Comparer
type Reader = io.Reader
type Literal = interface{ Close() error }
type T struct {
	A []*base.Comparer
	b base.Comparer
	io.Closer
	own.DB
}
type I interface{ Get() own.DB }

func F(of map[string]base.Key) {}
func (t *T) M() (own.DB, error) {}
func (t *T) m() own.DB {}

var V own.DB
var W = base.Bytewise
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := undeclared(f)
	slices.Sort(got)
	want := []string{
		"Alias is an alias", "Alias names base.Comparer", "F names base.Key", "I names own.DB",
		"Reader is an alias", "T names base.Comparer", "T names own.DB", "T.M names own.DB",
		"V names own.DB",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDocLinks: the names in brackets in the documentation of the public packages exist there, so
// that go doc shows them as links.
func TestDocLinks(t *testing.T) {
	for _, dir := range publicPackages {
		files := token.NewFileSet()
		for _, link := range brokenLinks(t, files, parsePackageIn(t, files, dir).files) {
			t.Errorf("%s: %s", dir, link)
		}
	}
}

// TestBrokenDocLinksAreSeen plants links to names that are not there.
func TestBrokenDocLinksAreSeen(t *testing.T) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "a.go", `// Package a has [T], [T.M], [U] and [*T.N].
package a

// T is like [V].
type T struct{ t }
type t struct{}

// M is [T.M], of [ints][T] and [lower].
func (t) M() {}
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := brokenLinks(t, files, []*ast.File{f})
	if want := []string{"[U]", "[*T.N]", "[V]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// brokenLinks are the links in the documentation of a package that lead nowhere.
func brokenLinks(t *testing.T, set *token.FileSet, files []*ast.File) (broken []string) {
	t.Helper()
	p, err := doc.NewFromFiles(set, files, "example.org/p")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\[\*?[A-Z]\w*(\.\w+)?\]`)
	look := func(text string) {
		for _, block := range p.Parser().Parse(text).Content {
			paragraph, ok := block.(*comment.Paragraph)
			if !ok {
				continue
			}
			for _, part := range paragraph.Text {
				if plain, ok := part.(comment.Plain); ok {
					broken = append(broken, link.FindAllString(string(plain), -1)...)
				}
			}
		}
	}
	look(p.Doc)
	for _, f := range p.Funcs {
		look(f.Doc)
	}
	for _, of := range p.Types {
		look(of.Doc)
		for _, f := range slices.Concat(of.Funcs, of.Methods) {
			look(f.Doc)
		}
	}
	return broken
}

// undeclared says which exported declarations of a file are aliases of types that are declared
// elsewhere, and which name types of internal packages.
func undeclared(f *ast.File) (faults []string) {
	internal := map[string]bool{}
	for _, im := range f.Imports {
		path := strings.Trim(im.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if im.Name != nil {
			name = im.Name.Name
		}
		internal[name] = strings.Contains(path, "/internal/")
	}
	names := func(what string, in ast.Node) {
		ast.Inspect(in, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field: // of a struct: what is not exported is not shown
				return len(n.Names) == 0 || slices.ContainsFunc(n.Names, func(id *ast.Ident) bool {
					return id.IsExported() || !strings.HasPrefix(what, "struct ")
				})
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && internal[of.Name] {
					faults = append(faults,
						strings.TrimPrefix(what, "struct ")+" names "+of.Name+"."+n.Sel.Name)
				}
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			of := receiver(decl)
			if decl.Name.IsExported() && (of == "" || isShown(of)) {
				names(strings.TrimPrefix(of+"."+decl.Name.Name, "."), decl.Type)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					what := spec.Name.Name
					if !spec.Name.IsExported() {
						continue
					}
					if _, literal := spec.Type.(*ast.InterfaceType); spec.Assign.IsValid() &&
						!literal {
						faults = append(faults, what+" is an alias")
					}
					if _, ok := spec.Type.(*ast.StructType); ok {
						what = "struct " + what
					}
					names(what, spec.Type)
				case *ast.ValueSpec:
					if spec.Names[0].IsExported() && spec.Type != nil {
						names(spec.Names[0].Name, spec.Type)
					}
				}
			}
		}
	}
	return faults
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
	got := slices.Sorted(maps.Keys((&docs{files: []*ast.File{f}}).undocumented()))
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
		if _, ok := field.(options.Named); ok {
			continue
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
type docs struct{ files []*ast.File }

// parsePackage reads the package in dir, without its tests.
func parsePackage(t *testing.T, dir string) *docs {
	t.Helper()
	return parsePackageIn(t, token.NewFileSet(), dir)
}

// parsePackageIn is parsePackage with the places of the files in set.
func parsePackageIn(t *testing.T, set *token.FileSet, dir string) *docs {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	d := &docs{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, filepath.Join(dir, e.Name()), nil,
			parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		d.files = append(d.files, f)
	}
	return d
}

// undocumented is the exported names without a comment.
func (d *docs) undocumented() map[string]bool {
	bad := map[string]bool{}
	note := func(name string, comments ...*ast.CommentGroup) {
		last := name[strings.LastIndex(name, ".")+1:]
		commented := func(c *ast.CommentGroup) bool { return c.Text() != "" }
		if ast.IsExported(last) && !slices.ContainsFunc(comments, commented) {
			bad[name] = true
		}
	}
	for _, f := range d.files {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				switch of := receiver(decl); {
				case of == "":
					note(decl.Name.Name, decl.Doc)
				case isShown(of):
					note(of+"."+decl.Name.Name, decl.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					undocumentedIn(spec, decl, note)
				}
			}
		}
	}
	return bad
}

// isShown reports whether go doc shows the methods of a type: it is exported, or embedded in
// exported types.
func isShown(name string) bool {
	return ast.IsExported(name) || name == "keyspace" || name == "reader"
}

// undocumentedIn notes the names of one declaration of a type, variable or constant.
func undocumentedIn(spec ast.Spec, decl *ast.GenDecl, note func(string, ...*ast.CommentGroup)) {
	var whole *ast.CommentGroup // stands for the declaration, if that has one name
	if !decl.Lparen.IsValid() {
		whole = decl.Doc
	}
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			note(name.Name, whole, spec.Doc, spec.Comment)
		}
	case *ast.TypeSpec:
		name := spec.Name.Name
		if !spec.Name.IsExported() {
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
