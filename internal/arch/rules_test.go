package arch

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/token"
	"io"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// Caps on size, in lines or members.
const (
	capFile      = 800
	capFunction  = 100
	capPackage   = 4000 // without tests
	capDBFields  = 14
	capDBMutexes = 2
	capDBMethods = 40
	capOptions   = 60
)

// longFunctions may exceed capFunction: "path func" -> lines. The list only
// shrinks; an entry that is not needed any more fails the test.
var longFunctions = map[string]int{}

// largePackages may exceed capPackage: directory -> lines. The list only shrinks; an
// entry that is not needed any more fails the test.
var largePackages = map[string]int{
	// Point reads, iterators and known-empty ranges share the read state. Batches of values that
	// lie in logs, and values that expire there, have to be read by each of them.
	"internal/tree": 4100,
	// One file a verb, over flags, progress and exit codes that all of them share.
	"cmd/loam": 4700,
	// The public API is one package, and encryption has types of its own there: a provider, its
	// error, and what uses a key.
	"lsm": 4250,
}

// panics may call panic: "path func" -> why it cannot be reached by input or
// fault. The list only shrinks.
var panics = map[string]string{
	"lsm/iterator.go walk": "a nil error pointer, at the call: " +
		"without it a scan that fails would look whole",
	"internal/memory/offheap/slab.go holder": "memory that Alloc never gave out: " +
		"going on would corrupt other owners",
	"internal/memory/offheap/map_unix.go unmapped": "but for ENOMEM, munmap refuses only " +
		"addresses that were never mapped",
	"internal/memory/offheap/map_windows.go unmapPages": "as munmap",
	"internal/tree/memtable/lazy_order.go getOrdered": "Get has no error: the engine makes the " +
		"panic one, of a read that was to end early",
	"internal/os/seal/keys.go newGCM": "AES refuses keys of a wrong length alone, which are " +
		"refused before",
	"internal/testkit/callbacks/callbacks.go call": "a kit: the panic is what the database has " +
		"to survive",
}

func ruleFileSize(t *tree) []string {
	var bad []string
	t.goFiles(func(f *file) {
		if n := f.lines(); n > capFile {
			bad = append(bad, fmt.Sprintf("%s: %d lines, cap %d", f.path, n, capFile))
		}
	})
	return bad
}

// capColumns is how wide a line is at most; a tab counts four.
const capColumns = 100

// ruleColumns finds long lines of code, and of pages outside of tables, commands and addresses.
func ruleColumns(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		page := strings.HasSuffix(f.path, ".md")
		switch path.Ext(f.path) {
		case ".go", ".md", ".py", ".js", ".mjs", ".ts", ".c", ".h", ".hpp", ".java":
		default:
			continue
		}
		if strings.Contains(f.path, "testdata/") {
			continue
		}
		for i, line := range strings.Split(f.src, "\n") {
			n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			text := strings.TrimSpace(line)
			if n <= capColumns || page && (strings.HasPrefix(text, "|") ||
				strings.HasPrefix(line, "    ") || !strings.Contains(text, " ")) {
				continue
			}
			bad = append(bad, fmt.Sprintf("%s:%d: %d columns, cap %d", f.path, i+1, n, capColumns))
		}
	}
	return bad
}

func rulePackageSize(t *tree) []string { return packageSize(t, largePackages) }

func packageSize(t *tree, allowed map[string]int) []string {
	size := map[string]int{}
	t.goFiles(func(f *file) {
		if !f.isTest() {
			size[f.dir()] += f.lines()
		}
	})
	var bad []string
	for dir, n := range size {
		if limit := max(allowed[dir], capPackage); n > limit {
			bad = append(bad, fmt.Sprintf("%s: %d lines without tests, cap %d", dir, n, limit))
		}
	}
	for dir := range allowed {
		if size[dir] <= capPackage {
			bad = append(bad, dir+": is not large any more; take it off the list")
		}
	}
	sort.Strings(bad)
	return bad
}

func ruleFunctionSize(t *tree) []string { return functionSize(t, longFunctions) }

func functionSize(t *tree, allowed map[string]int) []string {
	var bad []string
	used := map[string]bool{}
	t.goFiles(func(f *file) {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := t.span(fn)
			if n <= capFunction {
				continue
			}
			key := f.path + " " + fn.Name.Name
			limit, listed := allowed[key]
			used[key] = listed
			if !listed || n > limit {
				bad = append(bad, fmt.Sprintf("%s: func %s has %d lines, cap %d", t.at(fn),
					fn.Name.Name, n, max(limit, capFunction)))
			}
		}
	})
	for key := range allowed {
		if !used[key] {
			bad = append(bad, key+": is not long any more; take it off the list")
		}
	}
	return bad
}

