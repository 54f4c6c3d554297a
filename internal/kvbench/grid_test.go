package kvbench

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/shapes"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// TestShapes: one engine has tables of times, in the text and on the page, with a section for the
// shapes of the same steps.
func TestShapes(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html")
	code, out, stderr := invoke(t, newEngine(), "shapes=500", "--json", file, "--html", page)
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	r, err := readReport(file)
	if err != nil || len(r.Runs) != len(shapes.List) || len(r.sections()) != 6 {
		t.Fatalf("%+v, %v", r, err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes.List {
		if !strings.Contains(out, "-- "+s.Name+" (write_buffer_size=16MiB") ||
			!strings.Contains(string(b), s.Name) {
			t.Errorf("no %s", s.Name)
		}
	}
	if n := strings.Count(out, "\nMicroseconds per operation.\n"); n != 6 ||
		strings.Count(string(b), "Microseconds per operation.") != 6 {
		t.Errorf("%d tables in the text", n)
	}
	for _, want := range []string{
		`\nvariant +fillseq +fillrandom +overwrite +readrandom +readmiss.* readrandom, compacted `,
		`\n8 B +[0-9.]+ +[0-9.]+ `, `\nbenchmark +10,000 series\n`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if bytes.Contains(b, []byte("cost against size")) {
		t.Error("a plot over sizes that are of other values")
	}
}

// TestShapesBesidePeers: each cell of the tables is a ratio to the peer.
func TestShapesBesidePeers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	page := filepath.Join(t.TempDir(), "r.html")
	var out, errs bytes.Buffer
	code := Main([]string{"--engine=all", "shapes=100", "--quiet=0", "--progress=never", "--html",
		page}, &out, &errs, newEngine(), peer{storetest.NewModel()})
	if code != 0 || strings.Count(out.String(), "\nHow many times longer than the first") != 6 {
		t.Fatalf("exit %d: %s%s", code, errs.String(), out.String())
	}
	for _, want := range []string{`\nPeer, 8 B +[0-9]+\.[0-9]{2} `, `\nPeer, 64 threads +[0-9]+\.`,
		`\nbenchmark +Peer, a snapshot held\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if b, err := os.ReadFile(page); err != nil ||
		strings.Count(string(b), "How many times longer than") != 6 {
		t.Errorf("the page has no ratios: %v", err)
	}
}
