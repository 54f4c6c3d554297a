package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// nativeTxnDB has the operator "append" with commas.
func nativeTxnDB(t testing.TB) *DB {
	t.Helper()
	db := mustOpen(t, "db",
		small(Options{FS: vfs.NewMem(), Format: FormatNative,
			MergeOperator: MergeOperatorNamed("append")}))
	t.Cleanup(func() {
		if m := db.Metrics(); m.Snapshots != 0 || m.Txn.Locks != 0 {
			t.Errorf("left over: %d snapshots, %d locks", m.Snapshots, m.Txn.Locks)
		}
		mustAll(t, db.Close())
	})
	return db
}

// applied makes the writes of a script: "put k v", "del k", "merge k v", "range a b".
func applied(t testing.TB, w interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	Merge(key, operand []byte) error
	DeleteRange(start, limit []byte) error
}, script string) {
	t.Helper()
	for _, line := range strings.Split(script, "; ") {
		f := append(strings.Fields(line), "", "")
		a, b := []byte(f[1]), []byte(f[2])
		switch f[0] {
		case "put":
			mustAll(t, w.Put(a, b))
		case "del":
			mustAll(t, w.Delete(a))
		case "merge":
			mustAll(t, w.Merge(a, b))
		case "range":
			mustAll(t, w.DeleteRange(a, b))
		default:
			t.Fatal(line)
		}
	}
}

// inNoSync is a database as applied wants it.
type inNoSync struct{ *DB }

func (d inNoSync) Put(k, v []byte) error         { return d.DB.Put(k, v, NoSync) }
func (d inNoSync) Delete(k []byte) error         { return d.DB.Delete(k, NoSync) }
func (d inNoSync) Merge(k, v []byte) error       { return d.DB.Merge(k, v, NoSync) }
func (d inNoSync) DeleteRange(a, b []byte) error { return d.DB.DeleteRange(a, b, NoSync) }

// TestTxnKinds: merges and range deletes of a transaction over those of the database, in every
// kind of read, before and after the commit.
func TestTxnKinds(t *testing.T) {
	const stored = "put a 0; put b 0; merge b 1; merge c 2; put d 0; put e 0; merge f 3; put g 0"
	for _, c := range []struct{ name, own, want string }{
		{"merge over what is stored", "merge a x; merge b x; merge c x; merge h x",
			"a=0,x b=0,1,x c=2,x d=0 e=0 f=3 g=0 h=x"},
		{"merges over own writes", "put a 1; merge a x; merge a y; del b; merge b x",
			"a=1,x,y b=x c=2 d=0 e=0 f=3 g=0"},
		{"a range", "range b e", "a=0 e=0 f=3 g=0"},
		{"ranges over one another", "range b d; range c f; range a b", "f=3 g=0"},
		{"writes in a range", "range a z; put c 1; merge d 2; merge d 3", "c=1 d=2,3"},
		{"a range over own writes", "put b 1; merge c 1; put h 1; range b d",
			"a=0 d=0 e=0 f=3 g=0 h=1"},
		{"operands around a range", "merge b 7; range a c; merge b 8; merge a 9",
			"a=9 b=8 c=2 d=0 e=0 f=3 g=0"},
		{"an empty range", "range c c", "a=0 b=0,1 c=2 d=0 e=0 f=3 g=0"},
		{"everything", "range a z", ""},
		{"everything, and back", "range a z; put a 1; range a b; put g 2; merge g 3; del g; " +
			"merge g 4", "g=4"},
	} {
		for _, flushed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/flushed %v", c.name, flushed), func(t *testing.T) {
				db := nativeTxnDB(t)
				applied(t, inNoSync{db}, stored)
				if flushed {
					mustAll(t, db.Flush())
				}
				tx := db.Begin(nil)
				defer tx.Rollback()
				empty := tx.Iter(nil)
				before := forward(empty)
				first := tx.SavePoint()
				applied(t, tx, c.own)
				checkReads(t, tx, c.want)
				if s := forward(empty); s != before {
					t.Errorf("an older iterator: %s", s)
				}
				seen := tx.Iter(nil)
				mustAll(t, tx.DeleteRange([]byte("a"), []byte("zz")),
					tx.Merge([]byte("b"), []byte("later")))
				checkReads(t, tx, "b=later")
				if s := forward(seen); s != c.want {
					t.Errorf("an iterator before later writes: %s", s)
				}
				mustAll(t, seen.Close(), tx.RollbackTo(first))
				checkReads(t, tx, before)
				if s := back(empty); s != strings.Join(reversed(strings.Fields(before)), " ") {
					t.Errorf("an iterator that saw nothing of what was taken back: %s", s)
				}
				mustAll(t, empty.Close())
				applied(t, tx, c.own)
				mustAll(t, tx.Commit(NoSync))
				checkReads(t, db, c.want)
				mustAll(t, db.CompactRange(nil, nil))
				checkReads(t, db, c.want)
			})
		}
	}
}

