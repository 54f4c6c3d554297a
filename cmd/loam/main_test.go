package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/lsm"
)

// loam runs a verb and returns what it wrote and its exit code.
func loam(ctx context.Context, args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(""), &stdout, &stderr)
	code = a.run(ctx, args)
	return stdout.String(), stderr.String(), code
}

// filled makes a database with some MiB.
func filled(t *testing.T, o *lsm.Options) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, o)
	must(t, err)
	for i := range 2000 {
		must(t, db.Put([]byte{0, byte(i >> 8), byte(i)}, make([]byte, 1000), lsm.NoSync))
	}
	must(t, db.Flush())
	must(t, db.Put([]byte{1}, nil, lsm.NoSync))
	must(t, db.Delete([]byte{1}, lsm.NoSync))
	must(t, db.Close())
	return dir
}

// TestHelp holds every verb to a description and examples that begin with the verb.
func TestHelp(t *testing.T) {
	root := newApp(nil, nil, nil).root()
	for _, g := range table() {
		for _, make := range g.verbs {
			c := make(newApp(nil, nil, nil))
			if c.Short == "" || len(c.Long) < len(c.Short) ||
				!strings.Contains(c.Example, "loam "+c.Name()) {
				t.Errorf("%s: short %q, long %q, example %q", c.Name(), c.Short, c.Long, c.Example)
			}
			if c.RunE == nil || c.Run != nil {
				t.Errorf("%s has no RunE", c.Name())
			}
		}
	}
	page, _, code := loam(context.Background(), "man")
	for _, c := range root.Commands() {
		if c.GroupID != "more" && !strings.Contains(page, ".SS loam "+c.Name()) {
			t.Errorf("%s is not in the manual", c.Name())
		}
	}
	if code != exitFine {
		t.Error(code)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, errs, code := loam(context.Background(), "completion", shell); code != exitFine ||
			!strings.Contains(out, "loam") {
			t.Errorf("%s: %d %s", shell, code, errs)
		}
	}
}

// brokenPipe fails as a pipe does whose reader has gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestClosedPipe ends verbs quietly when the reader of their output has closed the pipe.
func TestClosedPipe(t *testing.T) {
	dir := filled(t, nil)
	tables, err := filepath.Glob(filepath.Join(dir, "*.loam"))
	must(t, err)
	for _, args := range [][]string{{"scan", dir}, {"scan", "--raw", dir}, {"export", dir},
		{"export", "--csv", dir}, {"dump", dir}, {"tables", dir}, {"info", "--json", dir},
		{"sst", "--entries", tables[0]}, {"diff", dir, filled(t, &lsm.Options{
			Comparer: lsm.BytewiseComparer})}, {"repair", "--dry-run", dir}} {
		var errs bytes.Buffer
		a := newApp(strings.NewReader(""), brokenPipe{}, &errs)
		if code := a.run(context.Background(), args); code != exitFine || errs.Len() > 0 {
			t.Errorf("%v: exit %d, %s", args, code, errs.String())
		}
	}
}

