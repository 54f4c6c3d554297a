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
	emitted := filepath.Join(dir, "_loam.c")
	_, err = command("", nil, interpreter, "-c", "import sys; sys.path.insert(0, "+
		"'bindings/python'); import _cffi_build; _cffi_build.ffi.emit_c_code('"+emitted+"')")
	if err != nil {
		return err
	}
	flags := []string{"-I" + strings.TrimSpace(includes), "-Icabi", "-Ibindings/python",
		"-DPy_LIMITED_API=0x030B0000"}
	if p.os == "darwin" {
		flags = append(flags, "-Wl,-undefined,dynamic_lookup")
	}
	fast := []string{"_fast.c", "_batch.c", "_callbacks.c", "_cursor.c", "_pinned.c"}
	for i := range fast {
		fast[i] = "bindings/python/" + fast[i]
	}
	if err := compile(p, filepath.Join(dir, "_fast.abi3.so"), slices.Concat(flags,
		fast)...); err != nil {
		return err
	}
	return compile(p, filepath.Join(dir, "_loam.abi3.so"), append(flags, emitted)...)
}

func buildWheel(p platform) error {
	if p.wheel == "" {
		return leftOut("there is no wheel for it yet")
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
		for _, name := range []string{"_fast.abi3.so", "_loam.abi3.so"} {
			replaced["loamdb/"+name] = filepath.Join(dir, name)
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
		name := f.Name
		if name == "loamdb/libloam.so" {
			name = "loamdb/" + p.engine()
		}
		files[name] = data
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
