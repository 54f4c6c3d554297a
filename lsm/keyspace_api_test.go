package lsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
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
		{db, "k", "default"}, {users, "k", "users"}, {orders, "k", ""}, {users, "m", "users"},
		{db, "m", "default"}, {before, "k", ""}, {before.In(users), "k", ""}, {after, "k", ""},
		{after.In(users), "k", "users"}, {after.In(nil), "k", "default"},
	} {
		got, err := c.r.Get([]byte(c.key), nil)
		if c.want == "" && !errors.Is(err, ErrNotFound) || c.want != "" &&
			(err != nil || string(got) != c.want) {
			t.Errorf("%s is %q, %v; want %q", c.key, got, err, c.want)
		}
	}
	if err := b.Each(func(k, v []byte) error {
		return nil
	}, func([]byte) error { return nil }); !errors.Is(err, ErrInvalidArgument) {
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
	open := func(name string, o *KeyspaceOptions) error {
		_, err := db.Keyspace(name, o)
		return err
	}
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
		"no name":             {open("", nil), ErrInvalidArgument},
		"a long name":         {open(strings.Repeat("x", 256), nil), ErrInvalidArgument},
		"a name with a NUL":   {open("a\x00b", nil), ErrInvalidArgument},
		"a name of bad UTF-8": {open("\xff", nil), ErrInvalidArgument},
		"another comparer": {open("users", &KeyspaceOptions{Comparer: ReverseBytewiseComparer}),
			ErrComparerMismatch},
		"another comparer (2)": {open("default",
			&KeyspaceOptions{Comparer: ReverseBytewiseComparer}), ErrComparerMismatch},
		"missing": {open("none", &KeyspaceOptions{ErrorIfMissing: true}),
			ErrNoKeyspace},
		"filters too large": {open("users", &KeyspaceOptions{BloomBits: 65}), ErrInvalidArgument},
		"drop the default":  {db.DropKeyspace("default"), ErrInvalidArgument},
		"foreign batch": {write(func(b *Batch) {
			b.In(foreign).Put([]byte("k"), nil)
		}), ErrInvalidArgument},
		"foreign batch (2)": {db.Write(other.NewBatchWith("k"), NoSync), ErrInvalidArgument},
		"foreign snapshot":  {get(snap.In(foreign)), ErrInvalidArgument},
		"unknown number":    {db.WriteBytes(unknown, NoSync), ErrNoKeyspace},
		"no context":        {users.CompactRangeContext(nil, nil, nil), ErrInvalidArgument},
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
		"Get": get(users), "Put": users.Put([]byte("k"), nil, NoSync),
		"Delete": users.Delete([]byte("k"), NoSync), "Flush": users.Flush(),
		"CompactRange": users.CompactRangeContext(context.Background(), nil, nil),
		"Iter":         users.Iter(nil).Err(), "batch": write(func(b *Batch) {
			b.In(users).Delete(nil)
		}), "Write": users.Write(wire, NoSync), "WriteBytes": db.WriteBytes(
			wire.Bytes(), NoSync), "MultiGet": users.MultiGet(nil, &MultiResult{}),
		"ApproximateSizes": sizes,
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
	packed, plain := size("packed", nil), size("plain",
		&KeyspaceOptions{Compression: NoCompression})
	if packed > 20_000 || plain < 48_000 {
		t.Errorf("%d bytes with the database's compression, %d without", packed, plain)
	}
	if n := db.Metrics().DiskBytes; n != 0 {
		t.Errorf("the default keyspace has %d bytes", n)
	}
}

// TestMemtablesTogether: the memtables of many keyspaces have no more memory together than
// MaxMemtableBytes, and small ones stay while there is room.
func TestMemtablesTogether(t *testing.T) {
	const limit = 2 << 20
	db := openSpaces(t, vfs.NewMem(), func(o *Options) {
		o.WriteBufferSize = 1 << 20
		o.MaxMemtableBytes = limit
		o.MaxWALSize = 1 << 30
	})
	defer mustClose(t, db)
	var spaces []*Keyspace
	for i := range 16 {
		spaces = append(spaces, mustSpace(t, db, fmt.Sprint("space", i)))
	}
	idle := mustSpace(t, db, "idle")
	putIn(t, db, "k", "v", idle)
	value := strings.Repeat("v", 1000)
	most := int64(0)
	for i := range 12_000 {
		if err := spaces[i%16].Put(key(i), []byte(value), NoSync); err != nil {
			t.Fatal(err)
		}
		if i%64 == 0 {
			sum := int64(0)
			for _, k := range spaces {
				sum += k.Metrics().MemtableBytes
			}
			most = max(most, sum)
		}
	}
	t.Logf("up to %d bytes of memtables, the limit is %d", most, limit)
	if most > limit+limit/4 || most < limit/4 {
		t.Errorf("memtables of up to %d bytes", most)
	}
	if n := idle.Metrics().MemtableEntries; n != 1 {
		t.Errorf("the smallest memtable was flushed: it has %d entries", n)
	}
	for i := range 12_000 {
		if v, err := spaces[i%16].Get(key(i), nil); err != nil || string(v) != value {
			t.Fatalf("%s: %d bytes, %v", key(i), len(v), err)
		}
	}
}

