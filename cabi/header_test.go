package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// declared returns the functions a header declares.
func declared(t *testing.T, header, marker string) []string {
	t.Helper()
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	return names(regexp.MustCompile(`(?m)^`+marker+`[^;{}(]*?(\w+)\(`).FindAllStringSubmatch(
		string(text), -1))
}

func names(matches [][]string) []string {
	var list []string
	for _, m := range matches {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// scripted returns the names a version script makes visible.
func scripted(t *testing.T, script string) []string {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	return names(regexp.MustCompile(`(?m)^    (\w+);$`).FindAllStringSubmatch(string(text), -1))
}

// exported returns the symbols a library defines for others.
func exported(t *testing.T, so string) []string {
	t.Helper()
	out, err := exec.Command("nm", "-D", "--defined-only", so).Output()
	if err != nil {
		t.Fatal(err)
	}
	// A is the version's own name.
	return names(regexp.MustCompile(`(?m) [B-Zb-z] (\w+)`).FindAllStringSubmatch(string(out), -1))
}

func same(t *testing.T, what string, a, b []string) {
	t.Helper()
	for _, x := range a {
		if !slices.Contains(b, x) {
			t.Errorf("%s: %s is in the first alone", what, x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			t.Errorf("%s: %s is in the second alone", what, x)
		}
	}
}

// TestNames wants header, version script and library to agree.
func TestNames(t *testing.T) {
	dir := library(t, false)
	header := declared(t, "loam.h", `LOAM_API`)
	if len(header) < 70 {
		t.Fatalf("only %d functions found in loam.h", len(header))
	}
	same(t, "loam.h against loam.map", header, scripted(t, "loam.map"))
	same(t, "loam.h against libloam.so", header, exported(t, filepath.Join(dir, "libloam.so.0")))

	header = declared(t, "leveldb/leveldb/c.h", `LEVELDB_EXPORT`)
	if len(header) != 68 {
		t.Errorf("leveldb/c.h declares %d functions, want 68", len(header))
	}
	same(t, "leveldb/c.h against leveldb.map", header, scripted(t, "leveldb/leveldb.map"))
	same(t, "leveldb/c.h against libleveldb.so", header,
		exported(t, filepath.Join(dir, "libleveldb.so.1")))
}

func TestSonameAndSize(t *testing.T) {
	dir := library(t, false)
	for so, soname := range map[string]string{"libloam.so.0": "libloam.so.0",
		"libleveldb.so.1": "libleveldb.so.1"} {
		out, err := exec.Command("readelf", "-d", filepath.Join(dir, so)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), "soname: ["+soname+"]") {
			t.Errorf("%s: no soname %s:\n%s", so, soname, out)
		}
		if !strings.Contains(string(out), "NODELETE") {
			t.Errorf("%s may be unloaded:\n%s", so, out)
		}
		info, err := os.Stat(filepath.Join(dir, so))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", so, info.Size())
		// The checks of other engines' files, of gaps between logs and of callbacks took 150 KB,
		// values in logs 100, encryption with AES-GCM, scrypt and what they need 235.
		if info.Size() > 36<<18 {
			t.Errorf("%s has %d bytes, more than 9 MiB", so, info.Size())
		}
	}
}

// TestHeaders compiles both headers alone, as strict C99 and as C++.
func TestHeaders(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("no C compiler: %v; install gcc to test the headers", err)
	}
	for _, header := range []string{"loam.h", "leveldb/leveldb/c.h"} {
		for _, flags := range []string{"-std=c99 -x c", "-std=c11 -x c",
			"-std=c++98 -Wno-long-long -x c++", "-std=c++20 -x c++"} {
			if strings.Contains(flags, "c++") {
				if _, err := exec.LookPath("g++"); err != nil {
					t.Logf("no C++ compiler: %v", err)
					continue
				}
			}
			args := append(
				strings.Fields("-pedantic-errors -Wall -Wextra -Werror -fsyntax-only "+flags),
				header)
			if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
				t.Errorf("gcc %s %s: %v\n%s", flags, header, err, out)
			}
		}
	}
	// A C++ program links: the names are not mangled.
	if _, err := exec.LookPath("g++"); err == nil {
		dir := library(t, false)
		src := filepath.Join(t.TempDir(), "x.cc")
		if err := os.WriteFile(src,
			[]byte("#include <loam.h>\nint main() { return loam_abi_version() != "+
				"LOAM_ABI_VERSION; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		bin := src + ".bin"
		if out, err := exec.Command("g++", "-I.", src, "-o", bin, "-L"+dir, "-lloam",
			"-Wl,-rpath,"+dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		execute(t, bin)
	}
}

func TestExample(t *testing.T) {
	for _, asan := range builds() {
		out := execute(t, compile(t, asan, "example/example.c", "-std=c99", "-pedantic", "-lloam"))
		for _, want := range []string{"apple is red\n", "quince: not found\n",
			"now: gone; then: there\n", "fruit0009=fresh\nfruit0008=fresh\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("asan %v: no %q in\n%s", asan, want, out)
			}
		}
	}
}

// TestInstall runs make install into a folder and compiles the example with
// what pkg-config says.
func TestInstall(t *testing.T) {
	library(t, false)
	for _, tool := range []string{"make", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: cannot test make install", err)
		}
	}
	prefix := t.TempDir()
	make := exec.Command("make", "-s", "-f", "cabi/lib.mk", "install", "PREFIX="+prefix)
	make.Dir = ".."
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("make install: %v\n%s", err, out)
	}
	pc := exec.Command("pkg-config", "--cflags", "--libs", "loam")
	pc.Env = append(os.Environ(), "PKG_CONFIG_PATH="+prefix+"/lib/pkgconfig")
	flags, err := pc.Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "example")
	args := append([]string{"example/example.c", "-o", bin, "-Wl,-rpath," + prefix + "/lib"},
		strings.Fields(string(flags))...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out := execute(t, bin); !strings.Contains(out, "apple is red") {
		t.Errorf("the example says %s", out)
	}
	for _, name := range []string{"lib/libloam.so", "lib/loam/libleveldb.so.1",
		"lib/loam/libleveldb.so.1d", "include/loam/leveldb/c.h"} {
		if _, err := os.Stat(filepath.Join(prefix, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestReproducible wants two builds of the libraries, from copies in different
// places and with nothing built before, to be the same bytes.
func TestReproducible(t *testing.T) {
	if !seed.Full() {
		t.Skip("two whole builds: part of make test-full")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	build := func() map[string][]byte {
		dir := t.TempDir()
		for _, part := range []string{"go.mod", "go.sum", "lsm", "internal", "cabi"} {
			if out, err := exec.Command("cp", "-r", filepath.Join("..", part),
				dir).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		make := exec.Command("make", "-s", "-f", "cabi/lib.mk", "lib")
		make.Dir = dir
		make.Env = append(os.Environ(), "GOCACHE="+filepath.Join(dir, "cache"))
		if out, err := make.CombinedOutput(); err != nil {
			t.Fatalf("make lib: %v\n%s", err, out)
		}
		built := map[string][]byte{}
		for _, name := range []string{"libloam.so.0", "libleveldb.so.1"} {
			bytes, err := os.ReadFile(filepath.Join(dir, "build/lib", name))
			if err != nil {
				t.Fatal(err)
			}
			built[name] = bytes
		}
		return built
	}
	first, second := build(), build()
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
}

// TestLevelDBHeader compiles LevelDB's own header, where it is installed, and
// ours into one file: the declarations must agree. The program of TestLevelDB
// must pass with LevelDB's library, too.
func TestLevelDBHeader(t *testing.T) {
	const theirs = "/usr/include/leveldb/c.h"
	if _, err := os.Stat(theirs); err != nil {
		t.Skipf("%v: install LevelDB's development files to compare with them", err)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	src := filepath.Join(t.TempDir(), "both.c")
	// The constants are enumerators in both.
	text := "#include \"" + theirs + "\"\n#undef LEVELDB_EXPORT\n" +
		"enum { none = leveldb_no_compression, snappy = leveldb_snappy_compression };\n" +
		"#define leveldb_no_compression our_none\n#define leveldb_snappy_compression " +
		"our_snappy\n#define leveldb_zstd_compression our_zstd\n" +
		"#include \"leveldb/leveldb/c.h\"\n" +
		"typedef char agree[(int)none == (int)our_none && (int)snappy == (int)our_snappy ? 1 " +
		": -1];\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-I.", "-fsyntax-only", "-Wall", "-Werror",
		src).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	bin := filepath.Join(t.TempDir(), "theirs")
	if out, err := exec.Command("gcc", "-std=gnu99", "-DLEVELDB_ITSELF", "testdata/leveldb.c", "-o",
		bin, "-lleveldb").CombinedOutput(); err != nil {
		t.Skipf("LevelDB's library: %v\n%s", err, out)
	}
	t.Setenv("TEST_TMPDIR", t.TempDir())
	if out := execute(t, bin); out != "PASS\n" {
		t.Errorf("with LevelDB's library the program says %q", out)
	}
}
