package bbolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/sourcetest"
)

// fill makes a file of the entries that do writes.
func fill(t *testing.T, do func(tx *bbolt.Tx) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(do), db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// in puts an entry into a bucket, which is made.
func in(b interface {
	CreateBucketIfNotExists(name []byte) (*bbolt.Bucket, error)
}, name, key, value string) (*bbolt.Bucket, error) {
	inner, err := b.CreateBucketIfNotExists([]byte(name))
	if err != nil {
		return nil, err
	}
	return inner, inner.Put([]byte(key), []byte(value))
}

func TestBuckets(t *testing.T) {
	path := fill(t, func(tx *bbolt.Tx) error {
		ash, err := in(tx, "ash", "leaf", "pinnate")
		if err != nil {
			return err
		}
		if _, err := in(ash, "\x00\xff", "", "unnamed"); err == nil {
			return errors.New("bbolt takes an empty key")
		}
		inner, err := in(ash, "\x00\xff", "a", "")
		if err != nil {
			return err
		}
		_, err = in(inner, "deep", "b", "2")
		return err
	})
	sourcetest.Check(t, Open, path, importers.Options{}, sourcetest.Content{
		"ash":             {"leaf": "pinnate"},
		"ash/%00%FF":      {"a": ""},
		"ash/%00%FF/deep": {"b": "2"},
	})
}

func TestTwoOfOneName(t *testing.T) {
	path := fill(t, func(tx *bbolt.Tx) error {
		a, err := in(tx, "a", "1", "")
		if err != nil {
			return err
		}
		_, err = in(a, "b", "2", "")
		if err == nil {
			_, err = in(tx, "a/b", "3", "")
		}
		return err
	})
	sourcetest.Refused(t, Open, path, importers.Options{})
}

// TestLocked: while another one has the file open for writing, Open fails.
func TestLocked(t *testing.T) {
	path := fill(t, func(*bbolt.Tx) error { return nil })
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if s, err := Open(path, importers.Options{}); !errors.Is(err, importers.ErrInUse) {
		t.Errorf("beside a writer: %v, %v", s, err)
	}
}

// TestEmptyFile: bbolt would make a database of an empty file.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path, importers.Options{}); err == nil ||
		!strings.Contains(err.Error(), "is empty") {
		t.Errorf("%v, %v", s, err)
	}
}

// TestPagesInCircles has branch pages that refer to themselves, and to a page behind the file.
func TestPagesInCircles(t *testing.T) {
	const entries = 300
	path := fill(t, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := 0; i < entries && err == nil; i++ {
			err = b.Put(fmt.Appendf(nil, "key %d", i), make([]byte, 20))
		}
		if err == nil {
			_, err = in(b, "inner", "a", strings.Repeat("x", 1000)) // which has a page of its own
		}
		return err
	})
	if got, err := sourcetest.Convert(t, Open, path, importers.Options{}); err != nil ||
		len(got["b"]) != entries || len(got["b/inner"]) != 1 {
		t.Fatalf("%d and %d entries, %v", len(got["b"]), len(got["b/inner"]), err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, tried := os.Getpagesize(), 0
	for at := 2 * page; at < len(good); at += page {
		if binary.NativeEndian.Uint16(good[at+pageFlags:]) != branchPage {
			continue
		}
		for _, to := range []int{at / page, len(good) / page} {
			bad := slices.Clone(good)
			binary.NativeEndian.PutUint64(bad[at+pageHead+element-8:], uint64(to))
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := sourcetest.Convert(t, Open, path, importers.Options{})
			if err == nil || !strings.Contains(err.Error(), "is in two places") &&
				!strings.Contains(err.Error(), "the file is cut") {
				t.Errorf("page %d refers to page %d: %v", at/page, to, err)
			}
			tried++
		}
	}
	if tried == 0 {
		t.Error("there is no branch page")
	}
}

// TestDamaged reads files of which one page has other bytes, and files that are cut off: panics of
// the library, and its reads behind the file, become errors.
func TestDamaged(t *testing.T) {
	const entries = 300
	good, err := os.ReadFile(fill(t, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := 0; i < entries && err == nil; i++ {
			err = b.Put(fmt.Appendf(nil, "key %d", i), make([]byte, 20))
		}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	failed := 0
	try := func(bad []byte) {
		path := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := sourcetest.Convert(t, Open, path, importers.Options{})
		if err != nil {
			failed++
		} else if len(got["b"]) != entries { // the damage is where no entry is
			t.Errorf("%d entries", len(got["b"]))
		}
	}
	for at := 2 * page; at < len(good); at += page {
		bad := slices.Clone(good)
		for i := range page {
			bad[at+i] = 0xff
		}
		try(bad)
		try(good[:at])
	}
	if failed < 5 {
		t.Errorf("%d damages were found", failed)
	}
}
