package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testsOnly are functions, methods and types that no shipped code uses:
// "directory name" or "directory Type.method". The list only shrinks; an entry
// that is not needed any more fails the test.
var testsOnly = map[string]bool{}

// TestUnused holds the module to this: what is declared outside of tests is used
// outside of tests. What only tests call belongs to them.
func TestUnused(t *testing.T) {
	bad, err := unused(moduleRoot(t), module, testsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bad {
		t.Error(b)
	}
}

// TestUnusedFires plants a module with offenders, all of them used by a test or by
// themselves, beside code that is used in every way there is.
func TestUnusedFires(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module planted\n\ngo 1.25\n",
		"internal/a/a.go": `package a

import "planted/internal/b"

type T struct{ b.Embedded }

func (T) Called()      { b.Generic[int]() }
func (T) CalledNever() {}
func (T) Walk()        {}
func (T) String() string { return "" }

type walker interface{ Walk() }

func New() walker { helper(); return T{} }

func helper()         {}
func recursive(n int) { recursive(n - 1) }

type alone struct{ next *alone }

func (a *alone) loop() { a.next.loop() }

type Pair[K any] struct{ k K }

func (p *Pair[K]) First() K  { return p.k }
func (p *Pair[K]) Second() K { return p.k }

var _ = (&Pair[int]{}).First()
`,
		"internal/a/a_windows.go": "package a\n\nfunc init() { OnWindows() }\n\nfunc " +
			"windowsAlone() {}\n",
		"internal/a/b.go": "package a\n\nfunc OnWindows() {}\n",
		"internal/a/a_test.go": "package a\n\nfunc init() { recursive(1); T{}.CalledNever(); " +
			"new(alone).loop(); ForTests() }\n",
		"internal/b/b.go": "package b\n\ntype Embedded struct{}\n\nfunc (Embedded) " +
			"Promoted() {}\nfunc (Embedded) Unpromoted() {}\n\nfunc Generic[X any]() {}\n",
		"internal/a/c.go":       "package a\n\nfunc ForTests() {}\n\nfunc listed() {}\n",
		"internal/testkit/k.go": "package testkit\n\nfunc Kit() {}\n",
		"lsm/a.go": "package lsm\n\nimport \"planted/internal/a\"\n\ntype DB " +
			"struct{}\n\nfunc (*DB) Get() {}\n\nfunc (*DB) get() {}\n\nfunc Open() { a.New(); " +
			"var x a.T; x.Called(); x.Promoted() }\n",
		"cmd/x/main.go": "package main\n\nfunc main() {}\n\nfunc spare() {}\n",
	} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := unused(dir, "planted", map[string]bool{"internal/a listed": true,
		"internal/a helper": true})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range got {
		got[i], _, _ = strings.Cut(b, ": ")
	}
	slices.Sort(got)
	want := []string{
		"internal/a ForTests", "internal/a Pair.Second", "internal/a T.CalledNever",
		"internal/a alone", "internal/a alone.loop", "internal/a helper", "internal/a recursive",
		"internal/a windowsAlone", "internal/b Embedded.Unpromoted", "lsm DB.get",
	}
	if !slices.Equal(got, want) {
		t.Errorf("reported\n%q, want\n%q", got, want)
	}
}

// unused reports functions, methods and types of the module in dir that nothing but
// tests and themselves use. Whether something is used is decided by types where
// linux on amd64 compiles it without tags, and by name alone in the other files. A
// method by which its type implements an interface counts as used; so do the
// exported names of lsm, commands and kits.
func unused(dir, module string, allowed map[string]bool) ([]string, error) {
	u := &usage{module: module, declared: map[types.Object]string{}, used: map[types.Object]bool{},
		names: map[string]int{}, files: map[string]bool{}}
	u.checker = newChecker(newSources(), "amd64")
	u.checker.visit = u.visit
	if err := u.checker.checkAll(dir, "linux", "amd64"); err != nil {
		return nil, err
	}
	others, err := u.otherFiles(dir)
	if err != nil {
		return nil, err
	}
	u.implementations()
	reports := map[string]string{}
	for obj, key := range u.declared {
		if !u.used[obj] && u.names[obj.Name()] == 0 {
			reports[key] = "no shipped code uses it"
		}
	}
	for key, name := range others {
		// Its declaration is one of the times that the name occurs there.
		if !u.named(name) && u.names[name] <= 1 {
			reports[key] = "no shipped code has this name"
		}
	}
	var bad []string
	for key, why := range reports {
		if !allowed[key] {
			bad = append(bad, key+": "+why)
		}
	}
	for key := range allowed {
		if reports[key] == "" {
			bad = append(bad, key+": is used, or gone; take it off the list")
		}
	}
	slices.Sort(bad)
	return bad, nil
}

// usage is what is declared and used in a module.
type usage struct {
	module   string
	checker  *checker
	declared map[types.Object]string // -> its key in reports
	used     map[types.Object]bool
	names    map[string]int  // identifiers in files that were not checked
	files    map[string]bool // those that were, by absolute path

	types      []*types.TypeName
	interfaces []*types.Interface
}

