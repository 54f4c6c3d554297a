package crashfs_test

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// place orders an apple: it takes one from the stock and notes the order.
func place(db *lsm.DB) error {
	// The bug: between the two writes the apple is neither in stock nor ordered.
	if err := db.Put([]byte("stock"), []byte("9 apples"), lsm.Sync); err != nil {
		return err
	}
	return db.Put([]byte("order"), []byte("1 apple"), lsm.Sync)
}

// check wants both writes or none.
func check(fs *crashfs.FS) error {
	db, err := lsm.Open("/shop", &lsm.Options{FS: fs})
	if err != nil {
		return err
	}
	defer db.Close()
	taken, err := db.Has([]byte("stock"))
	ordered, err2 := db.Has([]byte("order"))
	if taken != ordered {
		return fmt.Errorf("taken from stock: %v, ordered: %v", taken, ordered)
	}
	return errors.Join(err, err2)
}

// A program that writes two keys which belong together, without a batch.
func ExampleCrashes() {
	program := func(fs *crashfs.FS) {
		db, err := lsm.Open("/shop", &lsm.Options{FS: fs})
		if err != nil {
			return
		}
		defer db.Close()
		place(db)
	}
	for crash := range crashfs.Crashes(program) {
		if err := check(crash.FS); err != nil {
			fmt.Println("after a power cut:", err)
			break // crash.String() says where it was cut
		}
	}
	// Output:
	// after a power cut: taken from stock: true, ordered: false
}
