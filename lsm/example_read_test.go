package lsm_test

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// One buffer serves many reads without an allocation.
func ExampleDB_Get() {
	db, done := open()
	defer done()
	must(db.Put([]byte("ash"), []byte("Fraxinus"), lsm.NoSync))
	must(db.Put([]byte("elm"), []byte("Ulmus"), lsm.NoSync))
	var buf []byte
	for _, key := range []string{"ash", "elm", "oak"} {
		value, err := db.Get([]byte(key), buf[:0])
		if errors.Is(err, lsm.ErrNotFound) {
			fmt.Println(key, "is not there")
			continue
		}
		must(err)
		fmt.Println(key, string(value))
		buf = value
	}
	// Output:
	// ash Fraxinus
	// elm Ulmus
	// oak is not there
}

func ExampleDB_Has() {
	db, done := open()
	defer done()
	must(db.Put([]byte("empty"), nil, lsm.NoSync)) // an empty value is a value
	for _, key := range []string{"empty", "missing"} {
		has, err := db.Has([]byte(key))
		fmt.Println(key, has, err)
	}
	// Output:
	// empty true <nil>
	// missing false <nil>
}

// A server answers from memory at once, and hands the rest to other goroutines.
func ExampleDB_TryGet() {
	db, done := open()
	defer done()
	must(db.Put([]byte("k"), []byte("in the memtable"), lsm.NoSync))
	value, err := db.TryGet([]byte("k"), nil)
	if errors.Is(err, lsm.ErrWouldBlock) {
		value, err = db.Get([]byte("k"), nil) // reads from disk
	}
	fmt.Println(string(value), err)
	// Output: in the memtable <nil>
}

func ExampleDB_MultiGet() {
	db, done := open()
	defer done()
	must(db.Put([]byte("a"), []byte("1"), lsm.NoSync))
	must(db.Put([]byte("c"), []byte("3"), lsm.NoSync))
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	var r lsm.MultiResult
	must(db.MultiGet(keys, &r))
	for i, k := range keys {
		v, found := r.Value(i)
		fmt.Printf("%s: %q %v\n", k, v, found)
	}
	// Output:
	// a: "1" true
	// b: "" false
	// c: "3" true
}

func ExampleDB_All() {
	db, done := open()
	defer done()
	for _, k := range []string{"ash", "birch", "cedar", "elm"} {
		must(db.Put([]byte(k), []byte("tree"), lsm.NoSync))
	}
	var err error
	for k, v := range db.All([]byte("b"), []byte("e"), &err) {
		fmt.Printf("%s=%s\n", k, v)
	}
	fmt.Println(err)
	// Output:
	// birch=tree
	// cedar=tree
	// <nil>
}

// The three newest entries of a log whose keys are times.
func ExampleDB_Backward() {
	db, done := open()
	defer done()
	for _, at := range []string{"08:00", "09:30", "11:15", "17:45"} {
		must(db.Put([]byte(at), nil, lsm.NoSync))
	}
	var err error
	n := 0
	for at := range db.Backward(nil, nil, &err) {
		fmt.Println(string(at))
		if n++; n == 3 {
			break
		}
	}
	fmt.Println(err)
	// Output:
	// 17:45
	// 11:15
	// 09:30
	// <nil>
}

func ExampleDB_Prefix() {
	db, done := open()
	defer done()
	for _, k := range []string{"tree/ash", "tree/elm", "treehouse"} {
		must(db.Put([]byte(k), nil, lsm.NoSync))
	}
	var err error
	for k := range db.Prefix([]byte("tree/"), &err) {
		fmt.Println(string(k))
	}
	fmt.Println(err)
	// Output:
	// tree/ash
	// tree/elm
	// <nil>
}

func ExampleDB_Iter() {
	db, done := open()
	defer done()
	for _, k := range []string{"user/1", "user/2", "zone/1"} {
		must(db.Put([]byte(k), nil, lsm.NoSync))
	}
	it := db.Iter(&lsm.IterOptions{Prefix: []byte("user/")})
	for it.Last(); it.Valid(); it.Prev() {
		fmt.Println(string(it.Key()))
	}
	fmt.Println(it.Close())
	// Output:
	// user/2
	// user/1
	// <nil>
}

