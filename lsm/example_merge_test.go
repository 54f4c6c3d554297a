package lsm_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Merge() {
	db, done := openWith(&lsm.Options{MergeOperator: lsm.MergeOperatorNamed("append")})
	defer done()

	for _, visitor := range []string{"alice", "bob"} {
		must(db.Merge([]byte("visitors"), []byte(visitor), lsm.NoSync))
	}
	visitors, err := db.Get([]byte("visitors"), nil)
	fmt.Println(string(visitors), err)
	// Output: alice,bob <nil>
}

// A counter that is never read to be changed.
func ExampleDB_Merge_counter() {
	db, done := openWith(&lsm.Options{MergeOperator: lsm.MergeOperatorNamed("uint64add")})
	defer done()
	add := func(n uint64) {
		operand := binary.LittleEndian.AppendUint64(nil, n)
		must(db.Merge([]byte("visits"), operand, lsm.NoSync))
	}
	add(1)
	add(1)
	add(40)
	sum, err := db.Get([]byte("visits"), nil)
	fmt.Println(binary.LittleEndian.Uint64(sum), err)
	// Output: 42 <nil>
}

// The longest word wins.
func ExampleMergeOperator() {
	longer := func(a, b []byte) []byte {
		if len(b) > len(a) {
			return b
		}
		return a
	}
	db, done := openWith(&lsm.Options{MergeOperator: &lsm.MergeOperator{
		Name: "example.Longest",
		Full: func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
			longest := existing
			for _, word := range operands {
				longest = longer(longest, word)
			}
			return append(dst, longest...), nil
		},
		Partial: func(dst, key, left, right []byte) ([]byte, bool) {
			return append(dst, longer(left, right)...), true
		},
	}})
	defer done()
	for _, word := range []string{"ash", "hornbeam", "elm"} {
		must(db.Merge([]byte("tree"), []byte(word), lsm.NoSync))
	}
	word, err := db.Get([]byte("tree"), nil)
	fmt.Println(string(word), err)
	// Output: hornbeam <nil>
}

// Sessions end at the time that their value begins with; compactions remove those that have
// ended, and shorten the others.
func ExampleCompactionFilter() {
	const now = 1000
	db, done := openWith(&lsm.Options{CompactionFilter: &lsm.CompactionFilter{
		Name: "sessions",
		Filter: func(level int, key, value []byte) (lsm.FilterDecision, error) {
			var end int
			var rest string
			if !bytes.HasPrefix(key, []byte("session/")) {
				return lsm.FilterKeep, nil
			}
			if _, err := fmt.Sscanf(string(value), "%d %s", &end, &rest); err != nil {
				return lsm.FilterKeep, err
			}
			if end <= now {
				return lsm.FilterRemove, nil
			}
			return lsm.FilterChange(fmt.Appendf(nil, "%d %.1s", end, rest)), nil
		},
	}})
	defer done()
	must(db.Put([]byte("session/1"), []byte("900 ann"), lsm.NoSync))
	must(db.Put([]byte("session/2"), []byte("1100 bob"), lsm.NoSync))
	must(db.Put([]byte("user/1"), []byte("ann"), lsm.NoSync))
	must(db.CompactRange(nil, nil))
	var err error
	for k, v := range db.All(nil, nil, &err) {
		fmt.Printf("%s: %s\n", k, v)
	}
	must(err)
	// Output:
	// session/2: 1100 b
	// user/1: ann
}

func ExamplePrefixFilter() {
	f := lsm.PrefixFilter([]byte("tmp/"), []byte("a,b"))
	var o lsm.Options
	fmt.Println(f.Name, o.Set("compaction_filter", f.Name))
	// Output: prefix:tmp/,a%2cb <nil>
}
