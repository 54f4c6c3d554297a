package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func provider(t testing.TB, keys ...byte) KeyProvider {
	t.Helper()
	var older [][]byte
	for _, k := range keys[1:] {
		older = append(older, testKey(k))
	}
	p, err := NewKeyProvider(testKey(keys[0]), older...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// secret is in all keys and values of these tests.
const secret = "plaintext-secret"

// noSecrets searches all files below a directory.
func noSecrets(t *testing.T, dir string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s has keys or values in clear", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEncryptedDatabase(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	o := &Options{Encryption: provider(t, 1), Compression: NoCompression}
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	put := func(from, to int) {
		for i := from; i < to; i++ {
			k := fmt.Appendf(nil, "%s-%06d", secret, i)
			if err := db.Put(k, bytes.Repeat(k, 1+i%50), NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(n int) {
		t.Helper()
		for i := range n {
			k := fmt.Appendf(nil, "%s-%06d", secret, i)
			if v, err := db.Get(k, nil); err != nil || !bytes.Equal(v, bytes.Repeat(k, 1+i%50)) {
				t.Fatalf("%s: %d bytes, %v", k, len(v), err)
			}
		}
	}
	put(0, 5000)
	check(5000)
	noSecrets(t, dir)
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	put(5000, 6000)
	check(6000)
	noSecrets(t, dir)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrEncryption) {
		t.Fatal(err)
	} else {
		t.Log(err)
	}
	if _, err := Open(dir, &Options{Encryption: provider(t, 2)}); !errors.Is(err, ErrEncryption) {
		t.Fatal(err)
	} else {
		t.Log(err)
	}
	if db, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	check(6000)
	if err := db.Verify(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEncryptedByText sets keys by text, which errors do not repeat.
func TestEncryptedByText(t *testing.T) {
	var o Options
	for _, bad := range []string{"key:" + secret, secret, "passphrase:", "file:/none"} {
		if err := o.Set("encryption", bad); !errors.Is(err, ErrInvalidArgument) ||
			strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	must(t, o.Set("encryption", "key:"+strings.Repeat("01", 32)))
	id, key, err := o.Encryption.Current("")
	if err != nil || !bytes.Equal(key, testKey(1)) || id == "" {
		t.Errorf("%s, %v", id, err)
	}
	must(t, o.Set("encryption", "none"))
	if o.Encryption != nil {
		t.Error("there are keys")
	}
}

// TestRekey encrypts a clear database with values in logs, and changes its key.
func TestRekey(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	open := func(o *Options) *DB {
		t.Helper()
		o.Compression, o.LargeValue = NoCompression, 200
		db, err := Open(dir, o)
		must(t, err)
		return db
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "%s-%06d", secret, i) }
	check := func(db *DB) {
		t.Helper()
		for i := range 1000 {
			v, err := db.Get(key(i), nil)
			if err != nil || !bytes.Equal(v, bytes.Repeat(key(i), 1+i%50)) {
				t.Fatalf("%s: %d bytes, %v", key(i), len(v), err)
			}
		}
		must(t, db.Verify(t.Context(), nil))
	}
	db := open(&Options{})
	for i := range 1000 {
		must(t, db.Put(key(i), bytes.Repeat(key(i), 1+i%50), NoSync))
	}
	must(t, db.Flush())
	must(t, db.Close())
	if _, err := Open(dir, &Options{Encryption: provider(t, 1)}); !errors.Is(err, ErrEncryption) {
		t.Fatalf("a clear database opens: %v", err)
	}
	uses := func(db *DB) (ids []string) {
		found, err := db.KeysInUse()
		must(t, err)
		for _, u := range found {
			ids = append(ids, u.ID)
		}
		return ids
	}
	db = open(&Options{Encryption: provider(t, 1), AllowClear: true})
	check(db)
	if ids := uses(db); len(ids) != 2 || ids[0] != "" {
		t.Fatalf("keys in use: %q", ids)
	}
	must(t, db.Rekey(t.Context()))
	check(db)
	if ids := uses(db); len(ids) != 1 || ids[0] == "" {
		t.Fatalf("keys in use: %q", ids)
	}
	must(t, db.Close())
	noSecrets(t, dir)
	db = open(&Options{Encryption: provider(t, 1)})
	check(db)
	must(t, db.Close())
	db = open(&Options{Encryption: provider(t, 2, 1)})
	check(db)
	must(t, db.Rekey(t.Context()))
	check(db)
	if ids := uses(db); len(ids) != 1 {
		t.Fatalf("keys in use: %q", ids)
	}
	must(t, db.Close())
	noSecrets(t, dir)
	db = open(&Options{Encryption: provider(t, 2)})
	check(db)
	must(t, db.Close())
}

// keysInTurn has one key for each number.
type keysInTurn struct{ now int }

func (k *keysInTurn) Name() string { return "in turn" }

func (k *keysInTurn) Current(string) (string, []byte, error) {
	id := strconv.Itoa(k.now)
	key, err := k.Key(id)
	return id, key, err
}

func (k *keysInTurn) Key(id string) ([]byte, error) {
	n, err := strconv.Atoi(id)
	return testKey(byte(n)), err
}

// TestRekeyWhileTablesAreWritten: Rekey runs before each write of a table by a load and an ingest.
// The tables that no version has yet stay as they are, and no entry is lost.
func TestRekeyWhileTablesAreWritten(t *testing.T) {
	needsNative(t)
	keys, mem := &keysInTurn{}, vfs.NewMem()
	var db *DB
	var loading, within bool
	o := &Options{Encryption: keys, Compression: NoCompression}
	o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".loam") && loading && !within {
			within = true
			keys.now++
			must(t, db.Rekey(t.Context()))
			within = false
		}
		return vfs.Outcome{}
	})
	db, err := Open("db", o)
	must(t, err)
	value := func(i int) []byte { return bytes.Repeat(fmt.Append(nil, i), 500) }
	must(t, db.Put(fmt.Appendf(nil, "%04d", 1), value(1), NoSync))
	must(t, db.Flush())
	loading = true
	must(t, db.BulkLoad(t.Context(), func(yield func(k, v []byte) bool) {
		for i := 1000; i < 2000; i++ {
			if !yield(fmt.Appendf(nil, "%04d", i), value(i)) {
				return
			}
		}
	}, nil))
	w, err := NewTableWriter("table", &Options{FS: mem})
	must(t, err)
	for i := 2000; i < 3000; i++ {
		must(t, w.Put(fmt.Appendf(nil, "%04d", i), value(i)))
	}
	must(t, w.Finish())
	must(t, db.Ingest(t.Context(), nil, "table"))
	loading = false
	must(t, db.Rekey(t.Context()))
	if used, err := db.KeysInUse(); err != nil || len(used) != 1 || keys.now < 4 {
		t.Errorf("%d keys, in use: %v, %v", keys.now, used, err)
	}
	must(t, db.Close())
	db, err = Open("db", o)
	must(t, err)
	n, it := 0, db.Iter(nil)
	for ok := it.First(); ok; ok, n = it.Next(), n+1 {
		i, _ := strconv.Atoi(string(it.Key()))
		if !bytes.Equal(it.Value(), value(i)) {
			t.Fatalf("%s has another value", it.Key())
		}
	}
	must(t, it.Close())
	if err := db.Verify(t.Context(), nil); err != nil || n != 2001 {
		t.Errorf("%d entries, %v", n, err)
	}
	must(t, db.Close())
}

// TestWrongKeyChangesNothing: without the right key everything that reads a database fails with
// ErrEncryption, and no file changes.
func TestWrongKeyChangesNothing(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	db, err := Open(dir, &Options{Encryption: provider(t, 1)})
	must(t, err)
	must(t, db.Put([]byte(secret), []byte(secret), Sync))
	must(t, db.Flush())
	must(t, db.Put([]byte("b"), []byte(secret), Sync))
	must(t, db.Close())
	before := readAll(t, dir)
	for name, keys := range map[string]KeyProvider{"none": nil, "another": provider(t, 2)} {
		opt := func() *Options { return &Options{Encryption: keys} }
		for call, f := range map[string]func() error{
			"Open":         func() error { _, err := Open(dir, opt()); return err },
			"OpenFollower": func() error { _, err := OpenFollower(dir, opt()); return err },
			"Repair":       func() error { _, err := Repair(dir, opt()); return err },
			"read-only": func() error {
				o := opt()
				o.ReadOnly = true
				_, err := Open(dir, o)
				return err
			},
			"AllowClear": func() error {
				o := opt()
				o.AllowClear = true
				_, err := Open(dir, o)
				return err
			},
			"Export": func() error {
				return Export(t.Context(), dir, filepath.Join(t.TempDir(), "to"), FormatNative,
					opt(), nil)
			},
		} {
			err := f()
			var e *EncryptionError
			if !errors.As(err, &e) || !errors.Is(err, ErrEncryption) ||
				errors.Is(err, ErrCorruption) || e.KeyID == "" {
				t.Errorf("%s, keys: %s: %v", call, name, err)
			}
		}
	}
	after := readAll(t, dir)
	for name, b := range before {
		if !bytes.Equal(after[name], b) {
			t.Errorf("%s was changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
}

// readAll reads all files below a directory.
func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			files[path], err = os.ReadFile(path)
		}
		return err
	}))
	return files
}

// TestRepairOfClear: a repair with keys leaves a clear database alone, unless that is allowed.
func TestRepairOfClear(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	db, err := Open(dir, nil)
	must(t, err)
	must(t, db.Put([]byte("a"), []byte("1"), Sync))
	must(t, db.Flush())
	must(t, db.Close())
	db, err = Open(dir, &Options{Encryption: provider(t, 1), AllowClear: true})
	must(t, err)
	must(t, db.Close())
	if _, err := Repair(dir, &Options{Encryption: provider(t, 1)}); !errors.Is(err,
		ErrEncryption) {
		t.Errorf("clear tables: %v", err)
	}
	o := &Options{Encryption: provider(t, 1), AllowClear: true}
	_, err = Repair(dir, o)
	must(t, err)
	db, err = Open(dir, o)
	must(t, err)
	if _, err := db.Get([]byte("a"), nil); err != nil {
		t.Error(err)
	}
	must(t, db.Close())
}

// TestLevelDBFormatIsNotSealed: a repair of a directory in LevelDB's format refuses keys as Open
// does, and leaves it for a repair without: a sealed MANIFEST could be opened by nobody.
func TestLevelDBFormatIsNotSealed(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem, Format: FormatLevelDB})
	mustPut(t, db, 1)
	mustFlush(t, db)
	mustPut(t, db, 2)
	mustClose(t, db)
	must(t, mem.Remove("db/CURRENT"))
	sealed := &Options{FS: mem, Format: FormatLevelDB, Encryption: provider(t, 1), AllowClear: true}
	if _, err := Repair("db", sealed); !errors.Is(err, ErrNeedsNative) {
		t.Errorf("repair: %v", err)
	}
	if _, err := NewTableWriter("table.ldb", sealed); !errors.Is(err, ErrNeedsNative) {
		t.Errorf("table writer: %v", err)
	}
	must(t, mem.MkdirAll("empty"))
	if _, err := Repair("empty", sealed); !errors.Is(err, ErrDoesNotExist) {
		t.Errorf("repair of an empty directory: %v", err)
	}
	_, err := Repair("db", &Options{FS: mem})
	must(t, err)
	db = mustOpen(t, "db", &Options{FS: mem})
	wantValue(t, db, 1)
	wantValue(t, db, 2)
	mustClose(t, db)
}

