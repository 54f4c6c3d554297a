package surroundings

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit"
)

// readingVerbs are the verbs of loam that write nothing, as lines of its shell.
var readingVerbs = []string{"info", "info --json", "levels", "tables", "props", "check",
	"check --json", "get key000001", "scan --limit 10", "scan --reverse --limit 3 --json", "count",
	"export --csv", "dump", "repair --dry-run", "repair --dry-run --json"}

// mostFiles is how many files of a directory are looked at one by one.
const mostFiles = 12

// TestLoamReadsHostileDirectories runs all verbs of the command loam that write nothing on the
// corpus of hostile directories, a process for each directory: no signal, no hang, no panic, at
// most 512 MiB, and nothing is changed in the directory or outside.
func TestLoamReadsHostileDirectories(t *testing.T) {
	root := t.TempDir()
	loam := filepath.Join(root, "loam")
	build := exec.Command("go", "build", "-o", loam, "github.com/loamdb/loam/cmd/loam")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for format, makers := range map[base.Format][]maker{base.LevelDB: makers,
		base.Native: nativeMakers} {
		sound := filepath.Join(root, "sound-"+format.String())
		st := makeHostile(t, sound, format)
		for i, m := range makers {
			t.Run(format.String()+"/"+m.name, func(t *testing.T) {
				if part := testkit.Scale(32, 32, 1); i%part != 0 {
					t.Skip("one in", part)
				}
				t.Parallel()
				outside := t.TempDir()
				p := &place{t: t, format: format, dir: filepath.Join(outside, "db"),
					victim: filepath.Join(outside, "victim"), st: st}
				p.st.Files = maps.Clone(st.Files)
				copyDir(t, sound, p.dir)
				must(t, os.WriteFile(p.victim, []byte("precious"), 0o600))
				m.make(p)
				readByLoam(t, loam, outside, p.dir)
			})
		}
	}
}

// readByLoam runs the verbs on dir, which lies in outside.
func readByLoam(t *testing.T, loam, outside, dir string) {
	lines := append([]string{}, readingVerbs...)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries[:min(len(entries), mostFiles)] {
		lines = append(lines, "sst "+e.Name(), "sst --layout "+e.Name(),
			"sst --salvage "+e.Name(), "wal --records "+e.Name(), "manifest "+e.Name())
	}
	before := described(t, outside)
	cmd := exec.Command(loam, "shell", dir)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	var errs beginning // a child's peak counts memory of this process, which so has to be small
	cmd.Stderr = &errs
	err = runInTime(t, cmd)
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 1 {
		t.Errorf("%v\n%.3000s", err, errs.String())
	}
	for _, bad := range []string{"fault of the program", "panic"} {
		if at := strings.Index(errs.String(), bad); at >= 0 {
			t.Errorf("%.3000s", errs.String()[at:])
		}
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if u.Maxrss<<10 > hostileMemory {
		t.Errorf("%d MiB resident", u.Maxrss>>10)
	}
	if after := described(t, outside); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if testing.Verbose() {
		t.Logf("%d MiB, %v", u.Maxrss>>10,
			cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
}

// beginning keeps the first megabyte of what is written.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 1<<20-b.Len()))])
	return len(p), nil
}

// described is every name below dir, with kind, size and time of change. Files with holes are too
// long to be read.
func described(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	}))
	return b.String()
}