func reversed(s []string) []string {
	var r []string
	for i := len(s) - 1; i >= 0; i-- {
		r = append(r, s[i])
	}
	return r
}

// checkReads compares all kinds of reads with "key=value ...".
func checkReads(t *testing.T, r Reader, want string) {
	t.Helper()
	values := map[string]string{}
	for _, kv := range strings.Fields(want) {
		k, v, _ := strings.Cut(kv, "=")
		values[k] = v
	}
	var keys [][]byte
	for k := 'a'; k <= 'h'; k++ {
		keys = append(keys, []byte(string(k)))
	}
	var res MultiResult
	mustAll(t, r.MultiGet(keys, &res))
	for i, k := range keys {
		v, ok := values[string(k)]
		got, err := r.Get(k, []byte("dst "))
		if ok && (err != nil || string(got) != "dst "+v) || !ok && !errors.Is(err, ErrNotFound) {
			t.Errorf("Get %s: %q %v, want %q", k, got, err, v)
		}
		if has, err := r.Has(k); has != ok || err != nil {
			t.Errorf("Has %s: %v %v", k, has, err)
		}
		if got, found := res.Value(i); found != ok || string(got) != v {
			t.Errorf("MultiGet %s: %q %v, want %q", k, got, found, v)
		}
	}
	it := r.Iter(nil)
	defer it.Close()
	if s := forward(it); s != want {
		t.Errorf("forward: %s, want %s", s, want)
	}
	list := strings.Fields(want)
	if s := back(it); s != strings.Join(reversed(list), " ") {
		t.Errorf("back: %s, want the reverse of %s", s, want)
	}
	for _, k := range keys {
		n := 0
		for n < len(list) && list[n] < string(k) {
			n++
		}
		if ok := it.SeekGE(k); ok != (n < len(list)) ||
			ok && string(it.Key())+"="+string(it.Value()) != list[n] {
			t.Errorf("SeekGE %s: %v %q=%q", k, ok, it.Key(), it.Value())
		} else if ok && it.Prev() != (n > 0) {
			t.Errorf("SeekGE %s, Prev: %q", k, it.Key())
		}
		if ok := it.SeekLT(k); ok != (n > 0) ||
			ok && string(it.Key())+"="+string(it.Value()) != list[n-1] {
			t.Errorf("SeekLT %s: %v %q=%q", k, ok, it.Key(), it.Value())
		} else if ok && it.Next() != (n < len(list)) {
			t.Errorf("SeekLT %s, Next: %q", k, it.Key())
		}
	}
}

// TestRangeConflicts: a transaction that deleted a range does not commit over what another one
// wrote into it, wherever that is now.
func TestRangeConflicts(t *testing.T) {
	for _, c := range []struct {
		other    string
		conflict bool
	}{
		{"put m x", true}, {"del m", true}, {"merge m x", true}, {"put c x", true},
		{"put not-there x", true}, {"range a d", true}, {"range l n", true}, {"range o zz", true},
		{"put b x; put p x; range a c; range p z; range d d", false},
	} {
		for _, where := range []string{"memtable", "table", "compacted"} {
			for _, o := range []TxnOptions{{}, {Isolation: Serializable}, {Lock: true}} {
				t.Run(fmt.Sprintf("%s/%s/%+v", c.other, where, o), func(t *testing.T) {
					db := nativeTxnDB(t)
					for i := range 26 {
						mustAll(t, db.Put([]byte{'a' + byte(i)}, []byte("0"), NoSync))
					}
					mustAll(t, db.Flush())
					tx := db.Begin(&o)
					defer tx.Rollback()
					mustAll(t, tx.DeleteRange([]byte("c"), []byte("p")))
					applied(t, inNoSync{db}, c.other)
					switch where {
					case "table":
						mustAll(t, db.Flush())
					case "compacted":
						mustAll(t, db.CompactRange(nil, nil))
					}
					err := tx.Commit(NoSync)
					var conflict *ConflictError
					if c.conflict != errors.As(err, &conflict) || !c.conflict && err != nil {
						t.Fatal(err)
					}
					if has, _ := db.Has([]byte("g")); has != c.conflict &&
						!strings.HasPrefix(c.other, "range") {
						t.Errorf("g is there: %v", has)
					}
				})
			}
		}
	}
}

