package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// caselessDB has keys that are equal where they differ in case alone.
func caselessDB(t testing.TB) *DB {
	t.Helper()
	db := mustOpen(t, "db",
		small(Options{FS: vfs.NewMem(), Format: FormatNative, Comparer: &Comparer{
			Name: "test.Caseless",
			Compare: func(a, b []byte) int {
				return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b))
			},
		}}))
	t.Cleanup(func() { mustAll(t, db.Close()) })
	return db
}

// TestTxnLocksSpellings: a lock is that of a key in all its spellings.
func TestTxnLocksSpellings(t *testing.T) {
	db := caselessDB(t)
	a, b := db.Begin(&TxnOptions{Lock: true}), db.Begin(&TxnOptions{Lock: true, LockTimeout: 1})
	defer a.Rollback()
	defer b.Rollback()
	mustAll(t, a.Put([]byte("Key"), []byte("a")))
	if err := b.Put([]byte("kEY"), []byte("b")); !errors.Is(err, ErrLockTimeout) {
		t.Errorf("a key that another has locked in another spelling: %v", err)
	}
	if _, err := b.GetForUpdate([]byte("key"), nil); !errors.Is(err, ErrLockTimeout) {
		t.Errorf("GetForUpdate: %v", err)
	}
	mustAll(t, a.Delete([]byte("KEY")), b.Put([]byte("other"), nil), a.Commit(NoSync),
		b.Put([]byte("kEY"), []byte("b")), b.Commit(NoSync))
	if v, err := db.Get([]byte("key"), nil); string(v) != "b" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestTxnSpellings: a transaction sees what it has written, and depends on what it has read and
// written, in all spellings of a key; what is newer may be in a memtable or in a table.
func TestTxnSpellings(t *testing.T) {
	keys := func(format string) (all [][]byte) { // more than are compared one by one
		for i := range 40 {
			all = append(all, fmt.Appendf(nil, format, i))
		}
		return all
	}
	lower, upper := keys("key%02d"), keys("KEY%02d")
	depends := map[string]func(t *testing.T, tx *Txn, key []byte){
		"put": func(t *testing.T, tx *Txn, key []byte) {
			mustAll(t, tx.Put(key, []byte("tx")))
		},
		"delete": func(t *testing.T, tx *Txn, key []byte) { mustAll(t, tx.Delete(key)) },
		"range delete": func(t *testing.T, tx *Txn, key []byte) {
			mustAll(t, tx.DeleteRange(key, append(key, 0)))
		},
		"get": func(t *testing.T, tx *Txn, key []byte) {
			if _, err := tx.Get(key, nil); err != nil {
				t.Error(err)
			}
		},
		"get for update": func(t *testing.T, tx *Txn, key []byte) {
			if _, err := tx.GetForUpdate(key, nil); err != nil {
				t.Error(err)
			}
		},
		"multiget": func(t *testing.T, tx *Txn, key []byte) {
			var r MultiResult
			mustAll(t, tx.MultiGet([][]byte{key}, &r))
		},
		"iterator": func(t *testing.T, tx *Txn, key []byte) {
			it := tx.Iter(nil)
			if !it.SeekGE(key) {
				t.Error(it.Err())
			}
			mustAll(t, it.Close())
		},
	}
	for name, depend := range depends {
		for _, flushed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, flushed), func(t *testing.T) {
				db := caselessDB(t)
				for _, k := range lower {
					mustAll(t, db.Put(k, []byte("v"), NoSync))
				}
				for _, changed := range []int{-1, 0, 23, 39} {
					tx := db.Begin(&TxnOptions{Isolation: Serializable})
					for _, k := range upper {
						depend(t, tx, k)
					}
					mustAll(t, tx.Put([]byte("mine"), nil))
					if changed >= 0 {
						mustAll(t, db.Put(lower[changed], []byte("v"), NoSync))
					}
					if flushed {
						mustAll(t, db.Flush())
					}
					err := tx.Commit(NoSync)
					var c *ConflictError
					switch {
					case changed < 0 && err != nil:
						t.Errorf("a commit beside no write: %v", err)
					case changed >= 0 &&
						(!errors.As(err, &c) || !bytes.EqualFold(c.Key, lower[changed])):
						t.Errorf("a commit beside a write of %s: %v", lower[changed], err)
					}
					for _, k := range lower { // what was deleted
						mustAll(t, db.Put(k, []byte("v"), NoSync))
					}
				}
			})
		}
	}
}

// TestTxnOwnSpellings reads own writes in other spellings.
func TestTxnOwnSpellings(t *testing.T) {
	db := caselessDB(t)
	mustAll(t, db.Put([]byte("gone"), []byte("v"), NoSync))
	mustAll(t, db.Put([]byte("left"), []byte("v"), NoSync))
	tx := db.Begin(nil)
	defer tx.Rollback()
	mustAll(t, tx.Put([]byte("Key"), []byte("1")), tx.Put([]byte("kEY"), []byte("2")),
		tx.Delete([]byte("GONE")))
	for _, key := range []string{"key", "KEY"} {
		v, err := tx.Get([]byte(key), nil)
		has, herr := tx.Has([]byte(key))
		if string(v) != "2" || !has || err != nil || herr != nil {
			t.Errorf("%s: %q, %v, %v, %v", key, v, has, err, herr)
		}
	}
	if v, err := tx.Get([]byte("Gone"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted key: %q, %v", v, err)
	}
	var r MultiResult
	mustAll(t, tx.MultiGet([][]byte{[]byte("key"), []byte("gone"), []byte("KEY"), []byte("LEFT")},
		&r))
	for i, want := range []string{"2", "", "2", "v"} {
		if v, found := r.Value(i); string(v) != want || found != (want != "") {
			t.Errorf("MultiGet %d: %q, %v; want %q", i, v, found, want)
		}
	}
	var got []string
	var err error
	for k, v := range tx.All(nil, nil, &err) {
		got = append(got, fmt.Sprintf("%s=%s", bytes.ToLower(k), v))
	}
	if fmt.Sprint(got) != "[key=2 left=v]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
