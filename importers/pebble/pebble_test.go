package pebble

import (
	"errors"
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

func TestMissing(t *testing.T) {
	if _, err := Open(t.TempDir(), importers.Options{}); err == nil {
		t.Error("opened an empty directory")
	}
}
