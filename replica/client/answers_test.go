package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/wire"
)

// TestMalformedAnswers: an answer that is damaged is ErrUnavailable, as a lost connection is, and
// that to a change ErrUnknown. The connection stays, and with it a snapshot.
func TestMalformedAnswers(t *testing.T) {
	type reader interface {
		Get(context.Context, []byte) ([]byte, error)
		Has(context.Context, []byte) (bool, error)
		MultiGet(context.Context, [][]byte) ([][]byte, error)
	}
	ctx, key := t.Context(), []byte("a")
	for _, bad := range [][]byte{{}, {2}, {0, 0}, {2, 'A'}} {
		m, db := newMute(t)
		s := snapshot(t, db)
		for _, op := range []wire.Operation{wire.OpGet, wire.OpHas, wire.OpMultiGet,
			wire.OpWrite} {
			m.answers.Store(op, bad)
		}
		m.answers.Store(wire.OpScan, []byte{1, 0}) // more, and nothing
		for _, r := range []reader{db, s, db.Local(0)} {
			for what, read := range map[string]func() error{
				"Get":      func() error { _, err := r.Get(ctx, key); return err },
				"Has":      func() error { _, err := r.Has(ctx, key); return err },
				"MultiGet": func() error { _, err := r.MultiGet(ctx, [][]byte{key}); return err },
			} {
				if err := read(); !errors.Is(err, client.ErrUnavailable) ||
					errors.Is(err, client.ErrSnapshotGone) {
					t.Errorf("%s of %T, %v: %v", what, r, bad, err)
				}
			}
		}
		it, err := s.Iter(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if it.First(); !errors.Is(it.Err(), client.ErrUnavailable) {
			t.Errorf("an iterator, %v: %v", bad, it.Err())
		}
		_ = it.Close() // with that error
		if err := db.Put(ctx, key, key); !errors.Is(err, client.ErrUnknown) ||
			errors.Is(err, client.ErrNotApplied) {
			t.Errorf("Put, %v: %v", bad, err)
		}
		m.answers.Store(wire.OpStatus, bad)
		if _, err := db.Status(ctx); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("Status, %v: %v", bad, err)
		}
		m.answers.Store(wire.OpSnapshot, []byte{0x80})
		if _, err := db.Snapshot(ctx); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("Snapshot: %v", err)
		}
		m.connections(t, 1)
	}
}
