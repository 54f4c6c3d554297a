package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/vfs"
)

// fillStore writes through a Store, and wants to read the same.
func fillStore(t *testing.T, s Store, value string) {
	t.Helper()
	b := s.NewBatch()
	b.Put([]byte("own"), []byte(value))
	plain := NewBatch()
	plain.Put([]byte("plain"), []byte(value))
	plain.Delete([]byte("none"))
	wire := NewBatch()
	wire.Put([]byte("wire"), []byte(value))
	if err := errors.Join(s.Write(b, NoSync), s.Write(plain, Sync), s.(interface {
		WriteBytes([]byte, WriteMode) error
	}).WriteBytes(wire.Bytes(), NoSync)); err != nil {
		t.Fatal(err)
	}
	if seq := binary.LittleEndian.Uint64(wire.Bytes()); seq == 0 {
		t.Error("the sequence number of a batch in wire form is not told")
	}
	snap := s.Snapshot()
	defer snap.Close()
	if err := s.(interface {
		Delete([]byte, WriteMode) error
	}).Delete([]byte("own"), NoSync); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		Reader
		want string
	}{{s, "plain wire "}, {snap, "own plain wire "}} {
		got := ""
		it := r.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			got += string(it.Key()) + " "
			if string(it.Value()) != value {
				t.Errorf("%s is %q, want %q", it.Key(), it.Value(), value)
			}
		}
		if err := it.Close(); err != nil || got != r.want {
			t.Errorf("%T has %q, %v; want %q", r.Reader, got, err, r.want)
		}
		var m MultiResult
		if err := r.MultiGet([][]byte{[]byte("plain"), []byte("none")}, &m); err != nil {
			t.Error(err)
		}
		if v, found := m.Value(0); !found || string(v) != value {
			t.Errorf("MultiGet: %q", v)
		}
		if _, found := m.Value(1); found {
			t.Error("MultiGet found a key that was deleted")
		}
	}
}

// TestStores: what is written through a Store is read through it and through no other.
func TestStores(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), nil)
	defer mustClose(t, db)
	for _, s := range []Store{db, mustSpace(t, db, "a"), mustSpace(t, db, "b")} {
		fillStore(t, s, fmt.Sprintf("%T %p", s, s))
	}
}

// TestBatchOverKeyspaces: one batch, several keyspaces, one state of all in a snapshot.
func TestBatchOverKeyspaces(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), nil)
	defer mustClose(t, db)
	users, orders := mustSpace(t, db, "users"), mustSpace(t, db, "orders")
	before := db.Snapshot()
	b := NewBatch()
	b.Put([]byte("k"), []byte("default"))
	b.In(users).Put([]byte("k"), []byte("users"))
	b.In(orders).Put([]byte("k"), []byte("orders"))
	b.In(orders).Delete([]byte("k"))
	more := users.NewBatch()
	more.Put([]byte("m"), []byte("users"))
	more.In(nil).Put([]byte("m"), []byte("default"))
	b.Append(more)
	if err := db.Write(b, NoSync); err != nil {
		t.Fatal(err)
	}
	after := orders.Snapshot()
	for _, c := range []struct {
		r         Reader
		key, want string
	}{
		{db, "k", "default"}, {users, "k", "users"}, {orders, "k", ""}, {users, "m", "users"}, {db, "m", "default"},
		{before, "k", ""}, {before.In(users), "k", ""}, {after, "k", ""}, {after.In(users), "k", "users"}, {after.In(nil), "k", "default"},
	} {
		got, err := c.r.Get([]byte(c.key), nil)
		if c.want == "" && !errors.Is(err, ErrNotFound) || c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s is %q, %v; want %q", c.key, got, err, c.want)
		}
	}
	if err := b.Each(func(k, v []byte) error { return nil }, func([]byte) error { return nil }); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Each of a batch over keyspaces: %v", err)
	}
	if err := errors.Join(before.In(users).Close(), after.Close()); err != nil {
		t.Error(err)
	}
	if _, err := before.Get([]byte("k"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a snapshot that was closed through In: %v", err)
	}
}

