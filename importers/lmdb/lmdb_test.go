//go:build cgo

package lmdb

import (
	"encoding/binary"
	"errors"
	"os"
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
