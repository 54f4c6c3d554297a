package dump_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/dump"
)

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// inMemory opens a database in memory.
func inMemory() *lsm.DB {
	db, err := lsm.Open("/db", &lsm.Options{FS: crashfs.New()})
	check(err)
	return db
}

// A dump that was cut off is an error, and so is a damaged one.
func ExampleVerify() {
	db := inMemory()
	defer db.Close()
	check(db.Put([]byte("ash"), []byte("Fraxinus"), lsm.NoSync))
	var stream bytes.Buffer
	_, err := dump.Write(context.Background(), db, &stream, nil)
	check(err)

	info, err := dump.Verify(context.Background(), bytes.NewReader(stream.Bytes()), nil)
	check(err)
	fmt.Println(info.Keyspaces[0].Name, info.Keyspaces[0].Entries, info.Bytes)
	cut := stream.Bytes()[:stream.Len()-1]
	_, err = dump.Verify(context.Background(), bytes.NewReader(cut), nil)
	fmt.Println(errors.Is(err, lsm.ErrCorruption))
	// Output:
	// default 1 11
	// true
}

// A dump of a snapshot has nothing that was written later.
func ExampleWrite() {
	db := inMemory()
	defer db.Close()
	check(db.Put([]byte("ash"), nil, lsm.NoSync))
	snapshot := db.Snapshot()
	defer snapshot.Close()
	check(db.Put([]byte("elm"), nil, lsm.NoSync))

	var stream bytes.Buffer
	info, err := dump.Write(context.Background(), db, &stream, &dump.Options{
		Snapshot:    snapshot,
		Compression: lsm.ZstdCompression,
	})
	fmt.Println(info.Keyspaces[0].Entries, err)
	// Output: 1 <nil>
}

// The entries of a dump join those of a database.
func ExampleLoad() {
	from, to := inMemory(), inMemory()
	defer from.Close()
	defer to.Close()
	check(from.Put([]byte("ash"), []byte("Fraxinus"), lsm.NoSync))
	check(to.Put([]byte("elm"), []byte("Ulmus"), lsm.NoSync))
	var stream bytes.Buffer
	_, err := dump.Write(context.Background(), from, &stream, nil)
	check(err)

	r := bytes.NewReader(stream.Bytes())
	_, err = dump.Load(context.Background(), to, r, nil)
	fmt.Println(errors.Is(err, lsm.ErrExists)) // the default keyspace has entries
	r.Reset(stream.Bytes())
	_, err = dump.Load(context.Background(), to, r, &dump.LoadOptions{Overwrite: true})
	check(err)
	for tree, name := range to.All(nil, nil, &err) {
		fmt.Printf("%s: %s\n", tree, name)
	}
	fmt.Println(err)
	// Output:
	// true
	// ash: Fraxinus
	// elm: Ulmus
	// <nil>
}
