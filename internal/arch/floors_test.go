package arch

import (
	"fmt"
	"slices"
	"strings"
)

// floors is the house: a package imports only packages of a lower floor. Paths
// are relative to the module; a path that ends in a slash includes everything below it.
var floors = []struct {
	floor int
	paths []string
}{
	{0, []string{"internal/base", "internal/invariants", "internal/offheap", "internal/hist", "internal/epoch", "internal/events", "internal/preview", "internal/filelock"}},
	{1, []string{"internal/vfs", "internal/arena", "internal/prefix", "internal/radix", "internal/options", "internal/mergeop", "internal/locks", "internal/budget"}},
	{2, []string{"internal/record", "internal/batchrepr", "internal/cache", "internal/block", "internal/colblk", "internal/filter", "internal/inplace", "internal/directio", "internal/foreign", "internal/rangedel", "internal/current", "internal/fileid"}},
	{3, []string{"internal/memtable", "internal/sstable", "internal/sstable/blocktable", "internal/sstable/ldb", "internal/sstable/native", "internal/blob", "internal/manifest"}},
	{4, []string{"internal/files", "internal/owner", "internal/iters", "internal/commit", "internal/wal", "internal/picker", "internal/compact"}},
	{5, []string{"internal/tree", "internal/follow", "internal/jobs", "internal/txn", "internal/engine", "internal/backup", "internal/feed", "internal/transfer", "internal/repair", "internal/ingest"}},
	{6, []string{"lsm", "lsm/backup", "lsm/crashfs", "lsm/dump"}},
	{7, []string{"cabi/", "cmd/", "bindings/"}},
}

// kits help tests and benchmarks. They may import the engine's floors up to
// the one given; the engine imports none of them, its tests and commands may.
var kits = []struct {
	path string
	upTo int
}{
	{"internal/arch", -1},
	{"internal/workload/", -1},
	{"internal/sstable/sstabletest", 3},
	{"internal/testkit/", 6},
	{"internal/kvbench/", 6},
}

// sideways lists the edges inside a floor; everything may import invariants.
var sideways = map[[2]string]bool{
	{"internal/colblk", "internal/block"}:                      true,
	{"internal/sstable/ldb", "internal/sstable"}:               true,
	{"internal/sstable/blocktable", "internal/sstable"}:        true,
	{"internal/sstable/ldb", "internal/sstable/blocktable"}:    true,
	{"internal/sstable/native", "internal/sstable/blocktable"}: true,
	{"internal/sstable/native", "internal/sstable"}:            true,
	{"internal/options", "internal/mergeop"}:                   true,
	{"internal/offheap", "internal/base"}:                      true,
	{"internal/preview", "internal/base"}:                      true,
	{"internal/compact", "internal/iters"}:                     true,
	{"internal/compact", "internal/picker"}:                    true,
	{"internal/jobs", "internal/tree"}:                         true,
	{"internal/follow", "internal/tree"}:                       true,
	{"internal/engine", "internal/follow"}:                     true,
	{"internal/engine", "internal/tree"}:                       true,
	{"internal/engine", "internal/txn"}:                        true,
	{"internal/txn", "internal/tree"}:                          true,
	{"internal/engine", "internal/jobs"}:                       true,
	{"internal/engine", "internal/backup"}:                     true,
	{"internal/transfer", "internal/engine"}:                   true,
	{"internal/transfer", "internal/tree"}:                     true,
	{"internal/transfer", "internal/backup"}:                   true,
	{"lsm/backup", "lsm"}:                                      true,
	{"lsm/dump", "lsm"}:                                        true,
	{"internal/engine", "internal/feed"}:                       true,
	{"internal/ingest", "internal/engine"}:                     true,
	{"internal/ingest", "internal/tree"}:                       true,
	{"internal/ingest", "internal/txn"}:                        true,
}

// formats are the table formats. Only internal/files imports them: it picks by a
// table's magic, and everything else has readers and writers of internal/sstable.
var formats = []string{"internal/sstable/ldb", "internal/sstable/native"}

// blind lists imports that would break a promise although the floors allow them:
// metadata never opens a table.
var blind = map[string][]string{
	"internal/manifest": {"internal/sstable"},
}

// outside is what the module may import besides the standard library; the
// value says whether only tests may.
var outside = map[string]bool{
	"golang.org/x/sys":              false,
	"github.com/cespare/xxhash":     false,
	"github.com/golang/snappy":      false,
	"github.com/klauspost/compress": false,
	"github.com/google/go-cmp":      true,
}

func matchPath(pattern, p string) bool {
	if strings.HasSuffix(pattern, "/") {
		return p+"/" == pattern || strings.HasPrefix(p, pattern)
	}
	return p == pattern
}

func floorOf(p string) (int, bool) {
	for _, f := range floors {
		for _, q := range f.paths {
			if matchPath(q, p) {
				return f.floor, true
			}
		}
	}
	return 0, false
}

func kitOf(p string) (upTo int, ok bool) {
	for _, k := range kits {
		if matchPath(k.path, p) {
			return k.upTo, true
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
			bad = append(bad, fmt.Sprintf("%s: package is on no floor and is no kit", from))
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
		if fromFloor, ok := floorOf(from); ok && fromFloor < 7 && !f.isTest() {
			return "the engine does not import test and benchmark kits"
		}
		return ""
	}
	switch {
	case !known:
		return "imported package is on no floor"
	case slices.Contains(formats, to) && to != from && from != "internal/files" && !f.isTest():
		return "only internal/files imports table formats"
	case isKit && !f.isTest() && toFloor > kit:
		return fmt.Sprintf("this kit may see floors up to F%d, that is F%d", kit, toFloor)
	case isKit || to == from || to == "internal/invariants":
		return ""
	}
	if !f.isTest() {
		for _, b := range blind[from] {
			if b == to {
				return "metadata never opens a table"
			}
		}
	}
	fromFloor, _ := floorOf(from)
	if top, _, _ := strings.Cut(from, "/"); fromFloor == 7 && strings.HasPrefix(to, top+"/") {
		return "" // parts of one binding or of the commands
	}
	if toFloor < fromFloor || sideways[[2]string{from, to}] {
		return ""
	}
	if f.isTest() && toFloor == fromFloor {
		return ""
	}
	return fmt.Sprintf("F%d may import only lower floors, that is F%d", fromFloor, toFloor)
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
