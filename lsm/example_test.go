package lsm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/lsm"
)

// open makes an empty database for an example.
func open() (*lsm.DB, func()) {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	db, err := lsm.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	return db, func() {
		db.Close()
		os.RemoveAll(dir)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := lsm.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	if err := db.Put([]byte("soil"), []byte("loam"), lsm.Sync); err != nil {
		log.Fatal(err)
	}
	value, err := db.Get([]byte("soil"), nil)
	fmt.Println(string(value), err)

	_, err = db.Get([]byte("rock"), nil)
	fmt.Println(errors.Is(err, lsm.ErrNotFound))
	// Output:
	// loam <nil>
	// true
}

func ExampleDB_DeleteRange() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for day := 1; day <= 30; day++ {
		db.Put(fmt.Appendf(nil, "log/2024-06-%02d", day), []byte("..."), lsm.NoSync)
	}
	if err := db.DeleteRange([]byte("log/2024-06-01"), []byte("log/2024-06-29"),
		lsm.NoSync); err != nil {
		log.Fatal(err)
	}
	for key := range db.All(nil, nil, &err) {
		fmt.Println(string(key))
	}
	// Output:
	// log/2024-06-29
	// log/2024-06-30
}

func ExampleDB_Write() {
	db, done := open()
	defer done()
	b := lsm.NewBatch()
	b.Put([]byte("alice"), []byte("90"))
	b.Put([]byte("bob"), []byte("110"))
	b.Delete([]byte("carol"))
	fmt.Println(b.Count(), db.Write(b, lsm.Sync))
	// Output: 3 <nil>
}

func ExampleDB_All() {
	db, done := open()
	defer done()
	for _, k := range []string{"ash", "birch", "cedar", "elm"} {
		db.Put([]byte(k), []byte("tree"), lsm.NoSync)
	}
	var err error
	for k, v := range db.All([]byte("b"), []byte("e"), &err) {
		fmt.Printf("%s=%s\n", k, v)
	}
	fmt.Println(err)
	// Output:
	// birch=tree
	// cedar=tree
	// <nil>
}

func ExampleDB_Iter() {
	db, done := open()
	defer done()
	for _, k := range []string{"user/1", "user/2", "zone/1"} {
		db.Put([]byte(k), nil, lsm.NoSync)
	}
	it := db.Iter(&lsm.IterOptions{Prefix: []byte("user/")})
	for it.Last(); it.Valid(); it.Prev() {
		fmt.Println(string(it.Key()))
	}
	fmt.Println(it.Close())
	// Output:
	// user/2
	// user/1
	// <nil>
}

func ExampleDB_Snapshot() {
	db, done := open()
	defer done()
	db.Put([]byte("k"), []byte("old"), lsm.NoSync)
	snap := db.Snapshot()
	defer snap.Close()
	db.Put([]byte("k"), []byte("new"), lsm.NoSync)
	then, _ := snap.Get([]byte("k"), nil)
	now, _ := db.Get([]byte("k"), nil)
	fmt.Printf("%s %s\n", then, now)
	// Output: old new
}

func ExampleDB_MultiGet() {
	db, done := open()
	defer done()
	db.Put([]byte("a"), []byte("1"), lsm.NoSync)
	db.Put([]byte("c"), []byte("3"), lsm.NoSync)
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	var r lsm.MultiResult
	if err := db.MultiGet(keys, &r); err != nil {
		log.Fatal(err)
	}
	for i, k := range keys {
		v, found := r.Value(i)
		fmt.Printf("%s: %q %v\n", k, v, found)
	}
	// Output:
	// a: "1" true
	// b: "" false
	// c: "3" true
}