// structOf finds the struct type name in package dir.
func structOf(t *tree, dir, name string) *ast.StructType {
	var found *ast.StructType
	t.goFiles(func(f *file) {
		if f.dir() != dir || f.isTest() {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if ts, ok := n.(*ast.TypeSpec); ok && ts.Name.Name == name {
				if st, ok := ts.Type.(*ast.StructType); ok {
					found = st
				}
			}
			return true
		})
	})
	return found
}

// members counts a struct's fields and, of these, its mutexes.
func members(st *ast.StructType) (fields, mutexes int) {
	for _, f := range st.Fields.List {
		n := max(1, len(f.Names))
		fields += n
		if sel, ok := f.Type.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "sync" &&
				(sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex") {
				mutexes += n
			}
		}
	}
	return fields, mutexes
}

func ruleDB(t *tree) []string {
	var bad []string
	over := func(what string, n, limit int) {
		if n > limit {
			bad = append(bad, fmt.Sprintf("lsm.%s: %d, cap %d", what, n, limit))
		}
	}
	if st := structOf(t, "lsm", "DB"); st != nil {
		fields, mutexes := members(st)
		over("DB fields", fields, capDBFields)
		over("DB mutexes", mutexes, capDBMutexes)
	}
	if st := structOf(t, "lsm", "Options"); st != nil {
		fields, _ := members(st)
		over("Options fields", fields, capOptions)
	}
	methods := 0
	t.goFiles(func(f *file) {
		if f.dir() != "lsm" || f.isTest() {
			return
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv != nil && fn.Name.IsExported() && receiver(fn) == "DB" {
				methods++
			}
		}
	})
	over("DB exported methods", methods, capDBMethods)
	return bad
}

func receiver(fn *ast.FuncDecl) string {
	x := fn.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// platforms are the systems and processors that the engine supports.
var platforms = func() (out [][2]string) {
	for _, goos := range []string{"linux", "darwin", "windows", "freebsd"} {
		for _, arch := range []string{"amd64", "arm64"} {
			out = append(out, [2]string{goos, arch})
		}
	}
	return out
}()

// fallbacks stand for every other system and processor: the plain versions of
// what the supported ones do with their own calls are for them.
var fallbacks = [][2]string{{"js", "wasm"}, {"linux", "riscv64"}, {"linux", "386"}}

// tagSets are the build tags that the project uses, one at a time.
var tagSets = [][]string{nil, {"invariants"}, {"race"}, {"unmap"}}

// ruleCompiled finds files that no supported build includes.
func ruleCompiled(t *tree) []string {
	var bad []string
	t.goFiles(func(f *file) {
		if !compiled(f) {
			bad = append(bad, f.path+": no supported system and tag compiles it")
		}
	})
	return bad
}

func compiled(f *file) bool {
	for _, p := range slices.Concat(platforms, fallbacks) {
		for _, tags := range tagSets {
			ctx := build.Default
			ctx.GOOS, ctx.GOARCH, ctx.BuildTags = p[0], p[1], tags
			ctx.CgoEnabled = matchPath("cabi/", f.dir())
			ctx.JoinPath = path.Join
			ctx.OpenFile = func(string) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(f.src)), nil
			}
			if ok, err := ctx.MatchFile(f.dir(), path.Base(f.path)); err == nil && ok {
				return true
			}
		}
	}
	return false
}

var bannedNames = []string{"util", "utils", "common", "misc", "helper", "helpers", "shared",
	"tools"}

func ruleNames(t *tree) []string {
	var bad []string
	t.goFiles(func(f *file) {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		for _, b := range bannedNames {
			if name == b || path.Base(f.dir()) == b {
				bad = append(bad, fmt.Sprintf("%s: a package named %q says nothing", f.path, b))
			}
		}
	})
	return bad
}

// rulePackageDoc wants "Package x ..." (or a command's comment) once a package.
func rulePackageDoc(t *tree) []string {
	has := map[string]bool{}
	t.goFiles(func(f *file) {
		if f.isTest() {
			return
		}
		doc := f.ast.Doc.Text()
		ok := f.command() && doc != "" || strings.HasPrefix(doc, "Package "+f.ast.Name.Name+" ")
		has[f.dir()] = has[f.dir()] || ok
	})
	var bad []string
	for dir, ok := range has {
		if !ok {
			bad = append(bad, dir+": no package comment")
		}
	}
	sort.Strings(bad)
	return bad
}

func ruleExits(t *tree) []string { return exits(t, panics) }