// exempt reports whether what is declared under this name need not be used. Package errors calls
// Unwrap.
func exempt(dir, pkg, name string) bool {
	_, kit := kitOf(dir)
	return kit || pkg == "main" || name == "init" || name == "_" || name == "Unwrap" ||
		matchPath("lsm/", dir) && ast.IsExported(name)
}

func (u *usage) visit(pkg *types.Package, files []*ast.File, info *types.Info) {
	dir := strings.TrimPrefix(strings.TrimPrefix(pkg.Path(), u.module), "/")
	for _, f := range files {
		u.files[u.checker.fset.Position(f.Pos()).Filename] = true
		for _, d := range f.Decls {
			u.visitDecl(dir, pkg, d, info)
		}
	}
	for x, tv := range info.Types {
		if _, literal := x.(*ast.InterfaceType); literal {
			if i, ok := tv.Type.Underlying().(*types.Interface); ok {
				u.interfaces = append(u.interfaces, i)
			}
		}
	}
}

// visitDecl notes what d declares, and what it uses besides itself. A type is used
// by its methods no more than by itself.
func (u *usage) visitDecl(dir string, pkg *types.Package, d ast.Decl, info *types.Info) {
	specs := []ast.Node{d}
	if g, ok := d.(*ast.GenDecl); ok {
		specs = specs[:0]
		for _, s := range g.Specs {
			specs = append(specs, s)
		}
	}
	for _, s := range specs {
		var self []types.Object
		switch s := s.(type) {
		case *ast.FuncDecl:
			obj := info.Defs[s.Name]
			self = append(self, obj)
			key, name := s.Name.Name, s.Name.Name
			if recv := receiverType(obj); recv != nil {
				self = append(self, recv)
				key = recv.Name() + "." + name
			}
			if !exempt(dir, pkg.Name(), name) {
				u.declared[obj] = dir + " " + key
			}
		case *ast.TypeSpec:
			obj, _ := info.Defs[s.Name].(*types.TypeName)
			self = append(self, obj)
			u.types = append(u.types, obj)
			if !exempt(dir, pkg.Name(), s.Name.Name) {
				u.declared[obj] = dir + " " + s.Name.Name
			}
		}
		ast.Inspect(s, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if obj := origin(info.Uses[id]); obj != nil && !slices.Contains(self, obj) {
					u.used[obj] = true
				}
			}
			return true
		})
	}
}

// receiverType is the type that obj is a method of, nil when it is none.
func receiverType(obj types.Object) types.Object {
	f, ok := obj.(*types.Func)
	if !ok || f.Signature().Recv() == nil {
		return nil
	}
	t := f.Signature().Recv().Type()
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// origin is the declared object of one that may be of a generic type's instance.
func origin(obj types.Object) types.Object {
	if f, ok := obj.(*types.Func); ok {
		return f.Origin()
	}
	return obj
}

// implementations marks methods by which types implement interfaces of the module or of its
// imports.
func (u *usage) implementations() {
	u.interfaces = append(u.interfaces,
		types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
	for _, p := range u.checker.done {
		for _, name := range p.Scope().Names() {
			tn, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok {
				continue
			}
			if i, ok := tn.Type().Underlying().(*types.Interface); ok {
				u.interfaces = append(u.interfaces, i)
			}
		}
	}
	for _, tn := range u.types {
		if types.IsInterface(tn.Type()) {
			continue
		}
		p := types.NewPointer(tn.Type())
		for _, i := range u.interfaces {
			if i.NumMethods() == 0 || !types.Implements(p, i) {
				continue
			}
			for k := range i.NumMethods() {
				m := i.Method(k)
				obj, _, _ := types.LookupFieldOrMethod(p, true, m.Pkg(), m.Name())
				u.used[origin(obj)] = true
			}
		}
	}
}

// otherFiles reads the module's files that were not checked, of other systems and
// tags: they use by name. It returns what they declare, key -> name.
func (u *usage) otherFiles(dir string) (map[string]string, error) {
	declared := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, own := os.Stat(filepath.Join(p, "go.mod"))
			if n := d.Name(); p != dir && (own == nil || n[0] == '.' || n[0] == '_' ||
				n == "testdata" || made(n)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") || u.files[p] {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(p))
		if err != nil {
			return err
		}
		maps.Copy(declared, u.otherFile(filepath.ToSlash(rel), f))
		return nil
	})
	return declared, err
}

func (u *usage) otherFile(dir string, f *ast.File) map[string]string {
	declared := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			u.names[id.Name]++
		}
		return true
	})
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && !exempt(path.Clean(dir), f.Name.Name, fn.Name.Name) {
			declared[dir+" "+fn.Name.Name] = fn.Name.Name
		}
	}
	return declared
}

// named reports whether something of this name is declared or used in the files
// that were checked.
func (u *usage) named(name string) bool {
	for obj := range u.used {
		if obj != nil && obj.Name() == name {
			return true
		}
	}
	for obj := range u.declared {
		if obj.Name() == name {
			return true
		}
	}
	return false
}
