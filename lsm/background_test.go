package lsm

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestNewTablesAreWarm: blocks that readers had in memory are there after a flush and after a
// compaction, and unread blocks are not cached.
func TestNewTablesAreWarm(t *testing.T) {
	o := small(Options{})
	o.CacheSize = 16 << 20
	o.DisableCompaction = true
	db := mustOpen(t, t.TempDir(), o)
	defer mustClose(t, db)
	const n = 20000
	write := func(n int) {
		putKeys(t, db, n)
		mustFlush(t, db)
	}
	inMemory := func(n int) (found int) {
		for i := range n {
			v, err := db.TryGet(key(i), nil)
			switch {
			case err == nil && bytes.Equal(v, value(i)):
				found++
			case !errors.Is(err, ErrWouldBlock):
				t.Fatalf("%s: %q, %v", key(i), v, err)
			}
		}
		return found
	}
	write(n)
	mustCompact(t, db)
	if got := inMemory(n); got != 0 {
		t.Errorf("%d of %d keys in memory before any read", got, n)
	}
	wantValues(t, db, n)
	write(n / 50) // one memtable, after more reads than it gives blocks
	if got := inMemory(n / 50); got != n/50 {
		t.Errorf("%d of %d keys in memory after a flush", got, n/50)
	}
	write(n / 50)
	mustCompact(t, db)
	if got := inMemory(n); got != n {
		t.Errorf("%d of %d keys in memory after a compaction", got, n)
	}
}

// TestDeletionsAreCompactedAway deletes nearly everything: no table full of
// deletions may stay below level 0.
func TestDeletionsAreCompactedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
		defer db.Close()
		const n = 20_000
		putKeys(t, db, n)
		mustCompact(t, db)
		for i := range n {
			if err := db.Delete(key(i), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		mustFlush(t, db)
		time.Sleep(10 * time.Second) // LevelDB's tables do not count deletions: they wait for quiet
		synctest.Wait()
		m := db.Metrics()
		below := uint64(0)
		for _, l := range m.Levels[1:] {
			below += l.Bytes
		}
		if below >= 256<<10 {
			t.Fatalf("%d bytes are left below level 0: %+v", below, m.Levels)
		}
	})
}

// numRuns is how many sorted runs a read looks into.
func numRuns(db *DB) int {
	m := db.Metrics()
	runs := m.Levels[0].Files
	for _, l := range m.Levels[1:] {
		runs += min(l.Files, 1)
	}
	return runs
}

// threeRuns writes keys 0 to n-1 into three runs, and fails if they do not stay.
func threeRuns(t *testing.T, db *DB, n int) {
	t.Helper()
	for range 3 {
		putKeys(t, db, n)
		mustFlush(t, db)
	}
	if got := numRuns(db); got < 2 {
		t.Fatalf("%d runs after three flushes", got)
	}
}

// TestSeeksMergeRuns: runs that no rule of writing wants merged are merged once seeks have paid
// for it, and not for reads that pass most runs by. A seek that no move follows may be one.
func TestSeeksMergeRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
		defer db.Close()
		const n = 1000
		threeRuns(t, db, n)
		before := numRuns(db)
		for i := range seed.Scale(20, 40, 100) * n {
			wantValue(t, db, i%n)
		}
		synctest.Wait()
		if got := numRuns(db); got != before {
			t.Fatalf("%d runs, then %d after gets", before, got)
		}
		for i := 0; numRuns(db) > 1; i++ {
			it := db.Iter(nil)
			if !it.SeekGE(key(i%n)) || !bytes.Equal(it.Key(), key(i%n)) {
				t.Fatal(i, it.Err())
			}
			it.Next()
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
			if i%n == n-1 {
				synctest.Wait()
			}
			if i == 1000*n {
				t.Fatalf("%d runs after %d seeks", numRuns(db), i)
			}
		}
	})
}
