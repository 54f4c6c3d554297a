package arch

import (
	"fmt"
	"slices"
	"strings"
)

// floors are the folders of the house, lowest first. A folder has the packages below it. A
// package imports packages of lower folders and of its own; upward lists the exceptions.
var floors = []string{
	"internal/base", "internal/memory", "internal/os", "internal/format", "internal/tree",
	"internal/store", "internal/feature", "lsm", "outside",
}

// outside are the folders above lsm.
var outsides = []string{"cabi", "cmd", "bindings"}

// features is the folder of what a database can do besides reading and writing.
const features = "internal/feature"

// upward are the imports of a higher folder, or of another feature, each with its reason.
var upward = map[[2]string]string{
	{"internal/tree", "internal/store/files"}: "a read opens the tables that " +
		"it needs",
	{"internal/feature/txn", "internal/feature/locks"}: "key locks are for " +
		"transactions alone",
	{"internal/feature/transfer", "internal/feature/backup"}: "an export is staged as a " +
		"checkpoint is",
}

// kits help tests and benchmarks. They may import the folders up to the one given, "" being none;
// the engine imports no kit, its tests and commands may.
var kits = []struct{ path, upTo string }{
	{"internal/arch", ""},
	{"internal/workload/", ""},
	{"internal/testkit/tables", "internal/format"},
	{"internal/testkit/", "lsm"},
	{"internal/kvbench/", "lsm"},
	{"bench/table", ""},
	{"packaging", ""},
	{"examples/importer", "lsm"},
}

// formats are the table formats. Only internal/store/files imports them: it picks by a
// table's magic, and everything else has readers and writers of internal/format/sstable.
var formats = []string{"internal/format/sstable/ldb", "internal/format/sstable/native"}

// blind lists imports that would break a promise although the floors allow them:
// metadata never opens a table.
var blind = map[string][]string{
	"internal/format/manifest": {"internal/format/sstable"},
}

// outside is what the module may import besides the standard library; the
// value says whether only tests may.
var outside = map[string]bool{
	"golang.org/x/sys":              false,
	"golang.org/x/crypto":           false, // scrypt, which the standard library lacks
	"github.com/cespare/xxhash":     false,
	"github.com/golang/snappy":      false,
	"github.com/klauspost/compress": false,
	"github.com/google/go-cmp":      true,
}

// ofCommands are the libraries that one command imports, by the directory of it: what imports the
// engine builds without them.
var ofCommands = map[string]string{
	"github.com/spf13/cobra": "cmd/loam",
	"github.com/spf13/pflag": "cmd/loam",
	"golang.org/x/term":      "cmd/loam",
}

func matchPath(pattern, p string) bool {
	if strings.HasSuffix(pattern, "/") {
		return p+"/" == pattern || strings.HasPrefix(p, pattern)
	}
	return p == pattern
}

// floorOf is the rank of the folder that a package is in.
func floorOf(p string) (int, bool) {
	for _, o := range outsides {
		if matchPath(o+"/", p) {
			p = "outside"
		}
	}
	for i, f := range floors {
		if matchPath(f+"/", p) {
			return i, true
		}
	}
	return 0, false
}

// kitOf is the rank up to which a kit may import; -1: nothing.
func kitOf(p string) (upTo int, ok bool) {
	for _, k := range kits {
		if matchPath(k.path, p) {
			return slices.Index(floors, k.upTo), true
		}
	}
	return 0, false
}

// ruleFloors checks every import of the module against the floors.
func ruleFloors(t *tree) []string {
	var bad []string
	homeless := map[string]bool{}
	t.goFiles(func(f *file) {
		from := f.dir()
		_, onFloor := floorOf(from)
		_, isKit := kitOf(from)
		if !onFloor && !isKit && !homeless[from] {
			homeless[from] = true
			bad = append(bad, fmt.Sprintf("%s: package is in no folder of the house and is no kit",
				from))
			return
		}
		for _, im := range f.imports() {
			if why := checkImport(f, from, im); why != "" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", f.path, im, why))
			}
		}
	})
	return bad
}

// checkImport says why file f of package from may not import im, or "".
func checkImport(f *file, from, im string) string {
	to, own := strings.CutPrefix(im, module+"/")
	if !own {
		return checkOutside(f, from, im)
	}
	kit, isKit := kitOf(from)
	toFloor, known := floorOf(to)
	if _, toKit := kitOf(to); toKit {
		if fromFloor, ok := floorOf(from); ok && !isKit && fromFloor < len(floors)-1 &&
			!f.isTest() {
			return "the engine does not import test and benchmark kits"
		}
		return ""
	}
	switch {
	case !known:
		return "imported package is in no folder of the house"
	case slices.Contains(formats, to) && to != from && from != "internal/store/files" &&
		!f.isTest():
		return "only internal/store/files imports table formats"
	case isKit && !f.isTest() && toFloor > kit:
		return "this kit may not import " + floors[toFloor]
	case isKit || to == from || to == "internal/base/invariants":
		return ""
	}
	if !f.isTest() && slices.Contains(blind[from], to) {
		return "metadata never opens a table"
	}
	fromFloor, _ := floorOf(from)
	if _, ok := upward[[2]string{from, to}]; ok || toFloor < fromFloor {
		return ""
	}
	if own := floors[fromFloor]; toFloor == fromFloor && (own != features || f.isTest()) {
		return ""
	}
	return fmt.Sprintf("%s may not import %s", floors[fromFloor], floors[toFloor])
}

// checkOutside checks imports that are not of the module.
func checkOutside(f *file, from, im string) string {
	if im == "C" && !matchPath("cabi/", from) {
		return "cgo belongs to cabi alone"
	}
	_, isKit := kitOf(from)
	if im == "testing" && !f.isTest() && !isKit {
		return "shipped code does not import testing"
	}
	first, _, _ := strings.Cut(im, "/")
	if !strings.Contains(first, ".") {
		return ""
	}
	for dep, command := range ofCommands {
		if im == dep || strings.HasPrefix(im, dep+"/") {
			if !matchPath(command+"/", from) {
				return "for " + command + " only"
			}
			return ""
		}
	}
	for dep, testOnly := range outside {
		if im == dep || strings.HasPrefix(im, dep+"/") {
			if testOnly && !f.isTest() && !isKit {
				return "for tests only"
			}
			return ""
		}
	}
	return "not on the list of dependencies"
}
