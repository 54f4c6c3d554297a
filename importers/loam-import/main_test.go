package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/sourcetest"
)

// files are the digests of all files below dir but locks, which readers note themselves in.
func files(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(strings.ToLower(d.Name()), "lock") {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestForeign converts what other engines wrote, and finds their directories as they were.
func TestForeign(t *testing.T) {
	one := sourcetest.Content{"default": {"key": "value"}}
	all := sourcetest.Content{"default": sourcetest.Trees()}
	for _, c := range []struct {
		engine, path string
		want         sourcetest.Content // nil: it cannot be read
	}{
		{"pebble", "pebble-1-oldest", nil}, {"pebble", "pebble-1-newest", all},
		{"pebble", "pebble-2-oldest", all}, {"pebble", "pebble-2-newest", all},
		{"badger", "badger-3", all}, {"badger", "badger-4", all}, {"rocksdb", "rocksdb", all},
		{"bbolt", "bbolt/data.db", sourcetest.Content{"b": sourcetest.Trees()}},
		{"lmdb", "lmdb", one}, {"sqlite", "sqlite/data", sourcetest.Content{"t": one["default"]}},
		{"bbolt", "sqlite/data", nil}, {"lmdb", "bbolt/data.db", nil}, {"sqlite", "lmdb", nil},
		{"sqlite", "lmdb/data.mdb", nil}, {"badger", "rocksdb", nil}, {"pebble", "badger-4", nil},
	} {
		t.Run(c.engine+" "+strings.ReplaceAll(c.path, "/", " "), func(t *testing.T) {
			open := engines[c.engine]
			if open == nil {
				t.Skip("this build does not read " + c.engine)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../../testdata/foreign")); err != nil {
				t.Fatal(err)
			}
			before := files(t, dir)
			path := filepath.Join(dir, c.path)
			if c.want == nil {
				got, err := sourcetest.Convert(t, open, path, importers.Options{})
				if err == nil {
					t.Errorf("became %v", got)
				}
			} else {
				sourcetest.Check(t, open, path, importers.Options{}, c.want)
			}
			if after := files(t, dir); !maps.Equal(before, after) {
				t.Errorf("files were changed: before %v, after %v", before, after)
			}
		})
	}
}

// called runs the program.
func called(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, &o, &e)
	return code, o.String(), e.String()
}

func TestProgram(t *testing.T) {
	const source = "../../testdata/foreign/bbolt/data.db"
	to := filepath.Join(t.TempDir(), "new")
	code, out, errs := called("--from", "bbolt", "--json", source, to)
	var r importers.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitFine || errs != "" ||
		len(r.Spaces) != 1 || r.Spaces[0].Name != "b" || r.Spaces[0].Entries != 40 {
		t.Errorf("%d %q %q", code, out, errs)
	}
	other := filepath.Join(t.TempDir(), "other")
	code, out, errs = called("--from", "bbolt", source, other)
	const line = "b: 40 entries, 630 bytes, digest 9400805e32751f4ff31376bd7e06bcd4\n"
	if code != exitFine || out != line || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	db, err := bolt.Open(empty, 0o600, nil)
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs = called("--from", "bbolt", empty, empty+".new")
	if code != exitFine || out != "the source is empty\n" || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	for what, c := range map[string]struct {
		want int
		says string
		args []string
	}{
		"no engine": {exitUsage, `--from "" is no engine`, []string{source, to}},
		"another engine": {exitUsage, "want one of badger, bbolt", []string{"--from", "x", source,
			to}},
		"there already": {exitUsage, "exists", []string{"--from", "bbolt", source, other}},
		"one argument":  {exitUsage, "--help", []string{"--from", "bbolt", source}},
		"a flag":        {exitUsage, "--help", []string{"--x"}},
		"no source": {exitFailed, "no such file", []string{"--from", "bbolt", to + "x",
			to + "y"}},
		"a folder": {exitFailed, "name the file", []string{"--from", "bbolt", to, to + "y"}},
		"a file": {exitFailed, "name the directory", []string{"--from", "pebble", source,
			to + "y"}},
		"a missed key": {exitFailed, "no such file", []string{"--from", "bbolt", "--key-file",
			to + "x", source, to + "y"}},
	} {
		code, out, errs := called(c.args...)
		if code != c.want || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d %q %q", what, code, out, errs)
		}
	}
	ended, end := context.WithCancel(context.Background())
	end()
	var o, e bytes.Buffer
	code = run(ended, []string{"--from", "bbolt", source, to + "z"}, &o, &e)
	if code != exitSignal || !strings.Contains(e.String(), "nothing is left") {
		t.Errorf("interrupted: %d %q", code, e.String())
	}
}

// TestClosedPipe: the copy is made, also where nobody reads the report.
func TestClosedPipe(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	r, w, err := os.Pipe()
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var e bytes.Buffer
	code := run(context.Background(), []string{"--from", "bbolt",
		"../../testdata/foreign/bbolt/data.db", to}, w, &e)
	if _, made := os.Stat(to); code != exitFine || e.Len() > 0 || made != nil {
		t.Errorf("%d %q, %v", code, e.String(), made)
	}
}

// stranger is a source beside which another program works in the directory of the copy.
type stranger struct{ at string }

func (stranger) Spaces() []string { return []string{"default"} }
func (s stranger) Each(string, func(importers.Entry) error) error {
	return os.WriteFile(s.at, nil, 0o600)
}
func (stranger) Close() error { return nil }

