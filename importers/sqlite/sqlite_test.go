//go:build cgo

package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/sourcetest"
)

// fill makes a file by statements.
func fill(t *testing.T, statements string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a?b#c %41") // which a URI has to escape
	db, err := sql.Open("sqlite3", "file:"+filepath.Dir(path)+"/a%3fb%23c%20%2541")
	if err == nil {
		_, err = db.Exec(statements)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTables(t *testing.T) {
	path := fill(t, `
		CREATE TABLE pair (k TEXT PRIMARY KEY, v BLOB);
		INSERT INTO pair VALUES ('a', x'00ff'), ('b', 'text'), ('c', 7), ('d', 1.5), ('e', '');
		CREATE TABLE number (id INTEGER PRIMARY KEY, v);
		INSERT INTO number VALUES (-1, 'below'), (1, 'above');
		CREATE TABLE "row ""x""" (id INTEGER PRIMARY KEY, flag BOOLEAN, at DATETIME, b BLOB);
		INSERT INTO "row ""x""" VALUES (1, 2, 'noon', x'01'), (2, NULL, 3, 'ü');
		CREATE TABLE bare (v TEXT);
		INSERT INTO bare VALUES ('first');
		CREATE TABLE hidden (RowID TEXT);
		INSERT INTO hidden VALUES ('same'), ('same');
		CREATE TABLE packed (k PRIMARY KEY) WITHOUT ROWID;
		INSERT INTO packed VALUES (x'05');
		CREATE INDEX i ON pair (v);
		CREATE TABLE empty (k PRIMARY KEY, v);
	`)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const zeros = "\x00\x00\x00\x00\x00\x00"
	sourcetest.Check(t, Open, path, importers.Options{}, sourcetest.Content{
		"pair": {"a": "\x00\xff", "b": "text", "c": "7", "d": "1.5", "e": ""},
		"number": {"\x7f\xff\xff\xff\xff\xff\xff\xff": "below",
			"\x80" + zeros + "\x01": "above"},
		`row "x"`: {"\x80" + zeros + "\x01": `{"at":"noon","b":{"base64":"AQ=="},"flag":2}`,
			"\x80" + zeros + "\x02": `{"at":3,"b":"ü","flag":null}`},
		"bare":   {"\x80" + zeros + "\x01": "first"},
		"hidden": {"\x80" + zeros + "\x01": "same", "\x80" + zeros + "\x02": "same"},
		"packed": {"\x05": ""},
	})
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file has changed, %v", err)
	}
}

func TestRefused(t *testing.T) {
	for what, statements := range map[string]string{
		"two columns": "CREATE TABLE t (a, b, v, PRIMARY KEY (a, b))",
		"no key":      "CREATE TABLE t (k TEXT PRIMARY KEY, v); INSERT INTO t VALUES (NULL, 1)",
		"a real key":  "CREATE TABLE t (k PRIMARY KEY, v); INSERT INTO t VALUES (1.5, 1)",
		"no value":    "CREATE TABLE t (k PRIMARY KEY, v); INSERT INTO t VALUES ('a', NULL)",
		"no rowid":    "CREATE TABLE t (rowid, _ROWID_, oid)",
		"infinity":    "CREATE TABLE t (k PRIMARY KEY, v, w); INSERT INTO t VALUES ('a', 9e999, 1)",
		"a name":      "CREATE TABLE t (k PRIMARY KEY, \"\xff\", \"\xfe\")",
		"bytes": "CREATE TABLE t (k PRIMARY KEY, v, w);" +
			"INSERT INTO t VALUES ('a', CAST(x'ff' AS TEXT), 1)",
	} {
		t.Run(what, func(t *testing.T) {
			sourcetest.Refused(t, Open, fill(t, statements), importers.Options{})
		})
	}
}

// TestVirtual: a table of a module that this program does not have is named.
func TestVirtual(t *testing.T) {
	path := fill(t, `CREATE TABLE a (k PRIMARY KEY, v);
		PRAGMA writable_schema = ON;
		INSERT INTO sqlite_schema VALUES
			('table', 'found', 'found', 0, 'CREATE VIRTUAL TABLE found USING fts9 (text)')`)
	got, err := sourcetest.Convert(t, Open, path, importers.Options{})
	if err == nil || !strings.Contains(err.Error(), `the table "found": no such module: fts9`) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestNameOfMemory: a file of the name by which SQLite makes a database in memory is read.
func TestNameOfMemory(t *testing.T) {
	path := fill(t, "CREATE TABLE t (k PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1)")
	t.Chdir(filepath.Dir(path))
	const name = ":memory:"
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no colons in names of files")
	}
	if err := os.Rename(path, name); err != nil {
		t.Fatal(err)
	}
	sourcetest.Check(t, Open, name, importers.Options{},
		sourcetest.Content{"t": {"a": "1"}})
}

// TestUnfinished: a transaction that a killed process left is neither read nor rolled back.
func TestUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`PRAGMA cache_size = 1;
		CREATE TABLE t (k INTEGER PRIMARY KEY, v);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
		INSERT INTO t SELECT i, zeroblob(1000) FROM n;
		BEGIN; UPDATE t SET v = 'new'`)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(t.TempDir(), "db")
	for _, suffix := range []string{"", "-journal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(left+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := sourcetest.Convert(t, Open, left, importers.Options{})
	if err == nil || !strings.Contains(err.Error(), "open it with SQLite once") {
		t.Errorf("%d entries, %v", len(got["t"]), err)
	}
}

// TestSameBytes: keys of two types that have the same bytes are two rows, and no difference that
// could be overlooked.
func TestSameBytes(t *testing.T) {
	path := fill(t, "CREATE TABLE t (k PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1), (x'61', 2)")
	if got, err := sourcetest.Convert(t, Open, path, importers.Options{}); !errors.Is(err,
		importers.ErrDiffers) {
		t.Errorf("%v, %v", got, err)
	}
}
