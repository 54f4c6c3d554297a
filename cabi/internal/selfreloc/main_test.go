//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Pointers of all kinds of places: in a row of more than one word of bits, with gaps, read-only
// after the loader, and a constructor, which is called by a pointer.
const librarySource = `
#define TEN(x) x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9
#define HUNDRED(x) TEN(x), TEN(x + 10), TEN(x + 20), TEN(x + 30), TEN(x + 40), TEN(x + 50), \
  TEN(x + 60), TEN(x + 70), TEN(x + 80), TEN(x + 90)
static char cells[400];
static char *const row[] = {HUNDRED(cells), HUNDRED(cells + 100), HUNDRED(cells + 200)};
static struct { char *to; long gap[3]; } apart[] = {{cells}, {cells + 1}, {cells + 2}, {cells + 3}};
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }

int wrong(void) {
  char *const volatile *r = row;
  for (int i = 0; i < 300; i++)
    if (r[i] != cells + i) return 1 + i;
  for (int i = 0; i < 4; i++)
    if (*(char *volatile *)&apart[i].to != cells + i) return 1001 + i;
  return constructed ? 0 : 2000;
}

const void *read_only(void) { return row; }
`

const programSource = `
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void protected(int signal) { (void)signal; write(1, "protected\n", 10); _exit(0); }

int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) return puts(dlerror()), 1;
  int (*wrong)(void) = (int (*)(void))dlsym(library, "wrong");
  printf("wrong: %d\n", wrong());
  fflush(stdout);
  void **row = (void **)((const void *(*)(void))dlsym(library, "read_only"))();
  signal(SIGSEGV, protected);
  *row = NULL;
  puts("written");
  return argc - 2;
}
`

func TestConvertedLibrary(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"library.c": librarySource,
		"program.c": programSource} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("cc %q: %v\n%s", args, err, out)
		}
	}
	library := []string{"-O2", "-fPIC", "-shared", "-Wl,-z,relro,-z,pack-relative-relocs",
		"../../relocate.c", at("library.c"), "-o", at("library.so")}
	build(library...)
	if data, err := os.ReadFile(at("library.so")); err != nil {
		t.Fatal(err)
	} else if !bytes.Contains(data, []byte(neededVersion)) {
		t.Skip("the linker packs no relocations")
	}
	if err := convertFile(at("library.so")); err == nil ||
		!strings.Contains(err.Error(), "DT_INIT is not loam_relocate") {
		t.Fatalf("a library without the function: %v", err)
	}
	build(append(library, "-Wl,-init=loam_relocate")...)
	if err := convertFile(at("library.so")); err != nil {
		t.Fatal(err)
	}
	build(at("program.c"), "-o", at("program"), "-ldl")
	out, err := exec.Command(at("program"), at("library.so")).CombinedOutput()
	if err != nil || string(out) != "wrong: 0\nprotected\n" {
		t.Errorf("the program says %q, %v", out, err)
	}
	versions, err := exec.Command("readelf", "-VW", at("library.so")).CombinedOutput()
	if err == nil && bytes.Contains(versions, []byte(neededVersion)) {
		t.Errorf("the library needs %s:\n%s", neededVersion, versions)
	}
	before, err := os.ReadFile(at("library.so"))
	if err != nil {
		t.Fatal(err)
	}
	again := bytes.Clone(before)
	if changed, err := convert(again); changed || err != nil || !bytes.Equal(before, again) {
		t.Errorf("a second time: changed %t, %v", changed, err)
	}
}
