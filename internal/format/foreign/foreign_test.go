package foreign

import (
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

func TestCheckDir(t *testing.T) {
	for _, c := range []struct{ name, contents, want string }{
		{"OPTIONS-000007", "rocksdb_version=8.1", "of RocksDB"},
		{"OPTIONS-000003", "pebble_version=0.1", "of Pebble"},
		{"OPTIONS-000003", "", "of RocksDB or Pebble"},
		{"marker.manifest.000001.MANIFEST-000001", "", "of Pebble"},
		{"marker.of-mine", "", ""},
		{"MANIFEST", "Bdgr\x00\x00\x00\x08", "of Badger"},
		{"MANIFEST", "of goods", ""},
		{"KEYREGISTRY", strings.Repeat("x", badgerRegistry), "of Badger"},
		{"OPTIONS-mine", "rocksdb_version=8.1", ""},
		{"IDENTITY", "", ""}, // may be the user's own, beside a LevelDB database
	} {
		check(t, c.name, CheckDir(withFile(t, c.name, c.contents), "/db",
			[]string{"CURRENT", c.name}), c.want)
	}
	check(t, "directory", CheckDir(vfs.NewMem(), "/db", []string{"OPTIONS-000001"}),
		"of RocksDB or Pebble")
}

func TestCheckNew(t *testing.T) {
	for _, c := range []struct{ name, contents, want string }{
		{"000001.vlog", "", "of Badger"},
		{"IDENTITY", "", "of RocksDB"},
		{"data.json", "{}", ""},
		{"my.db", "SQLite format 3\x00...", "of SQLite"},
		{"data.mdb", strings.Repeat("\x00", 16) + "\xde\xc0\xef\xbe", "of LMDB"},
		{"data.mdb", "", ""},
		{"my.db", strings.Repeat("\x00", 16) + "\xed\xda\x0c\xed", "of bbolt"},
	} {
		check(t, c.name, CheckNew(withFile(t, c.name, c.contents), "/db",
			[]string{"README", c.name}), c.want)
	}
}

// withFile makes a directory /db with a file in it.
func withFile(t *testing.T, name, contents string) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Create("/db/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(contents)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func TestCheckTag(t *testing.T) {
	check(t, "column family", CheckTag(200), "column family")
	check(t, "skippable", CheckTag(skippedTag|5), "RocksDB")
	for tag := uint32(1); tag < 10; tag++ {
		check(t, "LevelDB's", CheckTag(tag), "")
	}
	check(t, "unknown", CheckTag(skippedTag<<1), "")
}

func TestTable(t *testing.T) {
	if got := Table(0x88e241b785f4cff7); got != "a RocksDB table" {
		t.Error(got)
	}
	if got := Table(5); !strings.Contains(got, "no table format") {
		t.Error(got)
	}
}

func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && (!errors.Is(err, base.ErrNotADatabase) ||
		!strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}
