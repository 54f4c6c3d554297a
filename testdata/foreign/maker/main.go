// Maker makes the directories of other engines beside it: go run . ..
//
// Each has some keys in tables and some in logs, and is closed. Blocks of zeros at the ends of
// files are cut off, but for 4 KiB. RocksDB, LMDB and SQLite are made by engines.sh.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"

	pebble1 "github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/v2"
	badger3 "github.com/dgraph-io/badger/v3"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"
)

func main() {
	for name, fill := range map[string]func(dir string) error{
		"pebble-1-oldest": func(dir string) error {
			return fillPebble1(dir, pebble1.FormatMostCompatible)
		},
		"pebble-1-newest": func(dir string) error { return fillPebble1(dir, pebble1.FormatNewest) },
		"pebble-2-oldest": func(dir string) error {
			return fillPebble2(dir, pebble.FormatMinSupported)
		},
		"pebble-2-newest": func(dir string) error { return fillPebble2(dir, pebble.FormatNewest) },
		"badger-3":        fillBadger3,
		"badger-4":        fillBadger4,
		"bbolt":           fillBolt,
	} {
		dir := filepath.Join(os.Args[1], name)
		check(os.RemoveAll(dir))
		check(os.MkdirAll(dir, 0o755))
		check(fill(dir))
		check(cutZeros(dir))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// each calls put with 40 keys, and flush after the first 20.
func each(put func(key, value []byte) error, flush func() error) error {
	for i := range 40 {
		if i == 20 {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := put(fmt.Appendf(nil, "key %04d", i),
			fmt.Appendf(nil, "value %d", i)); err != nil {
			return err
		}
	}
	return nil
}

func fillPebble1(dir string, v pebble1.FormatMajorVersion) error {
	db, err := pebble1.Open(dir, &pebble1.Options{FormatMajorVersion: v})
	if err == nil {
		err = each(func(k, v []byte) error { return db.Set(k, v, nil) }, db.Flush)
	}
	if err == nil {
		err = db.Close()
	}
	return err
}

func fillPebble2(dir string, v pebble.FormatMajorVersion) error {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: v})
	if err == nil {
		err = each(func(k, v []byte) error { return db.Set(k, v, nil) }, db.Flush)
	}
	if err == nil {
		err = db.Close()
	}
	return err
}

func fillBadger3(dir string) error {
	db, err :=
		badger3.Open(badger3.DefaultOptions(dir).WithMemTableSize(1 << 20).WithValueThreshold(
			1 << 10))
	if err == nil {
		err = each(func(k, v []byte) error {
			return db.Update(func(tx *badger3.Txn) error { return tx.Set(k, v) })
		}, none)
	}
	if err == nil {
		err = db.Close() // writes a table
	}
	return err
}

func fillBadger4(dir string) error {
	db, err := badger.Open(badger.DefaultOptions(dir).WithMemTableSize(1 << 20).WithValueThreshold(
		1 << 10))
	if err == nil {
		err = each(func(k, v []byte) error {
			return db.Update(func(tx *badger.Txn) error { return tx.Set(k, v) })
		}, none)
	}
	if err == nil {
		err = db.Close()
	}
	return err
}

func fillBolt(dir string) error {
	db, err := bbolt.Open(filepath.Join(dir, "data.db"), 0o600, &bbolt.Options{PageSize: 4096})
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			return each(b.Put, none)
		})
	}
	if err == nil {
		err = db.Close()
	}
	return err
}

func none() error { return nil }

func cutZeros(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := len(bytes.TrimRight(b, "\x00")); len(b) > n+4096 {
			if err := os.Truncate(path, int64(n+4096)); err != nil {
				return err
			}
		}
		_ = os.Chmod(path, 0o644)
	}
	return nil
}