// TestFailureBesideClosedPipe: a failure that is not one of writing the output is told, although
// the reader of the output has gone. A full disk under the output counts more than a problem.
func TestFailureBesideClosedPipe(t *testing.T) {
	dir := filled(t, nil)
	for _, lines := range []string{"get \\x01\nput --keyspace none a b\n", "scan\ncount --as x\n"} {
		var errs bytes.Buffer
		a := newApp(strings.NewReader(lines), brokenPipe{}, &errs)
		if code := a.run(t.Context(), []string{"shell", dir}); code == exitFine ||
			!strings.HasPrefix(errs.String(), "loam: ") {
			t.Errorf("%q: exit %d, %q", lines, code, errs.String())
		}
	}
	for _, args := range [][]string{{"get", "--json", dir, `\x00\x00\x00`, "none"},
		{"diff", "--brief", dir, filled(t, nil)}, {"diff", dir, dir + "@"}} {
		if strings.HasSuffix(args[2], "@") {
			db, err := lsm.Open(args[2], nil)
			must(t, err)
			must(t, db.Close())
		}
		var errs bytes.Buffer
		a := newApp(strings.NewReader(""), fullDisk{}, &errs)
		if code := a.run(t.Context(), args); code != exitFailed ||
			!strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
}

// fullDisk fails as a file does that finds no room.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestInterrupted ends long verbs by Ctrl-C before they are done: nothing is left of them, and the
// database is sound.
func TestInterrupted(t *testing.T) {
	for _, o := range []*lsm.Options{nil, {Format: lsm.FormatLevelDB}} {
		dir := filled(t, o)
		root := filepath.Dir(dir)
		temp := filepath.Join(root, "temp")
		must(t, os.Mkdir(temp, 0o700))
		t.Setenv("TMPDIR", temp)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		dumped := filepath.Join(root, "dump")
		for _, args := range [][]string{{"dump", dir, "-o", dumped}, {"compact", dir},
			{"export", dir, "-o", dumped}, {"export", "--csv", dir},
			{"backup", dir, filepath.Join(root, "backups")},
			{"convert", dir, filepath.Join(root, "new")},
			{"checkpoint", dir, filepath.Join(root, "copy")}, {"check", dir},
			{"repair", "--dry-run", dir}, {"count", dir}, {"props", dir}, {"diff", dir, dir}} {
			out, errs, code := loam(ctx, args...)
			if code != exitSignal || !strings.Contains(errs, "interrupted") {
				t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
			}
		}
		if out, errs, code := loam(context.Background(), "check", dir); code != exitFine {
			t.Errorf("%s%s", out, errs)
		}
		if got := files(t, root); got != "backups\ndb\ntemp\n" || files(t, temp) != "" {
			t.Errorf("%s%s", got, files(t, temp))
		}
	}
}

// TestInterruptedLines: Ctrl-C ends the shell that reads its lines from a pipe with the verb.
func TestInterruptedLines(t *testing.T) {
	dir := filled(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader("count\nput key value\n"), &out, &errs)
	if code := a.run(ctx, []string{"shell", dir}); code != exitSignal {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
	if out, _, code := loam(context.Background(), "get", dir, "key"); code != exitProblems {
		t.Errorf("exit %d: the line behind was run: %q", code, out)
	}
}

// TestDestroyOfNoDatabase: a directory without a database stays, and the verb says why.
func TestDestroyOfNoDatabase(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []int{0, 1} { // files in it
		_, errs, code := loam(context.Background(), "destroy", "--yes", dir)
		names, err := os.ReadDir(dir)
		if code != exitFailed || !strings.Contains(errs, "database does not exist") ||
			len(names) != want || err != nil {
			t.Errorf("%d %s%v, %v", code, errs, names, err)
		}
		must(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600))
	}
}

// TestLevelDBFlagOfNative: what asks for LevelDB's format writes nothing into a native database.
func TestLevelDBFlagOfNative(t *testing.T) {
	dir := filled(t, nil)
	for _, args := range [][]string{{"put", "--create", "--leveldb", dir, "a", "b"},
		{"load", "--as", "jsonl", "--leveldb", dir, "-"}} {
		_, errs, code := loam(context.Background(), args...)
		if code != exitUsage || !strings.Contains(errs, "has the native format") {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	level := filled(t, &lsm.Options{Format: lsm.FormatLevelDB})
	if _, errs, code := loam(context.Background(), "put", "--create", "--leveldb", level, "a",
		"b"); code != exitFine {
		t.Errorf("%d %s", code, errs)
	}
}

// TestFailedLoadSaysHowFar: the error of a load that failed tells which part of it is written.
func TestFailedLoadSaysHowFar(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "in.jsonl")
	line := func(i int) string {
		return fmt.Sprintf("{\"key\":\"%d\",\"value\":\"%s\"}\n", i, strings.Repeat("v", 400<<10))
	}
	must(t, os.WriteFile(name, []byte(line(1)+line(2)+line(3)+line(4)+"oh\n"), 0o600))
	db := filepath.Join(dir, "db")
	_, errs, code := loam(context.Background(), "load", db, name)
	if code != exitUsage || !strings.Contains(errs, "line 5: ") ||
		!strings.Contains(errs, "; the first 3 keys are written\n") {
		t.Errorf("%d %s", code, errs)
	}
	if out, _, _ := loam(context.Background(), "count", "--json", db); !strings.HasPrefix(out,
		`{"keys":3,`) {
		t.Errorf("%s", out)
	}
}

// TestBesideWriter reads a database that is open for writing, up to the newest write, and refuses
// to write to it.
func TestBesideWriter(t *testing.T) {
	for _, o := range []*lsm.Options{{}, {Format: lsm.FormatLevelDB}} {
		dir := filled(t, o)
		db, err := lsm.Open(dir, o)
		must(t, err)
		must(t, db.Put([]byte("newest"), []byte("v"), lsm.NoSync))
		ctx := context.Background()
		if out, errs, code := loam(ctx, "get", dir, "newest"); out != "v" || code != exitFine {
			t.Errorf("%q %s %d", out, errs, code)
		}
		if out, errs, code := loam(ctx, "count", "--json", dir); code != exitFine ||
			!strings.HasPrefix(out, `{"keys":2001,`) {
			t.Errorf("%s%s", out, errs)
		}
		for _, args := range [][]string{{"info", dir}, {"check", dir}, {"tables", dir},
			{"dump", dir}} {
			if _, errs, code := loam(ctx, args...); code != exitFine {
				t.Errorf("%v: %s", args, errs)
			}
		}
		for _, args := range [][]string{{"put", dir, "a", "b"}, {"del", dir, "a"}, {"flush", dir},
			{"compact", dir}, {"upgrade", dir}, {"repair", dir}, {"repair", "--dry-run", dir},
			{"destroy", "--yes", dir}} {
			if args[0] == "upgrade" && o.Format != lsm.FormatLevelDB {
				continue
			}
			if _, errs, code := loam(ctx, args...); code != exitFailed ||
				!strings.Contains(errs, "End that process first") {
				t.Errorf("%v: exit %d: %s", args, code, errs)
			}
		}
		must(t, db.Close())
	}
}

// TestRestoreAtShownTime: the time that a list shows of a backup means that backup.
func TestRestoreAtShownTime(t *testing.T) {
	dir := filled(t, nil)
	folder := filepath.Join(filepath.Dir(dir), "backups")
	for range 2 {
		if out, errs, code := loam(t.Context(), "backup", dir, folder); code != exitFine {
			t.Fatal(out, errs)
		}
	}
	list, _, _ := loam(t.Context(), "backups", "--json", folder)
	var last backupLine
	for line := range strings.Lines(list) {
		must(t, json.Unmarshal([]byte(line), &last))
	}
	out, errs, code := loam(t.Context(), "restore", "--at", last.Created, folder, dir+"2")
	if code != exitFine || !strings.HasPrefix(out, "backup 2 is in") {
		t.Errorf("exit %d: %s%s; the list is\n%s", code, out, errs, list)
	}
}

// TestComparers reads databases in other orders than that of bytes: built-in ones by their names,
// others if --comparer says which built-in one it is.
func TestComparers(t *testing.T) {
	ctx := context.Background()
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		dir := filled(t, &lsm.Options{Format: format, Comparer: lsm.IndexedDBComparer})
		if out, errs, code := loam(ctx, "count", dir); code != exitFine {
			t.Errorf("%s%s", out, errs)
		}
		if out, errs, code := loam(ctx, "check", dir); code != exitFine {
			t.Errorf("%s%s", out, errs)
		}
		own := *lsm.BytewiseComparer
		own.Name = "app.Order"
		dir = filled(t, &lsm.Options{Format: format, Comparer: &own})
		if _, errs, code := loam(ctx, "count", dir); code != exitFailed ||
			!strings.Contains(errs, "--comparer") {
			t.Errorf("exit %d: %s", code, errs)
		}
		if out, errs, code := loam(ctx, "count", "--comparer=bytewise", dir); code != exitFine {
			t.Errorf("%s%s", out, errs)
		}
		if _, _, code := loam(ctx, "count", "--comparer=app", dir); code != exitUsage {
			t.Errorf("exit %d", code)
		}
		if out, errs, code := loam(ctx, "props", "--comparer=bytewise", dir); code != exitFine {
			t.Errorf("%s%s", out, errs)
		}
	}
}

// TestComparerOfTables: --comparer says how keys are ordered under the names of tables that are not
// built in. A repair without MANIFEST keeps these names, and orders that are built in stay.
func TestComparerOfTables(t *testing.T) {
	own, other := *lsm.BytewiseComparer, *lsm.BytewiseComparer
	own.Name, other.Name = "app.Order", "app.OtherOrder"
	dir := filepath.Join(t.TempDir(), "db")
	open := func() (*lsm.DB, *lsm.Keyspace, *lsm.Keyspace) {
		db, err := lsm.Open(dir, &lsm.Options{Comparer: &own, Comparers: []*lsm.Comparer{&other}})
		must(t, err)
		second, err := db.Keyspace("second", &lsm.KeyspaceOptions{Comparer: &other})
		must(t, err)
		reverse, err := db.Keyspace("reverse",
			&lsm.KeyspaceOptions{Comparer: lsm.ReverseBytewiseComparer})
		must(t, err)
		return db, second, reverse
	}
	db, second, reverse := open()
	key := []byte("key")
	must(t, errors.Join(db.Put(key, key, lsm.NoSync), second.Put(key, key, lsm.NoSync),
		reverse.Put(key, key, lsm.NoSync), db.Flush(), second.Flush(), reverse.Flush(), db.Close()))
	tables, err := filepath.Glob(filepath.Join(dir, "*.loam"))
	must(t, err)
	for _, table := range tables {
		if out, errs, code := loam(t.Context(), "sst", "--comparer=bytewise",
			table); code != exitFine {
			t.Errorf("%s: %s%s", table, out, errs)
		}
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "*.manifest"))
	must(t, errors.Join(err, os.Remove(manifests[0])))
	if out, errs, code := loam(t.Context(), "repair", "--comparer=bytewise", dir); len(tables) !=
		3 || code != exitProblems {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	db, second, reverse = open()
	for _, get := range []func(key, dst []byte) ([]byte, error){db.Get, second.Get, reverse.Get} {
		v, err := get(key, nil)
		if must(t, err); string(v) != "key" {
			t.Errorf("%q", v)
		}
	}
	must(t, db.Close())
}

// TestLongErrorIsCut tells the first lines of an error, and how many there are besides.
func TestLongErrorIsCut(t *testing.T) {
	for n, want := range map[int]string{1: "loam: x\n", maxErrorLines: "x\n",
		100_000: "x\nand 99900 more lines\n"} {
		var errs bytes.Buffer
		a := newApp(nil, &bytes.Buffer{}, &errs)
		a.parsed = true
		a.finish(errors.New(strings.TrimSuffix(strings.Repeat("x\n", n), "\n")))
		if got := errs.String(); !strings.HasSuffix(got, want) ||
			strings.Count(got, "\n") > maxErrorLines+1 {
			t.Errorf("%d lines: %.80q", n, got)
		}
	}
}

// TestPanicIsTold makes a panic of a verb an error with an exit code.
func TestPanicIsTold(t *testing.T) {
	var errs bytes.Buffer
	a := newApp(nil, &bytes.Buffer{}, &errs)
	err := a.protected(func() error { var c *cobra.Command; return c.RunE(nil, nil) })
	if code := a.finish(err); code == exitFine || !strings.Contains(errs.String(), "report it") {
		t.Errorf("%d %s", code, errs.String())
	}
}

// TestNamesWithCommands: names of files and directories reach a terminal without the commands to it
// that they may have.
func TestNamesWithCommands(t *testing.T) {
	root := t.TempDir()
	dir, folder := filepath.Join(root, "a\x1b[31m\u009bb\xff"), filepath.Join(root, "backups")
	if os.Mkdir(dir, 0o700) != nil {
		t.Skip("the file system has no such names")
	}
	all := ""
	for _, c := range []struct {
		code int
		args []string
	}{{exitFine, []string{"put", "--create", dir, "k", "v"}}, {exitFine, []string{"info", dir}},
		{exitFine, []string{"backup", dir, folder}}, {exitFine, []string{"backups", folder}},
		{exitFailed, []string{"backups", root}}, {exitFailed, []string{"info", dir + "2"}}} {
		out, errs, code := loam(t.Context(), c.args...)
		if code != c.code {
			t.Errorf("%q: exit %d: %s%s", c.args, code, out, errs)
		}
		all += out + errs
	}
	for _, r := range all {
		if r == utf8.RuneError || r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%q has %U", all, r)
			break
		}
	}
	if n := strings.Count(all, `a\x1b[31m\xc2\x9bb\xff`); n < 4 {
		t.Errorf("%q has the name %d times", all, n)
	}
}

