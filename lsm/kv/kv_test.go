package kv_test

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/kv"
)

// TestDB runs the suite of all stores over a database in memory, and over one of its keyspaces.
func TestDB(t *testing.T) {
	small := lsm.Options{FS: crashfs.New(), WriteBufferSize: 64 << 10, WALPreallocate: 64 << 10}
	t.Run("DB", func(t *testing.T) {
		conform.Run(t, func(t *testing.T) kv.Store {
			o := small
			o.FS = crashfs.New()
			return kv.Of(open(t, "/db", &o))
		})
	})
	t.Run("Keyspace", func(t *testing.T) {
		conform.Run(t, func(t *testing.T) kv.Store {
			o := small
			o.FS = crashfs.New()
			db := open(t, "/db", &o)
			k, err := db.Keyspace("other", nil)
			if err != nil {
				t.Fatal(err)
			}
			return keyspace{kv.Of(k), db}
		})
	})
	t.Run("LevelDB", func(t *testing.T) {
		conform.Run(t, func(t *testing.T) kv.Store {
			return kv.Of(open(t, t.TempDir(), &lsm.Options{Format: lsm.FormatLevelDB}))
		})
	})
}

// keyspace is a Store in a keyspace, whose Close closes the database.
type keyspace struct {
	kv.Store
	db *lsm.DB
}

func (k keyspace) Close() error { return k.db.Close() }

func open(t *testing.T, dir string, o *lsm.Options) *lsm.DB {
	db, err := lsm.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}
