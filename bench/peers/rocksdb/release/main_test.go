package main

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreferOwnSymbols: a marked library calls its own function where the
// program has one of the same name.
func TestPreferOwnSymbols(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	build := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	lib := filepath.Join(dir, "libown.so")
	build("-shared", "-fPIC", "-o", lib,
		write("own.c", "int inner(void) { return 1; }\nint outer(void) { return inner(); }\n"))
	program := filepath.Join(dir, "program")
	build("-rdynamic", "-o", program,
		write("main.c", "int outer(void);\nint inner(void) { return 2; }\nint main(void) { "+
			"return outer(); }\n"),
		lib, "-Wl,-rpath,"+dir)
	code := func() int {
		err := exec.Command(program).Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		t.Fatal(err)
		return 0
	}
	if got := code(); got != 2 {
		t.Skipf("the program's function is not preferred here: %d", got)
	}
	b, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // marked once
		if err := preferOwnSymbols(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(lib, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if marks, err := f.DynValue(elf.DT_SYMBOLIC); len(marks) != 1 || err != nil {
		t.Errorf("%d marks, %v", len(marks), err)
	}
	if got := code(); got != 1 {
		t.Errorf("the marked library calls the program's function: %d", got)
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("librocksdbjni-linux64.so")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("library")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := extract(b.Bytes(), "librocksdbjni-linux64.so"); string(got) != "library" ||
		err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := extract(b.Bytes(), "librocksdbjni-win64.dll"); err == nil {
		t.Error("extracted what is not there")
	}
	if err := verify(b.Bytes(), sum); err == nil || !strings.Contains(err.Error(), sum) {
		t.Errorf("took another archive for the release: %v", err)
	}
	if err := verify([]byte("abc"),
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); err != nil {
		t.Error(err)
	}
	if err := preferOwnSymbols([]byte("library")); err == nil {
		t.Error("marked what is no library")
	}
}