// TestRepairWithDamagedManifest: a repair finds the keyspace of an ingested table in a MANIFEST of
// which the beginning is damaged.
func TestRepairWithDamagedManifest(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	o := &Options{Encryption: provider(t, 1)}
	outside := filepath.Join(t.TempDir(), "outside.loam")
	w, err := NewTableWriter(outside, o)
	must(t, err)
	must(t, w.Put([]byte(secret), []byte(secret)))
	must(t, w.Finish())
	db, err := Open(dir, o)
	must(t, err)
	k, err := db.Keyspace("k", nil)
	must(t, err)
	must(t, k.Ingest(t.Context(), nil, outside))
	must(t, db.Close())
	noSecrets(t, filepath.Dir(outside))
	noSecrets(t, dir)
	names, err := filepath.Glob(filepath.Join(dir, "*.manifest"))
	must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		for i := range 100 { // the first copy of the header, and more
			b[i] ^= 0x55
		}
		must(t, os.WriteFile(name, b, 0o600))
	}
	if _, err := Open(dir, o); !errors.Is(err, ErrCorruption) {
		t.Fatalf("a damaged MANIFEST: %v", err)
	}
	_, err = Repair(dir, o)
	must(t, err)
	db, err = Open(dir, o)
	must(t, err)
	k, err = db.Keyspace("k", &KeyspaceOptions{ErrorIfMissing: true})
	must(t, err)
	if v, err := k.Get([]byte(secret), nil); err != nil || string(v) != secret {
		t.Errorf("%q, %v", v, err)
	}
	must(t, db.Close())
}
