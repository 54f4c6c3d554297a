package surroundings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// kindsLife is a database with every kind of write.
type kindsLife struct {
	t      *testing.T
	ledger testkit.Ledger
	kinds  testkit.Kinds
	last   int
}

func newKindsLife(t *testing.T) *kindsLife {
	seed := testkit.Seed(t)
	return &kindsLife{t: t, ledger: testkit.Ledger{Seed: seed, MaxValue: 2000},
		kinds: testkit.Kinds{Seed: seed}}
}

func (k *kindsLife) open(dir string) *lsm.DB {
	o := small()
	k.kinds.Enable(o)
	db := open(k.t, dir, o)
	must(k.t, k.kinds.Open(db))
	return db
}

// write writes n batches, with a keyspace that is made and dropped after each tenth.
func (k *kindsLife) write(db *lsm.DB, n int) {
	for range n {
		k.last++
		must(k.t, k.kinds.Write(db, &k.ledger, k.last, lsm.WriteMode(k.last%2), nil))
		if k.last%10 == 0 {
			brief, err := db.Keyspace("brief", nil)
			must(k.t, err)
			must(k.t, brief.Put([]byte("k"), []byte("v"), lsm.NoSync))
			must(k.t, brief.Flush())
			must(k.t, db.DropKeyspace("brief"))
		}
	}
}

func (k *kindsLife) check(db *lsm.DB) {
	k.t.Helper()
	_, err := k.ledger.Check(db, k.last, k.last)
	must(k.t, err)
	must(k.t, k.kinds.Check(db, k.last, nil))
}

// TestDirectoryIsRenamedUnderKinds: keyspaces that are made and dropped, their flushes and
// compactions, and commits of transactions stay in the directory that was opened, though it was
// renamed and another one took its name.
func TestDirectoryIsRenamedUnderKinds(t *testing.T) {
	holdsDirectories(t)
	root := t.TempDir()
	dir, moved := filepath.Join(root, "db"), filepath.Join(root, "moved")
	k := newKindsLife(t)
	db := k.open(dir)
	k.write(db, 30)
	must(t, os.Rename(dir, moved))
	newer := k.open(dir)
	must(t, newer.Put([]byte("mine"), nil, lsm.Sync))
	must(t, newer.Close())
	before := listing(t, dir)
	k.write(db, 60)
	for _, name := range db.Keyspaces() {
		space, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		must(t, err)
		must(t, space.Flush())
		must(t, space.CompactRange(nil, nil))
	}
	k.check(db)
	must(t, db.Close())
	same(t, dir, before)
	db = k.open(moved)
	k.check(db)
	k.write(db, 10)
	k.check(db)
	must(t, db.Close())
}

// TestDirectoryIsRemovedUnderKinds: nothing that has to be on disk is acknowledged in a directory
// that was removed: no keyspace is made or dropped, no synced commit, merge or range delete
// succeeds.
func TestDirectoryIsRemovedUnderKinds(t *testing.T) {
	holdsDirectories(t)
	for name, act := range map[string]func(db *lsm.DB) error{
		"make": func(db *lsm.DB) error {
			_, err := db.Keyspace("late", nil)
			return err
		},
		"drop": func(db *lsm.DB) error { return db.DropKeyspace("brief") },
		"commit": func(db *lsm.DB) error {
			tx := db.Begin(&lsm.TxnOptions{Isolation: lsm.Serializable})
			must(t, tx.Put([]byte("k"), []byte("v")))
			return tx.Commit(lsm.Sync)
		},
		"swap": func(db *lsm.DB) error {
			_, err := db.PutIfAbsent([]byte("absent"), []byte("v"), lsm.Sync)
			return err
		},
		"delete range": func(db *lsm.DB) error {
			return db.DeleteRange([]byte("a"), []byte("z"), lsm.Sync)
		},
		"merge": func(db *lsm.DB) error {
			brief, err := db.Keyspace("brief", nil)
			must(t, err)
			return brief.Merge([]byte("k"), []byte("v"), lsm.Sync)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			k := newKindsLife(t)
			db := k.open(dir)
			_, err := db.Keyspace("brief",
				&lsm.KeyspaceOptions{MergeOperator: lsm.MergeOperatorNamed("append")})
			must(t, err)
			k.write(db, 5)
			removeAll(t, dir)
			must(t, os.Mkdir(dir, 0o700))
			if err := act(db); err == nil {
				t.Error("it was acknowledged in a directory that is gone")
			}
			_ = db.Close() // which may say so, too
			if names := listing(t, dir); len(names) != 0 {
				t.Errorf("in the directory that took the name there is %v", names)
			}
		})
	}
}
