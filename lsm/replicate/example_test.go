package replicate_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/replicate"
)

// A database is sent to another directory, and restored from there.
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
	target, err := replicate.Dir(dir+"/replica", nil)
	if err != nil {
		log.Fatal(err)
	}
	end, ended := make(chan struct{}), make(chan error)
	go func() { ended <- replicate.Run(ctx, db, target, &replicate.Options{Until: end}) }()

	if err := db.Put([]byte("ash"), []byte("Fraxinus"), lsm.Sync); err != nil {
		log.Fatal(err)
	}
	close(end) // what was written before is sent
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}

	made, err := replicate.Restore(ctx, target, dir+"/restored", nil)
	if err != nil {
		log.Fatal(err)
	}
	db, err = lsm.Open(dir+"/restored", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	value, err := db.Get([]byte("ash"), nil)
	fmt.Println(made.Sequence, string(value), err)
	// Output: 1 Fraxinus <nil>
}
