package crashfs_test

import (
	"os"
	"strings"
	"testing"
)

// TestPage: the code of docs/crashfs.md is that of the example.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/crashfs.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 3 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, b := range blocks {
		if code, _, _ := strings.Cut(b, "```"); !strings.Contains(string(source), code) {
			t.Errorf("example_test.go does not have\n%s", code)
		}
	}
}
