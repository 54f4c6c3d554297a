package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/testkit/model"
)

// merging is a tree and its model, both of which append operands after a comma.
type merging struct {
	*house
	tree  *Tree
	model *model.Model
}

func newMerging(t *testing.T, cmp *base.Comparer, op *mergeop.Operator) *merging {
	h := newHouse(t)
	tree := New(Options{Comparer: cmp, MemTableSize: 1 << 20, Merge: op}, h.Shared)
	tree.Start(1, nil, h.manifest.Current(base.DefaultKeyspace))
	return &merging{house: h, tree: tree, model: model.New(cmp)}
}

func (m *merging) write(t *testing.T, kind base.Kind, key, value string) {
	t.Helper()
	m.last++
	if err := m.tree.Add(m.last, kind, []byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
	m.model.Add(model.Entry{Key: []byte(key), Value: []byte(value),
		Trailer: base.MakeTrailer(m.last, kind)})
	m.Seqs.Publish(m.last)
}

// check reads keys by Get, Has, MultiGet and an iterator.
func (m *merging) check(t *testing.T, keys [][]byte, snap *Snapshot) {
	t.Helper()
	seq := m.last
	if snap != nil {
		seq = snap.Seq()
	}
	var r MultiResult
	if err := m.tree.MultiGet(keys, snap, &r); err != nil {
		t.Fatal(err)
	}
	var it Iterator
	m.tree.Init(&it, &IterOptions{Snapshot: snap})
	defer it.Close()
	for i, k := range keys {
		want, found := m.model.Get(seq, k)
		got, err := m.tree.Get(k, []byte("front"), snap, 0)
		if found && (err != nil || string(got) != "front"+want) || !found &&
			(!errors.Is(err, base.ErrNotFound) || string(got) != "front") {
			t.Fatalf("Get(%q) at %d = %q, %v; want %q, %v", k, seq, got, err, want, found)
		}
		if has, err := m.tree.Has(k, snap); err != nil || has != found {
			t.Fatalf("Has(%q) at %d = %v, %v; want %v", k, seq, has, err, found)
		}
		if v, ok := r.Value(i); ok != found || string(v) != want {
			t.Fatalf("MultiGet(%q) at %d = %q, %v; want %q, %v", k, seq, v, ok, want, found)
		}
		at := it.SeekGE(k) && m.tree.cmp.Compare(it.Key(), k) == 0
		if at != found || at && string(it.Value()) != want {
			t.Fatalf("SeekGE(%q) at %d: %v, %q, %v; want %q, %v", k, seq, at, it.Value(), it.Err(),
				want, found)
		}
	}
}

// TestOperandsAreFolded reads keys whose versions, operands among them, lie in several
// memtables, as of several snapshots.
func TestOperandsAreFolded(t *testing.T) {
	op, _ := mergeop.Named("append")
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cmp := []*base.Comparer{base.Bytewise, base.ReverseBytewise, model.Fold}[rng.IntN(3)]
		m := newMerging(t, cmp, op)
		var keys [][]byte
		for i := range 1 + rng.IntN(40) {
			keys = append(keys, fmt.Appendf(nil, "%ckey%d", "kK"[rng.IntN(2)], i))
		}
		var snaps []*Snapshot
		for i := range 400 {
			kind := []base.Kind{base.KindSet, base.KindDelete, base.KindMerge, base.KindMerge,
				base.KindMerge, base.KindMerge}[rng.IntN(6)]
			value := ""
			if kind.HasValue() && rng.IntN(10) > 0 {
				value = fmt.Sprint(i)
			}
			m.write(t, kind, string(keys[rng.IntN(len(keys))]), value)
			if rng.IntN(40) == 0 {
				m.rotate(t, m.tree, uint64(i+2))
			}
			if rng.IntN(60) == 0 {
				s := new(Snapshot)
				m.Seqs.Open(s)
				snaps = append(snaps, s)
			}
		}
		if t.Failed() {
			return
		}
		m.check(t, keys, nil)
		for _, s := range snaps {
			m.check(t, keys, s)
			s.Close()
		}
		m.tree.Close()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestOperatorFails has operators that fail, panic, and that there is none of: the read fails
// with the key in the error, other keys are read, and the database goes on.
func TestOperatorFails(t *testing.T) {
	boom := errors.New("no sum today")
	fail := func(what string) func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
		return func(dst, key, _ []byte, _ [][]byte) ([]byte, error) {
			switch {
			case string(key) != "bad":
				return append(dst, "fine"...), nil
			case what == "panics":
				panic("a panic of the operator")
			}
			return nil, boom
		}
	}
	for _, c := range []struct {
		op   *mergeop.Operator
		want error
		text string
	}{
		{&mergeop.Operator{Name: "test.Fails", Full: fail("fails")}, base.ErrMergeFailed,
			"no sum today"},
		{&mergeop.Operator{Name: "test.Panics", Full: fail("panics")}, base.ErrMergeFailed,
			"a panic of the operator"},
		{nil, base.ErrNoMergeOperator, ""},
	} {
		m := newMerging(t, base.Bytewise, c.op)
		m.write(t, base.KindSet, "a", "1")
		m.write(t, base.KindMerge, "bad", "2")
		m.write(t, base.KindSet, "c", "3")
		var it Iterator
		m.tree.Init(&it, &IterOptions{})
		var r MultiResult
		_, getErr := m.tree.Get([]byte("bad"), nil, nil, 0)
		_, hasErr := m.tree.Has([]byte("bad"), nil)
		errs := map[string]error{"Get": getErr, "Has": hasErr,
			"MultiGet": m.tree.MultiGet([][]byte{[]byte("a"), []byte("bad")}, nil, &r)}
		if !it.First() || string(it.Key()) != "a" || it.Next() || it.Valid() {
			t.Errorf("the iterator is at %q", it.Key())
		}
		errs["Next"] = it.Err()
		if !it.Last() || string(it.Key()) != "c" || it.Prev() {
			t.Errorf("backward, the iterator is at %q", it.Key())
		}
		errs["Prev"] = it.Err()
		if !it.SeekGE([]byte("c")) || string(it.Value()) != "3" {
			t.Errorf("behind the key: %v", it.Err())
		}
		for name, err := range errs {
			if !errors.Is(err, c.want) || !contains(err, `"bad"`) || !contains(err, c.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantGet(t, m.tree, nil, "a", "1")
		if m.failed != nil {
			t.Errorf("the database failed: %v", m.failed)
		}
		it.Close()
		m.tree.Close()
	}
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}
