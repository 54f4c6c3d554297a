package lsm

import (
	"context"
	"testing"

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