// TestKeyspaceMisuse: each misuse is one sentence, and changes nothing.
func TestKeyspaceMisuse(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), nil)
	other := openSpaces(t, vfs.NewMem(), nil)
	defer mustClose(t, other)
	users, foreign := mustSpace(t, db, "users"), mustSpace(t, other, "users")
	snap := db.Snapshot()
	defer snap.Close()
	open := func(name string, o *KeyspaceOptions) error { _, err := db.Keyspace(name, o); return err }
	write := func(fill func(*Batch)) error {
		b := NewBatch()
		b.Put([]byte("k"), []byte("v"))
		fill(b)
		return db.Write(b, NoSync)
	}
	get := func(r Reader) error { _, err := r.Get([]byte("k"), nil); return err }
	wire := users.NewBatch()
	wire.Put([]byte("k"), nil)
	unknown := bytes.Replace(wire.Bytes(), []byte{0x81, byte(users.ID())}, []byte{0x81, 99}, 1)
	if err := db.DropKeyspace("never"); !errors.Is(err, ErrNoKeyspace) {
		t.Error(err)
	}
	for what, c := range map[string]struct{ err, want error }{
		"no name":              {open("", nil), ErrInvalidArgument},
		"a long name":          {open(strings.Repeat("x", 256), nil), ErrInvalidArgument},
		"a name with a NUL":    {open("a\x00b", nil), ErrInvalidArgument},
		"a name of bad UTF-8":  {open("\xff", nil), ErrInvalidArgument},
		"another comparer":     {open("users", &KeyspaceOptions{Comparer: ReverseBytewiseComparer}), ErrComparerMismatch},
		"another comparer (2)": {open("default", &KeyspaceOptions{Comparer: ReverseBytewiseComparer}), ErrComparerMismatch},
		"missing":              {open("none", &KeyspaceOptions{ErrorIfMissing: true}), ErrNoKeyspace},
		"filters too large":    {open("users", &KeyspaceOptions{BloomBits: 65}), ErrInvalidArgument},
		"drop the default":     {db.DropKeyspace("default"), ErrInvalidArgument},
		"foreign batch":        {write(func(b *Batch) { b.In(foreign).Put([]byte("k"), nil) }), ErrInvalidArgument},
		"foreign batch (2)":    {db.Write(other.NewBatchWith("k"), NoSync), ErrInvalidArgument},
		"foreign snapshot":     {get(snap.In(foreign)), ErrInvalidArgument},
		"unknown number":       {db.WriteBytes(unknown, NoSync), ErrNoKeyspace},
		"no context":           {users.CompactRangeContext(nil, nil, nil), ErrInvalidArgument},
	} {
		if !errors.Is(c.err, c.want) || strings.ContainsRune(c.err.Error(), '\n') {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	for _, k := range []Reader{db, users} {
		if err := get(k); !errors.Is(err, ErrNotFound) {
			t.Errorf("after the misuse: %v", err)
		}
	}
	if got := db.Keyspaces(); len(got) != 2 || got[0] != "default" || got[1] != "users" {
		t.Errorf("keyspaces: %q", got)
	}
	if err := db.DropKeyspace("users"); err != nil {
		t.Fatal(err)
	}
	_, sizes := users.ApproximateSizes([]Range{{}})
	for what, err := range map[string]error{
		"Get": get(users), "Put": users.Put([]byte("k"), nil, NoSync), "Delete": users.Delete([]byte("k"), NoSync), "Flush": users.Flush(),
		"CompactRange": users.CompactRangeContext(context.Background(), nil, nil), "Iter": users.Iter(nil).Err(), "batch": write(func(b *Batch) { b.In(users).Delete(nil) }),
		"Write": users.Write(wire, NoSync), "WriteBytes": db.WriteBytes(wire.Bytes(), NoSync), "MultiGet": users.MultiGet(nil, &MultiResult{}), "ApproximateSizes": sizes,
	} {
		if !errors.Is(err, ErrNoKeyspace) {
			t.Errorf("%s of a keyspace that was dropped: %v", what, err)
		}
	}
	if err := errors.Join(get(snap.In(users)), db.Close()); !errors.Is(err, ErrNotFound) {
		t.Errorf("an older snapshot: %v", err)
	}
	if err := open("users", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Keyspace after Close: %v", err)
	}
}

// NewBatchWith is a batch of NewBatch with one put.
func (k *keyspace) NewBatchWith(key string) *Batch {
	b := k.NewBatch()
	b.Put([]byte(key), nil)
	return b
}

// TestKeyspaceTables: compression and filters of a keyspace are its own.
func TestKeyspaceTables(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), nil)
	defer mustClose(t, db)
	value := bytes.Repeat([]byte("v"), 4000)
	size := func(name string, o *KeyspaceOptions) uint64 {
		k, err := db.Keyspace(name, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			if err := k.Put(fmt.Append(nil, i), value, NoSync); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := k.Metrics(); got.Levels[0].Files+got.Levels[len(got.Levels)-1].Files != 1 {
			t.Errorf("metrics of %s: %+v", name, got.Levels)
		}
		return k.Metrics().DiskBytes
	}
	packed, plain := size("packed", nil), size("plain", &KeyspaceOptions{Compression: NoCompression})
	if packed > 20_000 || plain < 48_000 {
		t.Errorf("%d bytes with the database's compression, %d without", packed, plain)
	}
	if n := db.Metrics().DiskBytes; n != 0 {
		t.Errorf("the default keyspace has %d bytes", n)
	}
}
