package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"strings"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Ingest() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	must(err)
	defer db.Close()
	must(db.Put([]byte("ann"), []byte("old"), lsm.NoSync))
	must(db.Put([]byte("bob"), []byte("old"), lsm.NoSync))

	table := filepath.Join(dir, "table")
	w, err := lsm.NewTableWriter(table, nil)
	must(err)
	defer w.Close() // after a failure it removes the file
	// Keys ascend.
	must(errors.Join(w.Put([]byte("ann"), []byte("new")), w.Delete([]byte("bob")),
		w.Put([]byte("carl"), []byte("new")), w.Finish()))
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

// A day is replaced by a table in one step.
func ExampleIngestOptions() {
	dir, done := folder()
	defer done()
	db, done := open()
	defer done()
	must(db.Put([]byte("day1/a"), []byte("old"), lsm.NoSync))
	must(db.Put([]byte("day1/b"), []byte("old"), lsm.NoSync))
	must(db.Put([]byte("day2/a"), []byte("old"), lsm.NoSync))

	path := filepath.Join(dir, "table")
	w, err := lsm.NewTableWriter(path, nil)
	must(err)
	defer w.Close()
	must(w.Put([]byte("day1/a"), []byte("new")))
	must(w.Finish())
	must(db.Ingest(context.Background(), &lsm.IngestOptions{
		Move:   true,
		Excise: &lsm.Range{Start: []byte("day1/"), Limit: []byte("day10")},
	}, path))
	for key, value := range db.All(nil, nil, &err) {
		fmt.Printf("%s: %s\n", key, value)
	}
	fmt.Println(err)
	// Output:
	// day1/a: new
	// day2/a: old
	// <nil>
}

func ExampleDB_BulkLoad() {
	db, done := open()
	defer done()

	// A sequence may reuse its key and value.
	err := db.BulkLoad(context.Background(), func(yield func(key, value []byte) bool) {
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

// Entries that come in any order, from a parser for instance, are pushed.
func ExampleBulkLoader() {
	db, done := open()
	defer done()
	l, err := db.BulkLoader(&lsm.BulkLoadOptions{Memory: 16 << 20})
	must(err)
	defer l.Close() // gives up a load that was not finished
	for _, line := range []string{"elm Ulmus", "ash Fraxinus", "oak Quercus"} {
		tree, name, _ := strings.Cut(line, " ")
		must(l.Put([]byte(tree), []byte(name)))
	}
	must(l.Finish(context.Background()))
	for tree, name := range db.All(nil, nil, &err) {
		fmt.Printf("%s: %s\n", tree, name)
	}
	fmt.Println(err)
	// Output:
	// ash: Fraxinus
	// elm: Ulmus
	// oak: Quercus
	// <nil>
}
