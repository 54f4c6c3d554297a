package runner

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSpaceWatch: the peak stays when files go, and the marker is not counted.
func TestSpaceWatch(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w := &spaceWatch{dir: dir}
	write(marker, 100)
	if w.look(); w.last != 0 {
		t.Errorf("%d bytes in an empty directory", w.last)
	}
	write("below/000001.ldb", 1<<20)
	second := write("000002.ldb", 2<<20)
	if w.look(); w.last < 3<<20 || w.last > 4<<20 {
		t.Errorf("%d bytes, want those of 3 MiB", w.last)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	w.look()
	if w.last < 1<<20 || w.last >= 2<<20 || w.peak < 3<<20 {
		t.Errorf("%d bytes, at most %d, want those of 1 and 3 MiB", w.last, w.peak)
	}
}

// TestSpace: what benchmarks that write leave behind is in their results.
func TestSpace(t *testing.T) {
	r, m := newRunner(t)
	r.Params.Quiet = true
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = byte(i)
	}
	m.Fail = func(op string) error {
		if op == "put" {
			m.Fail = nil
			return os.WriteFile(filepath.Join(r.Dir, "000001.ldb"), big, 0o600)
		}
		return nil
	}
	for _, name := range []string{"fillseq", "compact"} {
		res := run(t, r, name)
		if res.DiskPeak == nil || res.DiskQuiet == nil || *res.DiskPeak < 1<<20 ||
			*res.DiskQuiet < 1<<20 {
			t.Errorf("%s: %v %v", name, res.DiskPeak, res.DiskQuiet)
		}
	}
	if res := run(t, r, "readrandom"); res.DiskPeak != nil || res.DiskQuiet != nil {
		t.Error("space of a benchmark that does not write")
	}
	r.Params.Quiet = false
	if res := run(t, r, "overwrite"); res.DiskPeak == nil || res.DiskQuiet != nil {
		t.Errorf("not waited for: %v %v", res.DiskPeak, res.DiskQuiet)
	}
}

// TestLive: the bytes that are there are known while all entries have the run's size.
func TestLive(t *testing.T) {
	r, _ := newRunner(t)
	for _, step := range []struct {
		name string
		live int64 // negative: unknown
	}{
		{"fillseq", num * 36}, {"overwrite", num * 36}, {"deletehalf", (num/2 + 1) * 36},
		{"fill100K", -1}, {"overwrite", -1}, {"fillbatch", num * 36}, {"mergerandom", -1},
		{"readrandom", -1}, {"fillseq", num * 36}, {"ycsbf", num * 36},
	} {
		res := run(t, r, step.name)
		if got := res.Live; (got == nil) != (step.live < 0) || got != nil && *got != step.live {
			t.Errorf("%s: %v, want %d", step.name, got, step.live)
		}
	}
	named, _ := newRunner(t)
	named.Params.NamedValues = true
	if res := run(t, named, "fillseq"); res.Live != nil {
		t.Errorf("values of different sizes: %d", *res.Live)
	}
}
