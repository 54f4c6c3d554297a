package dump_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// A database is written into a stream, and loaded into another one.
func Example() {
	dir, err := os.MkdirTemp("", "loam")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	db, err := lsm.Open(dir+"/db", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	trees, err := db.Keyspace("trees", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := trees.Put([]byte("ash"), []byte("Fraxinus"), lsm.Sync); err != nil {
		log.Fatal(err)
	}

	var stream bytes.Buffer // or a file
	if _, err := dump.Write(ctx, db, &stream, nil); err != nil {
		log.Fatal(err)
	}

	other, err := lsm.Open(dir+"/other", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	info, err := dump.Load(ctx, other, &stream, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, k := range info.Keyspaces {
		fmt.Println(k.Name, k.Entries)
	}
	// Output:
	// default 0
	// trees 1
}
