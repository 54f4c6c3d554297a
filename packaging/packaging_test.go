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
