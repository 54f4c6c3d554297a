package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// The tests here build the libraries and run C programs against them. They need
// gcc and are not cgo themselves, so they run whatever CGO_ENABLED says.

// library builds libloam.so and libleveldb.so once and returns their folder: what make lib has,
// and builds if it is older than its sources. With asan they are built with an instrumented C side:
// bad addresses and undefined behaviour end the program.
func library(t testing.TB, asan bool) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("the C library is tested on linux, not %s", runtime.GOOS)
	}
	for _, tool := range []string{"gcc", "nm", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v; install gcc and make to test the C library", err)
		}
	}
	build := shipped
	if asan {
		build = sanitized
	}
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// builds says how a program that needs no certain build is built: sanitized, in long runs also as
// it is shipped.
func builds() []bool {
	if seed.Full() {
		return []bool{true, false}
	}
	return []bool{true}
}

var (
	shipped, sanitized = sync.OnceValues(makeLibrary), sync.OnceValues(buildSanitized)
	sanitizedDir       string
)

const leveldbFlags = "-std=c99 -pedantic -O2 -Wall -Wextra -Werror -fPIC -shared " +
	"-fvisibility=hidden"

func makeLibrary() (string, error) {
	make := exec.Command("make", "-s", "-f", "cabi/lib.mk", "lib")
	make.Dir = ".."
	if out, err := make.CombinedOutput(); err != nil {
		return "", &buildError{err, out}
	}
	return filepath.Abs("../build/lib")
}

func buildSanitized() (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	show := exec.Command("make", "-s", "-f", "cabi/lib.mk", "build-flags")
	show.Dir = root
	lines, err := show.Output()
	if err != nil {
		return "", err
	}
	// With the flags of make lib, what it has compiled is in the build cache, and the other way
	// round, but for packages that use cgo.
	flags := strings.Fields(strings.Split(string(lines), "\n")[2])
	dir, err := os.MkdirTemp("", "loam-cabi-")
	if err != nil {
		return "", err
	}
	sanitizedDir = dir
	script := filepath.Join(root, "cabi", "loam.map")
	const sanitize = "-fsanitize=address,undefined -fno-sanitize-recover=all"
	so := filepath.Join(dir, "libloam.so.0")
	build := exec.Command("go", append(append([]string{"build", "-trimpath", "-buildvcs=false"},
		flags...), "-o", so, "-ldflags",
		"-extldflags '-Wl,--version-script="+script+",-soname,libloam.so.0'", "./cabi")...)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1",
		"CGO_CFLAGS=-g -O1 -fno-omit-frame-pointer "+sanitize, "CGO_LDFLAGS="+sanitize)
	if out, err := build.CombinedOutput(); err != nil {
		return dir, &buildError{err, out}
	}
	if err := os.Symlink("libloam.so.0", filepath.Join(dir, "libloam.so")); err != nil {
		return dir, err
	}
	args := append(strings.Fields(leveldbFlags+" "+sanitize), "-I.", "-Ileveldb", "-o",
		filepath.Join(dir, "libleveldb.so.1"),
		"leveldb/leveldb.c", "leveldb/library.c", "leveldb/options.c",
		"-Wl,--version-script=leveldb/leveldb.map,-soname,libleveldb.so.1",
		"-Wl,-z,nodelete,-rpath,$ORIGIN",
		"-pthread", "-ldl")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return dir, &buildError{err, out}
	}
	return dir, os.Symlink("libleveldb.so.1", filepath.Join(dir, "libleveldb.so"))
}

type buildError struct {
	err    error
	output []byte
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + string(e.output) }

func TestMain(m *testing.M) {
	code := m.Run()
	if sanitizedDir != "" {
		os.RemoveAll(sanitizedDir)
	}
	os.Exit(code)
}

// compile makes a program of a C or C++ source and returns its path.
func compile(t testing.TB, asan bool, source string, flags ...string) string {
	t.Helper()
	dir := library(t, asan)
	ext := filepath.Ext(source)
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ext))
	compiler := "gcc"
	if ext == ".cpp" {
		compiler = "g++"
	}
	optimize := "-O1"
	if (asan || ext == ".cpp") && !seed.Full() {
		optimize = "-O0" // half the time of the compiler
	}
	args := []string{optimize, "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I.", "-Ileveldb",
		source, "-o", out,
		"-L" + dir, "-Wl,-rpath," + dir}
	if asan {
		args = append(args, "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
			"-fno-omit-frame-pointer")
	}
	args = append(args, flags...)
	if text, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler, source, err, text)
	}
	return out
}

// execute runs a program in a fresh directory and returns its standard output.
func execute(t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	// Go's heap is no leak, and its signal handlers are not the sanitizer's.
	cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:halt_on_error=1",
		"GODEBUG=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(hang.Limit(), func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(program), err, tail(stdout.String()),
			tail(stderr.String()))
	}
	if stderr.Len() > 0 {
		t.Logf("%s: %s", filepath.Base(program), tail(stderr.String()))
	}
	return stdout.String()
}

func tail(s string) string {
	if len(s) > 4000 {
		return "...\n" + s[len(s)-4000:]
	}
	return s
}

// TestClang: the C of the library is none of gcc's alone.
func TestClang(t *testing.T) {
	if _, err := exec.LookPath("clang"); err != nil || runtime.GOOS != "linux" {
		t.Skip("there is no clang, or this is not linux")
	}
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CC=clang")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	exports := t.TempDir()
	list := strings.Split(run("go", "list", "-f",
		`{{join .CgoFiles " "}};{{join .CFiles " "}}`, "."), ";")
	run("go", append([]string{"tool", "cgo", "-objdir", exports, "--", "-I."},
		strings.Fields(list[0])...)...)
	run("clang", append([]string{"-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I.",
		"-I" + exports}, strings.Fields(list[1])...)...)
}
