package surroundings

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// readingVerbs are the verbs of loam that write nothing, as lines of its shell.
var readingVerbs = []string{"info", "info --json", "levels", "tables", "props", "check",
	"check --json", "get key000001", "scan --limit 10", "scan --reverse --limit 3 --json", "count",
	"export --csv", "dump", "repair --dry-run", "repair --dry-run --json", "top --once",
	"top --once --json"}

// writingVerbs write: into a directory beside the hostile one, and then into that itself. A name
// that begins with @ is that of a directory beside it.
var writingVerbs = [][]string{{"checkpoint", "DIR", "@copy"}, {"backup", "DIR", "@backups"},
	{"convert", "DIR", "@converted"}, {"diff", "DIR", "@copy"}, {"put", "DIR", "key", "value"},
	{"del", "--prefix", "key00", "DIR"}, {"flush", "DIR"}, {"compact", "DIR"}, {"upgrade", "DIR"},
	{"repair", "DIR"}, {"check", "DIR"}, {"destroy", "--yes", "DIR"}}

// asks are what the page of loam ui asks for; FILE is each file of the directory.
var asks = []string{"live", "live", "scan?limit=500", "scan?reverse=1", "tables", "logs",
	"value?key=a2V5MDAwMDAx", "table?check=1&block=0&file=FILE", "log?file=FILE",
	"log?newest=1&file=FILE", "manifest?file=FILE", "manifest?newest=1&file=FILE"}

// mostFiles is how many files of a directory are looked at one by one.
const mostFiles = 12

// TestLoamOnHostileDirectories runs all verbs of the command loam on the corpus of hostile
// directories, and has its page show them: no signal, no hang, no panic, at most 512 MiB. What only
// reads changes nothing in the directory, and nothing changes a file outside.
func TestLoamOnHostileDirectories(t *testing.T) {
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
					t.Skipf("processes for each: one in %d here, all in long runs", part)
				}
				t.Parallel()
				outside := t.TempDir()
				p := &place{t: t, format: format, dir: filepath.Join(outside, "db"),
					victim: filepath.Join(outside, "victim"), st: st}
				p.st.Files = maps.Clone(st.Files)
				copyDir(t, sound, p.dir)
				must(t, os.WriteFile(p.victim, []byte("precious"), 0o600))
				m.make(p)
				before := described(t, outside)
				readByLoam(t, loam, p.dir)
				showByLoam(t, loam, p.dir)
				if after := described(t, outside); after != before {
					t.Errorf("before:\n%s\nafter:\n%s", before, after)
				}
				if !fillsDisk(m.name) {
					writeByLoam(t, loam, p.dir)
				}
				if b, err := os.ReadFile(p.victim); string(b) != "precious" {
					t.Errorf("%q %v", b, err)
				}
			})
		}
	}
}

// fillsDisk reports whether copies of a directory take tens of gigabytes: they have zeros in the
// place of holes in logs and tables.
func fillsDisk(name string) bool {
	return strings.HasPrefix(name, "log: ") && strings.Contains(name, "hole") ||
		name == "table: 500 data blocks of 60 MiB are holes"
}

// readByLoam runs the verbs that write nothing on dir, in one process.
func readByLoam(t *testing.T, loam, dir string) {
	lines := append([]string{}, readingVerbs...)
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries[:min(len(entries), mostFiles)] {
		lines = append(lines, "sst "+e.Name(), "sst --layout "+e.Name(),
			"sst --salvage "+e.Name(), "wal --records "+e.Name(), "manifest "+e.Name())
	}
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
	within(t, cmd)
}

// within holds a process that has ended to the bound of memory.
func within(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if u.Maxrss<<10 > hostileMemory {
		t.Errorf("%v: %d MiB resident", cmd.Args[1:], u.Maxrss>>10)
	}
	if testing.Verbose() {
		t.Logf("%s: %d MiB, %v", cmd.Args[1], u.Maxrss>>10,
			cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
}

// showByLoam asks the page of dir for all that it shows. Errors are JSON.
func showByLoam(t *testing.T, loam, dir string) {
	cmd := exec.Command(loam, "ui", dir)
	var errs beginning
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	must(t, hang.InTime(func() error { return askAll(t, cmd, out, dir) }))
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 3 ||
		strings.Contains(errs.String(), "panic") || strings.Contains(errs.String(), "fault of") {
		t.Errorf("ui: exit %d: %.3000s", code, errs.String())
	}
	within(t, cmd)
}

// askAll asks the page that cmd serves, and ends cmd.
func askAll(t *testing.T, cmd *exec.Cmd, out io.Reader, dir string) error {
	address, err := bufio.NewReader(out).ReadString('\n')
	var names []string
	if entries, listed := os.ReadDir(dir); listed == nil {
		for _, e := range entries[:min(len(entries), mostFiles)] {
			names = append(names, e.Name())
		}
	}
	if err == nil { // else the verb says why there is no page
		address, token, _ := strings.Cut(strings.TrimSpace(address), "#")
		for _, ask := range asks {
			files := []string{""}
			if strings.Contains(ask, "FILE") {
				files = names
			}
			for _, name := range files {
				askPage(t, address+"api/"+strings.Replace(ask, "FILE", url.QueryEscape(name), 1),
					token)
			}
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // its exit code says more
	return nil
}

func askPage(t *testing.T, address, token string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	q.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Errorf("%s: %v", address, err)
		return
	}
	defer answer.Body.Close()
	var kept beginning
	n, err := io.Copy(&kept, answer.Body)
	const most = 4 << 20 // bytes that a browser can show
	if bad := kept.String(); err != nil || n > most || strings.Contains(bad, "fault of") ||
		n < 1<<20 && !json.Valid(kept.Bytes()) {
		t.Errorf("%s: %s, %d bytes, %v: %.1000s", address, answer.Status, n, err, bad)
	}
}

// writeByLoam runs the verbs that write, a process for each.
func writeByLoam(t *testing.T, loam, dir string) {
	temp := t.TempDir()
	for _, verb := range writingVerbs {
		var args []string
		for _, a := range verb {
			if beside, ok := strings.CutPrefix(a, "@"); ok {
				a = filepath.Join(temp, beside)
			}
			args = append(args, strings.Replace(a, "DIR", dir, 1))
		}
		cmd := exec.Command(loam, args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		var errs beginning
		cmd.Stderr = &errs
		err := runInTime(t, cmd)
		if code := cmd.ProcessState.ExitCode(); code < 0 || code > 3 ||
			code > 1 && errs.Len() == 0 ||
			strings.Contains(errs.String(), "fault of") {
			t.Errorf("%v: %v\n%.3000s", verb, err, errs.String())
		}
		within(t, cmd)
	}
}

// beginning keeps the first megabyte that is written.
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
