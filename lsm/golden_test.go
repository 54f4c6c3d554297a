package lsm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// digest is, for each keyspace, its name, the number of pairs and their SHA-256, as testdata's
// maker (internal/testkit/interop/golden) writes them into "expected". A database that has the
// default keyspace alone has no name there.
func digest(t *testing.T, db *DB) string {
	t.Helper()
	var b strings.Builder
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		n := 0
		var buf []byte
		for k, v := range k.All(nil, nil, &err) {
			buf = binary.AppendUvarint(buf[:0], uint64(len(k)))
			buf = append(buf, k...)
			buf = binary.AppendUvarint(buf, uint64(len(v)))
			buf = append(buf, v...)
			h.Write(buf)
			n++
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(db.Keyspaces()) > 1 {
			fmt.Fprintf(&b, "%s ", name)
		}
		fmt.Fprintf(&b, "%d %x\n", n, h.Sum(nil))
	}
	return strings.TrimSpace(b.String())
}

// compactAll compacts every keyspace.
func compactAll(db *DB) error {
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, nil)
		if err == nil {
			err = k.CompactRange(nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestGoldenDatabases opens what other engines and earlier versions of Loam wrote:
// read-only, then for writing, after a compaction, and again.
func TestGoldenDatabases(t *testing.T) {
	foreign, err1 := filepath.Glob("../testdata/*leveldb-*")
	own, err2 := filepath.Glob("../testdata/native-*")
	folders, err := slices.Concat(foreign, own), errors.Join(err1, err2)
	if err != nil || len(foreign) < 3 || len(own) < 1 {
		t.Fatalf("%v %v", folders, err)
	}
	for _, folder := range folders {
		for _, state := range []string{"closed", "killed"} {
			t.Run(filepath.Base(folder)+"/"+state, func(t *testing.T) {
				expected, err := os.ReadFile(filepath.Join(folder, "expected"))
				if err != nil {
					t.Fatal(err)
				}
				want := strings.TrimSpace(string(expected))
				dir := filepath.Join(t.TempDir(), "db")
				if err := os.CopyFS(dir, os.DirFS(filepath.Join(folder, state))); err != nil {
					t.Fatal(err)
				}
				check := func(step string, o *Options, then func(db *DB) error) {
					t.Helper()
					db := mustOpen(t, dir, o)
					defer mustClose(t, db)
					if r := db.RecoveryReport(); !r.WasClean {
						t.Errorf("%s: recovery dropped %+v", step, r.Dropped)
					}
					if got := digest(t, db); got != want {
						t.Fatalf("%s: %s, want %s", step, got, want)
					}
					if err := then(db); err != nil {
						t.Fatalf("%s: %v", step, err)
					}
				}
				before := listing(t, dir)
				check("read-only", &Options{ReadOnly: true}, func(*DB) error { return nil })
				if after := listing(t, dir); after != before {
					t.Fatalf("a read-only open changed the directory")
				}
				check("writable", nil, compactAll)
				check("compacted", nil, func(db *DB) error {
					return db.Put([]byte("key9999"), nil, Sync)
				})
				db := mustOpen(t, dir, nil)
				defer mustClose(t, db)
				if v, err := db.Get([]byte("key9999"), nil); err != nil || len(v) != 0 {
					t.Fatalf("%q %v", v, err)
				}
			})
		}
	}
}
