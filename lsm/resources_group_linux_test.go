package lsm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/cgroup"
	"github.com/loamdb/loam/lsm"
)

// groupChild is the directory of the cgroup in which TestAutoMemory's child is.
const groupChild = "LOAM_TEST_GROUP_CHILD"

// TestAutoMemory: the databases of a process in a cgroup share a quarter of its limit, and follow
// it.
func TestAutoMemory(t *testing.T) {
	if dir := os.Getenv(groupChild); dir != "" {
		autoMemoryProgram(t, dir)
		return
	}
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: lsm.AutoMemory})
	if n := res.Metrics().Memory; n < 8<<20 {
		t.Errorf("%d bytes", n)
	}
	res.Close()
	g, err := cgroup.New(4 << 30) // version 1 keeps it as the limit of memory and swap
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAutoMemory$", "-test.v")
	cmd.Env = append(os.Environ(), groupChild+"="+g.Dir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

func autoMemoryProgram(t *testing.T, dir string) {
	if err := cgroup.Join(dir); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		name := filepath.Join(dir, "memory.max")
		if _, err := os.Stat(name); err != nil {
			name = filepath.Join(dir, "memory.limit_in_bytes")
		}
		if err := os.WriteFile(name, []byte(strconv.Itoa(n)), 0); err != nil {
			t.Fatal(err)
		}
	}
	limit(512 << 20)
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: lsm.AutoMemory})
	defer res.Close()
	want := func(bytes int64) {
		t.Helper()
		if n := res.Metrics().Memory; n != bytes {
			t.Fatalf("%d bytes, want %d", n, bytes)
		}
	}
	want(128 << 20)
	db, err := lsm.Open(t.TempDir(), &lsm.Options{Resources: res})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	limit(1 << 30)
	want(256 << 20)
	limit(4 << 30) // four times the first value is the most
	want(512 << 20)
	limit(256 << 20)
	want(64 << 20)
	for value, bytes := range map[string]int64{"40MiB": 40 << 20, "auto": 64 << 20} {
		if err := res.Set("memory", value); err != nil {
			t.Fatal(err)
		}
		want(bytes)
	}
}
