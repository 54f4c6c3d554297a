package lsm

import (
	"context"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// besideOpen is a file system of a follower.
type besideOpen struct {
	mu   sync.Mutex
	open map[string]int // descriptors, by path
	do   func()         // called by the next opening of a table, before it
}

func (b *besideOpen) hook(op vfs.Op) vfs.Outcome {
	b.mu.Lock()
	var do func()
	switch {
	case op.Kind == vfs.OpOpen && fstest.TypeOf(op.Name) == base.FileTable:
		do, b.do = b.do, nil
	case op.Kind == vfs.OpOpen && fstest.TypeOf(op.Name) == base.FileLog:
		b.open[op.Name]++
	case op.Kind == vfs.OpClose && fstest.TypeOf(op.Name) == base.FileLog:
		b.open[op.Name]--
	}
	b.mu.Unlock()
	if do != nil {
		do()
	}
	return vfs.Outcome{}
}

// valuesBeside is a writer with two keyspaces and large values, and a follower.
func valuesBeside(t *testing.T) (
	db *DB, other *Keyspace, f *Follower, b *besideOpen, mem *vfs.Mem,
) {
	mem, b = vfs.NewMem(), &besideOpen{open: map[string]int{}}
	db = mustOpen(t, "db", &Options{FS: mem, LargeValue: 64, DisableCompaction: true})
	other, err := db.Keyspace("other", nil)
	must(t, err)
	f, err = OpenFollower("db", &Options{FS: vfs.NewFault(mem, b.hook)})
	must(t, err)
	return db, other, f, b, mem
}

// makeSmall replaces the large value of a key, and its table goes.
func makeSmall(t *testing.T, db *DB, k *keyspace) {
	t.Helper()
	must(t, k.Put([]byte("large"), []byte("small"), NoSync))
	must(t, k.CompactRange(nil, nil))
	db.engine.Parts().Shared.Reads.DrainFor(time.Minute)
	db.engine.Parts().Shared.Files.WaitDeleted()
}

// TestFollowerKeepsLogOfNextTable: while a follower opens the table of an edit, the last older one
// that refers to the same log goes. The follower has the values of the log afterwards, although the
// writer deletes it.
func TestFollowerKeepsLogOfNextTable(t *testing.T) {
	needsNative(t)
	ctx := context.Background()
	db, other, f, b, mem := valuesBeside(t)
	of, err := f.Keyspace("other", nil)
	must(t, err)
	large := make([]byte, 1000)
	must(t, db.Put([]byte("large"), large, NoSync))
	must(t, other.Put([]byte("large"), large, NoSync))
	must(t, db.Flush())
	must(t, f.CatchUp(ctx))
	it := f.Iter(nil)
	makeSmall(t, db, &db.keyspace)
	must(t, f.CatchUp(ctx))
	must(t, other.Flush())
	b.do = func() {
		must(t, it.Close())
		if !f.engine.Parts().Shared.Reads.DrainFor(time.Minute) {
			t.Error("the state of the iterator stays")
		}
	}
	must(t, f.CatchUp(ctx))
	makeSmall(t, db, &other.keyspace)
	logs, err := fstest.Find(mem, "db", base.FileLog)
	must(t, err)
	if b.do != nil || slices.Contains(logs, logName(db, 1)) {
		t.Errorf("nothing was opened beside the iterator's end, or the log stays: %v", logs)
	}
	if v, err := of.Get([]byte("large"), nil); err != nil || len(v) != len(large) {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	must(t, f.Close())
	mustClose(t, db)
}

// TestFollowerClosesLogOfLostTable: the writer deletes a table, and the log that it refers to,
// before a follower has opened the table. The follower has no descriptor of the log afterwards.
func TestFollowerClosesLogOfLostTable(t *testing.T) {
	needsNative(t)
	ctx := context.Background()
	db, _, f, b, mem := valuesBeside(t)
	must(t, db.Put([]byte("large"), make([]byte, 1000), NoSync))
	must(t, db.Flush())
	b.do = func() { makeSmall(t, db, &db.keyspace) }
	must(t, f.CatchUp(ctx))
	if v, err := f.Get([]byte("large"), nil); err != nil || string(v) != "small" || b.do != nil {
		t.Errorf("%q, %v", v, err)
	}
	f.engine.Parts().Shared.Reads.DrainFor(time.Minute)
	logs, err := fstest.Find(mem, "db", base.FileLog)
	must(t, err)
	for name, n := range b.open {
		if n > 0 && !slices.Contains(logs, name) {
			t.Errorf("%d descriptors of %s, which is gone", n, path.Base(name))
		}
	}
	must(t, f.Close())
	mustClose(t, db)
}
