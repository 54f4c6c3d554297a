package memlimit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGroups(t *testing.T) {
	const own = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/user.slice/me\n"
	for mounts, want := range map[string]string{
		"": "",
		"24 1 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n": "" +
			"/sys/fs/cgroup/user.slice/me /sys/fs/cgroup/user.slice /sys/fs/cgroup",
		"24 1 0:22 / /c/cpu rw - cgroup cgroup rw,cpuset\n" +
			"25 1 0:23 / /c/memory rw - cgroup cgroup rw,memory\n": "" +
			"/c/memory/a/b /c/memory/a /c/memory",
		"25 1 0:23 / /m rw - cgroup none rw,memory\n26 1 0:24 / /u rw - cgroup2 none rw\n" +
			"27 1 0:25 / / rw,relatime - ext4 /dev/sda rw,memory\n": "" +
			"/u/user.slice/me /u/user.slice /u /m/a/b /m/a /m",
		// a container sees its own group at the mount's place
		`25 1 0:23 /a /m\040y rw - cgroup none rw,memory`:         "/m y/b /m y",
		"25 1 0:23 /a/b/c /m rw - cgroup none rw,memory\n":        "/m",
		"25 1 0:23 /user.slice/me /u rw - cgroup2 none rw\n":      "/u",
		"25 1 0:23 /../../else /u rw - cgroup2 none rw\n":         "/u",
		"25 1 0:23 /user.slice/me /u rw cgroup2 none rw\nshort\n": "",
	} {
		var got []string
		for _, g := range groupsIn(mounts, own) {
			got = append(got, g.Dir)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %s", mounts, got, want)
		}
	}
	if all := groupsIn("1 1 0:1 / /c rw - cgroup2 cgroup2 rw\n", "1:memory:/x\n"); all != nil {
		t.Errorf("%v without a cgroup of version 2", all)
	}
}

// TestLeast: the least limit of all groups and the machine holds; "max", what version 1 has for no
// limit, and files that are missing or are none of the kernel's are no limits.
func TestLeast(t *testing.T) {
	for _, c := range []struct {
		files   map[string]string // of the groups one (version 1), two and above (version 2)
		machine int64
		want    int64
	}{
		{nil, 1 << 30, 1 << 30},
		{nil, 0, 0},
		{map[string]string{"two/memory.max": "4096\n", "above/memory.max": "max\n"}, 1 << 30, 4096},
		{map[string]string{"two/memory.max": "max\n", "above/memory.max": "8192\n"}, 1 << 30, 8192},
		{map[string]string{"two/memory.max": "8192\n", "two/memory.high": "4096\n"}, 0, 4096},
		{map[string]string{"two/memory.max": "8192\n"}, 4096, 4096},
		{map[string]string{"one/memory.limit_in_bytes": "9223372036854771712\n"}, 1 << 30, 1 << 30},
		{map[string]string{"one/memory.limit_in_bytes": "4096\n"}, 1 << 30, 4096},
		{map[string]string{"one/memory.max": "4096\n", "two/memory.limit_in_bytes": "1\n"}, 9, 9},
		{map[string]string{"two/memory.max": "-5\n", "above/memory.max": ""}, 77, 77},
	} {
		dir := t.TempDir()
		groups := []Group{{filepath.Join(dir, "two"), true}, {filepath.Join(dir, "above"), true},
			{filepath.Join(dir, "one"), false}}
		for _, g := range groups {
			if err := os.Mkdir(g.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := least(groups, c.machine)
		if got != c.want || (err != nil) != (c.want == 0) ||
			err != nil && !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
}

// TestLeastOfMachine: the process has no more than the machine.
func TestLeastOfMachine(t *testing.T) {
	n, err := Least()
	if m := Machine(); err != nil || n > m || n < 1<<20 || m < 1<<26 {
		t.Errorf("%d of %d bytes: %v", n, m, err)
	}
}
