package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// goBuild builds a program or a library for a platform. Paths and stamps stay out of it.
func goBuild(p platform, env []string, args ...string) error {
	words := append([]string{variable("GO", "go"), "build", "-trimpath", "-buildvcs=false"},
		args...)
	_, err := command("", append(env, "GOOS="+p.os, "GOARCH="+p.arch), words...)
	return err
}

func loamName(p platform) string {
	name := "loam-" + version + "-" + p.String()
	if p.os == "windows" {
		name += ".exe"
	}
	return name
}

// buildFlags are what cabi/lib.mk gives to go build and to its linker, for the command and for the
// library: what is small on one platform is small on all.
func buildFlags() (loam, loamLink, lib, libLink string, err error) {
	out, err := command("", nil, variable("MAKE", "make"), "-s", "--no-print-directory", "-f",
		"cabi/lib.mk", "build-flags", "SHIPPED=1")
	lines := strings.Split(out, "\n")
	if err == nil && len(lines) != 5 {
		err = fmt.Errorf("make build-flags says %q, want four lines", out)
	}
	if err != nil {
		return "", "", "", "", err
	}
	return lines[0], lines[1], lines[2], lines[3], nil
}

// buildLoam builds the command, which needs no library of the system but where there is no other
// way to it.
func buildLoam(p platform) error {
	flags, link, _, _, err := buildFlags()
	if err != nil {
		return err
	}
	for _, name := range licences { // the command is in no archive: they lie beside it
		if err := copyFile(name, packed(name)); err != nil {
			return err
		}
	}
	err = goBuild(p, []string{"CGO_ENABLED=0"}, append(strings.Fields(flags), "-ldflags", link,
		"-o", packed(loamName(p)), "./cmd/loam")...)
	built[packed(loamName(p))] = err == nil
	return err
}

// built are the files that this build has made: several kinds of packages have them.
var built = map[string]bool{}

// commandOf is the command for the packages of bindings.
func commandOf(p platform) (string, error) {
	if path := packed(loamName(p)); built[path] {
		return path, nil
	}
	return packed(loamName(p)), buildLoam(p)
}

// library builds the engine's library and returns its path.
func library(p platform) (string, error) {
	cc, err := p.compiler()
	if err != nil {
		return "", err
	}
	out := filepath.Join(work, p.String(), p.engine())
	if built[out] {
		return out, nil
	}
	if p.native() {
		if err := makes("lib"); err != nil {
			return "", err
		}
		return out, copyFile("build/lib/libloam.so.0", out)
	}
	cflags, link := "-O2", ""
	switch p.os {
	case "linux":
		cflags += " -include " + absolute("cabi/glibc.h")
		link = "-Wl,--version-script=" + absolute("cabi/loam.map") + ",-soname,libloam.so.0 " +
			"-Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state"
	case "darwin":
		link = "-Wl,-dead_strip_dylibs -Wl,-install_name,@rpath/libloam.dylib"
	case "windows":
		cflags += " -DLOAM_BUILD -D__USE_MINGW_ANSI_STDIO=1"
		if p.arch == "amd64" { // zig's linker has no such arguments
			link = "-Wl,--no-insert-timestamp -static-libgcc -Wl,-Bstatic -lpthread -Wl,-Bdynamic"
		}
	}
	_, _, flags, ownLink, err := buildFlags()
	if err != nil {
		return "", err
	}
	err = goBuild(p, []string{"CGO_ENABLED=1", "CC=" + strings.Join(cc, " "),
		"CGO_CFLAGS=" + cflags}, append(strings.Fields(flags), "-o", out, "-ldflags",
		ownLink+" -linkmode=external -extldflags '"+link+"'", "./cabi")...)
	if p.os == "windows" && p.arch == "arm64" && err == nil {
		err = withoutTime(out)
	}
	built[out] = err == nil
	_ = os.Remove(strings.TrimSuffix(out, filepath.Ext(out)) + ".h") // cgo's, which is not loam.h
	return out, err
}

// withoutTime takes out of a library for Windows what differs between two links of the same: the
// time, and the random name of a file of debugging that there is not.
func withoutTime(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return fmt.Errorf("%s is no library of 64 bits", path)
	}
	const stamp, entry, name = 4, 28, 16 // places and sizes, in bytes
	le := binary.LittleEndian
	clear(data[le.Uint32(data[0x3c:])+4+stamp:][:4])
	debug := header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_DEBUG]
	for _, s := range f.Sections {
		if debug.VirtualAddress < s.VirtualAddress ||
			debug.VirtualAddress >= s.VirtualAddress+s.VirtualSize {
			continue
		}
		at := debug.VirtualAddress - s.VirtualAddress + s.Offset
		for end := at + debug.Size; at+entry <= end; at += entry {
			clear(data[at+stamp:][:4])
			if le.Uint32(data[at+12:]) == 2 { // CodeView: "RSDS" and the name
				clear(data[le.Uint32(data[at+24:])+4:][:name])
			}
		}
	}
	return os.WriteFile(path, data, 0o644)
}

func libraryName(p platform) string { return "libloam-" + version + "-" + p.String() }

func libraryArchive(p platform) string {
	extension := ".tar.gz"
	if p.os == "windows" {
		extension = ".zip"
	}
	return packed(libraryName(p) + extension)
}

// packLibrary puts the library and its header into an archive.
func packLibrary(p platform) error {
	so, err := library(p)
	if err != nil {
		return err
	}
	top := libraryName(p)
	lib := top + "/lib/" + p.engine()
	if p.os == "linux" {
		lib += ".0"
	}
	files := []entry{{lib, so, 0o755}, {top + "/include/loam.h", "cabi/loam.h", 0o644}}
	for _, name := range licences {
		files = append(files, entry{top + "/" + name, name, 0o644})
	}
	if p.os == "windows" {
		return writeZip(libraryArchive(p), files)
	}
	return writeTar(libraryArchive(p), files)
}

// compile makes a shared library of C sources.
func compile(p platform, out string, flags ...string) error {
	cc, err := p.compiler()
	if err != nil {
		return err
	}
	words := append(cc, "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-o", out)
	if p.os == "linux" {
		words = append(words, "-include", "cabi/glibc.h")
		flags = append(flags, "-Wl,--push-state,--no-as-needed,-l:libpthread.so.0,"+
			"-l:libdl.so.2,--pop-state", "-Wl,-z,nodelete,--build-id=none", "-s")
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	_, err = command("", nil, append(words, flags...)...)
	return err
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
