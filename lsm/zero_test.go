package lsm

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestNilKeyspace has In(nil) lead to the default keyspace from a snapshot, transaction or batch
// of another one.
func TestNilKeyspace(t *testing.T) {
	s := openTTL(t, nil)
	other, err := s.Keyspace("other", nil)
	s.ok(err)
	s.put("k", "default")
	s.ok(other.Put([]byte("k"), []byte("other"), NoSync))
	snap := other.Snapshot()
	defer snap.Close()
	tx := s.Begin(nil)
	defer tx.Rollback()
	for what, r := range map[string]interface {
		Get(key, dst []byte) ([]byte, error)
	}{
		"snapshot": snap.In(nil), "snapshot, twice": snap.In(nil).In(nil),
		"snapshot, back": snap.In(other).In(nil), "transaction": tx.In(other).In(nil),
		"transaction, twice": tx.In(nil).In(nil),
	} {
		if v, err := r.Get([]byte("k"), nil); string(v) != "default" || err != nil {
			t.Errorf("%s: %q, %v", what, v, err)
		}
	}
	s.ok(tx.In(other).In(nil).Delete([]byte("k")))
	s.ok(tx.Commit(NoSync))
	wantIs(t, s, "k", "")
	wantIs(t, other, "k", "other")
}

// TestNoTimeToLive gives times to live that are not positive.
func TestNoTimeToLive(t *testing.T) {
	s := openTTL(t, nil)
	other, err := s.Keyspace("other", nil)
	s.ok(err)
	key := []byte("k")
	for _, ttl := range []time.Duration{0, -1, -time.Hour} {
		o := s.opts
		w, err := NewTableWriter("table", &o)
		s.ok(err)
		b, in := NewBatch(), other.NewBatch()
		b.PutTTL(key, nil, ttl)
		in.In(nil).PutTTL(key, nil, ttl)
		tx := s.Begin(nil)
		for what, err := range map[string]error{
			"put": s.PutTTL(key, nil, ttl, NoSync), "keyspace": other.PutTTL(key, nil, ttl, NoSync),
			"batch": s.Write(b, NoSync), "batch, In": other.Write(in, NoSync),
			"transaction": tx.PutTTL(key, nil, ttl), "table": w.PutTTL(key, nil, ttl),
		} {
			if !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%s, %v: %v", what, ttl, err)
			}
		}
		if b.Count() != 0 || in.Count() != 0 {
			t.Errorf("%v: batches of %d and %d operations", ttl, b.Count(), in.Count())
		}
		s.ok(errors.Join(s.WriteBytes(b.Bytes(), NoSync), tx.Rollback(), w.Close()))
	}
	if got := contents(t, s, "k"); got != "" {
		t.Errorf("%q", got)
	}
}

// TestDefaultTTLOfNone has a default time to live of a keyspace set, kept by 0 and taken away by
// a negative one.
func TestDefaultTTLOfNone(t *testing.T) {
	s := openTTL(t, nil)
	for _, c := range []struct {
		ttl  time.Duration
		want bool // values expire
	}{{0, false}, {time.Hour, true}, {0, true}, {-1, false}, {0, false}} {
		k, err := s.Keyspace("k", &KeyspaceOptions{DefaultTTL: c.ttl})
		s.ok(err)
		b := k.NewBatch()
		b.Put([]byte("batch"), nil)
		s.ok(errors.Join(k.Put([]byte("put"), nil, NoSync), k.Write(b, NoSync)))
		for _, key := range []string{"put", "batch"} {
			if _, expires, err := k.TTL([]byte(key)); expires != c.want || err != nil {
				t.Errorf("after %v: %s expires: %v, %v", c.ttl, key, expires, err)
			}
		}
	}
	o := s.opts
	o.DefaultTTL = -1
	if _, err := Open("other", &o); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a database with a negative default: %v", err)
	}
}

// TestLimitsOfNone reads with limits of 0, which are none.
func TestLimitsOfNone(t *testing.T) {
	s := openTTL(t, nil)
	for _, key := range []string{"a", "b", "c"} {
		s.put(key, "v")
	}
	for _, limit := range []int{0, -1} {
		it := s.Iter(nil)
		it.First()
		if _, n := it.NextBlock(nil, limit, limit); n != 3 {
			t.Errorf("NextBlock up to %d: %d entries", limit, n)
		}
		it.Last()
		if _, n := it.PrevBlock(nil, limit, limit); n != 3 {
			t.Errorf("PrevBlock up to %d: %d entries", limit, n)
		}
		s.ok(it.Close())
	}
	for from, want := range map[uint64]uint64{0: 1, 1: 1, 2: 2} {
		feed, err := s.Changes(from, nil)
		s.ok(err)
		c, err := feed.Next(context.Background())
		s.ok(err)
		if c.Seq != want {
			t.Errorf("changes from %d begin with %d", from, c.Seq)
		}
		s.ok(feed.Close())
	}
}