// TestInterruptedLeavesPart: what an interrupted conversion cannot remove is told.
func TestInterruptedLeavesPart(t *testing.T) {
	to := filepath.Join(t.TempDir(), "new")
	engines["stranger"] = func(string, importers.Options) (importers.Source, error) {
		return stranger{filepath.Join(to+".importing", "notes")}, nil
	}
	defer delete(engines, "stranger")
	ended, end := context.WithCancel(context.Background())
	end()
	var o, e bytes.Buffer
	code := run(ended, []string{"--from", "stranger", "x", to}, &o, &e)
	if code != exitSignal || !strings.Contains(e.String(), "is in "+to+".importing") {
		t.Errorf("%d %q", code, e.String())
	}
}

// waiting is a source that has entries until the conversion is interrupted, and waits then for the
// end of the program's input.
type waiting struct{}

func (waiting) Spaces() []string { return []string{"default"} }
func (waiting) Each(_ string, visit func(importers.Entry) error) error {
	fmt.Println("begun")
	var err error
	for err == nil {
		err = visit(importers.Entry{Key: []byte("key"), Value: make([]byte, 1<<20)})
	}
	fmt.Println("interrupted")
	_, end := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, end)
}
func (waiting) Close() error { return nil }

const waitingVariable = "LOAM_TEST_IMPORT_TO"

// TestWaitingProcess is the child of TestCtrlC.
func TestWaitingProcess(t *testing.T) {
	to := os.Getenv(waitingVariable)
	if to == "" {
		t.Skip("it is the child of TestCtrlC")
	}
	engines["waiting"] = func(string, importers.Options) (importers.Source, error) {
		return waiting{}, nil
	}
	os.Exit(run(context.Background(), []string{"--from", "waiting", "x", to}, os.Stdout, os.Stderr))
}

// TestCtrlC: Ctrl-C on a terminal reaches loam and this program, and loam sends SIGTERM then: the
// copy is removed all the same.
func TestCtrlC(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process gets SIGTERM there")
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestWaitingProcess$")
	child.Env = append(os.Environ(), waitingVariable+"="+filepath.Join(dir, "new"))
	var errs bytes.Buffer
	child.Stderr = &errs
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, sent := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !lines.Scan() {
			t.Error("the process has ended")
		}
		_ = child.Process.Signal(sent) // the exit code tells
	}
	_ = in.Close()
	_ = child.Wait()
	if code := child.ProcessState.ExitCode(); code != exitSignal {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if names, err := os.ReadDir(dir); len(names) > 0 || err != nil {
		t.Errorf("left are %v, %v", names, err)
	}
}

// TestLoam: loam convert --from runs this program, and has its exit codes and output.
func TestLoam(t *testing.T) {
	bin := t.TempDir()
	for _, of := range []string{".", "github.com/loamdb/loam/cmd/loam"} {
		build := exec.Command("go", "build", "-o", bin+"/", of)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", of, err, out)
		}
	}
	dir := t.TempDir()
	const source = "../../testdata/foreign/bbolt/data.db"
	loam := func(args ...string) (int, string) {
		c := exec.Command(filepath.Join(bin, "loam"), append([]string{"convert"}, args...)...)
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), string(out)
	}
	if code, out := loam("--from", "bbolt", "--json", source, dir+"/new"); code != exitFine ||
		!strings.HasPrefix(out, `{"keyspaces":[{"name":"b","entries":40,`) {
		t.Errorf("%d %s", code, out)
	}
	if got := sourcetest.Read(t, dir+"/new"); len(got["b"]) != 40 {
		t.Errorf("%v", got)
	}
	for _, c := range []struct {
		want int
		args []string
	}{
		{exitUsage, []string{"--from", "x", source, dir + "/new2"}},
		{exitUsage, []string{"--from", "bbolt", source, dir + "/new"}},
		{exitFailed, []string{"--from", "bbolt", dir + "/none", dir + "/new2"}},
		{exitFailed, []string{"--from", "badger", "--lossy", "--key-file", dir + "/none",
			dir + "/none", dir + "/new2"}},
	} {
		code, out := loam(c.args...)
		if code != c.want || !strings.HasPrefix(out, "loam-import: ") ||
			strings.Count(out, "\n") != 1 {
			t.Errorf("%v: %d %s", c.args, code, out)
		}
	}
	program := filepath.Join(bin, "loam-import")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" { // which has no scripts of this kind
		if err := os.WriteFile(program, []byte("#!/bin/sh\nkill -9 $$\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		code, out := loam("--from", "bbolt", source, dir+"/new2")
		if code != exitFailed || out != "loam: "+program+": signal: killed\n" {
			t.Errorf("killed: %d %s", code, out)
		}
		if err := os.Remove(program); err != nil {
			t.Fatal(err)
		}
	}
	alone := exec.Command(filepath.Join(bin, "loam"), "convert", "--from", "bbolt", source,
		dir+"/x")
	alone.Env = append(os.Environ(), "PATH=")
	if out, err := alone.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "go install github.com/loamdb/loam/importers/loam-import") {
		t.Errorf("without the program: %v %s", err, out)
	}
}

// TestElsewhere: an engine of other builds is named.
func TestElsewhere(t *testing.T) {
	for name := range elsewhere {
		if engines[name] != nil {
			continue
		}
		if code, _, errs := called("--from", name, "a", "b"); code != exitUsage ||
			!strings.Contains(errs, "CGO_ENABLED=1") {
			t.Errorf("%s: %d %q", name, code, errs)
		}
	}
}
