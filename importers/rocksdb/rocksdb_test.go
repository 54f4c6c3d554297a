//go:build cgo && rocksdb

package rocksdb

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// TestInUse: another process, this test again, has the database open.
func TestInUse(t *testing.T) {
	const held = "LOAM_ROCKSDB_HELD"
	if dir := os.Getenv(held); dir != "" {
		release, err := rockstest.Hold(dir)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("open")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the other one ends
		release()
		return
	}
	dir := t.TempDir()
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
	s, err := Open(dir, importers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again := exec.Command(os.Args[0], "-test.run=^TestInUse$")
	again.Env = other.Env
	if out, err := again.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("lock")) {
		t.Errorf("beside the source: %v, %s", err, out)
	}
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	sourcetest.Check(t, Open, dir, importers.Options{}, sourcetest.Content{"default": {"a": "1"}})
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
