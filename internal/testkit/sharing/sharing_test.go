package sharing

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

const (
	module = "github.com/loamdb/loam"
	here   = "internal/testkit/sharing"
)

// result is what the program says of an operation.
type result struct {
	Lines  [][]string // functions that write each cache line that readers share
	Writes int        // lines written at all
}

// TestSharedLines holds docs/locking.md to this: an operation writes no cache line that
// other readers write too, or a writer, but those in its row of the table.
func TestSharedLines(t *testing.T) {
	if !testkit.Full() {
		t.Skip("builds the engine")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	want := table(t, filepath.Join(root, "docs", "locking.md"))
	got := count(t, root, nil)
	for name, r := range got {
		if r.Writes == 0 {
			t.Errorf("%s: nothing was recorded", name)
		}
		allowed, ok := want[name]
		if !ok {
			t.Errorf("docs/locking.md has no row for %q, which shares %v", name, r.Lines)
			continue
		}
		if extra := beyond(r, allowed); len(extra) > 0 {
			t.Errorf("%s: shared lines that docs/locking.md does not list: %v", name, extra)
		}
		if all := slices.Concat(r.Lines...); len(allowed) > 0 {
			for _, site := range allowed {
				if !slices.Contains(all, site) {
					t.Errorf("%s: %s shares no line any more: strike it from docs/locking.md", name,
						site)
				}
			}
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("docs/locking.md has a row for %q, which is not measured", name)
		}
	}
}

// TestSharedLinesAreFound plants what TestSharedLines is to find: a counter of Gets
// that all share, and references on memtables by iterators.
func TestSharedLinesAreFound(t *testing.T) {
	if !testkit.Full() {
		t.Skip("builds the engine a second time")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	want := table(t, filepath.Join(root, "docs", "locking.md"))
	got := count(t, root, func(name, text string) string {
		switch name {
		case "internal/tree/get.go":
			text = strings.Replace(text, "\t\"sync\"\n", "\t\"sync\"\n\t\"sync/atomic\"\n", 1)
			text = strings.Replace(text, "\th.state, seq, err = t.stateFor(h.guard, snap)\n",
				"\th.state, seq, err = t.stateFor(h.guard, snap)\n\tplanted.Add(1)\n", 1)
			return text + "\nvar planted atomic.Int64\n"
		case "internal/tree/memtable/source.go":
			text = strings.Replace(text, "\tif all {\n", "\tif true {\n", 1)
			return strings.Replace(text, "\tif referenced {\n", "\tif referenced || true {\n", 1)
		}
		return text
	})
	for name, site := range map[string]string{
		"Get, one run":                            "tree.(*Tree).Get",
		"Has of a missing key, several runs":      "tree.(*Tree).Get",
		"Get, beside a writer":                    "tree.(*Tree).Get",
		"Iter SeekGE Next Close, beside a writer": "memtable.(*MemTable).Ref",
	} {
		if extra := beyond(got[name], want[name]); !slices.Contains(slices.Concat(extra...), site) {
			t.Errorf("%s: %v beyond the list, without the planted %s", name, extra, site)
		}
	}
}

// beyond returns the lines of r that no allowed function writes.
func beyond(r result, allowed []string) (extra [][]string) {
	for _, sites := range r.Lines {
		if !slices.ContainsFunc(sites, func(s string) bool { return slices.Contains(allowed, s) }) {
			extra = append(extra, sites)
		}
	}
	return extra
}

var row = regexp.MustCompile(`(?m)^\| ([A-Z][^|]*?) \| ([^|]*?) \|[^|]*\|$`)

// table reads the rows between the marks in docs/locking.md: operation, functions in
// backquotes, remark.
func table(t *testing.T, name string) map[string][]string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "<!-- shared lines -->")
	text, _, ok := strings.Cut(text, "<!-- end -->")
	if !ok {
		t.Fatal("docs/locking.md has no table of shared lines")
	}
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		var sites []string
		for i, s := range strings.Split(m[2], "`") {
			if i%2 == 1 {
				sites = append(sites, s)
			}
		}
		rows[m[1]] = sites
	}
	return rows
}

// count builds the program with an overlay and runs it. change, which may be nil, may
// change a file of the engine.
func count(t *testing.T, root string, change func(name, text string) string) map[string]result {
	dir := t.TempDir()
	replaced := map[string]string{}
	put := func(name, text string) {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(root, filepath.FromSlash(name))] = file
	}
	for from, to := range map[string]string{"note": "note/note.go", "atomic": "atomic/atomic.go",
		"sync": "sync/sync.go", "main": "main/main.go"} {
		b, err := os.ReadFile(filepath.Join("testdata", from+".go.txt"))
		if err != nil {
			t.Fatal(err)
		}
		put(here+"/"+to, string(b))
	}
	imports := strings.NewReplacer("\"sync/atomic\"\n", "\""+module+"/"+here+"/atomic\"\n",
		"\"sync\"\n", "\""+module+"/"+here+"/sync\"\n")
	for _, top := range []string{"lsm", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top),
			func(file string, d fs.DirEntry, err error) error {
				name, _ := filepath.Rel(root, file)
				name = filepath.ToSlash(name)
				switch {
				case err != nil:
					return err
				case d.IsDir() && (d.Name() == "testdata" || name == "internal/testkit" ||
					name == "internal/kvbench" || name == "internal/arch"):
					return fs.SkipDir
				case d.IsDir() || !strings.HasSuffix(name, ".go") ||
					strings.HasSuffix(name, "_test.go"):
					return nil
				}
				b, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				text := string(b)
				if change != nil {
					text = change(name, text)
				}
				if text = imports.Replace(text); text != string(b) {
					put(name, text)
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	if err := os.WriteFile(overlay, b, 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./"+here+"/main")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command(binary, t.TempDir())
	var stderr strings.Builder
	program.Stderr = &stderr
	out, err := program.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	results := map[string]result{}
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatal(err)
	}
	return results
}
