package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Ingest() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.Put([]byte("ann"), []byte("old"), lsm.NoSync),
		db.Put([]byte("bob"), []byte("old"), lsm.NoSync)); err != nil {
		log.Fatal(err)
	}

	table := filepath.Join(dir, "table")
	w, err := lsm.NewTableWriter(table, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close() // after a failure it removes the file
	// Keys ascend.
	if err := errors.Join(w.Put([]byte("ann"), []byte("new")), w.Delete([]byte("bob")),
		w.Put([]byte("carl"), []byte("new")), w.Finish()); err != nil {
		log.Fatal(err)
	}
	if err := db.Ingest(context.Background(), &lsm.IngestOptions{Move: true}, table); err != nil {
		log.Fatal(err)
	}

	for key, value := range db.All(nil, nil, &err) {
		fmt.Printf("%s: %s\n", key, value)
	}
	fmt.Println(err)
	// Output:
	// ann: new
	// carl: new
	// <nil>
}

func ExampleDB_BulkLoad() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// A sequence may reuse its key and value.
	err = db.BulkLoad(context.Background(), func(yield func(key, value []byte) bool) {
		var key, value []byte
		for n := 9; n > 0; n -= 2 {
			key, value = fmt.Appendf(key[:0], "%d", n), fmt.Appendf(value[:0], "%d squared is %d",
				n, n*n)
			if !yield(key, value) {
				return
			}
		}
	}, nil)
	for _, value := range db.All(nil, nil, &err) {
		fmt.Printf("%s\n", value)
	}
	fmt.Println(err)
	// Output:
	// 1 squared is 1
	// 3 squared is 9
	// 5 squared is 25
	// 7 squared is 49
	// 9 squared is 81
	// <nil>
}
