// Package refusal has no code of its own. Its test gives native directories of Loam to
// real LevelDB, goleveldb, RocksDB and Pebble.
package refusal

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/syndtr/goleveldb/leveldb"

	"github.com/loamdb/loam/lsm"
)

// entries is how many keys a directory has.
const entries = 3000

// engine tries to open or to repair a directory.
type engine struct {
	name string
	try  func(dir string) error
}

var errNotInstalled = errors.New("the engine is not installed")

// engines are all there are, with their repair tools. Pebble has none.
func engines(t *testing.T) []engine {
	list := []engine{
		{"goleveldb", func(dir string) error { return closed(leveldb.OpenFile(dir, nil)) }},
		{"goleveldb, recover", func(dir string) error {
			return closed(leveldb.RecoverFile(dir, nil))
		}},
		{"Pebble", func(dir string) error {
			return closed(pebble.Open(dir, &pebble.Options{Logger: quiet{}}))
		}},
	}
	program := filepath.Join(t.TempDir(), "engine")
	if out, err := exec.Command("cc", "-o", program, "testdata/engine.c",
		"-ldl").CombinedOutput(); err != nil {
		t.Logf("LevelDB and RocksDB are left out: %v: %s", err, out)
		return list
	}
	for _, e := range []struct{ name, library, prefix string }{
		{"LevelDB", "libleveldb.so", "leveldb"}, {"RocksDB", "librocksdb.so", "rocksdb"},
	} {
		for _, mode := range []string{"open", "repair"} {
			list = append(list, engine{e.name + ", " + mode, func(dir string) error {
				out, err := exec.Command(program, e.library, e.prefix, mode, dir).CombinedOutput()
				switch said := strings.TrimSpace(string(out)); {
				case err != nil && strings.Contains(said, "cannot open shared object file"):
					return errNotInstalled
				case err != nil:
					t.Errorf("%s: %v: %s", e.name, err, said)
					return err
				case said != "accepted":
					return errors.New(said)
				}
				return nil
			}})
		}
	}
	return list
}

func closed(db interface{ Close() error }, err error) error {
	if err == nil {
		db.Close()
	}
	return err
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// fill writes a database with tables and an unflushed log.
func fill(t *testing.T, dir string, o *lsm.Options) {
	t.Helper()
	db, err := lsm.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := db.Put(fmt.Appendf(nil, "key%05d", i), bytes.Repeat(fmt.Append(nil, i), 20),
			lsm.NoSync); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 && i < entries-1 {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// directories makes the native directories to try, keyed by a description.
func directories(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	native := func(f lsm.Format) *lsm.Options {
		return &lsm.Options{Format: f, Compression: lsm.ZstdCompression, DisableCompaction: true}
	}
	all["plain"] = filepath.Join(t.TempDir(), "db")
	fill(t, all["plain"], native(lsm.FormatNative))
	for _, name := range []string{"upgraded", "upgraded, then used"} {
		dir := filepath.Join(t.TempDir(), "db")
		all[name] = dir
		fill(t, dir, native(lsm.FormatLevelDB))
		if err := lsm.Upgrade(dir, nil); err != nil {
			t.Fatal(err)
		}
		if name == "upgraded, then used" {
			fill(t, dir, native(lsm.FormatLevelDB))
		}
	}
	return all
}

// digests are those of all files below a directory.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOtherEnginesRefuse(t *testing.T) {
	dirs := directories(t)
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			for what, from := range dirs {
				dir := filepath.Join(t.TempDir(), "db")
				if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
				before := digests(t, dir)
				err := e.try(dir)
				if errors.Is(err, errNotInstalled) {
					t.Skip(err)
				}
				if err == nil {
					t.Errorf("%s: accepted", what)
				}
				t.Logf("%s: %v", what, err)
				after := digests(t, dir)
				for name, sum := range before {
					if after[name] != sum {
						t.Errorf("%s: %s was changed or is gone", what, name)
					}
				}
				opens(t, what, dir)
			}
		})
	}
}

// opens checks that Loam finds everything.
func opens(t *testing.T, what, dir string) {
	t.Helper()
	db, err := lsm.Open(dir, &lsm.Options{ErrorIfMissing: true})
	if err != nil {
		t.Errorf("%s: Loam: %v", what, err)
		return
	}
	defer db.Close()
	if r := db.RecoveryReport(); !r.WasClean {
		t.Errorf("%s: %+v", what, r)
	}
	n := 0
	for key, value := range db.All(nil, nil, &err) {
		if string(key) != fmt.Sprintf("key%05d", n) ||
			!bytes.Equal(value, bytes.Repeat(fmt.Append(nil, n), 20)) {
			t.Fatalf("%s: entry %d is %q", what, n, key)
		}
		n++
	}
	if err != nil || n != entries {
		t.Errorf("%s: %d entries, %v", what, n, err)
	}
}
