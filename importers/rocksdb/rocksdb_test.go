//go:build cgo && rocksdb

package rocksdb

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/rocksdb/rockstest"
	"github.com/loamdb/loam/importers/sourcetest"
)

func TestFamilies(t *testing.T) {
	dir := t.TempDir()
	if err := rockstest.Fill(dir, "ash"); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir(dir)
	sourcetest.Check(t, Open, dir, importers.Options{}, sourcetest.Content{
		"default": {"a": "1"}, "ash": {"b": "\x00"}})
	after, _ := os.ReadDir(dir)
	if len(after) != len(before) {
		t.Errorf("files before %v, after %v", before, after)
	}
}

// TestOperands: operands cannot be read without their operator.
func TestOperands(t *testing.T) {
	dir := t.TempDir()
	if err := rockstest.Operand(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := sourcetest.Convert(t, Open, dir, importers.Options{}); err == nil {
		t.Errorf("operands became %v", got)
	}
}

// TestLogsElsewhere: entries that are only in logs of another directory are not left out unheard.
func TestLogsElsewhere(t *testing.T) {
	dir, logs := t.TempDir(), t.TempDir()
	if err := rockstest.Apart(dir, logs); err != nil {
		t.Fatal(err)
	}
	sourcetest.Refused(t, Open, dir, importers.Options{})
	sourcetest.Check(t, Open, dir, importers.Options{Lossy: true},
		sourcetest.Content{"default": {"a": "1"}})
	found, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if err := os.Rename(found[0], filepath.Join(dir, filepath.Base(found[0]))); err != nil {
		t.Fatal(err)
	}
	sourcetest.Check(t, Open, dir, importers.Options{},
		sourcetest.Content{"default": {"a": "1", "b": "2"}})
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, importers.Options{}); err == nil {
		t.Error("opened an empty directory")
	}
	if _, err := Open(filepath.Join(dir, "none"), importers.Options{}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("made %v", files)
	}
}
