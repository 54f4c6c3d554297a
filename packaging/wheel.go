package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// minorOfGlibc is the newest version 2.x of glibc that a library asks for; 17 is the oldest that
// wheels name.
func minorOfGlibc(library []byte) int {
	minor := 17
	for _, m := range regexp.MustCompile(`\x00GLIBC_2\.(\d+)\b`).FindAllSubmatch(library, -1) {
		if n, err := strconv.Atoi(string(m[1])); err == nil {
			minor = max(minor, n)
		}
	}
	return minor
}

// pythonWheel is the wheel that setuptools makes for this machine: the others are it with other
// libraries.
func pythonWheel() (*zip.ReadCloser, error) {
	if err := makes("python-wheel"); err != nil {
		return nil, err
	}
	found, err := filepath.Glob("build/python/dist/loamdb-*.whl")
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("build/python/dist has %d wheels (%v), want one", len(found), err)
	}
	return zip.OpenReader(found[0])
}

// pythonModules compiles the two extensions, for the stable ABI.
func pythonModules(p platform, dir string) error {
	const interpreter = "build/python/build-venv/bin/python"
	includes, err := command("", nil, interpreter, "-c",
		"import sysconfig; print(sysconfig.get_path('include'))")
	if err != nil {
		return err
	}
	if p.os == "windows" {
		includes = filepath.Join(windowsPython, "include")
	}
	emitted := filepath.Join(dir, "_loam.c")
	_, err = command("", nil, interpreter, "-c", "import sys; sys.path.insert(0, "+
		"'bindings/python'); import _cffi_build; _cffi_build.ffi.emit_c_code('"+emitted+"')")
	if err != nil {
		return err
	}
	flags := []string{"-I" + strings.TrimSpace(includes), "-Icabi", "-Ibindings/python",
		"-DPy_LIMITED_API=0x030B0000"}
	// The libraries come behind the sources that need them.
	var libraries []string
	switch p.os {
	case "darwin":
		flags = append(flags, "-Wl,-undefined,dynamic_lookup")
	case "windows":
		flags = append(flags, "-D__USE_MINGW_ANSI_STDIO=1", "-Wno-attributes")
		libraries = []string{filepath.Join(windowsPython, "libs/python3.lib"), "-s",
			"-static-libgcc", "-Wl,--no-insert-timestamp"}
	}
	fast := []string{"_fast.c", "_batch.c", "_callbacks.c", "_cursor.c", "_pinned.c"}
	for i := range fast {
		fast[i] = "bindings/python/" + fast[i]
	}
	if err := compile(p, filepath.Join(dir, p.module("_fast")), slices.Concat(flags, fast,
		libraries)...); err != nil {
		return err
	}
	return compile(p, filepath.Join(dir, p.module("_loam")), slices.Concat(flags,
		[]string{emitted}, libraries)...)
}

// windowsPython is a Python for Windows, as dist-tools gets it.
const windowsPython = "build/windows/python/org/bytedeco/cpython/windows-x86_64"

// module is the name of an extension's file.
func (p platform) module(name string) string {
	if p.os == "windows" {
		return name + ".pyd"
	}
	return name + ".abi3.so"
}

// inWheel is the name of a file in the platform's wheel, which in this machine's has another.
func (p platform) inWheel(name string) string {
	base, ok := strings.CutPrefix(name, "loamdb/")
	extension, isModule := strings.CutSuffix(base, ".abi3.so")
	switch {
	case !ok:
		return name
	case base == "libloam.so":
		base = p.engine()
	case isModule:
		base = p.module(extension)
	case base == "loam" && p.os == "windows":
		base = "loam.exe"
	}
	return "loamdb/" + base
}

func buildWheel(p platform) error {
	if p.wheel == "" {
		return leftOut("there is no wheel for it yet")
	}
	if _, err := os.Stat(windowsPython); p.os == "windows" && err != nil {
		return leftOut("Python is not in build/windows; make dist-tools gets it")
	}
	so, err := library(p)
	if err != nil {
		return err
	}
	from, err := pythonWheel()
	if err != nil {
		return err
	}
	defer from.Close()
	dir := filepath.Join(work, p.String(), "python")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	loam, err := commandOf(p)
	if err != nil {
		return err
	}
	// By the name in this machine's wheel.
	replaced := map[string]string{"loamdb/libloam.so": so, "loamdb/loam": loam}
	if !p.native() {
		if err := pythonModules(p, dir); err != nil {
			return err
		}
		for _, name := range []string{"_fast", "_loam"} {
			replaced["loamdb/"+name+".abi3.so"] = filepath.Join(dir, p.module(name))
		}
	}
	return repack(p, from, replaced)
}

// repack writes the wheel with other libraries, its tag, and the sums of all in RECORD.
func repack(p platform, from *zip.ReadCloser, replaced map[string]string) error {
	var out, record bytes.Buffer
	w := zip.NewWriter(&out)
	files := map[string][]byte{}
	minor := 17
	for _, f := range from.File {
		data, err := readZipped(f)
		if source := replaced[f.Name]; source != "" && err == nil {
			data, err = os.ReadFile(source)
		}
		if err != nil {
			return err
		}
		if strings.HasSuffix(f.Name, ".so") {
			minor = max(minor, minorOfGlibc(data))
		}
		files[p.inWheel(f.Name)] = data
	}
	tag := strings.Replace(p.wheel, "manylinux_", fmt.Sprintf("manylinux_2_%d_", minor), 1)
	tag = "cp311-abi3-" + tag
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	recordName := ""
	for _, name := range names {
		data := files[name]
		switch {
		case strings.HasSuffix(name, ".dist-info/RECORD"):
			recordName = name
			continue
		case strings.HasSuffix(name, ".dist-info/WHEEL"):
			data = regexp.MustCompile(`(?m)^Tag: .*$`).ReplaceAll(data, []byte("Tag: "+tag))
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name,
			base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
		mode := fs.FileMode(0o644)
		if name == "loamdb/loam" {
			mode = 0o755
		}
		if err := addZip(w, name, data, mode); err != nil {
			return err
		}
	}
	fmt.Fprintf(&record, "%s,,\n", recordName)
	if err := addZip(w, recordName, record.Bytes(), 0o644); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(packed("loamdb-"+version+"-"+tag+".whl"), out.Bytes(), 0o644)
}

func readZipped(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
