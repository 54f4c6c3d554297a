package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExampleImport has examples/c/import.c load a file in no order and look keys up.
func TestExampleImport(t *testing.T) {
	const lines = 20_000
	dir := t.TempDir()
	var text strings.Builder
	for i := range lines {
		id := i * 7919 % lines
		fmt.Fprintf(&text, "%d,person %d,city %d\r\n", id, id, id%100)
	}
	file, db := filepath.Join(dir, "people.csv"), filepath.Join(dir, "db")
	bad := filepath.Join(dir, "bad.csv")
	for path, text := range map[string]string{file: text.String(), bad: "1,x\nno comma\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, asan := range builds() {
		bin := compile(t, asan, "../examples/c/import.c", "-std=c99", "-pedantic", "-lloam")
		for range 2 { // a second load replaces what is there
			if out := execute(t, bin, "load", file, db); out != fmt.Sprintln(lines, "lines") {
				t.Errorf("it says %q", out)
			}
		}
		if out, err := exec.Command(bin, "load", bad, db).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "line 2: ") {
			t.Errorf("a bad file: %v, %s", err, out)
		}
		get := exec.Command(bin, "get", db)
		get.Stdin = strings.NewReader("17\n19999\nx\n1\n")
		out, err := get.Output()
		want := "17,person 17,city 17\n19999,person 19999,city 99\nx: none\n1,person 1,city 1\n"
		if err != nil || string(out) != want {
			t.Errorf("asan %v: %v, %q", asan, err, out)
		}
	}
}
