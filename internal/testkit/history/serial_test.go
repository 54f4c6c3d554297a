package history

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// TestSerialChecker plants histories that no serial order explains, and one that one does.
func TestSerialChecker(t *testing.T) {
	r := func(kv ...any) map[int][]int {
		m := map[int][]int{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(int)] = kv[i+1].([]int)
		}
		return m
	}
	none := []int(nil)
	for _, c := range []struct {
		name    string
		actions []action
		end     [][]int
		want    bool
	}{
		{"one after the other", []action{{id: 1, reads: r(0, none), appends: []int{0}, done: 9},
			{id: 2, reads: r(0, []int{1}), appends: []int{0}, done: 9}}, [][]int{{1, 2}, nil},
			true},
		{"lost update", []action{{id: 1, reads: r(0, none), appends: []int{0}, done: 9},
			{id: 2, reads: r(0, none), appends: []int{0}, done: 9}}, [][]int{{2}, nil}, false},
		{"write skew", []action{{id: 1, reads: r(0, none, 1, none), appends: []int{0}, done: 9},
			{id: 2, reads: r(0, none, 1, none), appends: []int{1}, done: 9}}, [][]int{{1}, {2}},
			false},
		{"aborted read", []action{{id: 1, reads: r(0, []int{7}), done: 9}}, [][]int{nil, nil},
			false},
		{"aborted write", []action{{id: 1, done: 9}}, [][]int{{7}, nil}, false},
		{"read skew", []action{{id: 1, reads: r(0, none, 1, []int{2}), done: 9},
			{id: 2, reads: r(0, none, 1, none), appends: []int{0, 1}, done: 9}}, [][]int{{2}, {2}},
			false},
		{"stale read in real time",
			[]action{{id: 1, reads: r(0, none), appends: []int{0}, call: 1, done: 2},
				{id: 2, reads: r(0, none), appends: []int{1}, call: 3, done: 4}}, [][]int{{1}, {2}},
			false},
	} {
		if err := serializable(c.actions, [][]int{nil, nil}, c.end, false); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestSerializable is transactions on few keys, with a crash in between, many times over.
func TestSerializable(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		seed := testkit.Seed(t)
		for i := range testkit.Scale(10, 60/share, 2000) {
			s := SerialShape{Clients: 4, Keys: 5, Txns: 30,
				Options: lsm.TxnOptions{Isolation: lsm.Serializable, Lock: i%4 == 3},
				Spaces:  i%3 == 1}
			if err := Serial(seed+int64(i), s); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSnapshotIsolation wants no lost update, no aborted and no torn read.
func TestSnapshotIsolation(t *testing.T) {
	seed := testkit.Seed(t)
	for i := range testkit.Scale(10, 50, 1000) {
		s := SerialShape{Clients: 4, Keys: 5, Txns: 30, Options: lsm.TxnOptions{Lock: i%3 == 2},
			Weak: true}
		if err := Serial(seed+int64(i), s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTxnBank moves money in transactions of every kind.
func TestTxnBank(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		seed := testkit.Seed(t)
		for _, o := range []lsm.TxnOptions{{}, {Isolation: lsm.Serializable}, {Lock: true}} {
			if err := TxnBank(seed, 10, testkit.Scale(50, 300/share, 20000), o); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}
