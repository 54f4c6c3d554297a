package lsm_test

import (
	"fmt"
	"log"
	"os"
	"sync/atomic"

	"github.com/loamdb/loam/lsm"
)

// countingFS is the operating system's file system. It counts the syncs of files.
type countingFS struct {
	lsm.FS
	tables, logs atomic.Int64
}

func (c *countingFS) Create(name string) (lsm.WriteFile, error) {
	f, err := c.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return countedFile{f, &c.tables}, nil
}

func (c *countingFS) CreateLog(name string, ahead int64) (lsm.LogFile, error) {
	f, err := c.FS.CreateLog(name, ahead)
	if err != nil {
		return nil, err
	}
	return countedLog{f, &c.logs}, nil
}

type countedFile struct {
	lsm.WriteFile
	syncs *atomic.Int64
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.WriteFile.Sync()
}

type countedLog struct {
	lsm.LogFile
	syncs *atomic.Int64
}

func (f countedLog) Sync() error {
	f.syncs.Add(1)
	return f.LogFile.Sync()
}

// A file system of one's own embeds that of the operating system.
func ExampleOSFS() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fsys := &countingFS{FS: lsm.OSFS()}
	db, err := lsm.Open(dir, &lsm.Options{FS: fsys})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	before := fsys.logs.Load()
	for i := range 10 {
		mode := lsm.NoSync
		if i%5 == 0 {
			mode = lsm.Sync
		}
		if err := db.Put([]byte{byte(i)}, []byte("value"), mode); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(fsys.logs.Load()-before, "syncs of the log,", fsys.tables.Load() > 0,
		"for other files")
	// Output: 2 syncs of the log, true for other files
}
