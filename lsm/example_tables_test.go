package lsm_test

import (
	"fmt"
	"log"
	"os"

	"github.com/loamdb/loam/lsm"
)

func ExampleCompressionByLevel() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	// Flushed tables are written as they come; what is merged is packed.
	byLevel := lsm.CompressionByLevel(lsm.NoCompression, lsm.ZstdCompression)
	db, err := lsm.Open(dir, &lsm.Options{Compression: byLevel, PrefixLength: 8,
		CompactionDirectIO: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for _, users := range [][]string{{"anna0001", "carl0003"}, {"bert0002"}} {
		for _, user := range users {
			if err := db.Put([]byte(user+"/name"), []byte(user[:4]), lsm.NoSync); err != nil {
				log.Fatal(err)
			}
		}
		if err := db.Flush(); err != nil {
			log.Fatal(err)
		}
	}

	// The bounds are within a prefix of eight bytes, which the table of the others does not have.
	for key, value := range db.Prefix([]byte("bert0002/"), &err) {
		fmt.Printf("%s: %s\n", key, value)
	}
	fmt.Println(byLevel, err, db.Metrics().PrefixSkips)
	// Output:
	// bert0002/name: bert
	// none,zstd <nil> 1
}