// TestFilesOfTwo: two processes that write the same file at once do not write into one another's,
// and only one of them has written it.
func TestFilesOfTwo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "all.dump")
	a := newApp(nil, nil, nil)
	err := a.toFile(name, true, func(w io.Writer) error {
		must(t, a.toFile(name, true, func(w io.Writer) error {
			_, err := io.WriteString(w, "the second one")
			return err
		}))
		_, err := io.WriteString(w, "first")
		return err
	})
	if !errors.Is(err, lsm.ErrDirectoryChanged) {
		t.Error(err)
	}
	b, err := os.ReadFile(name)
	if must(t, err); string(b) != "the second one" {
		t.Errorf("%q", b)
	}
	must(t, os.Remove(name))
	err = a.toFile(name, true, func(io.Writer) error {
		return os.WriteFile(name, []byte("third"), 0o600)
	})
	if b, _ = os.ReadFile(name); !errors.Is(err, lsm.ErrExists) || string(b) != "third" {
		t.Errorf("a file that came meanwhile: %v, it has %q", err, b)
	}
	if _, err := os.Lstat(name + ".incomplete"); !os.IsNotExist(err) {
		t.Error(err)
	}
	must(t, os.Remove(name))
	must(t, os.WriteFile(name+".incomplete", []byte("what a crash left"), 0o600))
	must(t, a.toFile(name, true, func(io.Writer) error { return nil }))
	must(t, os.Remove(name))
	other := filepath.Join(t.TempDir(), "other")
	must(t, os.WriteFile(other, []byte("of somebody"), 0o600))
	if err := os.Symlink(other, name+".incomplete"); err != nil {
		return // this system does not let the user make links
	}
	if err := a.toFile(name, true, func(io.Writer) error { return nil }); err == nil {
		t.Error("a link was followed")
	}
	b, err = os.ReadFile(other)
	if must(t, err); string(b) != "of somebody" {
		t.Errorf("%q", b)
	}
}

// TestFailureBesideAnInterruption: a failure that is joined with an interruption is told.
func TestFailureBesideAnInterruption(t *testing.T) {
	failed := errors.New("the disk is gone")
	for _, c := range []struct {
		err  error
		code int
	}{
		{errors.Join(context.Canceled, failed), exitFailed},
		{errors.Join(fmt.Errorf("load: %w", context.Canceled), errors.Join(failed)), exitFailed},
		{fmt.Errorf("load: %w", errors.Join(context.Canceled, failed)), exitFailed},
		{fmt.Errorf("load: %w", errors.Join(context.Canceled, context.Canceled)), exitSignal},
		{errors.Join(context.Canceled, fmt.Errorf("%w: %w", failed, context.Canceled)), exitSignal},
		{fmt.Errorf("%w: %w", failed, context.Canceled), exitSignal},
	} {
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs)
		a.parsed = true
		code := a.finish(c.err)
		if code != c.code || strings.Contains(errs.String(), "gone") != (code == exitFailed) {
			t.Errorf("%v: exit %d: %s", c.err, code, errs.String())
		}
	}
}