// Sessions end at the time that their value begins with; compactions remove those that have
// ended, and shorten the others.
func ExampleCompactionFilter() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const now = 1000
	db, err := lsm.Open(dir, &lsm.Options{CompactionFilter: &lsm.CompactionFilter{
		Name: "sessions",
		Filter: func(level int, key, value []byte) (lsm.FilterDecision, error) {
			var end int
			var rest string
			if !bytes.HasPrefix(key, []byte("session/")) {
				return lsm.FilterKeep, nil
			}
			if _, err := fmt.Sscanf(string(value), "%d %s", &end, &rest); err != nil {
				return lsm.FilterKeep, err
			}
			if end <= now {
				return lsm.FilterRemove, nil
			}
			return lsm.FilterChange(fmt.Appendf(nil, "%d %.1s", end, rest)), nil
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.Put([]byte("session/1"), []byte("900 ann"), lsm.NoSync)
	db.Put([]byte("session/2"), []byte("1100 bob"), lsm.NoSync)
	db.Put([]byte("user/1"), []byte("ann"), lsm.NoSync)
	if err := db.CompactRange(nil, nil); err != nil {
		log.Fatal(err)
	}
	for k, v := range db.All(nil, nil, &err) {
		fmt.Printf("%s: %s\n", k, v)
	}
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// session/2: 1100 b
	// user/1: ann
}

func ExamplePrefixFilter() {
	f := lsm.PrefixFilter([]byte("tmp/"), []byte("a,b"))
	var o lsm.Options
	fmt.Println(f.Name, o.Set("compaction_filter", f.Name))
	// Output: prefix:tmp/,a%2cb <nil>
}

func ExampleOptions_Set() {
	var o lsm.Options
	fmt.Println(o.Set("cache_size", "512MiB"), o.CacheSize)
	fmt.Println(o.Set("cachesize", "1"))
	// Output:
	// <nil> 536870912
	// invalid argument: no option "cachesize"; did you mean "cache_size"?
}

// A LevelDB database becomes a native one; Export leads back.
func ExampleUpgrade() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir+"/db", &lsm.Options{Format: lsm.FormatLevelDB})
	if err != nil {
		log.Fatal(err)
	}
	err = errors.Join(db.Put([]byte("apple"), []byte("red"), lsm.Sync), db.Close())
	if err == nil {
		err = lsm.Upgrade(dir+"/db", nil)
	}
	if err == nil {
		err = lsm.Export(context.Background(), dir+"/db", dir+"/leveldb", lsm.FormatLevelDB, nil,
			nil)
	}
	if err != nil {
		log.Fatal(err)
	}
	if db, err = lsm.Open(dir+"/leveldb", nil); err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	color, err := db.Get([]byte("apple"), nil)
	fmt.Println(string(color), err)
	// Output: red <nil>
}

func ExampleDB_Keyspace() {
	dir, err := os.MkdirTemp("", "loam")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := db.Keyspace("users", nil)
	if err != nil {
		log.Fatal(err)
	}

	b := lsm.NewBatch()
	b.Put([]byte("count"), []byte("1"))
	b.In(users).Put([]byte("alice"), []byte("30"))
	if err := db.Write(b, lsm.Sync); err != nil { // both or none
		log.Fatal(err)
	}

	snap := db.Snapshot() // one state of all keyspaces
	defer snap.Close()
	if err := users.Delete([]byte("alice"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}
	now, err := users.Has([]byte("alice"))
	if err != nil {
		log.Fatal(err)
	}
	then, err := snap.In(users).Get([]byte("alice"), nil)
	fmt.Printf("%q %v %s %v\n", db.Keyspaces(), now, then, err)
	// Output: ["default" "users"] false 30 <nil>
}

func ExampleDB_Merge() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir, &lsm.Options{MergeOperator: lsm.MergeOperatorNamed("append")})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	for _, visitor := range []string{"alice", "bob"} {
		if err := db.Merge([]byte("visitors"), []byte(visitor), lsm.NoSync); err != nil {
			log.Fatal(err)
		}
	}
	visitors, err := db.Get([]byte("visitors"), nil)
	fmt.Println(string(visitors), err)
	// Output: alice,bob <nil>
}

func ExampleDB_Checkpoint() {
	top, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(top)
	db, err := lsm.Open(filepath.Join(top, "db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("colour"), []byte("green"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}

	today := filepath.Join(top, "today")
	if err := db.Checkpoint(context.Background(), today); err != nil {
		log.Fatal(err)
	}
	if err := db.Put([]byte("colour"), []byte("red"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}

	copied, err := lsm.Open(today, &lsm.Options{ErrorIfMissing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer copied.Close()
	v, err := copied.Get([]byte("colour"), nil)
	fmt.Println(string(v), err)
	// Output: green <nil>
}

func ExampleDB_PutTTL() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	now := time.Unix(1_700_000_000, 0)
	db, err := lsm.Open(dir, &lsm.Options{Format: lsm.FormatNative, Clock: func() time.Time {
		return now
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	if err := db.PutTTL([]byte("session"), []byte("alice"), 30*time.Minute,
		lsm.NoSync); err != nil {
		log.Fatal(err)
	}
	now = now.Add(20 * time.Minute)
	left, expires, err := db.TTL([]byte("session"))
	fmt.Println(left, expires, err)
	now = now.Add(10 * time.Minute)
	_, err = db.Get([]byte("session"), nil)
	fmt.Println(errors.Is(err, lsm.ErrNotFound))
	// Output:
	// 10m0s true <nil>
	// true
}

func ExampleNewResources() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	res := lsm.NewResources(lsm.ResourcesOptions{Memory: 256 << 20, BackgroundJobs: 2,
		IOBytesPerSecond: 100 << 20, OpenFiles: 500})
	defer res.Close()
	users, err := lsm.Open(filepath.Join(dir, "users"), &lsm.Options{Resources: res})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close()
	events, err := lsm.Open(filepath.Join(dir, "events"), &lsm.Options{Resources: res})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	err = events.Put([]byte("1"), []byte("opened"), lsm.NoSync)
	fmt.Println(err, res.Metrics().Memory>>20, "MiB for both")
	fmt.Println(res.Set("io_bytes_per_second", "20MiB"))
	// Output:
	// <nil> 256 MiB for both
	// <nil>
}

func ExampleDB_SetOption() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

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

func ExampleOpenFollower() {
	dir, err := os.MkdirTemp("", "loam-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := lsm.Open(dir, nil) // usually in another process
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put([]byte("colour"), []byte("green"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}

	f, err := lsm.OpenFollower(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	before := f.Snapshot()
	defer before.Close()
	if err := db.Put([]byte("colour"), []byte("red"), lsm.NoSync); err != nil {
		log.Fatal(err)
	}

	lag, err := f.Lag(context.Background())
	fmt.Println(lag.Sequences, err)
	if err := f.CatchUp(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, r := range []lsm.Reader{f, before} {
		v, err := r.Get([]byte("colour"), nil)
		fmt.Println(string(v), err)
	}
	// Output:
	// 1 <nil>
	// red <nil>
	// green <nil>
}