// exits finds calls that end the process or panic, outside tests and commands.
func exits(t *tree, allowed map[string]string) []string {
	var bad []string
	used := map[string]bool{}
	t.goFiles(func(f *file) {
		if f.isTest() || f.command() || f.dir() == "internal/base/invariants" ||
			onlyTagged(f, "invariants") || onlyTagged(f, "unmap") {
			return
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			name := ""
			if ok {
				name = fn.Name.Name
			}
			key := f.path + " " + name
			ast.Inspect(d, func(n ast.Node) bool {
				what := exitCall(n)
				if what == "" {
					return true
				}
				if _, listed := allowed[key]; listed && what == "panic" {
					used[key] = true
					return true
				}
				bad = append(bad, fmt.Sprintf("%s: %s in func %s", t.at(n), what, name))
				return true
			})
		}
	})
	for key := range allowed {
		if !used[key] {
			bad = append(bad, key+": panics no more; take it off the list")
		}
	}
	return bad
}

// onlyTagged reports whether no build without the tag includes f.
func onlyTagged(f *file, tag string) bool {
	for _, g := range f.ast.Comments {
		for _, c := range g.List {
			if c.Pos() > f.ast.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			x, err := constraint.Parse(c.Text)
			return err == nil && !x.Eval(func(t string) bool { return t != tag })
		}
	}
	return false
}

func exitCall(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		if fn.Name == "panic" {
			return "panic"
		}
	case *ast.SelectorExpr:
		x, ok := fn.X.(*ast.Ident)
		if !ok {
			return ""
		}
		name := x.Name + "." + fn.Sel.Name
		switch {
		case name == "os.Exit", name == "syscall.Exit", name == "unix.Exit",
			name == "runtime.Goexit":
			return name
		case x.Name == "log" && (strings.HasPrefix(fn.Sel.Name, "Fatal") ||
			strings.HasPrefix(fn.Sel.Name, "Panic")):
			return name
		}
	}
	return ""
}

// machinePath matches absolute paths that exist on somebody's machine only.
var machinePath = regexp.MustCompile(`(^|[\s"'` + "`" +
	`(=:])/(work|home|root|Users)/\w|[A-Z]:\\Users\\`)

func rulePaths(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		for i, line := range strings.Split(f.src, "\n") {
			if m := machinePath.FindString(line); m != "" {
				bad = append(bad, fmt.Sprintf("%s:%d: path of a particular machine: %q", f.path,
					i+1, strings.TrimSpace(m)))
			}
		}
	}
	return bad
}

// errName matches identifiers that hold an error.
var errName = regexp.MustCompile(`^(e|err|.*Err|.*[eE]rror|err[A-Z0-9].*)$`)

// ruleErrors finds type switches and assertions on errors: a wrapped error
// passes through them unseen. errors.Is and errors.As do not have that fault.
func ruleErrors(t *tree) []string {
	var bad []string
	t.goFiles(func(f *file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			ta, ok := n.(*ast.TypeAssertExpr)
			if !ok {
				return true
			}
			name := ""
			switch x := ta.X.(type) {
			case *ast.Ident:
				name = x.Name
			case *ast.SelectorExpr:
				name = x.Sel.Name
			}
			if errName.MatchString(name) {
				bad = append(bad,
					fmt.Sprintf("%s: type assertion or switch on error %s; use errors.Is or "+
						"errors.As", t.at(ta), name))
			}
			return true
		})
	})
	return bad
}

var marker = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

// ruleMarkers finds notes about work that was left undone.
func ruleMarkers(t *tree) []string {
	var bad []string
	t.goFiles(func(f *file) {
		for _, g := range f.ast.Comments {
			for _, c := range g.List {
				if m := marker.FindString(c.Text); m != "" {
					bad = append(bad, fmt.Sprintf("%s: %s", t.at(c), m))
				}
			}
		}
	})
	return bad
}

var testOnly = regexp.MustCompile(`(?i)(^test[A-Z_]|testonly|fortest(s|ing)?$)`)

// ruleTestOnly finds exported names in shipped packages that serve tests only.
func ruleTestOnly(t *tree) []string {
	var bad []string
	t.goFiles(func(f *file) {
		if _, isKit := kitOf(f.dir()); isKit || f.isTest() {
			return
		}
		for _, d := range f.ast.Decls {
			var names []*ast.Ident
			switch d := d.(type) {
			case *ast.FuncDecl:
				names = append(names, d.Name)
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names = append(names, s.Name)
					case *ast.ValueSpec:
						names = append(names, s.Names...)
					}
				}
			}
			i := slices.IndexFunc(names, func(id *ast.Ident) bool {
				return testOnly.MatchString(id.Name)
			})
			if i >= 0 {
				bad = append(bad, fmt.Sprintf("%s: %s serves tests only; use export_test.go",
					t.at(names[i]), names[i].Name))
			}
		}
	})
	return bad
}
