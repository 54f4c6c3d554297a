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
				out := execute(t, program, dir)
				n, rest := 0, []byte(out)
				for ; len(rest) > 0; n++ {
					for range 2 {
						size, used := binary.Uvarint(rest)
						if used <= 0 || size > uint64(len(rest)-used) {
							t.Fatalf("%s, %s: entry %d is cut off", folder, state, n)
						}
						rest = rest[used+int(size):]
					}
				}
				if got := fmt.Sprintf("%d %x", n, sha256.Sum256([]byte(out))); got != strings.TrimSpace(string(expected)) {
					t.Errorf("%s, %s: %s, want %s", folder, state, got, expected)
				}
			}
		}
	}
}
