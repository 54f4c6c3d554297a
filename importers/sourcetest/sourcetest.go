// Package sourcetest has what the tests of sources share. A source is converted for real.
package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/lsm"
)

// Content is what a database holds: values by keyspaces and keys.
type Content map[string]map[string]string

// Trees are the entries of testdata/foreign.
func Trees() map[string]string {
	m := map[string]string{}
	for i := range 40 {
		m[fmt.Sprintf("key %04d", i)] = fmt.Sprintf("value %d", i)
	}
	return m
}

// Convert opens a source, converts it, and returns what the new database holds. Empty keyspaces
// are left out.
func Convert(t *testing.T, open importers.Open, path string, o importers.Options) (Content, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "new")
	source, err := open(path, o)
	if err != nil {
		return nil, err
	}
	_, err = importers.Convert(context.Background(), source, to, nil)
	if err = errors.Join(err, source.Close()); err != nil {
		return nil, err
	}
	return Read(t, to), nil
}

// Read reads a Loam database.
func Read(t *testing.T, dir string) Content {
	t.Helper()
	db, err := lsm.Open(dir, &lsm.Options{ReadOnly: true, ErrorIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := Content{}
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for key, value := range k.All(nil, nil, &err) {
			m[string(key)] = string(value)
			if left, expires, err := k.TTL(key); err != nil {
				t.Fatal(err)
			} else if expires {
				m[string(key)] += fmt.Sprint(" for ", left.Round(time.Hour))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m) > 0 {
			got[name] = m
		}
	}
	return got
}

// Check converts a source and compares what comes of it.
func Check(t *testing.T, open importers.Open, path string, o importers.Options, want Content) {
	t.Helper()
	got, err := Convert(t, open, path, o)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(got, want, maps.Equal[map[string]string, map[string]string]) {
		t.Errorf("%s became %v, want %v", path, got, want)
	}
}

// Refused fails unless the source cannot be converted, for lack of an equal in Loam.
func Refused(t *testing.T, open importers.Open, path string, o importers.Options) {
	t.Helper()
	if got, err := Convert(t, open, path, o); !errors.Is(err, importers.ErrUnsupported) {
		t.Errorf("%s: %v and %v", path, got, err)
	}
}
