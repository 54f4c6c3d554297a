package lsm_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/loamdb/loam/lsm"
)

// open makes an empty database for an example.
func open() (*lsm.DB, func()) { return openWith(nil) }

// openWith makes an empty database with options.
func openWith(o *lsm.Options) (*lsm.DB, func()) {
	dir, done := folder()
	db, err := lsm.Open(dir, o)
	must(err)
	return db, func() {
		must(db.Close())
		done()
	}
}

// folder makes an empty directory for an example.
func folder() (string, func()) {
	dir, err := os.MkdirTemp("", "loam-example")
	must(err)
	return dir, func() { must(os.RemoveAll(dir)) }
}

// must ends an example that fails.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func Example() {

	db, done := open()
	defer done()

	must(db.Put([]byte("soil"), []byte("loam"), lsm.Sync))
	value, err := db.Get([]byte("soil"), nil)
	fmt.Println(string(value), err)

	_, err = db.Get([]byte("rock"), nil)
	fmt.Println(errors.Is(err, lsm.ErrNotFound))
	// Output:
	// loam <nil>
	// true
}

func ExampleOpen() {
	dir, done := folder()
	defer done()
	_, err := lsm.Open(dir, &lsm.Options{ErrorIfMissing: true})
	fmt.Println(errors.Is(err, lsm.ErrDoesNotExist))

	db, err := lsm.Open(dir, nil) // makes a database
	must(err)
	defer db.Close()
	_, err = lsm.Open(dir, nil) // one opening has it at a time
	fmt.Println(errors.Is(err, lsm.ErrLocked))
	// Output:
	// true
	// true
}

// A directory of LevelDB opens as it is, and stays one that LevelDB opens.
func ExampleOpen_levelDB() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(dir, &lsm.Options{Format: lsm.FormatLevelDB}) // or made by LevelDB
	must(err)
	must(db.Put([]byte("apple"), []byte("red"), lsm.NoSync))
	must(db.Close())

	db, err = lsm.Open(dir, nil)
	must(err)
	defer db.Close()
	value, err := db.Get([]byte("apple"), nil)
	fmt.Println(string(value), err)
	_, err = db.Keyspace("users", nil)
	fmt.Println(errors.Is(err, lsm.ErrNeedsNative))
	// Output:
	// red <nil>
	// true
}

// A database that is read much more than it is written.
func ExampleOptions() {
	db, done := openWith(&lsm.Options{
		CacheSize:       256 << 20,
		WriteBufferSize: 16 << 20,
		Compression:     lsm.ZstdCompression,
		BloomBits:       14,
	})
	defer done()
	for _, name := range []string{"cache_size", "write_buffer_size", "compression", "block_size"} {
		value, err := db.Option(name)
		must(err)
		fmt.Println(name, value)
	}
	// Output:
	// cache_size 268435456
	// write_buffer_size 16777216
	// compression zstd
	// block_size 4096
}

func ExampleOptions_Set() {
	var o lsm.Options
	fmt.Println(o.Set("cache_size", "512MiB"), o.CacheSize)
	fmt.Println(o.Set("cachesize", "1"))
	// Output:
	// <nil> 536870912
	// invalid argument: no option "cachesize"; did you mean "cache_size"?
}

func ExampleOptionDocs() {
	for _, o := range lsm.OptionDocs() {
		if o.Name == "max_memtables" {
			fmt.Printf("%s: %s\n", o.Name, o.Doc)
			fmt.Printf("%s %s, %d to %d, per %s\n", o.Default, o.Unit, o.Min, o.Max, o.Dynamic)
		}
	}
	// Output:
	// max_memtables: memtables in memory before writes wait
	// 3 memtables, 2 to 64, per database
}

func ExampleDB_SetOption() {
	db, done := open()
	defer done()

	if err := db.SetOption("compression", "zstd"); err != nil { // of tables from now on
		log.Fatal(err)
	}
	value, err := db.Option("compression")
	fmt.Println(value, err)
	fmt.Println(db.SetOption("comparator", "idb_cmp1"))
	// Output:
	// zstd <nil>
	// invalid argument: option comparator is fixed while the database is open: it needs a reopen
}

// Two databases share one block cache.
func ExampleNewCache() {
	cache := lsm.NewCache(64 << 20)
	defer cache.Close()
	users, done := openWith(&lsm.Options{Cache: cache})
	defer done()
	events, done := openWith(&lsm.Options{Cache: cache})
	defer done()
	fmt.Println(users.Metrics().Cache.Capacity>>20, events.Metrics().Cache.Capacity>>20)
	// Output: 64 64
}

func ExampleNewResources() {
	dir, done := folder()
	defer done()

	res := lsm.NewResources(lsm.ResourcesOptions{Memory: 256 << 20, BackgroundJobs: 2,
		IOBytesPerSecond: 100 << 20, OpenFiles: 500})
	defer res.Close()
	users, err := lsm.Open(filepath.Join(dir, "users"), &lsm.Options{Resources: res})
	must(err)
	defer users.Close()
	events, err := lsm.Open(filepath.Join(dir, "events"), &lsm.Options{Resources: res})
	must(err)
	defer events.Close()

	err = events.Put([]byte("1"), []byte("opened"), lsm.NoSync)
	fmt.Println(err, res.Metrics().Memory>>20, "MiB for both")
	fmt.Println(res.Set("io_bytes_per_second", "20MiB"))
	// Output:
	// <nil> 256 MiB for both
	// <nil>
}

func ExampleDestroy() {
	dir, done := folder()
	defer done()
	db, err := lsm.Open(filepath.Join(dir, "db"), nil)
	must(err)
	fmt.Println(errors.Is(lsm.Destroy(filepath.Join(dir, "db"), nil), lsm.ErrLocked))
	must(db.Close())
	must(lsm.Destroy(filepath.Join(dir, "db"), nil))
	left, err := os.ReadDir(dir)
	fmt.Println(len(left), err)
	// Output:
	// true
	// 0 <nil>
}
