package values

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

// verify opens a copy, reads everything, and closes it.
func verify(t *testing.T, what string, fsys vfs.FS, dir string, want map[string][]byte) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		db, err := lsm.Open(dir, &lsm.Options{FS: fsys, LargeValue: least, ErrorIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		check(t, db, want)
		if err := db.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if err := db.CompactRange(nil, nil); err != nil {
			t.Error(err)
		}
		check(t, db, want)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCopies makes each kind of copy of a database with values in logs, in tables, and in the
// memtable; later the source drops its logs.
func TestCopies(t *testing.T) {
	t.Run("logs", func(t *testing.T) { testCopies(t, open(t, vfs.NewMem(), nil, nil)) })
	t.Run("value files", func(t *testing.T) {
		d := open(t, vfs.NewMem(), nil, emptying)
		d.fill(100)
		d.churn()
		d.relocate()
		testCopies(t, d)
	})
}

func testCopies(t *testing.T, d *database) {
	fsys := d.fs
	defer d.Close()
	if d.Metrics().Values.Files == 0 {
		d.fill(100)
	}
	d.put("key 03", valueOf(200, 50_000))
	d.must(d.Flush())
	d.put("in memory", valueOf(201, 70_000))
	ctx := context.Background()

	d.must(d.Checkpoint(ctx, "checkpoint"))
	folder, err := backup.Open("backups", &backup.Options{FS: fsys})
	d.must(err)
	first, err := folder.Create(ctx, d.DB, nil)
	d.must(err)
	again, err := folder.Create(ctx, d.DB, nil)
	d.must(err)
	if again.NewBytes > first.NewBytes/2 {
		t.Errorf("the second backup has %d new bytes, the first has %d", again.NewBytes,
			first.NewBytes)
	}
	var stream bytes.Buffer
	_, err = dump.Write(ctx, d.DB, &stream, nil)
	d.must(err)
	follower, err := lsm.OpenFollower("db", &lsm.Options{FS: fsys})
	d.must(err)
	defer follower.Close()
	want := maps.Clone(d.want)
	check(t, follower, want)

	d.must(d.DeleteRange([]byte("a"), []byte("z"), lsm.NoSync))
	clear(d.want)
	d.must(d.CompactRange(nil, nil))
	if v := d.Metrics().Values; v.Logs+v.Files != 0 {
		t.Errorf("%d value logs and %d value files are left", v.Logs, v.Files)
	}
	check(t, follower, want)
	d.must(follower.CatchUp(ctx))
	check(t, follower, d.want)
	d.fill(300)
	d.must(follower.CatchUp(ctx))
	check(t, follower, d.want)

	verify(t, "checkpoint", fsys, "checkpoint", want)
	for _, id := range []uint64{first.ID, again.ID} {
		d.must(folder.Verify(ctx, id, nil))
		dir := fmt.Sprintf("restored %d", id)
		d.must(folder.Restore(ctx, id, dir, nil))
		verify(t, dir, fsys, dir, want)
	}
	d.must(folder.Close())
	loaded, err := lsm.Open("loaded", &lsm.Options{FS: fsys, Format: lsm.FormatLevelDB})
	d.must(err)
	_, err = dump.Load(ctx, loaded, &stream, nil)
	d.must(err)
	check(t, loaded, want)
	d.must(loaded.Close())
	want = maps.Clone(d.want)
	d.must(d.Close())
	d.must(lsm.Export(ctx, "db", "exported", lsm.FormatLevelDB, &lsm.Options{FS: fsys}, nil))
	verify(t, "exported", fsys, "exported", want)
	d.DB, err = lsm.Open("db", &lsm.Options{FS: fsys, ReadOnly: true})
	d.must(err)
	check(t, d, want)
}

// TestMeets has references beside features that see entries one by one.
func TestMeets(t *testing.T) {
	seen := map[string][]byte{}
	d := open(t, vfs.NewMem(), nil, func(o *lsm.Options) {
		o.MergeOperator = lsm.MergeOperatorNamed("append:")
		o.CompactionFilter = &lsm.CompactionFilter{Name: "test",
			Filter: func(_ int, key, value []byte) (lsm.FilterDecision, error) {
				seen[string(key)] = bytes.Clone(value)
				switch {
				case bytes.HasPrefix(key, []byte("remove")):
					return lsm.FilterRemove, nil
				case bytes.HasPrefix(key, []byte("change")):
					return lsm.FilterChange([]byte("changed")), nil
				}
				return lsm.FilterKeep, nil
			}}
	})
	defer d.Close()
	users, err := d.Keyspace("users", nil)
	d.must(err)
	for i, key := range []string{"keep", "remove", "change", "merged", "swapped", "txn"} {
		d.put(key, valueOf(i, 50_000))
	}
	other := valueOf(9, 40_000)
	d.must(users.Put([]byte("other"), other, lsm.NoSync))
	d.must(d.Flush())
	d.must(users.Flush())
	before := maps.Clone(d.want)
	check(t, d, d.want)
	check(t, users, map[string][]byte{"other": other})

	d.must(d.Merge([]byte("merged"), []byte("!"), lsm.NoSync))
	d.want["merged"] = append(bytes.Clone(d.want["merged"]), '!')
	swapped, err := d.CompareAndSwap([]byte("swapped"), before["swapped"], other, lsm.NoSync)
	if d.want["swapped"] = other; !swapped || err != nil {
		t.Error("CompareAndSwap:", swapped, err)
	}
	d.must(d.Update(t.Context(), func(tx *lsm.Txn) error {
		v, err := tx.GetForUpdate([]byte("txn"), nil)
		if err != nil || !bytes.Equal(v, before["txn"]) {
			return fmt.Errorf("%d bytes, %w", len(v), err)
		}
		if err := tx.Put([]byte("txn"), append(v, '+')); err != nil {
			return err
		}
		return tx.Merge([]byte("txn"), []byte("?"))
	}))
	d.want["txn"] = append(bytes.Clone(before["txn"]), "+?"...)
	check(t, d, d.want)
	if _, _, err := d.TTL([]byte("keep")); err != nil {
		t.Error("TTL:", err)
	}
	reads := d.Metrics().Values.Reads
	walk(t, d, d.want, true)
	if _, err := d.Has([]byte("keep")); err != nil || d.Metrics().Values.Reads > reads+2 {
		t.Errorf("keys alone: %d values read, %v", d.Metrics().Values.Reads-reads, err)
	}
	d.must(d.CompactRange(nil, nil))
	for _, key := range []string{"keep", "remove", "change"} {
		if !bytes.Equal(seen[key], before[key]) {
			t.Errorf("the filter saw %d bytes of %s, not %d", len(seen[key]), key, len(before[key]))
		}
	}
	delete(d.want, "remove")
	d.want["change"] = []byte("changed")
	check(t, d, d.want)
	d.must(d.Flush())
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	d.must(d.DropKeyspace("users"))
	d.must(d.Verify(t.Context(), nil))
	if v, err := d.TryGet([]byte("keep"), nil); !errors.Is(err, lsm.ErrWouldBlock) {
		t.Errorf("TryGet: %d bytes, %v", len(v), err)
	}
}

// TestFeed reads whole values from logs that are kept, before and after another opening.
func TestFeed(t *testing.T) {
	fsys := vfs.NewMem()
	keep := func(o *lsm.Options) { o.WALRetentionBytes = 1 << 30 }
	d := open(t, fsys, nil, keep)
	d.fill(100)
	d.fill(200)
	for range 2 {
		feed, err := d.Changes(1, nil)
		d.must(err)
		got := map[string][]byte{}
		for {
			c, ok, err := feed.TryNext()
			d.must(err)
			if !ok {
				break
			}
			for op := range c.Operations() {
				got[string(op.Key)] = bytes.Clone(op.Value)
			}
		}
		d.must(feed.Close())
		if len(got) != len(d.want) {
			t.Errorf("%d keys of %d", len(got), len(d.want))
		}
		for key, value := range d.want {
			if !bytes.Equal(got[key], value) {
				t.Errorf("%s: %d bytes, want %d", key, len(got[key]), len(value))
			}
		}
		d.must(d.CompactRange(nil, nil))
		d.must(d.Close())
		d = open(t, fsys, d.want, keep)
	}
	d.must(d.Close())
	d = open(t, fsys, d.want, nil) // nothing is kept any more
	check(t, d, d.want)
	d.must(d.Close())
}

// TestIngestRefuses a table with references, which is one of a database.
func TestIngestRefuses(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, nil)
	defer d.Close()
	d.fill(100)
	d.must(d.CompactRange(nil, nil))
	names, err := fsys.List("db")
	d.must(err)
	for _, name := range names {
		if filepath.Ext(name) != ".loam" {
			continue
		}
		err := d.Ingest(t.Context(), nil, filepath.Join("db", name))
		if err == nil || !strings.Contains(err.Error(), "database") {
			t.Errorf("ingest of %s: %v", name, err)
		}
	}
}

// TestUpgradeAndDestroy has no references in LevelDB's format, some after an upgrade, and no files
// in the end.
func TestUpgradeAndDestroy(t *testing.T) {
	fsys := vfs.NewMem()
	d := open(t, fsys, nil, func(o *lsm.Options) { o.Format = lsm.FormatLevelDB })
	d.fill(100)
	if n := d.Metrics().Values.Logs; n != 0 {
		t.Errorf("%d value logs in LevelDB's format", n)
	}
	check(t, d, d.want)
	d.must(d.Close())
	d.must(lsm.Upgrade("db", &lsm.Options{FS: fsys}))
	d = open(t, fsys, d.want, nil)
	check(t, d, d.want)
	d.put("key 04", valueOf(200, 5000))
	d.must(d.Flush())
	if n := d.Metrics().Values.Logs; n != 1 {
		t.Errorf("%d value logs after an upgrade", n)
	}
	d.must(d.CompactRange(nil, nil))
	check(t, d, d.want)
	d.must(d.Close())
	d = open(t, fsys, d.want, func(o *lsm.Options) { o.LargeValue = 0 }) // as it is
	check(t, d, d.want)
	d.must(d.Close())
	d.must(lsm.Destroy("db", &lsm.Options{FS: fsys}))
	if names, err := fsys.List("db"); err == nil && len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}
