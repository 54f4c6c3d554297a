package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/os/vfs"
)

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// mergeOptions are those of a small native database in memory.
func mergeOptions(fs vfs.FS, operator string) *Options {
	o := &Options{FS: fs, Format: FormatNative, WriteBufferSize: 64 << 10}
	if operator != "" {
		o.MergeOperator = MergeOperatorNamed(operator)
	}
	return o
}

func openMerging(t *testing.T, o *Options) *DB {
	t.Helper()
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// wantRead reads a key by Get, GetNoFill, TryGet, MultiGet and iterators in both directions;
// "" is none.
func wantRead(t *testing.T, r interface {
	Reader
	TryGet(key, dst []byte) ([]byte, error)
}, key, want string) {
	t.Helper()
	k := []byte(key)
	got, err := r.Get(k, nil)
	if want == "" && !errors.Is(err, ErrNotFound) || want != "" &&
		(err != nil || string(got) != want) {
		t.Errorf("Get(%s) = %q, %v; want %q", key, got, err, want)
	}
	if got, err := r.TryGet(k, nil); !errors.Is(err, ErrWouldBlock) && string(got) != want {
		t.Errorf("TryGet(%s) = %q, %v; want %q", key, got, err, want)
	}
	var m MultiResult
	if err := r.MultiGet([][]byte{[]byte("none"), k}, &m); err != nil {
		t.Error(err)
	} else if got, _ := m.Value(1); string(got) != want {
		t.Errorf("MultiGet(%s) = %q; want %q", key, got, want)
	}
	for name, move := range map[string]func(it *Iterator) bool{
		"SeekGE": func(it *Iterator) bool {
			return it.SeekGE(k)
		}, "SeekLT": func(it *Iterator) bool { return it.SeekLT(append(k, 0)) },
	} {
		it := r.Iter(nil)
		got := ""
		if move(it) && string(it.Key()) == key {
			got = string(it.Value())
		}
		if err := it.Close(); err != nil || got != want {
			t.Errorf("%s(%s) = %q, %v; want %q", name, key, got, err, want)
		}
	}
}

// TestNamedOperators merges with each operator that is known by name: over nothing, a value,
// a deletion, and again after a flush, a compaction, and a crash.
func TestNamedOperators(t *testing.T) {
	for _, c := range []struct {
		name     string
		existing string
		operands []string
		over     string // the value over existing
		alone    string // over nothing
	}{
		{"uint64add", string(u64(40)), []string{string(u64(3)), string(u64(1<<64 - 1))},
			string(u64(42)), string(u64(2))},
		{"int64add", string(u64(40)), []string{string(u64(1<<64 - 50))}, string(u64(1<<64 - 10)),
			string(u64(1<<64 - 50))},
		{"max", "b", []string{"a", "c", "abc"}, "c", "c"},
		{"min", "b", []string{"c", "abc"}, "abc", "abc"},
		{"append", "x", []string{"y", "", "z"}, "x,y,,z", "y,,z"},
		{"append:", "x", []string{"y", "z"}, "xyz", "yz"},
		{"append:; ", "x", []string{"y", "z"}, "x; y; z", "y; z"},
		{"json_merge", `{"a":1,"b":{"c":[2],"d":null},"e":3}`,
			[]string{`{"b":{"c":"x<y","f":{"g":null,"h":1}}}`, `{"e":null, "a":1.50}`},
			`{"a":1.50,"b":{"c":"x<y","d":null,"f":{"h":1}}}`,
			`{"a":1.50,"b":{"c":"x<y","f":{"h":1}}}`},
		{"json_merge", `[1]`, []string{`{"a":{"b":2}}`, `"text"`, `{"c":1}`}, `{"c":1}`, `{"c":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			db := openMerging(t, mergeOptions(mem, c.name))
			put := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			put(db.Put([]byte("over"), []byte(c.existing), NoSync))
			put(db.Put([]byte("deleted"), []byte(c.existing), NoSync))
			before := db.Snapshot()
			put(db.Delete([]byte("deleted"), NoSync))
			check := func() {
				t.Helper()
				wantRead(t, db, "over", c.over)
				wantRead(t, db, "alone", c.alone)
				wantRead(t, db, "deleted", c.alone)
			}
			for i, operand := range c.operands {
				for _, key := range []string{"over", "alone", "deleted"} {
					put(db.Merge([]byte(key), []byte(operand), NoSync))
				}
				if i == 0 {
					put(db.Flush())
				}
			}
			check()
			wantRead(t, before, "over", c.existing)
			wantRead(t, before, "deleted", c.existing)
			wantRead(t, before, "alone", "")
			put(db.Flush())
			check()
			put(db.CompactRange(nil, nil))
			check()
			wantRead(t, before, "over", c.existing)
			wantRead(t, before, "alone", "")
			before.Close()
			put(db.CompactRange(nil, nil))
			check()
			b := NewBatch()
			b.Merge([]byte("batch"), []byte(c.operands[0]))
			b.Put([]byte("other"), []byte("1"))
			put(db.Write(b, Sync))
			put(db.Close())
			db = openMerging(t, mergeOptions(mem, "")) // by the stored name
			check()
			if _, err := db.Get([]byte("batch"), nil); err != nil {
				t.Error(err)
			}
			put(db.Merge([]byte("batch"), []byte(c.operands[0]), NoSync))
			put(db.Close())
		})
	}
}

// TestOperatorIsStored opens databases with, without and with other operators.
func TestOperatorIsStored(t *testing.T) {
	mine := &MergeOperator{Name: "test.Mine", Full: MergeOperatorNamed("append").Full}
	mem := vfs.NewMem()
	db := openMerging(t, mergeOptions(mem, ""))
	if err := db.Merge([]byte("k"), []byte("1"), NoSync); !errors.Is(err, ErrNoMergeOperator) ||
		!strings.Contains(err.Error(), "default") {
		t.Errorf("Merge without an operator: %v", err)
	}
	b := NewBatch()
	b.Merge([]byte("k"), []byte("1"))
	if err := db.Write(b, NoSync); !errors.Is(err, ErrNoMergeOperator) {
		t.Errorf("a batch without an operator: %v", err)
	}
	if err := db.WriteBytes(b.Bytes(), NoSync); !errors.Is(err, ErrNoMergeOperator) {
		t.Errorf("batch bytes without an operator: %v", err)
	}
	if err := b.Each(func(k, v []byte) error {
		return nil
	}, func([]byte) error { return nil }); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Each: %v", err)
	}
	db.Close()
	with := mergeOptions(mem, "")
	with.MergeOperator = mine
	db = openMerging(t, with)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openMerging(t, mergeOptions(mem, "max")) // no operands yet: another one is fine
	db.Close()
	db = openMerging(t, with)
	if err := errors.Join(db.Write(b, NoSync), db.WriteBytes(b.Bytes(), NoSync)); err != nil {
		t.Fatal(err)
	}
	wantRead(t, db, "k", "1,1")
	db.Close()
	for _, flush := range []bool{false, true} { // operands in the log, and in a table
		for name, want := range map[string]string{"": `"test.Mine"`, "max": `"max"`} {
			if db, err := Open("db", mergeOptions(mem, name)); !errors.Is(err,
				ErrNoMergeOperator) || !strings.Contains(err.Error(), want) {
				t.Errorf("opened with %q: %v", name, err)
				if err == nil {
					db.Close()
				}
			}
		}
		db = openMerging(t, with)
		wantRead(t, db, "k", "1,1")
		if flush {
			break
		}
		// A snapshot keeps the operand from becoming a value.
		if err := db.Put([]byte("k"), []byte("1"), NoSync); err != nil {
			t.Fatal(err)
		}
		s := db.Snapshot()
		if err := errors.Join(db.Merge([]byte("k"), []byte("1"), NoSync), db.Flush()); err != nil {
			t.Fatal(err)
		}
		s.Close()
		db.Close()
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = openMerging(t, mergeOptions(mem, "uint64add")) // all operands have become values
	wantRead(t, db, "k", "1,1")
	db.Close()
}

// TestMergeNeedsNative asks a database in LevelDB's format.
func TestMergeNeedsNative(t *testing.T) {
	o := mergeOptions(vfs.NewMem(), "append")
	o.Format = FormatLevelDB
	db := openMerging(t, o)
	defer db.Close()
	b := NewBatch()
	b.Merge([]byte("k"), []byte("1"))
	for name, err := range map[string]error{"Merge": db.Merge([]byte("k"), []byte("1"), NoSync),
		"Write": db.Write(b, NoSync), "WriteBytes": db.WriteBytes(b.Bytes(), NoSync)} {
		if !errors.Is(err, ErrNeedsNative) ||
			!strings.Contains(err.Error(), "a merge needs the native format") ||
			!strings.Contains(err.Error(), "Upgrade makes it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantRead(t, db, "k", "")
}

// TestKeyspacesHaveOperators merges in two keyspaces of one database in one batch.
func TestKeyspacesHaveOperators(t *testing.T) {
	mem := vfs.NewMem()
	db := openMerging(t, mergeOptions(mem, "uint64add"))
	users, err := db.Keyspace("users",
		&KeyspaceOptions{MergeOperator: MergeOperatorNamed("append")})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch()
	for range 3 {
		b.Merge([]byte("n"), u64(2))
		b.In(users).Merge([]byte("n"), []byte("x"))
	}
	if err := errors.Join(db.Write(b, NoSync),
		users.Merge([]byte("n"), []byte("y"), NoSync)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Keyspace("users",
		&KeyspaceOptions{MergeOperator: MergeOperatorNamed("max")}); !errors.Is(err,
		ErrNoMergeOperator) {
		t.Errorf("another operator: %v", err)
	}
	other, err := db.Keyspace("other", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Merge([]byte("n"), nil, NoSync); !errors.Is(err, ErrNoMergeOperator) ||
		!strings.Contains(err.Error(), `"other"`) {
		t.Errorf("a keyspace without operator: %v", err)
	}
	db.Close()
	readOnly := mergeOptions(mem, "")
	readOnly.ReadOnly = true
	db = openMerging(t, readOnly)
	if _, err := db.Keyspace("other",
		&KeyspaceOptions{MergeOperator: MergeOperatorNamed("max")}); err != nil {
		t.Errorf("an operator that cannot be stored: %v", err)
	}
	db.Close()
	db = openMerging(t, mergeOptions(mem, ""))
	defer db.Close()
	if users, err = db.Keyspace("users", nil); err != nil {
		t.Fatal(err)
	}
	wantRead(t, db, "n", string(u64(6)))
	wantRead(t, users, "n", "x,x,x,y")
}

// TestFailingOperatorKeepsOperands has an operator that fails or panics while flushes and
// compactions run: they succeed, tell of it, and leave the operands for an operator that works.
func TestFailingOperatorKeepsOperands(t *testing.T) {
	for _, act := range []string{"fails", "panics"} {
		var broken atomic.Bool
		appends := MergeOperatorNamed("append")
		trip := func() error {
			if !broken.Load() {
				return nil
			}
			if act == "panics" {
				panic("the operator's own panic")
			}
			return errors.New("the operator's own error")
		}
		var told atomic.Int64
		o := mergeOptions(vfs.NewMem(), "")
		o.Events = &EventListener{BackgroundError: func(err error) {
			if errors.Is(err, ErrMergeFailed) && strings.Contains(err.Error(), `"k`) {
				told.Add(1)
			}
		}}
		o.MergeOperator = &MergeOperator{Name: "test.Broken",
			Full: func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
				if err := trip(); err != nil {
					return nil, err
				}
				return appends.Full(dst, key, existing, operands)
			},
			Partial: func(dst, key, left, right []byte) ([]byte, bool) {
				if trip() != nil {
					return nil, false
				}
				return appends.Partial(dst, key, left, right)
			},
		}
		db := openMerging(t, o)
		var want [10]string
		for round := range 4 {
			for i := range want {
				key, operand := fmt.Appendf(nil, "k%d", i), fmt.Sprintf("%d.%d", round, i)
				if err := db.Merge(key, []byte(operand), NoSync); err != nil {
					t.Fatal(err)
				}
				want[i] = strings.TrimPrefix(want[i]+","+operand, ",")
			}
			broken.Store(true)
			if _, err := db.Get([]byte("k3"), nil); !errors.Is(err, ErrMergeFailed) ||
				!strings.Contains(err.Error(), `"k3"`) ||
				!strings.Contains(err.Error(), "the operator's own") {
				t.Fatalf("%s: Get: %v", act, err)
			}
			if err := errors.Join(db.Flush(), db.CompactRange(nil, nil)); err != nil {
				t.Fatalf("%s: %v", act, err)
			}
			broken.Store(false)
			for i, w := range want {
				wantRead(t, db, fmt.Sprintf("k%d", i), w)
			}
		}
		m := db.Metrics()
		if m.MergeFailures == 0 || m.ReadOnly != nil || m.BackgroundError != nil ||
			m.OperandsFolded == 0 {
			t.Errorf("%s: %d failures, %d folded, read-only: %v, background error: %v", act,
				m.MergeFailures, m.OperandsFolded, m.ReadOnly, m.BackgroundError)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if told.Load() == 0 {
			t.Errorf("%s: no event", act)
		}
	}
}

// TestLongChainsAreFolded reads a key with many operands until the memtable is flushed for it.
func TestLongChainsAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := mergeOptions(vfs.NewMem(), "uint64add")
		o.MaxMergeOperands, o.WriteBufferSize = 10, 4<<20
		db := openMerging(t, o)
		defer db.Close()
		for range 2000 {
			if err := db.Merge([]byte("n"), u64(1), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		for reads := 0; db.Metrics().Flush.Count == 0; reads++ {
			if reads == 100 {
				t.Fatal("no flush")
			}
			wantRead(t, db, "n", string(u64(2000)))
			synctest.Wait()
		}
		before := db.Metrics().OperandsFolded
		wantRead(t, db, "n", string(u64(2000)))
		if n := db.Metrics().OperandsFolded - before; n != 0 {
			t.Errorf("%d operands were folded after the flush", n)
		}
	})
}
