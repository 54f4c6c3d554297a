package lsm_test

import (
	"fmt"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// A test has its database in memory.
func ExampleOptions_inMemory() {
	db, err := lsm.Open("/db", &lsm.Options{FS: crashfs.New()})
	must(err)
	defer db.Close()
	must(db.Put([]byte("k"), []byte("v"), lsm.Sync))
	value, err := db.Get([]byte("k"), nil)
	fmt.Println(string(value), err)
	// Output: v <nil>
}