// TestWritesUnderRange: the other way round, a range delete conflicts with transactions that wrote
// or read in it, and with no others.
func TestWritesUnderRange(t *testing.T) {
	for _, c := range []struct {
		do       func(tx *Txn) error
		conflict bool
	}{
		{func(tx *Txn) error { return tx.Put([]byte("m"), nil) }, true},
		{func(tx *Txn) error { return tx.Merge([]byte("m"), []byte("x")) }, true},
		{func(tx *Txn) error { return tx.DeleteRange([]byte("a"), []byte("d")) }, true},
		{func(tx *Txn) error { return tx.DeleteRange([]byte("a"), []byte("c")) }, false},
		{func(tx *Txn) error { return tx.Merge([]byte("p"), []byte("x")) }, false},
		{func(tx *Txn) error {
			_, err := tx.GetForUpdate([]byte("d"), nil)
			return errors.Join(err, tx.Put([]byte("z"), nil))
		}, true},
	} {
		db := nativeTxnDB(t)
		for i := range 26 {
			mustAll(t, db.Put([]byte{'a' + byte(i)}, []byte("0"), NoSync))
		}
		tx, other := db.Begin(nil), db.Begin(nil)
		mustAll(t, c.do(tx), other.DeleteRange([]byte("c"), []byte("p")), other.Commit(NoSync))
		if err := tx.Commit(NoSync); errors.Is(err, ErrConflict) != c.conflict || !c.conflict &&
			err != nil {
			t.Error(err)
		}
	}
}

// TestTxnRefusals: a refused operation is the error of that call, and the transaction keeps the
// others.
func TestTxnRefusals(t *testing.T) {
	a, b := []byte("a"), []byte("b")
	old := mustOpen(t, "old",
		small(Options{FS: vfs.NewMem(), Format: FormatLevelDB,
			MergeOperator: MergeOperatorNamed("append")}))
	plain := mustOpen(t, "plain", small(Options{FS: vfs.NewMem(), Format: FormatNative}))
	db := nativeTxnDB(t)
	defer old.Close()
	defer plain.Close()
	for _, c := range []struct {
		db   *DB
		o    TxnOptions
		call func(tx *Txn) error
		want error
		text string
	}{
		{old, TxnOptions{}, func(tx *Txn) error { return tx.Merge(a, b) }, ErrNeedsNative, "merge"},
		{old, TxnOptions{}, func(tx *Txn) error {
			return tx.DeleteRange(a, b)
		}, ErrNeedsNative, "range delete"},
		{plain, TxnOptions{}, func(tx *Txn) error {
			return tx.Merge(a, b)
		}, ErrNoMergeOperator, `"default"`},
		{db, TxnOptions{}, func(tx *Txn) error {
			return tx.DeleteRange(b, a)
		}, ErrInvalidArgument, "behind its limit"},
		{db, TxnOptions{ReadOnly: true}, func(tx *Txn) error {
			return tx.DeleteRange(a, b)
		}, ErrInvalidArgument, "read-only"},
		{db, TxnOptions{ReadOnly: true}, func(tx *Txn) error {
			return tx.Merge(a, b)
		}, ErrInvalidArgument, "read-only"},
	} {
		tx := c.db.Begin(&c.o)
		err := c.call(tx)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %v with %q", err, c.want, c.text)
		}
		if !c.o.ReadOnly {
			mustAll(t, tx.Put(a, []byte("1")), tx.Commit(NoSync))
			if v := mustGet(t, c.db, "a"); v != "1" {
				t.Errorf("after %v: %q", c.want, v)
			}
		}
		mustAll(t, tx.Rollback())
		for _, call := range []func() error{func() error {
			return tx.Merge(a, b)
		}, func() error { return tx.DeleteRange(a, b) }} {
			if err := call(); !errors.Is(err, ErrTxnDone) {
				t.Errorf("after the end: %v", err)
			}
		}
	}
}

