package crashfs_test

import (
	"errors"
	"fmt"
	"log"
	"syscall"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// One write is synced, one is not; then the power is cut.
func ExampleFS_Crash() {
	disk := crashfs.New()
	db, err := lsm.Open("/db", &lsm.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("synced"), nil, lsm.Sync); err != nil {
		log.Fatal(err)
	}
	if err := db.Put([]byte("not synced"), nil, lsm.NoSync); err != nil {
		log.Fatal(err)
	}
	for _, loss := range []crashfs.Loss{crashfs.DropUnsynced, crashfs.KeepAll} {
		after, err := lsm.Open("/db", &lsm.Options{FS: disk.Crash(loss, 1)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(loss)
		for key := range after.All(nil, nil, &err) {
			fmt.Println("-", string(key))
		}
		fmt.Println(err, after.Close())
	}
	// Output:
	// unsynced data dropped
	// - synced
	// <nil> <nil>
	// nothing lost
	// - not synced
	// - synced
	// <nil> <nil>
}

// The disk is full for one call; the write fails, and the next one succeeds.
func ExampleFS_FailAt() {
	disk := crashfs.New()
	db, err := lsm.Open("/db", &lsm.Options{FS: disk})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	all, _ := disk.Calls()
	disk.FailAt(all+1, syscall.ENOSPC, false)
	err = db.Put([]byte("k"), nil, lsm.Sync)
	fmt.Println(errors.Is(err, lsm.ErrNoSpace))
	fmt.Println(db.Put([]byte("k"), nil, lsm.Sync))
	// Output:
	// true
	// <nil>
}

// Whatever call fails, the program reports it or has saved its value.
func ExampleFaults() {
	var told error
	program := func(fs *crashfs.FS) {
		var db *lsm.DB
		if db, told = lsm.Open("/db", &lsm.Options{FS: fs}); told != nil {
			return
		}
		defer db.Close()
		told = db.Put([]byte("k"), nil, lsm.Sync)
	}
	faults := 0
	for fault := range crashfs.Faults(program) {
		if faults++; told != nil {
			continue
		}
		db, err := lsm.Open("/db", &lsm.Options{FS: fault.FS})
		if err != nil {
			log.Fatal(fault, err)
		}
		if _, err := db.Get([]byte("k"), nil); err != nil {
			fmt.Println(fault, err)
		}
		db.Close()
	}
	fmt.Println(faults > 10)
	// Output: true
}
