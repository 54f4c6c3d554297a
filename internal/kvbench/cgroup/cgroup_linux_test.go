package cgroup

import (
	"os"
	"os/exec"
	"testing"
)

// joined is the variable that makes this program a member of the group it names.
const joined = "KVBENCH_TEST_CGROUP"

// TestMain makes this program the process that a group limits as well: it takes
// more memory than it may.
func TestMain(m *testing.M) {
	dir := os.Getenv(joined)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := Join(dir); err != nil {
		os.Exit(3)
	}
	b := make([]byte, 256<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	os.Exit(int(b[0]) - 1)
}

// TestStat reads what the kernel tells of a group's memory.
func TestStat(t *testing.T) {
	for text, want := range map[string][2]int64{
		"anon 1000\nfile 300\nkernel 20\nshmem 7\nfile_mapped 5\n":               {1020, 300},
		"cache 1\nrss 2\ntotal_cache 400\ntotal_rss 5000\ntotal_mapped_file 3\n": {5000, 400},
		"": {},
	} {
		if own, cache := stat(text); own != want[0] || cache != want[1] {
			t.Errorf("%q: %d and %d, want %v", text, own, cache, want)
		}
	}
	if _, _, ok := Now(); ok {
		t.Error("a process that joined no group has the memory of one")
	}
}

func TestKills(t *testing.T) {
	for text, want := range map[string]int64{
		"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n":  2,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 1": 1,
		"oom_kill_disable 1\n":                        0,
		"":                                            0,
	} {
		if got := kills(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestDirectoryWithoutKernel: a directory that is no cgroup is left as it was.
func TestDirectoryWithoutKernel(t *testing.T) {
	dir := t.TempDir()
	for _, h := range []hierarchy{unified, legacy} {
		if g, err := (place{dir, h}).add(1 << 20); err == nil {
			t.Errorf("a group in %s", g.Dir())
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestLimit: a process that takes more than its group may is killed, and one
// that stays below is not.
func TestLimit(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for limit, killed := range map[int64]bool{64 << 20: true, 1 << 30: false} {
		g, err := New(limit)
		if err != nil {
			t.Skip(err)
		}
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), joined+"="+g.Dir())
		err = cmd.Run()
		if (err != nil) != killed || g.Killed() != killed {
			t.Errorf("limit %d: %v, killed %v", limit, err, g.Killed())
		}
		if peak, ok := g.Peak(); ok && (peak > 2*limit || !killed && peak < 256<<20) {
			t.Errorf("limit %d: peak %d", limit, peak)
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}
}
