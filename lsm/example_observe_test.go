package lsm_test

import (
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/loamdb/loam/lsm"
)

func ExampleDB_Metrics() {
	db, done := open()
	defer done()
	must(db.Put([]byte("k"), []byte("v"), lsm.Sync))
	must(db.Flush())
	m := db.Metrics()
	fmt.Println("flushes:", m.Flush.Count)
	fmt.Println("bytes in tables:", m.DiskBytes > 0)
	fmt.Println("memtables:", m.Memtables, "with", m.MemtableEntries, "entries")
	fmt.Println("syncs of the log:", m.WALSync.Count > 0, "read-only:", m.ReadOnly)
	// Output:
	// flushes: 1
	// bytes in tables: true
	// memtables: 1 with 0 entries
	// syncs of the log: true read-only: <nil>
}

// LevelDB's properties are there for its tools.
func ExampleDB_Property() {
	db, done := open()
	defer done()
	fmt.Println(db.Property("leveldb.num-files-at-level0"))
	fmt.Println(db.Property("leveldb.unknown"))
	// Output:
	// 0 true
	//  false
}

func ExampleDB_ApproximateSizes() {
	db, done := openWith(&lsm.Options{Compression: lsm.NoCompression})
	defer done()
	for i := range 1000 {
		must(db.Put(fmt.Appendf(nil, "%04d", i), make([]byte, 1000), lsm.NoSync))
	}
	must(db.Flush()) // what is in memory does not count
	sizes, err := db.ApproximateSizes([]lsm.Range{
		{},                      // everything
		{Limit: []byte("0500")}, // the first half
		{Start: []byte("x")},    // nothing
	})
	must(err)
	half := float64(sizes[1]) / float64(sizes[0])
	fmt.Println(sizes[0] > 1_000_000, half > 0.45 && half < 0.55, sizes[2])
	// Output: true true 0
}

func ExampleEventListener() {
	flushed := make(chan lsm.FlushInfo, 1)
	db, done := openWith(&lsm.Options{Events: &lsm.EventListener{
		FlushEnd: func(info lsm.FlushInfo) { flushed <- info },
		ReadOnly: func(cause error) { log.Println("the database takes no more writes:", cause) },
	}})
	defer done()
	must(db.Put([]byte("k"), []byte("v"), lsm.NoSync))
	must(db.Flush())
	info := <-flushed
	fmt.Println(len(info.Output), "table,", info.Output[0].Size > 0, info.Err)
	// Output: 1 table, true <nil>
}

// Messages about failures go to the program's log.
func ExampleOptions_logger() {
	text := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	db, done := openWith(&lsm.Options{Logger: slog.New(text).With("db", "users")})
	defer done()
	fmt.Println(db.Put([]byte("k"), []byte("v"), lsm.NoSync))
	// Output: <nil>
}

// After many deletions a compaction frees their space at once.
func ExampleDB_CompactRange() {
	db, done := open()
	defer done()
	for i := range 1000 {
		must(db.Put(fmt.Appendf(nil, "%04d", i), []byte("value"), lsm.NoSync))
	}
	must(db.Flush())
	must(db.DeleteRange([]byte("0000"), []byte("0999"), lsm.NoSync))
	before := db.Metrics().DiskBytes
	must(db.CompactRange(nil, nil))
	fmt.Println(db.Metrics().DiskBytes < before/2)
	// Output: true
}

// Compactions rest while something else needs the disk.
func ExampleDB_PauseCompaction() {
	db, done := open()
	defer done()
	db.PauseCompaction() // none runs any more
	for i := range 6 {
		must(db.Put([]byte("k"), []byte{byte(i)}, lsm.NoSync))
		must(db.Flush()) // the first table sinks to the last level, the others do not
	}
	fmt.Println(db.Metrics().Levels[0].Files, "tables wait")
	db.ResumeCompaction()
	// Output: 5 tables wait
}

func ExampleCompressionByLevel() {
	// Flushed tables are written as they come; what is merged is packed.
	byLevel := lsm.CompressionByLevel(lsm.NoCompression, lsm.ZstdCompression)
	db, done := openWith(&lsm.Options{Compression: byLevel, PrefixLength: 8,
		CompactionDirectIO: true})
	defer done()
	for _, users := range [][]string{{"anna0001", "carl0003"}, {"bert0002"}} {
		for _, user := range users {
			must(db.Put([]byte(user+"/name"), []byte(user[:4]), lsm.NoSync))
		}
		must(db.Flush())
	}

	// The bounds are within a prefix of eight bytes, which the table of the others does not have.
	var err error
	for key, value := range db.Prefix([]byte("bert0002/"), &err) {
		fmt.Printf("%s: %s\n", key, value)
	}
	fmt.Println(byLevel, err, db.Metrics().PrefixSkips)
	// Output:
	// bert0002/name: bert
	// none,zstd <nil> 1
}