// TestTxnMergeFails: an operator that fails makes reads of that key fail, which name it; the
// transaction goes on, and no operand is lost.
func TestTxnMergeFails(t *testing.T) {
	broken := true
	op := &MergeOperator{Name: "test.Picky",
		Full: func(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
			dst = append(dst, existing...)
			for _, o := range operands {
				if broken && bytes.Equal(o, []byte("bad")) {
					return nil, errors.New("it is bad")
				}
				dst = append(dst, o...)
			}
			return dst, nil
		}}
	db := mustOpen(t, "db",
		small(Options{FS: vfs.NewMem(), Format: FormatNative, MergeOperator: op}))
	defer db.Close()
	applied(t, inNoSync{db}, "merge stored bad; put fine 1")
	tx := db.Begin(nil)
	defer tx.Rollback()
	applied(t, tx, "put own 1; merge own bad; merge fine 2")
	for _, key := range []string{"stored", "own"} {
		_, err := tx.Get([]byte(key), nil)
		if !errors.Is(err, ErrMergeFailed) || !strings.Contains(err.Error(), key) ||
			!strings.Contains(err.Error(), "it is bad") {
			t.Errorf("%s: %v", key, err)
		}
		if _, err := tx.Has([]byte(key)); !errors.Is(err, ErrMergeFailed) {
			t.Errorf("Has %s: %v", key, err)
		}
		if err := tx.MultiGet([][]byte{[]byte("fine"), []byte(key)},
			&MultiResult{}); !errors.Is(err, ErrMergeFailed) {
			t.Errorf("MultiGet %s: %v", key, err)
		}
	}
	if v := mustGet(t, tx, "fine"); v != "12" {
		t.Errorf("another key: %q", v)
	}
	// A write of its own hides the operand that fails.
	save := tx.SavePoint()
	mustAll(t, tx.Put([]byte("stored"), []byte("new")))
	var r MultiResult
	mustAll(t, tx.MultiGet([][]byte{[]byte("stored"), []byte("fine"), []byte("none")}, &r))
	if v, ok := r.Value(0); !ok || string(v) != "new" {
		t.Errorf("%q %v", v, ok)
	}
	if _, ok := r.Value(2); ok {
		t.Error("a key that is not there")
	}
	mustAll(t, tx.RollbackTo(save), tx.Commit(NoSync))
	broken = false
	for key, want := range map[string]string{"stored": "bad", "own": "1bad", "fine": "12"} {
		if v := mustGet(t, db, key); v != want {
			t.Errorf("%s: %q, want %q", key, v, want)
		}
	}
}

// TestTxnMergeCounters: merges in transactions of many goroutines lose nothing, and a range
// delete takes all or nothing of them.
func TestTxnMergeCounters(t *testing.T) {
	db := nativeTxnDB(t)
	const clients, each = 4, 50
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				err := db.Update(context.Background(), func(tx *Txn) error {
					if i%10 == 9 { // what is there moves to a key of its own
						v, err := tx.Get([]byte("sum"), nil)
						if errors.Is(err, ErrNotFound) {
							v, err = nil, nil
						}
						if err == nil && v != nil {
							err = tx.Merge([]byte("total"), v)
						}
						if err == nil {
							err = tx.DeleteRange([]byte("s"), []byte("t"))
						}
						return errors.Join(err, tx.Merge([]byte("sum"), []byte("x")))
					}
					return tx.Merge([]byte("sum"), []byte("x"))
				})
				if err != nil {
					t.Errorf("client %d: %v", c, err)
				}
			}
		})
	}
	wg.Wait()
	sum, total := mustGet(t, db, "sum"), mustGet(t, db, "total")
	if n := strings.Count(sum+total, "x"); n != clients*each {
		t.Errorf("%d, want %d", n, clients*each)
	}
}
