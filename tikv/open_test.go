package tikv

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no PD": {}, "time-out": {PD: []string{"a"}, Timeout: -1},
		"short TTL":        {PD: []string{"a"}, SafePointTTL: time.Second},
		"endless prefix":   {PD: []string{"a"}, Prefix: []byte{0xff, 0xff}},
		"half certificate": {PD: []string{"a"}, CA: "ca", Cert: "cert"},
		"no CA":            {PD: []string{"a"}, Cert: "cert", Key: "key"},
	} {
		if _, err := Open(t.Context(), c); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if end := string(after([]byte("a\xff"))); end != "b" {
		t.Errorf("behind a and 255 comes %q", end)
	}
}

// TestNobodyThere opens at an address where a listener says nothing, until the context is done.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
		}
		cancel()
	}()
	if _, err := Open(ctx, Config{PD: []string{l.Addr().String()}}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestForeignValue reads what another program wrote below the prefix.
func TestForeignValue(t *testing.T) {
	_, db := newCluster(t)
	defer db.Close()
	txn, err := db.client.Begin()
	must(t, err)
	must(t, txn.Set([]byte(DefaultPrefix+"a"), []byte("\x02x")))
	must(t, transaction.TxnProbe{KVTxn: txn}.Commit(t.Context()))
	if _, err := db.Get(t.Context(), []byte("a")); !errors.Is(err, lsm.ErrCorruption) {
		t.Errorf("Get: %v", err)
	}
	_, err = db.MultiGet(t.Context(), [][]byte{[]byte("a")})
	if !errors.Is(err, lsm.ErrCorruption) {
		t.Errorf("MultiGet: %v", err)
	}
	it, err := db.Iter(t.Context(), nil)
	must(t, err)
	if it.First() || it.Valid() || !errors.Is(it.Err(), lsm.ErrCorruption) {
		t.Errorf("Iter: %v", it.Err())
	}
	if err := it.Close(); !errors.Is(err, lsm.ErrCorruption) {
		t.Errorf("Close: %v", err)
	}
}

// TestPrefixes has two stores in one cluster: neither sees the other one's keys.
func TestPrefixes(t *testing.T) {
	_, db := newCluster(t)
	other := newDB(db.client.KVStore, Config{Prefix: []byte("loam\x01"), Timeout: time.Minute,
		SafePointTTL: time.Minute})
	before := newDB(db.client.KVStore, Config{Prefix: []byte("loal"), Timeout: time.Minute,
		SafePointTTL: time.Minute})
	all := []*DB{before, db, other}
	for _, d := range all {
		must(t, d.Put(t.Context(), []byte("\xff"), d.cfg.Prefix))
	}
	for _, d := range all {
		it, err := d.Iter(t.Context(), nil)
		must(t, err)
		for _, move := range []func() bool{it.First, it.Next, it.Last, it.Prev} {
			if moved := move(); moved && string(it.Value()) != string(d.cfg.Prefix) {
				t.Errorf("%q shows %q", d.cfg.Prefix, it.Value())
			}
		}
		must(t, it.Close())
	}
	must(t, before.points.close(), other.points.close(), db.Close())
}
