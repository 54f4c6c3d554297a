package main

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// TestImporter makes a file, loads it twice, and asks the server.
func TestImporter(t *testing.T) {
	lines := testkit.Scale(5_000, 50_000, 10_000_000)
	file, dir := filepath.Join(t.TempDir(), "people.csv"), filepath.Join(t.TempDir(), "db")
	must(t, run(lines, "", []string{file}))
	for range 2 {
		must(t, run(0, "", []string{file, dir}))
	}
	p, err := open(dir)
	must(t, err)
	defer p.db.Close()
	server := httptest.NewServer(p.handler())
	defer server.Close()
	get := func(path string, status int) []string {
		t.Helper()
		answer, err := server.Client().Get(server.URL + path)
		must(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		if answer.StatusCode != status {
			t.Fatalf("%s: %s, want %d", path, answer.Status, status)
		}
		return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	}
	if line := get("/people/00000123", 200); len(line) != 1 ||
		!strings.HasPrefix(line[0], "00000123\t") || !strings.HasSuffix(line[0], "\tcity0123") {
		t.Errorf("a line: %q", line)
	}
	get("/people/x", 404)
	// The lines of a city, page by page.
	n, after := 0, ""
	for {
		page := get("/cities/city0042?after="+after, 200)
		if page[0] == "" {
			break
		}
		for _, line := range page {
			id, _, _ := strings.Cut(line, "\t")
			if number, err := strconv.Atoi(id); err != nil || number != 42+1000*n {
				t.Fatalf("id %s, want %d", id, 42+1000*n)
			}
			after = id
			n++
		}
	}
	if n != lines/1000 {
		t.Errorf("%d lines of a city, want %d", n, lines/1000)
	}
}

// TestBadFile: nothing of a file with a bad line comes into the database.
func TestBadFile(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "people.csv"), filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(file, []byte("1,Ada,London\n2,Grace\n"), 0o600))
	if err := run(0, "", []string{file, dir}); err == nil {
		t.Fatal("a line without a city is loaded")
	}
	p, err := open(dir)
	must(t, err)
	defer p.db.Close()
	for key := range p.db.All(nil, nil, &err) {
		t.Errorf("%q is there", key)
	}
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
