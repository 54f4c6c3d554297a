package badger

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/sourcetest"
)

// key is one of AES-256.
var key = []byte(strings.Repeat("k", 32))

// fill makes a directory with what the functions write, each in a transaction.
func fill(t *testing.T, encrypted bool, do ...func(tx *badger.Txn) error) string {
	t.Helper()
	dir := t.TempDir()
	o := badger.DefaultOptions(dir).WithLogger(nil).WithMemTableSize(1 << 20).
		WithValueThreshold(1 << 10).WithNumVersionsToKeep(5)
	if encrypted {
		o = o.WithEncryptionKey(key).WithIndexCacheSize(indexCache)
	}
	db, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, do := range do {
		if err := db.Update(do); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func set(key, value string) func(tx *badger.Txn) error {
	return func(tx *badger.Txn) error { return tx.Set([]byte(key), []byte(value)) }
}

func TestVersionsAndTimes(t *testing.T) {
	large := strings.Repeat("x", 5000) // in the value log
	dir := fill(t, false, set("a", "old"), set("a", "new"), set("b", "1"), set("large", large),
		func(tx *badger.Txn) error { return tx.Delete([]byte("b")) },
		func(tx *badger.Txn) error {
			return tx.SetEntry(badger.NewEntry([]byte("c"), []byte("3")).WithTTL(5 * time.Hour))
		},
		func(tx *badger.Txn) error {
			e := badger.NewEntry([]byte("d"), []byte("4"))
			e.ExpiresAt = 1
			return tx.SetEntry(e)
		})
	sourcetest.Check(t, Open, dir, importers.Options{}, sourcetest.Content{
		"default": {"a": "new", "c": "3 for 5h0m0s", "large": large}})
}

// TestLatest: an entry that expires after all times that a signed number has is no expired one.
func TestLatest(t *testing.T) {
	dir := fill(t, false, func(tx *badger.Txn) error {
		e := badger.NewEntry([]byte("a"), []byte("1"))
		e.ExpiresAt = math.MaxUint64
		return tx.SetEntry(e)
	})
	got, err := sourcetest.Convert(t, Open, dir, importers.Options{})
	if value := got[importers.Default]["a"]; err != nil || !strings.HasPrefix(value, "1 for ") {
		t.Errorf("%q, %v", value, err)
	}
}

func TestMetadata(t *testing.T) {
	dir := fill(t, false, func(tx *badger.Txn) error {
		return tx.SetEntry(badger.NewEntry([]byte("a"), []byte("1")).WithMeta(7))
	})
	sourcetest.Refused(t, Open, dir, importers.Options{})
	sourcetest.Check(t, Open, dir, importers.Options{Lossy: true},
		sourcetest.Content{"default": {"a": "1"}})
}

// damaged makes a directory with a value in the value log, and has do damage the only file of a
// pattern. Convert must fail, and leave the other files as they are.
func damaged(t *testing.T, pattern string, do func(path string, b []byte) error) {
	t.Helper()
	dir := fill(t, false, set("a", strings.Repeat("x", 5000)), set("b", "1"))
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b, err := os.ReadFile(found[0])
	if err == nil {
		err = do(found[0], b)
	}
	before, err2 := filepath.Glob(filepath.Join(dir, "*"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if got, err := sourcetest.Convert(t, Open, dir, importers.Options{}); err == nil {
		t.Errorf("%s: it has %d entries, %d bytes of a", pattern, len(got["default"]),
			len(got["default"]["a"]))
	}
	if after, err := filepath.Glob(filepath.Join(dir, "*")); !slices.Equal(before, after) {
		t.Errorf("%s: files before %v, after %v, %v", pattern, before, after, err)
	}
}

// TestDamage: Badger gives empty values for those that it cannot read, compares no checksums unless
// asked, and removes tables that a cut MANIFEST does not list.
func TestDamage(t *testing.T) {
	flip := func(at int) func(string, []byte) error {
		return func(path string, b []byte) error {
			b[at] ^= 1
			return os.WriteFile(path, b, 0o600)
		}
	}
	damaged(t, "*.vlog", func(path string, _ []byte) error { return os.Remove(path) })
	damaged(t, "*.vlog", flip(2000))
	damaged(t, "*.sst", flip(20))
	damaged(t, "MANIFEST", func(path string, b []byte) error {
		return os.Truncate(path, int64(len(b)-1))
	})
}

// TestOperands: the newest version of what a merge operator writes is its last operand.
func TestOperands(t *testing.T) {
	dir := t.TempDir()
	for _, merged := range []bool{false, true} {
		db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMemTableSize(1 << 20).
			WithValueThreshold(1 << 10))
		if err != nil {
			t.Fatal(err)
		}
		join := func(a, b []byte) []byte { return slices.Concat(a, b) }
		m := db.GetMergeOperator([]byte("a"), join, time.Hour)
		if merged {
			m.Stop()
		} else if err := errors.Join(m.Add([]byte("1")), m.Add([]byte("2"))); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if !merged {
			sourcetest.Refused(t, Open, dir, importers.Options{}) // m is never stopped
		}
	}
	sourcetest.Check(t, Open, dir, importers.Options{},
		sourcetest.Content{"default": {"a": "12"}})
}

func TestEncrypted(t *testing.T) {
	dir := fill(t, true, set("a", "1"))
	sourcetest.Check(t, Open, dir, importers.Options{Key: key},
		sourcetest.Content{"default": {"a": "1"}})
	wrong := []byte(strings.Repeat("w", 32))
	for _, k := range [][]byte{nil, wrong} {
		if _, err := sourcetest.Convert(t, Open, dir, importers.Options{Key: k}); !errors.Is(err,
			badger.ErrEncryptionKeyMismatch) {
			t.Errorf("with the key %q: %v", k, err)
		}
	}
}
