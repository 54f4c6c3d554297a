//go:build cgo

package lmdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/sourcetest"
)

// fill makes an environment with what do writes.
func fill(t *testing.T, path string, flags uint, do func(tx *lmdb.Txn) error) string {
	t.Helper()
	env, err := lmdb.NewEnv()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(env.SetMaxDBs(5), env.SetMapSize(1<<20), env.Open(path, flags, 0o600))
	if err == nil {
		err = env.Update(do)
	}
	if err = errors.Join(err, env.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// put writes an entry into a database, the main one if it has no name.
func put(tx *lmdb.Txn, name string, flags uint, key, value string) error {
	open := func() (lmdb.DBI, error) { return tx.OpenDBI(name, flags|lmdb.Create) }
	if name == "" {
		open = func() (lmdb.DBI, error) { return tx.OpenRoot(flags) }
	}
	dbi, err := open()
	if err != nil {
		return err
	}
	return tx.Put(dbi, []byte(key), []byte(value), 0)
}

func TestNamed(t *testing.T) {
	write := func(tx *lmdb.Txn) error {
		return errors.Join(put(tx, "", 0, "a", "1"), put(tx, "ash", 0, "a", "2"),
			put(tx, "elm%", 0, "b", ""), put(tx, "", 0, "z", "3"))
	}
	want := sourcetest.Content{"default": {"a": "1", "z": "3"}, "ash": {"a": "2"},
		"elm%25": {"b": ""}}
	dir := fill(t, t.TempDir(), 0, write)
	sourcetest.Check(t, Open, dir, importers.Options{}, want)

	if err := os.Remove(filepath.Join(dir, "lock.mdb")); err != nil {
		t.Fatal(err)
	}
	sourcetest.Check(t, Open, dir, importers.Options{}, want)
	if _, err := os.Stat(filepath.Join(dir, "lock.mdb")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file for locks was made: %v", err)
	}

	file := fill(t, filepath.Join(t.TempDir(), "file"), lmdb.NoSubdir, write)
	sourcetest.Check(t, Open, file, importers.Options{}, want)
}

// TestCut has files of all numbers of pages: no read behind the end of one ends the process.
func TestCut(t *testing.T) {
	const entries = 300
	page := os.Getpagesize()
	whole := fill(t, filepath.Join(t.TempDir(), "db"), lmdb.NoSubdir, func(tx *lmdb.Txn) error {
		err := put(tx, "", 0, "large", strings.Repeat("x", 3*page))
		for i := range entries {
			key := fmt.Sprintf("%04d", i)
			err = errors.Join(err, put(tx, "", 0, key, key), put(tx, "ash", 0, key, key))
		}
		return err
	})
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "db")
	for size := 0; size < len(b); size += page / 2 {
		if err := os.WriteFile(cut, b[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := sourcetest.Convert(t, Open, cut, importers.Options{})
		switch {
		case err == nil:
			t.Errorf("%d of %d bytes have %d and %d entries", size, len(b), len(got["default"]),
				len(got["ash"]))
		case size >= 2*page && !strings.Contains(err.Error(), "the file is cut"):
			t.Errorf("%d of %d bytes: %v", size, len(b), err)
		}
	}
}

// TestDamaged has files of which one page has other bytes. The library does not check pages: C may
// end the process, which is this test again. A panic in Go is an error.
func TestDamaged(t *testing.T) {
	const damaged = "LOAM_LMDB_DAMAGED"
	if path := os.Getenv(damaged); path != "" {
		_, err := sourcetest.Convert(t, Open, path, importers.Options{})
		t.Log(err)
		return
	}
	page := os.Getpagesize()
	path := fill(t, filepath.Join(t.TempDir(), "db"), lmdb.NoSubdir, func(tx *lmdb.Txn) error {
		err := put(tx, "", 0, "large", strings.Repeat("x", 3*page))
		for i := range 300 {
			key := fmt.Sprintf("%04d", i)
			err = errors.Join(err, put(tx, "", 0, key, key), put(tx, "ash", 0, key, key))
		}
		return err
	})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 2 * page; at < len(whole); at += page {
		b := bytes.Clone(whole)
		copy(b[at:], bytes.Repeat([]byte{0xff}, page))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		again := exec.Command(os.Args[0], "-test.run=^TestDamaged$", "-test.v")
		again.Env = append(os.Environ(), damaged+"="+path)
		out, _ := again.CombinedOutput() // it may end in any way
		if bytes.HasPrefix(out, []byte("panic: ")) || bytes.Contains(out, []byte("\npanic: ")) {
			t.Errorf("page %d: %.400s", at/page, out)
		}
	}
}

// TestShort has files without their last pages, which are free: LMDB does not write pages that one
// transaction allocated and freed.
func TestShort(t *testing.T) {
	const entries, stay = 2000, 20
	want := map[string]string{}
	path := filepath.Join(t.TempDir(), "db")
	fill(t, path, lmdb.NoSubdir, func(tx *lmdb.Txn) error {
		var err error
		for i := range entries {
			key := fmt.Sprintf("%05d", i)
			err = errors.Join(err, put(tx, "", 0, key, key))
			if i < stay {
				want[key] = key
			}
		}
		return err
	})
	fill(t, path, lmdb.NoSubdir, func(tx *lmdb.Txn) error {
		root, err := tx.OpenRoot(0)
		for i := stay; i < entries; i++ {
			err = errors.Join(err, tx.Del(root, fmt.Appendf(nil, "%05d", i), nil))
		}
		return err
	})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	short, page := 0, os.Getpagesize()
	for size := 2 * page; size < len(b); size += page {
		if err := os.WriteFile(path, b[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := sourcetest.Convert(t, Open, path, importers.Options{})
		switch {
		case err == nil && !maps.Equal(got["default"], want):
			t.Errorf("%d of %d bytes have %d entries", size, len(b), len(got["default"]))
		case err == nil:
			short++
		case !strings.Contains(err.Error(), "the file is cut"):
			t.Errorf("%d of %d bytes: %v", size, len(b), err)
		}
	}
	if short == 0 {
		t.Error("no short file was read")
	}
}

// TestZeros has keys with zero bytes, which no name has, beside a name that begins one of them.
func TestZeros(t *testing.T) {
	dir := fill(t, t.TempDir(), 0, func(tx *lmdb.Txn) error {
		return errors.Join(put(tx, "", 0, "\x00\x01", "1"), put(tx, "ash", 0, "a", "2"),
			put(tx, "", 0, "ash\x00", "3"))
	})
	sourcetest.Check(t, Open, dir, importers.Options{}, sourcetest.Content{
		"default": {"\x00\x01": "1", "ash\x00": "3"}, "ash": {"a": "2"}})
}

// TestDefaultTwice: a database named default beside entries of the main one.
func TestDefaultTwice(t *testing.T) {
	dir := fill(t, t.TempDir(), 0, func(tx *lmdb.Txn) error {
		return errors.Join(put(tx, "", 0, "a", "1"), put(tx, importers.Default, 0, "a", "2"))
	})
	sourcetest.Refused(t, Open, dir, importers.Options{})
}

func TestOrders(t *testing.T) {
	number := string(binary.NativeEndian.AppendUint64(nil, 7))
	for what, c := range map[string]struct {
		flags uint
		key   string
		lossy bool // it can be read so
	}{"several values": {lmdb.DupSort, "a", false}, "reversed": {lmdb.ReverseKey, "a", true},
		"numbers": {integerKey, number, true}} {
		t.Run(what, func(t *testing.T) {
			dir := fill(t, t.TempDir(), 0, func(tx *lmdb.Txn) error {
				return put(tx, "x", c.flags, c.key, "1")
			})
			sourcetest.Refused(t, Open, dir, importers.Options{})
			if c.lossy {
				sourcetest.Check(t, Open, dir, importers.Options{Lossy: true},
					sourcetest.Content{"x": {c.key: "1"}})
			} else {
				sourcetest.Refused(t, Open, dir, importers.Options{Lossy: true})
			}
		})
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, importers.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("made %v", files)
	}
	data := filepath.Join(dir, "data.mdb")
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, data} {
		if _, err := Open(path, importers.Options{}); err == nil ||
			!strings.Contains(err.Error(), "is empty") {
			t.Errorf("an empty file: %v", err)
		}
	}
}
