package arch

import (
	"fmt"
	"strings"
	"testing"
)

// rules are the laws of the tree, each with offenders that it must report and
// neighbours that it must leave alone.
var rules = []struct {
	name      string
	check     func(*tree) []string
	offenders map[string]map[string]string // what the report says -> sources
	innocent  map[string]string
}{
	{"floors", ruleFloors, floorOffenders, floorInnocent},
	{"file size", ruleFileSize, map[string]map[string]string{
		"801 lines, cap 800": {"lsm/a.go": "package lsm\n" + strings.Repeat("\n", 800)},
	}, map[string]string{"lsm/a.go": "package lsm\n" + strings.Repeat("\n", 799)}},
	{"package size", func(t *tree) []string {
		return packageSize(t, nil)
	}, map[string]map[string]string{
		"lsm: 4001 lines": {
			"lsm/a.go": "package lsm\n" + strings.Repeat("\n", 2000),
			"lsm/b.go": "package lsm\n" + strings.Repeat("\n", 1999),
		},
	}, map[string]string{
		"lsm/a.go":      "package lsm\n" + strings.Repeat("\n", 2999),
		"lsm/a_test.go": "package lsm\n" + strings.Repeat("\n", 4000),
	}},
	{"package list shrinks", func(t *tree) []string {
		return packageSize(t, map[string]int{"lsm": 4100})
	}, map[string]map[string]string{
		"take it off the list": {"lsm/a.go": "package lsm\n" + strings.Repeat("\n", 2999)},
		"lsm: 4101 lines": {"lsm/a.go": "package lsm\n" + strings.Repeat("\n", 2000),
			"lsm/b.go": "package lsm\n" + strings.Repeat("\n", 2099)},
	}, map[string]string{"lsm/a.go": "package lsm\n" + strings.Repeat("\n", 4099)}},
	{"function size", func(t *tree) []string {
		return functionSize(t, nil)
	}, map[string]map[string]string{
		"func f has 101 lines": {"lsm/a.go": "package lsm\n\nfunc f() {\n" +
			strings.Repeat("\n", 99) + "}\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\nfunc f() {\n" + strings.Repeat("\n", 98) +
		"}\n"}},
	{"function list shrinks", func(t *tree) []string {
		return functionSize(t, map[string]int{"lsm/a.go f": 150})
	}, map[string]map[string]string{
		"take it off the list": {"lsm/a.go": "package lsm\n\nfunc f() {}\n"},
		"func f has 151 lines, cap 150": {"lsm/a.go": "package lsm\n\nfunc f() {\n" +
			strings.Repeat("\n", 149) + "}\n"},
		"func g has 120 lines, cap 100": {"lsm/a.go": "package lsm\n\nfunc g() {\n" +
			strings.Repeat("\n", 118) + "}\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\nfunc f() {\n" + strings.Repeat("\n", 148) +
		"}\n"}},
	{"DB and Options", ruleDB, dbOffenders(), dbInnocent()},
	{"every file compiled", ruleCompiled, map[string]map[string]string{
		"lsm/a_plan9.go: no supported": {"lsm/a_plan9.go": "package lsm\n"},
		"lsm/b.go: no supported":       {"lsm/b.go": "//go:build ignore\n\npackage lsm\n"},
		"lsm/c.go: no supported": {"lsm/c.go": "//go:build linux && windows\n" +
			"\npackage lsm\n"},
	}, map[string]string{
		"lsm/a.go":         "//go:build invariants\n\npackage lsm\n",
		"lsm/b.go":         "//go:build !linux\n\npackage lsm\n",
		"lsm/c_freebsd.go": "package lsm\n",
		"lsm/d.go":         "//go:build arm64 && !race\n\npackage lsm\n",
		"cabi/e.go":        "//go:build cgo\n\npackage main\n",
	}},
	{"clocks", func(t *tree) []string {
		return goByClock(t, map[string]string{"lsm/b_test.go n": "a reason"})
	}, clockOffenders, clockInnocent},
	{"waits", ruleWaits, map[string]map[string]string{
		"a.py:2: sleeps":     {"bindings/python/tests/a.py": "import time\ntime.sleep(1)\n"},
		"b.py:1: sleeps":     {"bindings/python/tests/b.py": "await asyncio.sleep(0.1)\n"},
		"c.py:1: sleeps":     {"bindings/python/tests/c.py": "threading.Event().wait(0.2)\n"},
		"d.js:1: sleeps":     {"bindings/node/test/d.js": "setTimeout(resolve, 5)\n"},
		"ttl.js:2: sleeps":   {"bindings/node/test/ttl.js": "setTimeout(f)\nsetTimeout(f)\n"},
		"ttl.js: sleeps les": {"bindings/node/test/ttl.js": "\n"},
	}, map[string]string{
		"bindings/node/timers.js":    "setTimeout(resolve, 5)\n",
		"bindings/node/test/ttl.js":  "setTimeout(resolve, 5)\n",
		"bindings/python/tests/a.py": "await asyncio.sleep(0)\nevent.wait()\n",
	}},
	{"names", ruleNames, map[string]map[string]string{
		`named "util"`:    {"internal/util/a.go": "package util\n"},
		`named "helpers"`: {"internal/x/a_test.go": "package helpers_test\n"},
	}, map[string]string{"internal/os/vfs/util.go": "package vfs\n"}},
	{"package comment", rulePackageDoc, map[string]map[string]string{
		"lsm: no package comment":      {"lsm/a.go": "package lsm\n"},
		"lsm: no package comment (2)":  {"lsm/a.go": "// Something else.\npackage lsm\n"},
		"cmd/loam: no package comment": {"cmd/loam/main.go": "package main\n"},
	}, map[string]string{
		"lsm/a.go":         "package lsm\n",
		"lsm/doc.go":       "// Package lsm is an engine.\npackage lsm\n",
		"cmd/loam/main.go": "// Loam looks into databases.\npackage main\n",
		"lsm/a_test.go":    "package lsm_test\n",
	}},
	{"exits", func(t *tree) []string { return exits(t, nil) }, map[string]map[string]string{
		"panic in func f":   {"lsm/a.go": "package lsm\n\nfunc f() { panic(1) }\n"},
		"os.Exit in func g": {"lsm/a.go": "package lsm\n\nfunc g() { defer os.Exit(1) }\n"},
		"lsm/off.go:5: panic": {"lsm/off.go": "//go:build invariants || linux\n\npackage " +
			"lsm\n\nfunc f() { panic(1) }\n"},
		"log.Fatalf in func": {"lsm/a.go": "package lsm\n\nvar h = func() { log.Fatalf(\"\") }\n"},
	}, map[string]string{
		"lsm/a_test.go":    "package lsm\n\nfunc f() { panic(1) }\n",
		"cmd/loam/main.go": "package main\n\nfunc main() { os.Exit(1) }\n",
		"lsm/on.go": "//go:build invariants\n\npackage lsm\n\nfunc f() { " +
			"panic(1) }\n",
		"internal/base/invariants/a.go": "package invariants\n\nfunc f() { panic(1) }\n",
		"lsm/b.go":                      "package lsm\n\nfunc f() { log.Info(1) }\n",
	}},
	{"panic list shrinks", func(t *tree) []string {
		return exits(t, map[string]string{"lsm/a.go f": "why"})
	}, map[string]map[string]string{
		"lsm/a.go f: panics no more": {"lsm/a.go": "package lsm\n\nfunc f() {}\n"},
		"os.Exit in func f":          {"lsm/a.go": "package lsm\n\nfunc f() { os.Exit(1) }\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\nfunc f() { panic(1) }\n"}},
	{"machine paths", rulePaths, map[string]map[string]string{
		`"/ho`:        {"lsm/a.go": "package lsm\n\nvar d = \"/ho" + "me/someone/db\"\n"},
		`README.md:2`: {"README.md": "x\ncd /wo" + "rk/main\n"},
		`Makefile:1`:  {"Makefile": "D=/ro" + "ot/x\n"},
		`C:\\Users\\`: {"lsm/a.go": "// C:\\Us" + "ers\\me\npackage lsm\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\n// a/home/b and https://x.org/work/y\nvar d " +
		"= \"/usr/share\"\n"}},
	{"errors", ruleErrors, map[string]map[string]string{
		"lsm/a.go:4: type assertion or switch on error err": {"lsm/a.go": "package lsm\n\n" +
			"func f(err error) {\n\tswitch err.(type) {\n\t}\n}\n"},
		"lsm/a.go:4: type assertion or switch on error r.err": {"lsm/a.go": "package lsm\n\n" +
			"func f() {\n\t_, _ = r.err.(*E)\n}\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\nfunc f(v any) {\n\tswitch v.(type) " +
		"{\n\t}\n}\n"}},
	{"columns", ruleColumns, map[string]map[string]string{
		"lsm/a.go:3: 101 columns": {"lsm/a.go": "package lsm\n\n\t// " +
			strings.Repeat("x", 94) + "\n"},
		"docs/a.md:1: 103 columns": {"docs/a.md": "a word " + strings.Repeat("x", 96) + "\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\n// " + strings.Repeat("x", 97) + "\n",
		"docs/a.md": "| " + strings.Repeat("x", 200) + " |\n"}},
	{"markers", ruleMarkers, map[string]map[string]string{
		"lsm/a.go:3: TO" + "DO": {"lsm/a.go": "package lsm\n\n// TO" + "DO: finish\n"},
		"lsm/a.go:4: FIX" + "ME": {"lsm/a.go": "package lsm\n\nfunc f() {\n\t/* FIX" +
			"ME */\n}\n"},
	}, map[string]string{"lsm/a.go": "package lsm\n\n// A todo list is data.\n"}},
	{"test-only API", ruleTestOnly, map[string]map[string]string{
		"lsm/a.go:3: TestFlush":   {"lsm/a.go": "package lsm\n\nfunc TestFlush() {}\n"},
		"lsm/a.go:3: OpenForTest": {"lsm/a.go": "package lsm\n\nfunc OpenForTest() {}\n"},
		"lsm/a.go:3: TestOnlyX":   {"lsm/a.go": "package lsm\n\nvar TestOnlyX int\n"},
	}, map[string]string{
		"lsm/export_test.go": "package lsm\n\nfunc FlushForTest() {}\n",
		"lsm/a.go":           "package lsm\n\nfunc Latest() {}\n",
	}},
}

func mustTree(t *testing.T, sources map[string]string) *tree {
	t.Helper()
	tr, err := newTree(sources)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestRulesFire plants offenders and wants each rule to name them.
func TestRulesFire(t *testing.T) {
	for _, r := range rules {
		if len(r.offenders) == 0 || r.innocent == nil {
			t.Errorf("%s: no fixture", r.name)
		}
		for want, sources := range r.offenders {
			want, _, _ = strings.Cut(want, " (")
			want = strings.ReplaceAll(want, "error r.err", "error err")
			got := strings.Join(r.check(mustTree(t, sources)), "\n")
			if !strings.Contains(got, want) {
				t.Errorf("%s: want a report of %q, got %q", r.name, want, got)
			}
		}
		if got := r.check(mustTree(t, r.innocent)); len(got) > 0 {
			t.Errorf("%s: fires on innocent code: %q", r.name, got)
		}
	}
}

// TestTree holds the module to the rules.
func TestTree(t *testing.T) {
	tr := loadModule(t)
	if len(tr.files) < 10 {
		t.Fatalf("only %d files found: the walk is broken", len(tr.files))
	}
	for _, r := range []struct {
		name  string
		check func(*tree) []string
	}{
		{"floors", ruleFloors}, {"file size", ruleFileSize},
		{"columns", ruleColumns}, {"package size", rulePackageSize},
		{"function size", ruleFunctionSize}, {"DB and Options", ruleDB},
		{"every file compiled", ruleCompiled}, {"names", ruleNames},
		{"package comment", rulePackageDoc}, {"exits", ruleExits}, {"machine paths", rulePaths},
		{"errors", ruleErrors}, {"markers", ruleMarkers}, {"test-only API", ruleTestOnly},
		{"clocks", ruleClocks}, {"waits", ruleWaits},
	} {
		for _, b := range r.check(tr) {
			t.Errorf("%s: %s", r.name, b)
		}
	}
}

var floorOffenders = map[string]map[string]string{
	"internal/os may not import internal/format": imports("internal/os/vfs/a.go",
		module+"/internal/format/record"),
	"internal/format may not import internal/tree": imports("internal/format/manifest/a.go",
		module+"/internal/tree/memtable"),
	"internal/memory may not import lsm": imports("internal/memory/cache/a_test.go", module+"/lsm"),
	"internal/feature may not import internal/feature": imports("internal/feature/feed/a.go",
		module+"/internal/feature/backup"),
	"internal/store may not import internal/feature": imports("internal/store/a.go",
		module+"/internal/feature/ingest"),
	"metadata never opens a table": imports("internal/format/manifest/a.go",
		module+"/internal/format/sstable"),
	"only internal/store/files imports table formats": imports("internal/feature/repair/a.go",
		module+"/internal/format/sstable/ldb"),
	"only internal/store/files imports table formats (2)": imports("internal/tree/compact/a.go",
		module+"/internal/format/sstable/native"),
	"only internal/store/files imports table formats (3)": imports(
		"internal/format/sstable/native/a.go", module+"/internal/format/sstable/ldb"),
	"only internal/store/files imports table formats (4)": imports("internal/testkit/a.go",
		module+"/internal/format/sstable/ldb"),
	"only internal/store/files imports table formats (5)": imports("lsm/a.go",
		module+"/internal/format/sstable/ldb"),
	"internal/novel: package is in no folder": imports("internal/novel/a.go"),
	"imported package is in no folder":        imports("lsm/a.go", module+"/internal/novel"),
	"the engine does not import test":         imports("lsm/a.go", module+"/internal/testkit"),
	"this kit may not import internal/base": imports("internal/workload/a.go",
		module+"/internal/base"),
	"this kit may not import outside":      imports("internal/testkit/a.go", module+"/cmd/loam"),
	"not on the list of dependencies":      imports("lsm/a.go", "github.com/some/thing"),
	"for tests only":                       imports("lsm/a.go", "github.com/google/go-cmp/cmp"),
	"cgo belongs to cabi alone":            imports("lsm/a.go", "C"),
	"shipped code does not import testing": imports("lsm/a.go", "testing"),
}

var floorInnocent = map[string]string{
	"lsm/a.go": source("lsm", "fmt", "golang.org/x/sys/unix",
		module+"/internal/tree/compact", module+"/internal/base"),
	"lsm/a_test.go": source("lsm", "testing", "github.com/google/go-cmp/cmp",
		module+"/internal/testkit"),
	"internal/format/sstable/ldb/a.go": source("ldb", module+"/internal/format/sstable",
		module+"/internal/base/invariants"),
	"internal/store/files/a.go": source("files", module+"/internal/format/sstable/ldb",
		module+"/internal/format/sstable/native"),
	"internal/store/a.go": source("store", module+"/internal/store/files"),
	"internal/feature/repair/a.go": source("repair", module+"/internal/store/files",
		module+"/internal/format/sstable"),
	"internal/feature/repair/a_test.go": source("repair", module+"/internal/format/sstable/ldb",
		module+"/internal/feature/ingest"),
	"internal/base/a.go":    source("base", module+"/internal/base/invariants"),
	"cmd/kvbench/a.go":      source("main", module+"/internal/workload", module+"/lsm"),
	"cabi/a.go":             source("main", "C", module+"/lsm", module+"/cabi/internal/stk"),
	"internal/testkit/a.go": source("testkit", "testing", module+"/lsm"),
}

func source(pkg string, imports ...string) string {
	var b strings.Builder
	b.WriteString("package " + pkg + "\n")
	for _, im := range imports {
		fmt.Fprintf(&b, "import _ %q\n", im)
	}
	return b.String()
}

func imports(path string, list ...string) map[string]string {
	return map[string]string{path: source("p", list...)}
}

func fields(typ string, names ...string) string {
	return "package lsm\n\ntype " + typ + " struct {\n\t" + strings.Join(names, "\n\t") + "\n}\n"
}

func numbered(format string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(format, i)
	}
	return out
}

func dbOffenders() map[string]map[string]string {
	return map[string]map[string]string{
		"DB fields: 15": {"lsm/db.go": fields("DB",
			append(numbered("f%d int", 13), "a, b bool")...)},
		"DB mutexes: 3":      {"lsm/db.go": fields("DB", "a, b sync.Mutex", "sync.RWMutex")},
		"Options fields: 61": {"lsm/o.go": fields("Options", numbered("F%d int", 61)...)},
		"DB exported methods: 41": {"lsm/db.go": "package lsm\n" +
			strings.Join(numbered("func (d *DB) M%d() {}", 41), "\n")},
	}
}

func dbInnocent() map[string]string {
	return map[string]string{
		"lsm/db.go": fields("DB", append(numbered("f%d int", 12), "a, b sync.Mutex")...),
		"lsm/o.go":  fields("Options", numbered("F%d int", 60)...),
		"lsm/m.go": "package lsm\n" + strings.Join(numbered("func (d *DB) M%d() {}", 40),
			"\n") + "\nfunc (d *DB) m() {}\nfunc (s *Snapshot) M() {}\n",
		"internal/x/d.go": fields("DB", numbered("f%d int", 30)...),
	}
}