// The price at a day is that of the last change before the next one.
func ExampleIterator_SeekLT() {
	db, done := open()
	defer done()
	must(db.Put([]byte("2024-01-01"), []byte("10"), lsm.NoSync))
	must(db.Put([]byte("2024-03-15"), []byte("12"), lsm.NoSync))
	must(db.Put([]byte("2024-07-01"), []byte("11"), lsm.NoSync))

	it := db.Iter(nil)
	defer it.Close()
	for _, next := range []string{"2024-02-02", "2024-08-01", "2023-01-01"} {
		if it.SeekLT([]byte(next)) {
			fmt.Printf("%s since %s\n", it.Value(), it.Key())
		} else {
			fmt.Println("none", it.Err())
		}
	}
	// Output:
	// 10 since 2024-01-01
	// 11 since 2024-07-01
	// none <nil>
}

// Keys are counted within bounds, without their values and past the cache.
func ExampleIterOptions() {
	db, done := open()
	defer done()
	for i := range 100 {
		must(db.Put(fmt.Appendf(nil, "%03d", i), []byte("value"), lsm.NoSync))
	}
	it := db.Iter(&lsm.IterOptions{
		Lower: []byte("010"), Upper: []byte("035"), KeysOnly: true, NoFillCache: true,
	})
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	it.SetBounds([]byte("090"), nil) // the same iterator, other bounds
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	fmt.Println(n, it.Close())
	// Output: 35 <nil>
}

// Entries come in blocks, as a program hands them to another process.
func ExampleIterator_NextBlock() {
	db, done := open()
	defer done()
	for _, k := range []string{"a", "b", "c"} {
		must(db.Put([]byte(k), []byte("value of "+k), lsm.NoSync))
	}
	it := db.Iter(nil)
	defer it.Close()
	it.First()
	for it.Valid() {
		block, n := it.NextBlock(nil, 2, 0) // two entries at most
		fmt.Println(n, "entries")
		for len(block) > 0 {
			k, v := binary.LittleEndian.Uint32(block), binary.LittleEndian.Uint32(block[4:])
			fmt.Printf("%s: %s\n", block[8:8+k], block[8+k:8+k+v])
			block = block[8+k+v:]
		}
	}
	fmt.Println(it.Err())
	// Output:
	// 2 entries
	// a: value of a
	// b: value of b
	// 1 entries
	// c: value of c
	// <nil>
}

func ExampleDB_Snapshot() {
	db, done := open()
	defer done()
	must(db.Put([]byte("k"), []byte("old"), lsm.NoSync))
	snap := db.Snapshot()
	defer snap.Close()
	must(db.Put([]byte("k"), []byte("new"), lsm.NoSync))
	then, _ := snap.Get([]byte("k"), nil)
	now, _ := db.Get([]byte("k"), nil)
	fmt.Printf("%s %s\n", then, now)
	// Output: old new
}

// A function that reads takes a DB, a Keyspace, a Snapshot or a Txn.
func ExampleReader() {
	db, done := open()
	defer done()
	must(db.Put([]byte("color"), []byte("green"), lsm.NoSync))
	show := func(r lsm.Reader) {
		value, err := r.Get([]byte("color"), nil)
		fmt.Println(string(value), err)
	}
	snapshot := db.Snapshot()
	defer snapshot.Close()
	tx := db.Begin(nil)
	defer tx.Rollback()
	must(tx.Put([]byte("color"), []byte("blue")))
	must(db.Put([]byte("color"), []byte("red"), lsm.NoSync))
	show(db)
	show(snapshot)
	show(tx)
	// Output:
	// red <nil>
	// green <nil>
	// blue <nil>
}

// A large value is served from where it lies. It stays as it is until Release.
func ExampleDB_GetPinned() {
	db, done := open()
	defer done()
	must(db.Put([]byte("page"), []byte("<p>many kilobytes"), lsm.NoSync))
	var page lsm.PinnedValue
	defer page.Release()
	must(db.GetPinned([]byte("page"), &page))
	must(db.Delete([]byte("page"), lsm.NoSync))
	fmt.Printf("%s\n", page.Bytes())
	fmt.Println(db.GetPinned([]byte("page"), &page), page.Bytes() == nil)
	// Output:
	// <p>many kilobytes
	// not found true
}
