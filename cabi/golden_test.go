package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoldenDatabases opens what other engines and earlier versions of Loam wrote; package
// lsm has the test of the same name.
func TestGoldenDatabases(t *testing.T) {
	program := compile(t, false, "testdata/golden.c", "-lloam")
	folders, err := filepath.Glob("../testdata/*-*")
	if err != nil || len(folders) < 5 {
		t.Fatal(folders, err)
	}
	for _, folder := range folders {
		expected, err := os.ReadFile(filepath.Join(folder, "expected"))
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{"closed", "killed"} {
			dir := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(folder, state))); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time what the first opening left
				for line := range strings.Lines(string(expected)) {
					name, want, named := strings.Cut(strings.TrimSpace(line), " ")
					// the keyspace default has no name where it is alone
					if strings.Count(line, " ") == 1 {
						name, want, named = "default", strings.TrimSpace(line), true
					}
					if got := digest(t, execute(t, program, dir, name)); !named || got != want {
						t.Errorf("%s, %s, keyspace %s: %s, want %s", folder, state, name, got, want)
					}
				}
			}
		}
	}
}

// digest is the number of entries that the program printed, and their digest.
func digest(t *testing.T, printed string) string {
	t.Helper()
	n, rest := 0, []byte(printed)
	for ; len(rest) > 0; n++ {
		for range 2 {
			size, used := binary.Uvarint(rest)
			if used <= 0 || size > uint64(len(rest)-used) {
				t.Fatalf("entry %d is cut off", n)
			}
			rest = rest[used+int(size):]
		}
	}
	return fmt.Sprintf("%d %x", n, sha256.Sum256([]byte(printed)))
}
