package owner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// table is a file of n bytes that ends with a magic.
func table(n int, magic uint64) string {
	return strings.Repeat("x", n-8) + string(binary.LittleEndian.AppendUint64(nil, magic))
}

func TestCheck(t *testing.T) {
	const corrupt, strange = "", "neither Loam nor LevelDB wrote"
	for _, c := range []struct{ files, want string }{ // name=contents, or name/ for a directory
		{"", ""},
		{"notes.txt=x|LOCK=", ""},
		{"CURRENT/|OPTIONS-000003=pebble_version=|000001.sst=!rocksdb", ""},
		{"CURRENT.new/", ""},
		{"CURRENT=?", corrupt},
		{"CURRENT=MANIFEST-000005\n", corrupt},
		{"CURRENT=MANIFEST-000005\n|OPTIONS-000007=[Version]\n rocksdb_version=9", "of RocksDB"},
		{"CURRENT=MANIFEST-000005\n|000004.sst=!rocksdb", "of RocksDB or Pebble"},
		{"CURRENT=MANIFEST-000005\n|000004.sst=!pebble", "of Pebble"},
		{"marker.manifest.000001.MANIFEST-000001=", "of Pebble"},
		{"000004.ldb=!leveldb", ""},
		{"000004.loam=!native", ""},
		{"000004.ldb=!leveldb|000005.sst=!rocksdb", "of RocksDB or Pebble"},
		{"000004.ldb=!leveldb|my.db=SQLite format 3\x00", ""},
		{"notes.txt=x|my.db=SQLite format 3\x00", "of SQLite"},
		{"000001.sst=my words", strange},
		{"000001.log=a log of mine", strange},
		{"000001.log=\x00\x00\x00\x00\x00\x00\x00\x00", ""},
		{"000001.log=", ""},
		{"000001.log=\x01\x02\x03\x04\x40\x00\x01 cut short", ""},
		{"000001.ldb=\x00\x09\x01k\x01\x00\x00\x00\x00\x00\x00\x00v cut short", ""},
		{"000001.ldb=\x00\x09\x01k\xff\x00\x00\x00\x00\x00\x00\x00v", strange},
		{"000001.ldb=\x00\x02\x00\x00\x01\x02\x03\x04\x01\x02kv cut short", ""},
		{"000001.ldb=\x03\x00\x00\x00\x01\x02\x03\x04\x01\x08kv cut short", strange},
		{"000001.ldb=abc\nabc\nabc\nabc\n", strange},
		{"000001.loam=cut short", ""},
		{"000001.ldb/", ""},
	} {
		fsys := vfs.NewMem()
		must(t, fsys.MkdirAll("/db"))
		for file := range strings.SplitSeq(c.files, "|") {
			name, contents, _ := strings.Cut(file, "=")
			switch {
			case name == "":
			case strings.HasSuffix(name, "/"):
				must(t, fsys.MkdirAll("/db/"+name))
			default:
				switch contents {
				case "!rocksdb":
					contents = table(100, 0x88e241b785f4cff7)
				case "!pebble":
					contents = table(100, 0xb3aa9ff0b3aa9ff0)
				case "!leveldb":
					contents = table(100, base.LevelDBTableMagic)
				case "!native":
					contents = table(100, base.NativeTableMagic)
				}
				f, err := fsys.Create("/db/" + name)
				must(t, err)
				_, err = f.Write([]byte(contents))
				must(t, errors.Join(err, f.Close()))
			}
		}
		err := Check(fsys, "/db")
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, base.ErrNotADatabase) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.files, err, c.want)
		}
	}
	must(t, Check(vfs.NewMem(), "/nowhere"))
}

// TestCheckBesideACut: a log is cut while its contents are looked at, once or again and again.
func TestCheckBesideACut(t *testing.T) {
	for _, cuts := range []int{1, 3, 1 << 30} {
		dir := t.TempDir()
		log, made, reads := filepath.Join(dir, "000001.log"), 0, 0
		must(t, os.WriteFile(log, []byte("\x01\x02\x03\x04\xff\x00\x01"+strings.Repeat("x", 99)),
			0o600))
		err := Check(vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
			switch {
			case op.Kind == vfs.OpOpen:
				reads = 0
			case op.Kind == vfs.OpRead:
				if reads++; reads == 2 && made < cuts {
					made++
					must(t, os.Truncate(log, int64(100-made)))
				}
			}
			return vfs.Outcome{}
		}), dir)
		if lasting := cuts > 3; made == 0 || lasting != errors.Is(err, io.ErrUnexpectedEOF) ||
			err != nil && !lasting {
			t.Errorf("%d cuts: %v", made, err)
		}
	}
}

// TestContentsOfOwnFiles reads every prefix of the files of real databases: whatever a crash leaves
// of a file is known as the database's, or as empty.
func TestContentsOfOwnFiles(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/*/*/[0M]*")
	must(t, err)
	seen := 0
	for _, path := range files {
		if strings.Contains(path, "foreign") {
			continue
		}
		b, err := os.ReadFile(path)
		must(t, err)
		name := filepath.Base(path)
		for _, n := range []int{0, 1, 7, 8, 12, 20, 50, 200, len(b) / 2, len(b) - 1, len(b)} {
			fsys := vfs.NewMem()
			must(t, fsys.MkdirAll("/db"))
			f, err := fsys.Create("/db/" + name)
			must(t, err)
			_, err = f.Write(b[:min(max(n, 0), len(b))])
			must(t, errors.Join(err, f.Close()))
			c, err := Contents(fsys, "/db", name)
			must(t, err)
			tells := 21 // bytes of a table
			if strings.Contains(path, "bedrock") {
				tells = 51 // deflated: the code table comes first
			}
			if c.Engine != "" || !c.Own && !c.Empty &&
				(n >= tells || !strings.HasSuffix(name, ".ldb")) {
				t.Errorf("%s, %d of %d bytes: %+v", path, n, len(b), c)
			}
			seen++
		}
	}
	if seen < 100 {
		t.Errorf("%d looks at %d files", seen, len(files))
	}
}

// TestContentsOfForeignTables finds the writer of a table by its contents alone.
func TestContentsOfForeignTables(t *testing.T) {
	tables, err := filepath.Glob("../../../testdata/foreign/*/*.sst")
	must(t, err)
	for _, path := range tables {
		c, err := Contents(vfs.Default, filepath.Dir(path), filepath.Base(path))
		must(t, err)
		engine := filepath.Base(filepath.Dir(path))[:6]
		if !strings.Contains(strings.ToLower(c.Engine), engine) {
			t.Errorf("%s: %+v", path, c)
		}
	}
	if len(tables) < 5 {
		t.Error(fmt.Sprint(tables))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
