package lsm_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Keyspace() {
	db, done := open()
	defer done()
	users, err := db.Keyspace("users", nil)
	must(err)

	b := lsm.NewBatch()
	b.Put([]byte("count"), []byte("1"))
	b.In(users).Put([]byte("alice"), []byte("30"))
	if err := db.Write(b, lsm.Sync); err != nil { // both or none
		log.Fatal(err)
	}

	snap := db.Snapshot() // one state of all keyspaces
	defer snap.Close()
	must(users.Delete([]byte("alice"), lsm.NoSync))
	now, err := users.Has([]byte("alice"))
	must(err)
	then, err := snap.In(users).Get([]byte("alice"), nil)
	fmt.Printf("%q %v %s %v\n", db.Keyspaces(), now, then, err)
	// Output: ["default" "users"] false 30 <nil>
}

func ExampleDB_DropKeyspace() {
	db, done := open()
	defer done()
	cache, err := db.Keyspace("cache", nil)
	must(err)
	must(cache.Put([]byte("k"), []byte("v"), lsm.NoSync))
	must(db.DropKeyspace("cache")) // at once, however much is in it

	_, err = cache.Get([]byte("k"), nil)
	fmt.Println(errors.Is(err, lsm.ErrNoKeyspace))
	fmt.Printf("%q\n", db.Keyspaces())
	// Output:
	// true
	// ["default"]
}

// Each keyspace has its order, its compression and its filters.
func ExampleKeyspaceOptions() {
	db, done := open()
	defer done()
	newest, err := db.Keyspace("newest", &lsm.KeyspaceOptions{
		Comparer:    lsm.ReverseBytewiseComparer,
		Compression: lsm.ZstdCompression,
		BloomBits:   -1,
	})
	must(err)
	for _, day := range []string{"2024-06-01", "2024-06-02", "2024-06-03"} {
		must(newest.Put([]byte(day), nil, lsm.NoSync))
	}
	for day := range newest.All(nil, nil, &err) {
		fmt.Println(string(day))
	}
	fmt.Println(err)
	// Output:
	// 2024-06-03
	// 2024-06-02
	// 2024-06-01
	// <nil>
}

// Names in an order that does not tell capital letters from small ones.
func ExampleComparer() {
	db, done := openWith(&lsm.Options{Comparer: &lsm.Comparer{
		Name: "example.Caseless",
		Compare: func(a, b []byte) int {
			return bytes.Compare(bytes.ToLower(a), bytes.ToLower(b))
		},
	}})
	defer done()
	for _, name := range []string{"bob", "Carol", "alice", "BOB"} {
		must(db.Put([]byte(name), []byte(name), lsm.NoSync))
	}
	var err error
	for _, name := range db.All(nil, nil, &err) {
		fmt.Println(string(name))
	}
	fmt.Println(err)
	// Output:
	// alice
	// BOB
	// Carol
	// <nil>
}
