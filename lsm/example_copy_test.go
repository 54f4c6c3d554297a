package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"path/filepath"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Checkpoint() {
	top, done := folder()
	defer done()
	db, err := lsm.Open(filepath.Join(top, "db"), nil)
	must(err)
	defer db.Close()
	must(db.Put([]byte("colour"), []byte("green"), lsm.NoSync))

	today := filepath.Join(top, "today")
	must(db.Checkpoint(context.Background(), today))
	must(db.Put([]byte("colour"), []byte("red"), lsm.NoSync))

	copied, err := lsm.Open(today, &lsm.Options{ErrorIfMissing: true})
	must(err)
	defer copied.Close()
	v, err := copied.Get([]byte("colour"), nil)
	fmt.Println(string(v), err)
	// Output: green <nil>
}

// A LevelDB database becomes a native one; Export leads back.
func ExampleUpgrade() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(dir+"/db", &lsm.Options{Format: lsm.FormatLevelDB})
	must(err)
	err = errors.Join(db.Put([]byte("apple"), []byte("red"), lsm.Sync), db.Close())
	if err == nil {
		err = lsm.Upgrade(dir+"/db", nil)
	}
	if err == nil {
		err = lsm.Export(context.Background(), dir+"/db", dir+"/leveldb", lsm.FormatLevelDB, nil,
			nil)
	}
	must(err)
	if db, err = lsm.Open(dir+"/leveldb", nil); err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	color, err := db.Get([]byte("apple"), nil)
	fmt.Println(string(color), err)
	// Output: red <nil>
}

// A native database becomes one that LevelDB opens, with its progress shown.
func ExampleExport() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	must(err)
	must(db.Put([]byte("apple"), []byte("red"), lsm.NoSync))
	must(db.Close())

	out := filepath.Join(dir, "leveldb")
	must(lsm.Export(context.Background(), filepath.Join(dir, "db"), out, lsm.FormatLevelDB, nil,
		func(written, of uint64) { fmt.Println("done:", written >= of) }))
	db, err = lsm.Open(out, &lsm.Options{ReadOnly: true})
	must(err)
	defer db.Close()
	color, err := db.Get([]byte("apple"), nil)
	fmt.Println(string(color), err)
	// Output:
	// done: true
	// red <nil>
}

// Any number of readers share a directory that nobody writes.
func ExampleOptions_readOnly() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(dir, nil)
	must(err)
	must(db.Put([]byte("k"), []byte("v"), lsm.NoSync))
	must(db.Close())

	o := &lsm.Options{ReadOnly: true}
	first, err := lsm.Open(dir, o)
	must(err)
	defer first.Close()
	second, err := lsm.Open(dir, o)
	must(err)
	defer second.Close()
	value, err := second.Get([]byte("k"), nil)
	fmt.Println(string(value), err)
	err = first.Put([]byte("k"), []byte("w"), lsm.NoSync)
	fmt.Println(errors.Is(err, lsm.ErrReadOnly))
	// Output:
	// v <nil>
	// true
}

func ExampleOpenFollower() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(dir, nil) // usually in another process
	must(err)
	defer db.Close()
	must(db.Put([]byte("colour"), []byte("green"), lsm.NoSync))

	f, err := lsm.OpenFollower(dir, nil)
	must(err)
	defer f.Close()
	before := f.Snapshot()
	defer before.Close()
	must(db.Put([]byte("colour"), []byte("red"), lsm.NoSync))

	lag, err := f.Lag(context.Background())
	fmt.Println(lag.Sequences, err)
	must(f.CatchUp(context.Background()))
	for _, r := range []lsm.Reader{f, before} {
		v, err := r.Get([]byte("colour"), nil)
		fmt.Println(string(v), err)
	}
	// Output:
	// 1 <nil>
	// red <nil>
	// green <nil>
}
