package client_test

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/loamdtest"
)

// TestLargeCalls: a call that no server takes fails alone. The connection, which other calls share,
// stays, and with it a snapshot.
func TestLargeCalls(t *testing.T) {
	db := dial(t, loamdtest.Start(t, nil, "a"))
	defer func() { _ = db.Close() }() // nothing is lost by it
	ctx := t.Context()
	s, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 9<<20)
	for what, call := range map[string]func() error{
		"Get":             func() error { _, err := db.Get(ctx, large); return err },
		"Get of snapshot": func() error { _, err := s.Get(ctx, large); return err },
		"MultiGet": func() error {
			_, err := db.MultiGet(ctx, [][]byte{large[:5<<20], large[:4<<20]})
			return err
		},
		"iterator": func() error {
			it, err := s.Iter(ctx, &kv.IterOptions{Lower: large})
			if err != nil {
				return err
			}
			it.First()
			return errors.Join(it.Err(), it.Close())
		},
		"AddReader": func() error { return db.AddReader(ctx, string(large), "127.0.0.1:1") },
	} {
		err := call()
		if !errors.Is(err, lsm.ErrTooLarge) || errors.Is(err, client.ErrUnavailable) ||
			errors.Is(err, client.ErrSnapshotGone) || errors.Is(err, client.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := s.Get(ctx, []byte("a")); !errors.Is(err, lsm.ErrNotFound) {
			t.Fatalf("the snapshot, after %s: %v", what, err)
		}
	}
}
