package foreign

import (
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/vfs"
)

func TestCheckDir(t *testing.T) {
	for _, c := range []struct{ name, contents, want string }{
		{"OPTIONS-000007", "rocksdb_version=8.1", "is a RocksDB database"},
		{"OPTIONS-000003", "pebble_version=0.1", "is a Pebble database"},
		{"OPTIONS-000003", "", "is a RocksDB or Pebble database"},
		{"marker.manifest.000001.MANIFEST-000001", "", "is a Pebble database"},
		{"OPTIONS-mine", "rocksdb_version=8.1", ""},
		{"IDENTITY", "", ""}, // may be the user's own, beside a LevelDB database
	} {
		fsys := vfs.NewMem()
		if err := fsys.MkdirAll("/db"); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Create("/db/" + c.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(c.contents)); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		check(t, c.name, CheckDir(fsys, "/db", []string{"CURRENT", c.name}), c.want)
	}
	check(t, "directory", CheckDir(vfs.NewMem(), "/db", []string{"OPTIONS-000001"}), "is a RocksDB or Pebble database")
}

func TestCheckNew(t *testing.T) {
	check(t, "badger", CheckNew([]string{"README", "000001.vlog"}), "Badger")
	check(t, "rocksdb", CheckNew([]string{"IDENTITY"}), "RocksDB")
	check(t, "user", CheckNew([]string{"README", "data.json"}), "")
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
	if (err == nil) != (want == "") || err != nil && (!errors.Is(err, base.ErrNotADatabase) || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}
