package lsm_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/loamdb/loam/lsm"
)

// Many writes go without a sync; one with Sync makes all before it durable.
func ExampleDB_Put() {
	db, done := open()
	defer done()
	for i := range 1000 {
		must(db.Put(fmt.Appendf(nil, "%d", i), []byte("value"), lsm.NoSync))
	}
	must(db.Put([]byte("done"), []byte("yes"), lsm.Sync))

	err := db.Put([]byte("soon"), []byte("value"), lsm.NoSync|lsm.NoStall)
	if errors.Is(err, lsm.ErrBusy) {
		fmt.Println("flushes or compactions are behind: try again later")
	}
	fmt.Println(err)
	// Output: <nil>
}

// Values of 4 KiB or more are written once: they stay in the log when a flush makes tables.
func ExampleOptions_largeValue() {
	db, done := openWith(&lsm.Options{LargeValue: 4 << 10})
	defer done()
	must(db.Put([]byte("entry 1"), make([]byte, 100_000), lsm.Sync))
	must(db.Flush())
	m := db.Metrics()
	fmt.Println(m.Values.Logs, m.Values.Bytes, m.DiskBytes < 1000)
	v, err := db.Get([]byte("entry 1"), nil)
	fmt.Println(len(v), err)
	// Output:
	// 1 100000 true
	// 100000 <nil>
}

func ExampleDB_Delete() {
	db, done := open()
	defer done()
	must(db.Put([]byte("k"), []byte("v"), lsm.NoSync))
	fmt.Println(db.Delete([]byte("k"), lsm.Sync))
	fmt.Println(db.Delete([]byte("k"), lsm.Sync)) // there is nothing: no error
	has, err := db.Has([]byte("k"))
	fmt.Println(has, err)
	// Output:
	// <nil>
	// <nil>
	// false <nil>
}

func ExampleDB_Write() {
	db, done := open()
	defer done()
	b := lsm.NewBatch()
	b.Put([]byte("alice"), []byte("90"))
	b.Put([]byte("bob"), []byte("110"))
	b.Delete([]byte("carol"))
	fmt.Println(b.Count(), db.Write(b, lsm.Sync))
	// Output: 3 <nil>
}

// A batch is sent as bytes, looked at, and written elsewhere.
func ExampleBatchFromBytes() {
	b := lsm.NewBatch()
	b.Put([]byte("alice"), []byte("90"))
	b.Delete([]byte("bob"))
	sent := b.Bytes()

	received, err := lsm.BatchFromBytes(sent)
	must(err)
	put := func(key, value []byte) error { fmt.Printf("put %s %s\n", key, value); return nil }
	del := func(key []byte) error { fmt.Printf("delete %s\n", key); return nil }
	must(received.Each(put, del))

	db, done := open()
	defer done()
	fmt.Println(db.Write(received, lsm.Sync))
	_, err = lsm.BatchFromBytes(sent[:len(sent)-1])
	fmt.Println(errors.Is(err, lsm.ErrInvalidArgument))
	// Output:
	// put alice 90
	// delete bob
	// <nil>
	// true
}

// One of many goroutines becomes the leader.
func ExampleDB_PutIfAbsent() {
	db, done := open()
	defer done()
	for _, name := range []string{"alice", "bob"} {
		won, err := db.PutIfAbsent([]byte("leader"), []byte(name), lsm.Sync)
		fmt.Println(name, won, err)
	}
	// Output:
	// alice true <nil>
	// bob false <nil>
}

func ExampleDB_CompareAndSwap() {
	db, done := open()
	defer done()
	must(db.Put([]byte("version"), []byte("1"), lsm.NoSync))
	swap := func(old, value string) {
		swapped, err := db.CompareAndSwap([]byte("version"), []byte(old), []byte(value), lsm.Sync)
		fmt.Println(swapped, err)
	}
	swap("1", "2")
	swap("1", "3") // it is 2 now
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleDB_DeleteRange() {
	db, done := open()
	defer done()
	for day := 1; day <= 30; day++ {
		must(db.Put(fmt.Appendf(nil, "log/2024-06-%02d", day), []byte("..."), lsm.NoSync))
	}
	must(db.DeleteRange([]byte("log/2024-06-01"), []byte("log/2024-06-29"),
		lsm.NoSync))
	var err error
	for key := range db.All(nil, nil, &err) {
		fmt.Println(string(key))
	}
	must(err)
	// Output:
	// log/2024-06-29
	// log/2024-06-30
}

func ExampleDB_PutTTL() {
	now := time.Unix(1_700_000_000, 0)
	db, done := openWith(&lsm.Options{Format: lsm.FormatNative, Clock: func() time.Time {
		return now
	}})
	defer done()

	must(db.PutTTL([]byte("session"), []byte("alice"), 30*time.Minute,
		lsm.NoSync))
	now = now.Add(20 * time.Minute)
	left, expires, err := db.TTL([]byte("session"))
	fmt.Println(left, expires, err)
	now = now.Add(10 * time.Minute)
	_, err = db.Get([]byte("session"), nil)
	fmt.Println(errors.Is(err, lsm.ErrNotFound))
	// Output:
	// 10m0s true <nil>
	// true
}

// Every value of the database lives for an hour.
func ExampleOptions_defaultTTL() {
	now := time.Unix(1_700_000_000, 0)
	db, done := openWith(&lsm.Options{
		DefaultTTL: time.Hour,
		Clock:      func() time.Time { return now },
	})
	defer done()
	must(db.Put([]byte("k"), []byte("v"), lsm.NoSync))
	for range 2 {
		has, err := db.Has([]byte("k"))
		fmt.Println(has, err)
		now = now.Add(time.Hour)
	}
	// Output:
	// true <nil>
	// false <nil>
}
