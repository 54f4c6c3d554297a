package lsm

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/current"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// TestUnorderedLevelZero: after a repair by LevelDB or goleveldb the tables of all levels are in
// level 0, with numbers that do not say which one is newer. Every kind of read finds the newest
// version of a key, and a compaction takes tables that overlap together.
func TestUnorderedLevelZero(t *testing.T) {
	mem := vfs.NewMem()
	o := &Options{FS: mem, Format: FormatLevelDB, DisableCompaction: true}
	db := mustOpen(t, "db", o)
	for _, key := range []string{"b", "c", "y"} {
		must(t, db.Put([]byte(key), []byte("old"), NoSync))
	}
	must(t, db.Flush())
	must(t, db.Put([]byte("a"), []byte("new"), NoSync))
	must(t, db.Delete([]byte("b"), NoSync))
	must(t, db.Put([]byte("c"), []byte("new"), NoSync))
	must(t, db.Flush())
	mustClose(t, db)
	swapNumbers(t, mem)

	want := map[string]string{"a": "new", "c": "new", "y": "old"}
	opened := func(name string, upgrade, readOnly bool, then func(db *DB)) {
		t.Run(name, func(t *testing.T) {
			o := &Options{FS: mem.CrashClone(vfs.KeepAll()), DisableCompaction: true,
				ReadOnly: readOnly}
			if upgrade {
				must(t, Upgrade("db", o))
			}
			db := mustOpen(t, "db", o)
			defer mustClose(t, db)
			then(db)
			wantReads(t, db, want)
		})
	}
	nothing := func(*DB) {}
	opened("read-only", false, true, nothing)
	opened("opened", false, false, nothing)
	opened("upgraded", true, false, nothing)
	opened("written", false, false, func(db *DB) {
		must(t, db.Put([]byte("c"), []byte("newer"), NoSync))
		must(t, db.Flush())
		must(t, db.Put([]byte("c"), []byte("new"), NoSync))
	})
	opened("compacted where one table has keys", false, false, func(db *DB) {
		must(t, db.CompactRange([]byte("a"), []byte("ab")))
	})
	opened("compacted", false, false, func(db *DB) { must(t, db.CompactRange(nil, nil)) })
}

// swapNumbers gives the two tables of db, both in level 0, each other's numbers.
func swapNumbers(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	cur, err := current.Read(mem, "db")
	must(t, err)
	res, err := manifest.ReadManifest(mem, "db", cur.Manifest, base.LevelDB)
	must(t, err)
	swapTables(t, mem)
	e := &manifest.Edit{}
	e.SetComparer(res.State.Comparer)
	e.SetLogNum(res.State.LogNum)
	e.SetNextFile(res.State.NextFile)
	e.SetLastSeq(res.State.LastSeq)
	sum := uint64(0)
	for num := range maps.Keys(res.State.Files) {
		sum += num
	}
	for num, f := range res.State.Files {
		e.Add(0, &manifest.FileMeta{Num: sum - num, Size: f.Meta.Size, Smallest: f.Meta.Smallest,
			Largest: f.Meta.Largest})
	}
	path := filepath.Join("db", cur.Manifest)
	must(t, mem.Remove(path))
	f, err := mem.CreateLog(path, 0)
	must(t, err)
	w := record.NewWriter(f)
	must(t, w.Append(e.Encode(nil, base.LevelDB)))
	must(t, w.Sync())
	must(t, w.Close())
}

// wantReads reads keys in each way.
func wantReads(t *testing.T, db *DB, want map[string]string) {
	t.Helper()
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("x"), []byte("y")}
	got := make([]map[string]string, 5)
	for i := range got {
		got[i] = map[string]string{}
	}
	var many MultiResult
	must(t, db.MultiGet(keys, &many))
	var pinned PinnedValue
	for i, key := range keys {
		v, err := db.Get(key, nil)
		if err == nil {
			got[0][string(key)] = string(v)
		} else if !errors.Is(err, ErrNotFound) {
			t.Errorf("Get(%s): %v", key, err)
		}
		if v, ok := many.Value(i); ok {
			got[1][string(key)] = string(v)
		}
		if err := db.GetPinned(key, &pinned); err == nil {
			got[2][string(key)] = string(pinned.Bytes())
		}
		pinned.Release()
		if ok, err := db.Has(key); err != nil {
			t.Errorf("Has(%s): %v", key, err)
		} else if ok {
			got[3][string(key)] = want[string(key)]
		}
	}
	var err error
	for key, v := range db.All(nil, nil, &err) {
		got[4][string(key)] = string(v)
	}
	must(t, err)
	for i, name := range []string{"Get", "MultiGet", "GetPinned", "Has", "All"} {
		if !maps.Equal(got[i], want) {
			t.Errorf("%s: %v, want %v", name, got[i], want)
		}
	}
}
