package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/testkit/hexdump"
)

// pageExample is the catalog that docs/backup.md shows.
func pageExample() *catalog {
	object := func(s string) objectID { return objectID{sha256.Sum256([]byte(s)), int64(len(s))} }
	return &catalog{
		id: 7, created: 1_700_000_000_000_000_000, format: base.Native, database: "/db",
		newBytes: 8, files: []saved{
			{name: "000005.loam", object: object("table"), crc: 0x01020304, hasCRC: true,
				source: identity{fileid.ID{Dev: 2049, Ino: 300}, -1}},
			{name: "000006.wal", object: object("log")},
			{name: "000007.manifest", object: object("manifest")},
			{name: "CURRENT/manifest", object: object("current")},
		},
	}
}

// TestCatalogPage decodes and encodes the example of docs/backup.md.
func TestCatalogPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	b := hexdump.Page(t, string(page), 0)
	want := pageExample()
	if got := want.encode(); !bytes.Equal(got, b) {
		t.Errorf("the example encodes to\n%s", hexdump.Of(got))
	}
	if got, err := decodeCatalog(b, 7); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// sealed gives a catalog's bytes a checksum that is right.
func sealed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(bytes.Clone(b), sum[:]...)
}

// TestHostileCatalogs: each refused one has a right checksum.
func TestHostileCatalogs(t *testing.T) {
	for what, change := range map[string]func(c *catalog){
		"another number":    func(c *catalog) { c.id = 8 },
		"an unknown format": func(c *catalog) { c.format = 2 },
		"no MANIFEST":       func(c *catalog) { c.files = append(c.files[:2:2], c.files[3]) },
		"no CURRENT":        func(c *catalog) { c.files = c.files[:3] },
		"no files":          func(c *catalog) { c.files = nil },
		"a name twice":      func(c *catalog) { c.files[1] = c.files[0] },
		"names out of order": func(c *catalog) {
			c.files[0], c.files[1] = c.files[1], c.files[0]
		},
		"a path":                func(c *catalog) { c.files[0].name = "../000005.loam" },
		"an absolute path":      func(c *catalog) { c.files[0].name = "/000005.loam" },
		"another format's name": func(c *catalog) { c.files[0].name = "000005.ldb" },
		"LOCK":                  func(c *catalog) { c.files[3].name = "LOCK" },
		"a short number":        func(c *catalog) { c.files[0].name = "5.loam" },
		"a huge number":         func(c *catalog) { c.files[0].name = "18446744073709551615.loam" },
		"a long name":           func(c *catalog) { c.files[0].name = strings.Repeat("0", 65) },
		"a long directory": func(c *catalog) {
			c.database = strings.Repeat("x", maxDatabase+1)
		},
		"sizes that wrap": func(c *catalog) {
			c.files[0].object.size, c.files[1].object.size = 1<<62, 1<<62
		},
		"a negative size": func(c *catalog) { c.files[0].object.size = -1 },
	} {
		c := pageExample()
		change(c)
		if _, err := decodeCatalog(c.encode(), 7); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b := pageExample().encode()
	b = b[:len(b)-sha256.Size]
	for end := range len(b) {
		if _, err := decodeCatalog(sealed(b[:end]), 7); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("cut at %d: %v", end, err)
		}
	}
	if _, err := decodeCatalog(sealed(append(bytes.Clone(b), 0)),
		7); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("a byte more: %v", err)
	}
	b[len(catalogMagic)] = catalogVersion + 1
	if _, err := decodeCatalog(sealed(b), 7); !errors.Is(err, base.ErrNewerFormat) {
		t.Errorf("the next version: %v", err)
	}
	// A count of files that the bytes cannot hold takes no memory.
	b = append([]byte(catalogMagic), 1, 7, 0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0x7f)
	if n := testing.AllocsPerRun(1, func() {
		if _, err := decodeCatalog(sealed(b), 7); !errors.Is(err, base.ErrCorruption) {
			t.Error(err)
		}
	}); n > 50 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCatalog: what can be decoded has names that are safe, and is the same when it is written
// again.
func FuzzCatalog(f *testing.F) {
	b := pageExample().encode()
	f.Add(b[:len(b)-sha256.Size])
	old := pageExample()
	old.format, old.files = base.LevelDB, []saved{{name: "000003.ldb"}, {name: "000004.log"},
		{name: "CURRENT"}, {name: "MANIFEST-000002"}}
	b = old.encode()
	f.Add(b[:len(b)-sha256.Size])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCatalog(sealed(b), 7)
		if err != nil {
			if !errors.Is(err, base.ErrCorruption) && !errors.Is(err, base.ErrNewerFormat) {
				t.Fatal(err)
			}
			return
		}
		for _, s := range c.files {
			if strings.Contains(s.name, "..") || strings.HasPrefix(s.name, "/") ||
				strings.Count(s.name, "/") > 1 || s.object.size < 0 {
				t.Fatalf("%+v", s)
			}
		}
		again, err := decodeCatalog(c.encode(), 7)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%v\n%+v\n%+v", err, c, again)
		}
	})
}

// FuzzNames: a name counts only as the folder writes it.
func FuzzNames(f *testing.F) {
	f.Add(pageExample().files[0].object.name())
	f.Add("000001.backup")
	f.Add("1000000.tmp")
	f.Fuzz(func(t *testing.T, name string) {
		if o, ok := parseObject(name); ok && o.name() != name {
			t.Fatalf("%q is %q", name, o.name())
		}
		if n, ext, ok := parseNumbered(name); ok && (numbered(n, ext) != name || n == 0) {
			t.Fatalf("%q is %d, %q", name, n, ext)
		}
	})
}
