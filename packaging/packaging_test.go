package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMinorOfGlibc(t *testing.T) {
	for text, want := range map[string]int{
		"":                                  17,
		"\x00GLIBC_2.2.5\x00GLIBC_2.34\x00": 34,
		"\x00GLIBC_2.28\x00GLIBC_2.9\x00":   28,
		"GLIBCXX_2.99":                      17,
	} {
		if got := minorOfGlibc([]byte(text)); got != want {
			t.Errorf("%q: 2.%d, want 2.%d", text, got, want)
		}
	}
}

// TestBuildFlags: the makefiles hand out what they build by, and the lists are not empty.
func TestBuildFlags(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	t.Chdir("..")
	loam, loamLink, lib, libLink, err := buildFlags()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(loam, "-gcflags=all=-l") ||
		!strings.HasSuffix(loamLink, "main.release="+release()) {
		t.Errorf("the command's: %q, %q", loam, loamLink)
	}
	if !strings.HasPrefix(lib, "-buildmode=c-shared -gcflags=crypto/...=-l") ||
		libLink != "-s -w -buildid= -funcalign=16" {
		t.Errorf("the library's: %q, %q", lib, libLink)
	}
}

// TestRepack makes a wheel for macOS from one for Linux, twice.
func TestRepack(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	mac := platforms[3]
	var first []byte
	for range 2 {
		writeWheel(t, "linux.whl")
		from, err := zip.OpenReader("linux.whl")
		if err != nil {
			t.Fatal(err)
		}
		err = repack(mac, from, map[string]string{"loamdb/libloam.so": "theirs"})
		from.Close()
		if err != nil {
			t.Fatal(err)
		}
		path, err := filepath.Glob(packed("loamdb-*-cp311-abi3-macosx_12_0_arm64.whl"))
		if err != nil || len(path) != 1 {
			t.Fatalf("%q, %v", path, err)
		}
		data, err := os.ReadFile(path[0])
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, data) {
			t.Error("two wheels of the same files differ")
		}
		first = data
	}
	files := map[string]string{}
	r, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		data, err := readZipped(f)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(data)
		if command := f.Name == "loamdb/loam"; command != (f.Mode()&0o111 != 0) {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	if files["loamdb/libloam.dylib"] != "mach-o" || files["loamdb/libloam.so"] != "" {
		t.Errorf("the libraries: %q", files)
	}
	if got := files["x.dist-info/WHEEL"]; got != "Tag: cp311-abi3-macosx_12_0_arm64\n" {
		t.Errorf("WHEEL: %q", got)
	}
	sum := sha256.Sum256([]byte("mach-o"))
	line := "loamdb/libloam.dylib,sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]) + ",6\n"
	if got := files["x.dist-info/RECORD"]; !strings.Contains(got, line) ||
		!strings.HasSuffix(got, "x.dist-info/RECORD,,\n") {
		t.Errorf("RECORD: %q", got)
	}
}

// TestThirdParty: THIRD-PARTY.txt names each module that is linked into a package, and has the text
// of its licence, and of those of its packages that have their own.
func TestThirdParty(t *testing.T) {
	t.Chdir("..")
	linked, err := linkedPackages()
	if err != nil {
		t.Fatal(err)
	}
	goRoot, err := command("", nil, variable("GO", "go"), "env", "GOROOT")
	if err != nil {
		t.Fatal(err)
	}
	folded := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
	ours := folded("THIRD-PARTY.txt")
	texts := map[string][]string{} // by directory
	below := func(dir string) []string {
		if texts[dir] == nil {
			for _, pattern := range []string{"LICEN*", "COPYING*", "NOTICE*"} {
				found, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil {
					t.Fatal(err)
				}
				texts[dir] = append(texts[dir], found...)
			}
		}
		return texts[dir]
	}
	below(strings.TrimSpace(goRoot))
	modules := map[string]bool{}
	for _, p := range linked {
		if modules[p.Module.Path] = true; len(below(p.Module.Dir)) == 0 {
			t.Errorf("%s has no licence", p.Module.Path)
		}
		for dir := p.Dir; dir != p.Module.Dir; dir = filepath.Dir(dir) {
			below(dir)
		}
	}
	for module := range modules {
		if !strings.Contains(ours, "Go's module "+module+" ") {
			t.Errorf("THIRD-PARTY.txt does not name %s", module)
		}
	}
	for _, paths := range texts {
		for _, path := range paths {
			if !strings.Contains(ours, folded(path)) {
				t.Errorf("THIRD-PARTY.txt is without the text of %s", path)
			}
		}
	}
	if len(modules) < 9 {
		t.Errorf("%d modules are linked: %v", len(modules), modules)
	}
}

// TestHasLicences: archives of both sorts are read.
func TestHasLicences(t *testing.T) {
	t.Chdir(t.TempDir())
	var files []entry
	for _, name := range licences {
		if err := os.WriteFile(name, []byte("text of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, entry{"top/" + name, name, 0o644})
	}
	for name, write := range map[string]func(string, []entry) error{
		"a.zip": writeZip, "a.tar.gz": writeTar,
	} {
		other := []entry{files[0], {files[1].name, "LICENSE", 0o644}}
		for _, c := range []struct {
			files []entry
			want  bool
		}{{files, true}, {files[:1], false}, {other, false}} {
			if err := write(name, c.files); err != nil {
				t.Fatal(err)
			}
			if err := hasLicences(name); (err == nil) != c.want {
				t.Errorf("%s of %v: %v", name, c.files, err)
			}
		}
	}
}

// TestNamesInWheel: Python loads a module and a library by the name that its system gives them.
func TestNamesInWheel(t *testing.T) {
	windows, arm := platforms[4], platforms[1]
	for name, want := range map[string][2]string{
		"loamdb/libloam.so":    {"loamdb/loam.dll", "loamdb/libloam.so"},
		"loamdb/_fast.abi3.so": {"loamdb/_fast.pyd", "loamdb/_fast.abi3.so"},
		"loamdb/loam":          {"loamdb/loam.exe", "loamdb/loam"},
		"loamdb/db.py":         {"loamdb/db.py", "loamdb/db.py"},
		"x.dist-info/RECORD":   {"x.dist-info/RECORD", "x.dist-info/RECORD"},
	} {
		if got := [2]string{windows.inWheel(name), arm.inWheel(name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func writeWheel(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile("theirs", []byte("mach-o"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range [][2]string{{"loamdb/libloam.so", "elf"}, {"loamdb/loam", "program"},
		{"x.dist-info/WHEEL", "Tag: cp311-abi3-manylinux_2_17_x86_64\n"},
		{"x.dist-info/RECORD", "former\n"}} {
		if err := addZip(w, f[0], []byte(f[1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