// TestMaxWALSize: a keyspace that is seldom written is flushed when the logs have MaxWALSize
// bytes, not before.
func TestMaxWALSize(t *testing.T) {
	for _, c := range []struct {
		size    int64
		flushed bool
	}{{256 << 10, true}, {64 << 20, false}} {
		db := openSpaces(t, vfs.NewMem(), func(o *Options) {
			o.MaxWALSize = c.size
			o.WALPreallocate = -1
		})
		seldom := mustSpace(t, db, "seldom")
		putIn(t, db, "k", "v", seldom)
		for i := range 800 {
			putIn(t, db, fmt.Sprint(i), strings.Repeat("v", 1000), nil)
		}
		if got := seldom.Metrics().MemtableEntries == 0; got != c.flushed {
			t.Errorf("MaxWALSize %d: flushed is %v", c.size, got)
		}
		mustClose(t, db)
	}
}

// TestManyKeyspaces: 10,000 keyspaces work, and idle ones cost next to nothing.
func TestManyKeyspaces(t *testing.T) {
	n := 1000
	if os.Getenv("LOAM_T2") == "1" {
		n = 10_000
	}
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, nil)
	b := NewBatch()
	for i := range n {
		b.In(mustSpace(t, db, fmt.Sprint("space", i))).Put([]byte("k"), fmt.Append(nil, i))
	}
	if err := db.Write(b, NoSync); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := 0; i < n; i += 97 {
			wantIn(t, mustSpace(t, db, fmt.Sprint("space", i)), "k", fmt.Sprint(i))
		}
		if err := db.DropKeyspace(fmt.Sprint("space", n-1)); err != nil {
			t.Fatal(err)
		}
		n--
		mustClose(t, db)
		db = openSpaces(t, fsys, nil)
		if got := len(db.Keyspaces()); got != n+1 {
			t.Errorf("%d keyspaces, want %d", got, n+1)
		}
	}
	mustClose(t, db)
}

// TestExportKeyspaces: an export has all keyspaces, with their orders and what was not
// flushed.
func TestExportKeyspaces(t *testing.T) {
	fsys := vfs.NewMem()
	own := *ReverseBytewiseComparer
	own.Name = "test.down"
	o := &Options{FS: fsys, Format: FormatNative, Comparers: []*Comparer{&own}}
	db := mustOpen(t, "db", o)
	down, err := db.Keyspace("down", &KeyspaceOptions{Comparer: &own})
	if err != nil {
		t.Fatal(err)
	}
	mustSpace(t, db, "empty")
	for i := range 3000 {
		putIn(t, db, string(key(i)), string(value(i)), nil, down)
		if i == 2000 {
			mustFlush(t, db)
		}
	}
	if err := down.Delete(key(7), NoSync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	if err := Export(context.Background(), "db", "to", FormatNative, o, nil); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, "to", &Options{FS: fsys, Comparers: []*Comparer{&own}, ErrorIfMissing: true})
	defer mustClose(t, db)
	if got := db.Keyspaces(); len(got) != 3 || got[1] != "down" || got[2] != "empty" {
		t.Errorf("keyspaces: %q", got)
	}
	if down, err = db.Keyspace("down",
		&KeyspaceOptions{Comparer: &own, ErrorIfMissing: true}); err != nil {
		t.Fatal(err)
	}
	n := 2999
	var scan error
	for k, v := range down.All(nil, nil, &scan) {
		if n == 7 {
			n--
		}
		if string(k) != string(key(n)) || string(v) != string(value(n)) {
			t.Fatalf("%s = %q, want %s", k, v, key(n))
		}
		n--
	}
	if scan != nil || n != -1 {
		t.Errorf("%d entries are missing, %v", n+1, scan)
	}
	wantValues(t, db, 3000)
	if k := mustSpace(t, db, "empty"); k.Iter(nil).First() {
		t.Error("the empty keyspace has an entry")
	}
}

// TestExportFoldsOperandsOfOwnOperators: options that list an operator of one's own are enough to
// export operands of a keyspace, and to go on with it.
func TestExportFoldsOperandsOfOwnOperators(t *testing.T) {
	own := &MergeOperator{Name: "test.Last",
		Full: func(dst, _, _ []byte, operands [][]byte) ([]byte, error) {
			return append(dst, operands[len(operands)-1]...), nil
		}}
	fsys := vfs.NewMem()
	o := &Options{FS: fsys, Format: FormatNative, MergeOperators: []*MergeOperator{own}}
	db := mustOpen(t, "db", o)
	k, err := db.Keyspace("own", &KeyspaceOptions{MergeOperator: own})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"1", "2", "3"} {
		if err := errors.Join(k.Merge([]byte("k"), []byte(v), NoSync), k.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Merge([]byte("k"), []byte("4"), NoSync); err != nil { // in the log
		t.Fatal(err)
	}
	mustClose(t, db)
	if err := Export(context.Background(), "db", "other", FormatNative, &Options{FS: fsys},
		nil); !errors.Is(err, ErrNoMergeOperator) {
		t.Errorf("without the operator: %v", err)
	}
	if err := Export(context.Background(), "db", "to", FormatNative, o, nil); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"db", "to"} {
		db := mustOpen(t, dir, o)
		k := mustSpace(t, db, "own")
		wantIn(t, k, "k", "4")
		if err := k.Merge([]byte("k"), []byte("5"), NoSync); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		wantIn(t, k, "k", "5")
		mustClose(t, db)
	}
	for _, bad := range []*MergeOperator{nil, {Name: "test.Nothing"}} {
		if _, err := Open("bad",
			&Options{FS: fsys, MergeOperators: []*MergeOperator{bad}}); !errors.Is(err,
			ErrInvalidArgument) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
