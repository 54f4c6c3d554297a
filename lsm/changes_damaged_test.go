package lsm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestChangesDamaged: a record that a feed has to show next is damaged while the database is open.
// The feed fails with the file and the offset, as Open would, and does not call the record gone; so
// does the feed of a follower.
func TestChangesDamaged(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		o.WALPreallocate = -1
		db := opened(t, dir, &o)
		must(t, db.Put([]byte("a"), nil, Sync))
		log := filepath.Join(dir, db.engine.Parts().Manifest.Format().FileName(base.FileLog,
			db.engine.Parts().WAL.Num()))
		at := db.engine.Parts().WAL.Size()
		must(t, db.Put([]byte("b"), nil, Sync))
		must(t, db.Put([]byte("c"), nil, Sync))
		f, err := OpenFollower(dir, nil)
		must(t, err)
		defer f.Close()
		file, err := os.OpenFile(log, os.O_RDWR, 0)
		must(t, err)
		var b [1]byte
		_, err = file.ReadAt(b[:], at)
		must(t, err)
		b[0] ^= 1
		_, err = file.WriteAt(b[:], at)
		must(t, errors.Join(err, file.Close()))
		for _, db := range []*DB{db, f.DB} {
			feed := mustChanges(t, db, 1, nil)
			if change, ok, err := feed.TryNext(); !ok || err != nil || change.Next() != 2 {
				t.Fatal(change, ok, err)
			}
			var c *CorruptionError
			if _, ok, err := feed.TryNext(); ok || !errors.As(err, &c) ||
				c.File != filepath.Base(log) || c.Offset != at {
				t.Fatal(ok, err)
			}
		}
	})
}

// TestChangesHoleBeforeCarried: a feed that asks for numbers that an ingest took fails also where
// the record behind them is in two logs, because an opening carried it into a new one. A search
// without an end would use up the calls of the file system.
func TestChangesHoleBeforeCarried(t *testing.T) {
	var calls atomic.Int64
	calls.Store(math.MaxInt64)
	o := &Options{WALRetentionBytes: 1 << 40,
		FS: vfs.NewFault(vfs.NewMem(), func(vfs.Op) (out vfs.Outcome) {
			if calls.Add(-1) < 0 {
				out.Err = errPlanted
			}
			return out
		})}
	db := opened(t, "/db", o)
	must(t, db.Put([]byte("a"), nil, NoSync))
	mustFlush(t, db)
	must(t, db.Ingest(context.Background(), nil, writeTable(t, "/table", o, "b", "", "c", "")))
	last := db.Metrics().LastSequence
	must(t, db.Put([]byte("d"), nil, NoSync))
	mustClose(t, db)
	db = opened(t, "/db", o)
	calls.Store(1000)
	feed, err := db.Changes(last, nil)
	if err == nil {
		_, _, err = feed.TryNext()
	}
	calls.Store(math.MaxInt64)
	if gap := (*GapError)(nil); !errors.As(err, &gap) || gap.Asked != last || gap.Next != last+1 {
		t.Fatalf("numbers before %d: %v", last+1, err)
	}
	if got := drain(t, mustChanges(t, db, last+1, nil)); len(got) != 1 {
		t.Errorf("behind the hole: %q", got)
	}
}

// TestChangesKnowIngests: a feed that stands at the end fails behind an ingest and behind a load,
// also where the database is opened again before anything else is written, twice, after a crash
// that keeps only what is durable, or repaired without CURRENT or any MANIFEST. The entries of the
// log stay.
func TestChangesKnowIngests(t *testing.T) {
	calls := map[string]func(*testing.T, *DB, *Options) error{
		"ingest": func(t *testing.T, db *DB, o *Options) error {
			return db.Ingest(context.Background(), nil, writeTable(t, "/table", o, "b", "new"))
		},
		"load": func(_ *testing.T, db *DB, _ *Options) error {
			return db.BulkLoad(context.Background(), func(yield func(k, v []byte) bool) {
				yield([]byte("b"), []byte("new"))
			}, nil)
		},
	}
	onBothFormats(t, func(t *testing.T, o Options) {
		o.WALRetentionBytes = 1 << 40
		for name, call := range calls {
			for openings := range 4 {
				for _, lost := range []string{"", "CURRENT", noManifest} {
					t.Run(fmt.Sprint(name, openings, lost), func(t *testing.T) {
						changesKnow(t, o, openings, lost, call)
					})
				}
			}
		}
	})
}

func changesKnow(t *testing.T, o Options, openings int, lost string,
	ingest func(*testing.T, *DB, *Options) error) {
	mem := vfs.NewMem()
	o.FS = mem
	db := mustOpen(t, "/db", &o)
	must(t, db.Put([]byte("a"), []byte("old"), NoSync))
	feed := mustChanges(t, db, 0, nil)
	drain(t, feed)
	next := feed.Position()
	must(t, ingest(t, db, &o))
	mem = mem.CrashClone(vfs.DropAll())
	wantGap(t, feed, next)
	mustClose(t, db)
	for range openings {
		o.FS = mem
		db = mustOpen(t, "/db", &o)
		wantIs(t, db, "a", "old")
		wantIs(t, db, "b", "new")
		if openings == 3 {
			mem = mem.CrashClone(vfs.DropAll())
		}
		mustClose(t, db)
	}
	o.FS = mem
	if lost != "" {
		repairLacking(t, mem, &o, lost == noManifest)
	}
	db = mustOpen(t, "/db", &o)
	must(t, db.Put([]byte("c"), nil, NoSync))
	if feed, err := db.Changes(next, nil); err == nil {
		wantGap(t, feed, next)
	} else if !errors.Is(err, ErrGap) {
		t.Error(err)
	}
	mustClose(t, db)
}

// repairLacking repairs a database without CURRENT, and without its MANIFEST if manifests is true.
func repairLacking(t *testing.T, mem *vfs.Mem, o *Options, manifests bool) {
	t.Helper()
	if o.Format == FormatNative {
		must(t, mem.Remove("/db/CURRENT/manifest"))
	} else {
		must(t, mem.Remove("/db/CURRENT"))
	}
	paths, err := fstest.Find(mem, "/db", base.FileManifest)
	must(t, err)
	for i := 0; manifests && i < len(paths); i++ {
		must(t, mem.Remove(paths[i]))
	}
	_, err = Repair("/db", o)
	must(t, err)
}

// wantGap wants the next change of a feed to be missing.
func wantGap(t *testing.T, feed *Changes, next uint64) {
	t.Helper()
	change, ok, err := feed.TryNext()
	if gap := (*GapError)(nil); !errors.As(err, &gap) || gap.Asked != next {
		t.Errorf("change %v, %t, %v; want a gap at %d", change, ok, err, next)
	}
}
