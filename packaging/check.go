package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	capLibrary = 9_500_000 // bytes of a library
	capGlibc   = 28        // glibc 2.28: Debian 10, RHEL 8
)

// checkAll checks the packages, builds all again, and compares.
func checkAll(kinds []string) error {
	if err := each(kinds, func(k kind, p platform) error {
		err := k.check(p)
		if err == nil {
			fmt.Printf("dist: %s for %s: used\n", k.name, p)
		}
		return err
	}); err != nil {
		return err
	}
	_, before, _, err := sums()
	if err != nil {
		return err
	}
	clear(built)
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	// What the makefiles would not build again.
	for _, path := range []string{"build/lib", "build/python/wheel.stamp", "build/java/target",
		"build/java/resources"} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := each(kinds, func(k kind, p platform) error { return k.build(p) }); err != nil {
		return err
	}
	names, after, _, err := sums()
	if err != nil {
		return err
	}
	for _, n := range names {
		if before[n] != after[n] {
			return fmt.Errorf("%s: two builds of it differ", n)
		}
	}
	fmt.Printf("dist: %d files are the same twice\n", len(names))
	return nil
}

// functions are those of loam.map, which are those of loam.h.
func functions() ([]string, error) {
	text, err := os.ReadFile("cabi/loam.map")
	return regexp.MustCompile(`\bloam_\w+`).FindAllString(string(text), -1), err
}

// needs are the libraries that a library asks the system for, by system.
var needs = map[string][]string{
	"linux": {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1",
		"ld-linux-x86-64.so.2"},
	"darwin":  {"/usr/lib/libSystem.B.dylib"},
	"windows": {"KERNEL32.dll", "msvcrt.dll"},
}

// readLibrary returns the names that a library defines for others and the libraries it needs.
func readLibrary(p platform, path string) (defined, needed []string, err error) {
	switch p.os {
	case "linux":
		f, err := elf.Open(path)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		symbols, err := f.DynamicSymbols()
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF {
				defined = append(defined, s.Name)
			}
		}
		needed, nerr := f.ImportedLibraries()
		return defined, needed, errors.Join(err, nerr)
	case "darwin":
		f, err := macho.Open(path)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		for _, s := range f.Symtab.Syms {
			if s.Sect != 0 {
				defined = append(defined, strings.TrimPrefix(s.Name, "_"))
			}
		}
		needed, err = f.ImportedLibraries()
		return defined, needed, err
	}
	f, err := pe.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	for _, s := range symbols {
		if _, dll, ok := strings.Cut(s, ":"); ok && !slices.Contains(needed, dll) {
			needed = append(needed, dll)
		}
	}
	if err == nil {
		defined, err = exports(f)
	}
	return defined, needed, err
}

// exports are the names of the directory of exports, which is of no section of its own with some
// linkers: it is found by its address.
func exports(f *pe.File) ([]string, error) {
	header, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return nil, errors.New("it is no library of 64 bits")
	}
	directory := header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_EXPORT]
	for _, s := range f.Sections {
		if directory.VirtualAddress < s.VirtualAddress ||
			directory.VirtualAddress >= s.VirtualAddress+s.VirtualSize {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return nil, err
		}
		at := func(address uint32) []byte { return data[address-s.VirtualAddress:] }
		d := at(directory.VirtualAddress)
		names := at(binary.LittleEndian.Uint32(d[32:]))
		all := make([]string, binary.LittleEndian.Uint32(d[24:]))
		for i := range all {
			name := at(binary.LittleEndian.Uint32(names[4*i:]))
			all[i] = string(name[:bytes.IndexByte(name, 0)])
		}
		return all, nil
	}
	return nil, nil
}

// linked wants a module to define what loads it, and to need no library but the system's, those of
// its own package and its host.
func linked(p platform, path string, wanted string) error {
	defined, needed, err := readLibrary(p, path)
	if err != nil {
		return err
	}
	if !slices.Contains(defined, wanted) {
		return fmt.Errorf("%s does not export %s", path, wanted)
	}
	own := []string{"node.exe", "loam.dll", "python3.dll", "libloam.so.0", "@rpath/libloam.dylib"}
	for _, name := range needed {
		if !slices.Contains(needs[p.os], name) && !slices.Contains(own, name) {
			return fmt.Errorf("%s needs %s", path, name)
		}
	}
	return nil
}

// checkLibrary reads a library, and has a C program use it where it can run.
func checkLibrary(p platform) error {
	if _, err := p.compiler(); err != nil {
		return err
	}
	path := filepath.Join(work, p.String(), p.engine())
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) > capLibrary {
		return fmt.Errorf("%s has %d bytes, cap %d", path, len(data), capLibrary)
	}
	if n := minorOfGlibc(data); p.os == "linux" && n > capGlibc {
		return fmt.Errorf("%s needs glibc 2.%d, want 2.%d at most", path, n, capGlibc)
	}
	defined, needed, err := readLibrary(p, path)
	if err != nil {
		return err
	}
	want, err := functions()
	if err != nil {
		return err
	}
	for _, name := range want {
		if !slices.Contains(defined, name) {
			return fmt.Errorf("%s does not export %s", path, name)
		}
	}
	for _, name := range needed {
		// Those are Windows' own C library, in parts.
		if !slices.Contains(needs[p.os], name) && !strings.HasPrefix(name, "api-ms-win-crt-") {
			return fmt.Errorf("%s needs %s", path, name)
		}
	}
	if err := hasLicences(libraryArchive(p)); err != nil {
		return err
	}
	return runExample(p, path)
}

// runExample runs cabi/example with the library.
func runExample(p platform, so string) error {
	runner, err := p.runner()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "loam-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cc, err := p.compiler()
	if err != nil {
		return err
	}
	name := p.engine()
	if p.os == "linux" {
		name += ".0"
	}
	if err := copyFile(so, filepath.Join(dir, name)); err != nil {
		return err
	}
	program := filepath.Join(dir, "example.exe")
	words := append(cc, "-Icabi", "-D__USE_MINGW_ANSI_STDIO=1", "-o", program,
		"cabi/example/example.c", filepath.Join(dir, name), "-Wl,-rpath,"+dir)
	if p.os == "windows" {
		words = words[:len(words)-1]
	}
	if _, err := command("", nil, words...); err != nil {
		return err
	}
	env, err := p.environment()
	if err != nil {
		return err
	}
	out, err := command(dir, env, append(runner, program, "example.db")...)
	if err == nil && !strings.HasPrefix(out, "apple is red") {
		err = fmt.Errorf("the example says %q", out)
	}
	return err
}

// checkLoam writes and reads a database by the command.
func checkLoam(p platform) error {
	runner, err := p.runner()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "loam-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	env, err := p.environment()
	if err != nil {
		return err
	}
	loam := append(runner, absolute(packed(loamName(p))))
	for _, step := range []struct{ args, want string }{
		{"put --create trees ash Fraxinus", ""}, {"put trees elm Ulmus", ""},
		{"get trees ash", "Fraxinus"}, {"scan trees", "elm\tUlmus"}, {"check trees", ""},
	} {
		out, err := command(dir, env, append(slices.Clone(loam), strings.Fields(step.args)...)...)
		if err != nil {
			return err
		}
		if !strings.Contains(out, step.want) {
			return fmt.Errorf("loam %s says %q, want %q", step.args, out, step.want)
		}
	}
	return nil
}
