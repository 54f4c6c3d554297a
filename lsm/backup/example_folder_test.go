package backup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/crashfs"
)

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// begin makes a database and an empty folder of backups in memory.
func begin() (*lsm.DB, *backup.Folder, lsm.FS) {
	disk := crashfs.New()
	db, err := lsm.Open("/db", &lsm.Options{FS: disk})
	check(err)
	check(db.Put([]byte("k"), []byte("v"), lsm.NoSync))
	folder, err := backup.Open("/backups", &backup.Options{FS: disk})
	check(err)
	return db, folder, disk
}

func ExampleFolder_List() {
	db, folder, _ := begin()
	defer db.Close()
	defer folder.Close()
	for range 2 {
		_, err := folder.Create(context.Background(), db, nil)
		check(err)
	}
	list, err := folder.List()
	for _, b := range list {
		fmt.Println(b.ID, b.Format, b.Bytes > 0, b.Err)
	}
	fmt.Println(err)
	// Output:
	// 1 native true <nil>
	// 2 native true <nil>
	// <nil>
}

func ExampleFolder_Keep() {
	db, folder, _ := begin()
	defer db.Close()
	defer folder.Close()
	for range 5 {
		_, err := folder.Create(context.Background(), db, nil)
		check(err)
	}
	check(folder.Keep(2))
	list, err := folder.List()
	fmt.Println(len(list), list[0].ID, err)
	// Output: 2 4 <nil>
}

func ExampleFolder_Restore() {
	db, folder, disk := begin()
	defer db.Close()
	defer folder.Close()
	info, err := folder.Create(context.Background(), db, nil)
	check(err)
	check(db.Delete([]byte("k"), lsm.Sync)) // by mistake

	check(folder.Restore(context.Background(), info.ID, "/restored", nil))
	old, err := lsm.Open("/restored", &lsm.Options{FS: disk, ReadOnly: true})
	check(err)
	defer old.Close()
	value, err := old.Get([]byte("k"), nil)
	fmt.Println(string(value), err)

	err = folder.Restore(context.Background(), 99, "/other", nil)
	fmt.Println(errors.Is(err, lsm.ErrDoesNotExist))
	// Output:
	// v <nil>
	// true
}

// A backup reads 10 MB a second at most and reports its progress.
func ExampleRunOptions() {
	db, folder, _ := begin()
	defer db.Close()
	defer folder.Close()
	var last string
	_, err := folder.Create(context.Background(), db, &backup.RunOptions{
		BytesPerSecond: 10_000_000,
		Progress:       func(done, of uint64) { last = fmt.Sprint(done == of) },
	})
	fmt.Println(last, err)
	// Output: true <nil>
}
