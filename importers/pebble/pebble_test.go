package pebble

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/sourcetest"
)

// fill makes a directory with what do writes.
func fill(t *testing.T, o *pebble.Options, do func(db *pebble.DB) error) string {
	t.Helper()
	dir := t.TempDir()
	o.Logger = quiet{}
	db, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(db), db.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func set(db *pebble.DB, key, value string) error {
	return db.Set([]byte(key), []byte(value), nil)
}

func TestMergesAndRangeDeletes(t *testing.T) {
	dir := fill(t, &pebble.Options{}, func(db *pebble.DB) error {
		return errors.Join(set(db, "a", "1"), set(db, "b", "2"), set(db, "c", "3"), db.Flush(),
			db.DeleteRange([]byte("b"), []byte("d"), nil), set(db, "c", "4"),
			db.Merge([]byte("a"), []byte("more"), nil))
	})
	sourcetest.Check(t, Open, dir, importers.Options{}, sourcetest.Content{
		"default": {"a": "1more", "c": "4"}})
}

func TestRangeKeys(t *testing.T) {
	dir := fill(t, &pebble.Options{FormatMajorVersion: pebble.FormatNewest},
		func(db *pebble.DB) error {
			return errors.Join(set(db, "a", "1"),
				db.RangeKeySet([]byte("c"), []byte("d"), nil, []byte("v"), nil))
		})
	sourcetest.Refused(t, Open, dir, importers.Options{})
}

// TestOtherOrder: keys that are not ordered by their bytes, and merges of others, are errors.
func TestOtherOrder(t *testing.T) {
	order := *pebble.DefaultComparer
	order.Name = "mine"
	merger := *pebble.DefaultMerger
	merger.Name = "mine"
	for what, o := range map[string]*pebble.Options{"comparer": {Comparer: &order},
		"merger": {Merger: &merger}} {
		dir := fill(t, o, func(db *pebble.DB) error { return set(db, "a", "1") })
		if got, err := sourcetest.Convert(t, Open, dir, importers.Options{}); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestMissing: a directory without a database is an error, and stays as it is.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, importers.Options{}); !errors.Is(err, pebble.ErrDBDoesNotExist) {
		t.Error("opened an empty directory:", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error("left there:", left, err)
	}
}

// TestInUse: another process, this test again, has the database open.
func TestInUse(t *testing.T) {
	const held = "LOAM_PEBBLE_HELD"
	if dir := os.Getenv(held); dir != "" {
		db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("open")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other one ends
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir := fill(t, &pebble.Options{}, func(db *pebble.DB) error { return set(db, "a", "1") })
	other := exec.Command(os.Args[0], "-test.run=^TestInUse$")
	other.Env = append(os.Environ(), held+"="+dir)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Errorf("the other process: %q, %v", line, err)
	}
	if s, err := Open(dir, importers.Options{}); !errors.Is(err, importers.ErrInUse) {
		t.Errorf("%v, %v", s, err)
	}
	if err := errors.Join(in.Close(), other.Wait()); err != nil {
		t.Error(err)
	}
}

// TestDamagedTable changes bytes of a table: what the library panics with is an error, of Close
// too.
func TestDamagedTable(t *testing.T) {
	dir := fill(t, &pebble.Options{}, func(db *pebble.DB) error {
		for i := range 100 {
			if err := db.Set(fmt.Appendf(nil, "%04d", i), nil, pebble.NoSync); err != nil {
				return err
			}
		}
		return db.Flush()
	})
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for at := 0; at < len(whole); at += 61 {
		b := bytes.Clone(whole)
		b[at] ^= 0x40
		if err := os.WriteFile(tables[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sourcetest.Convert(t, Open, dir, importers.Options{}); err != nil {
			failed++
			if strings.Contains(err.Error(), "stack trace") {
				t.Fatal("an error with stacks:", err)
			}
		}
	}
	if failed == 0 {
		t.Error("no damage was found")
	}
}
