package lsm

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestFollowerSnapshotsKeepOperator: a snapshot and an iterator of a follower, and an iterator of
// the writer, fold the operands of their state with the operator that the writer had then, although
// it has another one since it folded them.
func TestFollowerSnapshotsKeepOperator(t *testing.T) {
	mem := vfs.NewMem()
	named := func(name string) *KeyspaceOptions {
		return &KeyspaceOptions{MergeOperator: MergeOperatorNamed(name)}
	}
	db := mustOpen(t, "db", &Options{FS: mem, Format: FormatNative})
	k, err := db.Keyspace("texts", named("append:"))
	must(t, err)
	for _, operand := range []string{"1", "2"} {
		must(t, k.Merge([]byte("key"), []byte(operand), NoSync))
	}
	f, err := OpenFollower("db", &Options{FS: mem})
	must(t, err)
	of, err := f.Keyspace("texts", nil)
	must(t, err)
	s, it, own := f.Snapshot(), of.Iter(nil), k.Iter(nil)
	must(t, k.Flush())
	_, err = db.Keyspace("texts", named("append:,"))
	must(t, err)
	must(t, k.Merge([]byte("key"), []byte("3"), NoSync))
	must(t, f.CatchUp(context.Background()))
	get := func(r interface {
		Get(key, dst []byte) ([]byte, error)
	}, want string) {
		t.Helper()
		if v, err := r.Get([]byte("key"), nil); err != nil || string(v) != want {
			t.Errorf("%q, %v; want %q", v, err, want)
		}
	}
	get(k, "12,3")
	get(of, "12,3")
	get(s.In(of), "12")
	for _, it := range []*Iterator{it, own, s.In(of).Iter(nil)} {
		if !it.First() || string(it.Value()) != "12" {
			t.Errorf("%q, %v", it.Value(), it.Err())
		}
		must(t, it.Close())
	}
	must(t, s.Close())
	must(t, f.Close())
	mustClose(t, db)
}

// TestFollowerOpensBesideOperator: the writer names another merge operator, and deletes a table,
// while a follower opens. The follower folds with the operator of the state that it shows.
func TestFollowerOpensBesideOperator(t *testing.T) {
	mem, b := vfs.NewMem(), &besideOpen{open: map[string]int{}}
	named := func(name string) *KeyspaceOptions {
		return &KeyspaceOptions{MergeOperator: MergeOperatorNamed(name)}
	}
	db := mustOpen(t, "db", &Options{FS: mem, Format: FormatNative, DisableCompaction: true})
	k, err := db.Keyspace("texts", named("append:"))
	must(t, err)
	must(t, k.Put([]byte("key"), []byte("1"), NoSync))
	must(t, k.Flush())
	b.do = func() {
		must(t, k.Merge([]byte("key"), []byte("2"), NoSync))
		must(t, k.CompactRange(nil, nil))
		db.engine.Parts().Shared.Reads.DrainFor(time.Minute)
		db.engine.Parts().Shared.Files.WaitDeleted()
		_, err := db.Keyspace("texts", named("append:,"))
		must(t, err)
		must(t, k.Merge([]byte("key"), []byte("3"), NoSync))
	}
	f, err := OpenFollower("db", &Options{FS: vfs.NewFault(mem, b.hook)})
	must(t, err)
	of, err := f.Keyspace("texts", nil)
	must(t, err)
	v, err := of.Get([]byte("key"), nil)
	if err != nil || string(v) != "12,3" || b.do != nil {
		t.Errorf("%q, %v", v, err)
	}
	must(t, f.Close())
	mustClose(t, db)
}

// TestFollowerOpensBesideExpiry: a value expires by the writer's clock, and a table is deleted,
// while a follower opens whose clock is behind. The follower's time is the writer's.
func TestFollowerOpensBesideExpiry(t *testing.T) {
	mem, b := vfs.NewMem(), &besideOpen{open: map[string]int{}}
	early := time.Unix(1_000_000, 0)
	var later atomic.Int64 // since then
	db := mustOpen(t, "db", &Options{FS: mem, Format: FormatNative, DisableCompaction: true,
		Clock: func() time.Time { return early.Add(time.Duration(later.Load())) }})
	must(t, db.PutTTL([]byte("a"), []byte("1"), time.Minute, NoSync))
	must(t, db.Flush())
	must(t, db.Put([]byte("z"), []byte("1"), NoSync))
	must(t, db.Flush())
	b.do = func() {
		later.Store(int64(time.Hour))
		if _, err := db.Get([]byte("a"), nil); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		must(t, db.Put([]byte("z"), []byte("2"), NoSync))
		must(t, db.CompactRange([]byte("z"), nil))
		db.engine.Parts().Shared.Reads.DrainFor(time.Minute)
		db.engine.Parts().Shared.Files.WaitDeleted()
	}
	f, err := OpenFollower("db", &Options{FS: vfs.NewFault(mem, b.hook),
		Clock: func() time.Time { return early }})
	must(t, err)
	if v, err := f.Get([]byte("a"), nil); !errors.Is(err, ErrNotFound) || b.do != nil {
		t.Errorf("%q, %v", v, err)
	}
	if v, err := f.Get([]byte("z"), nil); err != nil || string(v) != "2" {
		t.Errorf("%q, %v", v, err)
	}
	must(t, f.Close())
	mustClose(t, db)
}
