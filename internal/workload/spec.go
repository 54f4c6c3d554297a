package workload

import "slices"

// Kind is what a benchmark does.
type Kind uint8

const (
	Put         Kind = iota // writes entries, in batches
	Delete                  // deletes entries, in batches
	Get                     // reads single keys
	MultiGet                // reads keys several at once
	Update                  // reads a key and writes it
	Mixed                   // draws operations by Spec.Mix
	NewIterator             // makes and closes iterators
	Scan                    // walks an iterator
	Seek                    // positions an iterator
	Open                    // closes and opens the database
	Compact                 // compacts the whole database
	Copy                    // copies the whole database, as Subject says
	Changes                 // writes entries, and reads what was committed
	DeleteRange             // deletes ranges of adjacent keys
	Stretch                 // scans a few entries from a key on
	PrefixScan              // scans the keys that differ in their last digit
	Add                     // adds to counters
	Transact                // writes keys in transactions
	Queue                   // puts messages and takes them, one at a time
	Hold                    // takes a snapshot or iterators that stay open
	Release                 // closes what Hold has taken
	Shared                  // writes and reads databases of its own that share memory
	Property                // prints a property
	Codec                   // runs a checksum or a codec of the engine over a block
)

// Order is the order in which keys are taken.
type Order uint8

const (
	Sequential  Order = iota // 0, 1, 2 ...
	Random                   // uniform over all keys
	Hot                      // uniform over the first hundredth
	Ascending                // random steps of 0 to 99 keys forward
	Backward                 // scans only: from the end
	Unique                   // every key once, in random order
	Few                      // uniform over the first eight
	Interleaved              // a key of each series in turn
	SeriesEnds               // uniform over the first keys after a series
)

// State is what is in memory when a benchmark begins.
type State uint8

const (
	AsIs   State = iota // what the benchmark before it left
	Cold                // the database's files are not in the page cache
	Warm                // they are, and the block cache is small
	Cached              // the same reads were done once before
)

// WarmCache is the block cache of Warm.
const WarmCache = "8MiB"

// What a Hold benchmark takes.
const (
	HeldSnapshot  = "snapshot"
	HeldIterators = "iterators"
)

// Mix is the parts of a mixed benchmark, in percent.
type Mix struct {
	Read, Update, Insert, Scan, ReadModifyWrite int
	Keys                                        Skew
}

// Skew is which keys a mixed benchmark prefers.
type Skew uint8

const (
	Even    Skew = iota // none
	Zipfian             // few keys, spread over all, by YCSB's Zipf distribution
	Latest              // those inserted last, by the same distribution
)

// Txn is what the transactions of a benchmark are made of.
type Txn struct {
	// Keys is how many keys a transaction writes.
	Keys int
	// Update reads each key for update before it is written.
	Update bool
	// Locks makes the transactions lock their keys.
	Locks bool
	// Plain does without transactions: reads, and then a batch.
	Plain bool
}

// Take is which message a Queue benchmark takes.
type Take uint8

const (
	TakeFirst Take = iota // the first one, which a new iterator finds
	TakeLast              // the last one, which a new iterator finds
	// TakeKnown takes the oldest one, whose key is known; the oldest ten are read now and then.
	TakeKnown
	// TakeNone: all were taken, and new iterators look for a first one, the second half of them
	// after a rest.
	TakeNone
)

// Messages are those of a Queue benchmark.
type Messages struct {
	Take Take
	// Depth is how many are there before each that is put. They are put before the clock starts.
	Depth int64
	// Share is the same as a part of the run's number of entries.
	Share int64
	// Txn puts and takes in one transaction.
	Txn bool
}

// Ways to put entries that go past log and memtables: into tables outside of the database, in
// key order, which it takes in, and by a load which sorts them.
const (
	IntoTables = "tables"
	BulkLoad   = "bulk load"
)

// Ways to copy a database.
const (
	Checkpoint   = "checkpoint"   // a database beside
	FirstBackup  = "first backup" // in an empty folder
	SecondBackup = "second backup"
	Restore      = "restore" // of a backup
	Dump         = "dump"    // as a stream
	Load         = "load"    // of a dump
)

// Sharing is how a Shared benchmark uses its databases.
type Sharing struct {
	// Databases is how many share the memory, Memory how many bytes that is.
	Databases int
	Memory    int64
	// Each has a thread for each database; otherwise one thread has the first, the quiet one, and
	// Loaders additional ones write to another one each as fast as they can.
	Each    bool
	Loaders int
	// Rate is how many operations a second a thread does at most; 0: no bound. Each is timed then.
	Rate float64
}

// Spec defines one benchmark. Zero values mean the run's own parameters.
type Spec struct {
	Name string
	// Doc is one line of help.
	Doc   string
	Kind  Kind
	Order Order
	// Fresh benchmarks start from an empty database.
	Fresh bool
	// Divide divides the run's number of operations (at least one is left).
	Divide int64
	// Batch is the number of entries in a batch.
	Batch int
	// Keyspaces is over how many keyspaces the entries of each batch are spread.
	Keyspaces int
	// TTL is how many seconds values live; 0: for ever.
	TTL int64
	// ValueSize is the size of values.
	ValueSize int
	// Sync makes every write durable before the next.
	Sync bool
	// Missing asks for keys that are not there.
	Missing bool
	// Count adds "(N of M found)" to the report.
	Count bool
	// Reopen makes a new iterator for every seek.
	Reopen bool
	// Writers is the number of additional threads that overwrite random keys
	// for as long as the others run; they are not in the figures.
	Writers int
	// WriteRate is how many operations a second each of them does at most; 0: no bound.
	WriteRate float64
	// Scanners is the number of additional threads that scan all entries over
	// and over meanwhile.
	Scanners int
	// Compactors is the number of additional threads that compact everything over and over
	// meanwhile.
	Compactors int
	// Followed has a follower in another process catch up again and again meanwhile.
	Followed bool
	// HalfRate waits between operations, so that they come half as fast as those of the last
	// benchmark that wrote without waiting.
	HalfRate bool
	// Mix is what a Mixed benchmark is made of.
	Mix Mix
	// Width is how many adjacent keys a DeleteRange is about. It deletes all but the last one.
	// Parts, if it is not 0, says that as a part of the run's number of entries.
	Width, Parts int64
	// Length is how many entries a Stretch wants, or how many iterators a Hold takes.
	Length int
	// Before makes a Stretch go backwards from the entry before the key.
	Before bool
	// Held reads what Hold's snapshot shows.
	Held bool
	// Pinned reads values where they lie in memory.
	Pinned bool
	// Counters reads what Add has written, and sums it up.
	Counters bool
	// Txn is what a Transact benchmark does.
	Txn Txn
	// Queue is what a Queue benchmark does.
	Queue Messages
	// Share is what a Shared benchmark does.
	Share Sharing
	// Threads is how many threads a benchmark has unless the run says otherwise; 0: one.
	Threads int
	// State is brought about before the clock starts.
	State State
	// Settle compacts everything at the end of a fill, within its time.
	Settle bool
	// Subject names a Property, a Codec, a way to copy, what to Hold, or a way to Put: IntoTables
	// or BulkLoad.
	// Decode runs the codec backwards.
	Subject string
	Decode  bool
	// Bytes is how much data a Codec goes through.
	Bytes int64
}

// Specs are all benchmarks, in the order in which help lists them.
var Specs = []Spec{
	{Name: "fillseq", Doc: "write N values in key order", Kind: Put, Fresh: true},
	{Name: "fillbatch", Doc: "write N values in key order, 1000 in a batch", Kind: Put, Fresh: true,
		Batch: 1000},
	{Name: "fillrandom", Doc: "write N values in random order", Kind: Put, Order: Random,
		Fresh: true},
	{Name: "filluniquerandom", Doc: "write N values in random order, every key once", Kind: Put,
		Order: Unique, Fresh: true},
	{Name: "bulkload", Doc: "write N values in random order, 1000 in a batch, then compact, all " +
		"in one time", Kind: Put, Order: Unique, Fresh: true, Batch: 1000, Settle: true},
	{Name: "ingest", Doc: "write N values in key order to tables outside of the database, then " +
		"ingest these, all in one time", Kind: Put, Fresh: true, Subject: IntoTables},
	{Name: "ingestrandom", Doc: "bulk-load N values in random order, every key once", Kind: Put,
		Order: Unique, Fresh: true, Subject: BulkLoad},
	{Name: "keyspaces", Doc: "write N values in random order over 16 keyspaces, 16 in a batch",
		Kind: Put, Order: Unique, Fresh: true, Batch: 16, Keyspaces: 16},
	{Name: "overwrite", Doc: "overwrite N values in random order", Kind: Put, Order: Random},
	{Name: "overwritehot", Doc: "overwrite random values of the first hundredth N times", Kind: Put,
		Order: Hot},
	{Name: "overwritehalf", Doc: "overwrite N values in random order, half as fast as the " +
		"benchmark before", Kind: Put, Order: Random, HalfRate: true},
	{Name: "overwritewhilecompacting", Doc: "overwrite while one more thread compacts " +
		"everything, again and again", Kind: Put, Order: Random, Compactors: 1},
	{Name: "overwritefollowed", Doc: "overwrite beside a follower in another process, which " +
		"catches up every 10 ms, and how far it is behind", Kind: Put, Order: Random,
		Followed: true},
	{Name: "ttl", Doc: "write N values in random order that expire after a day", Kind: Put,
		Order: Random, Fresh: true, TTL: 24 * 3600},
	{Name: "fillsync", Doc: "write N/1000 values in random order, each durable", Kind: Put,
		Order: Random, Fresh: true, Divide: 1000, Sync: true},
	{Name: "fill100K", Doc: "write N/1000 values of 100,000 bytes in random order", Kind: Put,
		Order: Random, Fresh: true, Divide: 1000, ValueSize: 100 * 1000},
	{Name: "deleteseq", Doc: "delete N keys in key order", Kind: Delete},
	{Name: "deleterandom", Doc: "delete N keys in random order", Kind: Delete, Order: Random},
	{Name: "deleterange", Doc: "N/1000 times delete 999 of 1000 adjacent keys, every thousand " +
		"once, in random order", Kind: DeleteRange, Order: Unique, Divide: 1000, Width: 1000},
	{Name: "deletehalf", Doc: "delete the first half of the keys but its last one, by one range " +
		"delete where the engine has them", Kind: DeleteRange, Parts: 2},
	{Name: "scandeleted", Doc: "N/100 scans of 10 entries from a random key on, a new iterator " +
		"for each, meant for after deleterange", Kind: Stretch, Order: Random, Divide: 100,
		Length: 10, Count: true},
	{Name: "queue", Doc: "N/10 messages: put one at the end, find the first of 1000 by a new " +
		"iterator, delete it", Kind: Queue, Fresh: true, Divide: 10, Count: true,
		Queue: Messages{Depth: 1000}},
	{Name: "stack", Doc: "N/10 messages: put one at the end of 1000, find the last by a new " +
		"iterator, delete it", Kind: Queue, Fresh: true, Divide: 10, Count: true,
		Queue: Messages{Take: TakeLast, Depth: 1000}},
	{Name: "queuetxn", Doc: "queue with a transaction for each message", Kind: Queue, Fresh: true,
		Divide: 10, Count: true, Queue: Messages{Depth: 1000, Txn: true}},
	{Name: "windowed", Doc: "N times put a key at the end and delete the oldest of N/10; every " +
		"1000 times read the oldest ten", Kind: Queue, Fresh: true, Count: true,
		Queue: Messages{Take: TakeKnown, Share: 10}},
	{Name: "emptied", Doc: "N/10000 looks for the first key by a new iterator, after N were " +
		"written in random order and deleted; half of them at once, half after 10 s",
		Kind: Queue, Fresh: true, Divide: 10000, Count: true,
		Queue: Messages{Take: TakeNone, Share: 1}},
	{Name: "fillseries", Doc: "write N values, one of each of 10000 series in turn, or of " +
		"N/100 if these are fewer; keys are ordered by series, then by time", Kind: Put,
		Order: Interleaved, Fresh: true},
	{Name: "readseries", Doc: "N/100 scans of the last 100 entries of a random series of " +
		"fillseries, backwards, a new iterator for each", Kind: Stretch, Order: SeriesEnds,
		Divide: 100, Length: 100, Before: true, Count: true},
	{Name: "holdsnapshot", Doc: "take a snapshot, which the benchmarks after this one leave open",
		Kind: Hold, Subject: HeldSnapshot},
	{Name: "holditerators", Doc: "make 500 iterators at random keys, which the benchmarks after " +
		"this one leave open", Kind: Hold, Order: Random, Subject: HeldIterators, Length: 500},
	{Name: "readsnapshot", Doc: "read N random keys of holdsnapshot's snapshot", Kind: Get,
		Order: Random, Held: true, Count: true},
	{Name: "release", Doc: "close what holdsnapshot and holditerators have left open; the " +
		"iterators must be where they were", Kind: Release, Count: true},
	{Name: "prefixscan", Doc: "N/10 scans of the 10 keys that differ in their last digit, a new " +
		"iterator for each; compare with prefix_length=15", Kind: PrefixScan, Order: Random,
		Divide: 10, Count: true},
	{Name: "prefixmissing", Doc: "N prefixscans of prefixes that no key has", Kind: PrefixScan,
		Order: Random, Missing: true, Count: true},
	{Name: "mergerandom", Doc: "add 1 to a random one of N counters N times, without reading it",
		Kind: Add, Order: Random, Fresh: true},
	{Name: "mergehot", Doc: "add 1 to a random one of N/100 counters N times, without reading it",
		Kind: Add, Order: Hot, Fresh: true},
	{Name: "readcounters", Doc: "read N random ones of N/100 counters, and check their sum",
		Kind: Get, Order: Hot, Count: true, Counters: true},
	{Name: "randomtransaction", Doc: "2 threads, N/4 transactions each that read 2 keys for " +
		"update and write them; no two threads have a key in common", Kind: Transact, Order: Random,
		Divide: 4, Count: true, Threads: 2, Txn: Txn{Keys: 2, Update: true}},
	{Name: "lockedtransaction", Doc: "randomtransaction with locks", Kind: Transact, Order: Random,
		Divide: 4, Count: true, Threads: 2, Txn: Txn{Keys: 2, Update: true, Locks: true}},
	{Name: "randombatch", Doc: "the reads and writes of randomtransaction without transactions, " +
		"as gets and a batch", Kind: Transact, Order: Random, Divide: 4, Count: true, Threads: 2,
		Txn: Txn{Keys: 2, Update: true, Plain: true}},
	{Name: "writetransaction", Doc: "2 threads, N/4 transactions each that write 4 keys; no two " +
		"threads have a key in common", Kind: Transact, Order: Random, Divide: 4, Threads: 2,
		Txn: Txn{Keys: 4}},
	{Name: "writebatch", Doc: "the writes of writetransaction as batches", Kind: Transact,
		Order: Random, Divide: 4, Threads: 2, Txn: Txn{Keys: 4, Plain: true}},
	{Name: "contendedtransaction", Doc: "2 threads, N/40 transactions each that read 2 of 8 keys " +
		"for update and write them, again after a conflict", Kind: Transact, Order: Few, Divide: 40,
		Count: true, Threads: 2, Txn: Txn{Keys: 2, Update: true}},
	{Name: "contendedlocked", Doc: "contendedtransaction with locks", Kind: Transact, Order: Few,
		Divide: 40, Count: true, Threads: 2, Txn: Txn{Keys: 2, Update: true, Locks: true}},
	{Name: "changes", Doc: "stream N batches of a value each that were written before; the " +
		"writes are not timed", Kind: Changes, Order: Random, Fresh: true, Count: true},
	{Name: "readseq", Doc: "read N entries in key order", Kind: Scan},
	{Name: "readreverse", Doc: "read N entries in reverse key order", Kind: Scan, Order: Backward},
	{Name: "readrandom", Doc: "read N random keys", Kind: Get, Order: Random, Count: true},
	{Name: "readpinned", Doc: "read N random keys without copying the values", Kind: Get,
		Order: Random, Count: true, Pinned: true},
	{Name: "readmissing", Doc: "read N random keys that are not there", Kind: Get, Order: Random,
		Missing: true, Count: true},
	{Name: "readhot", Doc: "read N random keys of the first hundredth", Kind: Get, Order: Hot,
		Count: true},
	{Name: "readrandomsmall", Doc: "read N/1000 random keys", Kind: Get, Order: Random,
		Divide: 1000, Count: true},
	{Name: "readrandomcold", Doc: "read N/100 random keys, files dropped from the page cache",
		Kind: Get, Order: Random, Divide: 100, Count: true, State: Cold},
	{Name: "readrandomwarm", Doc: "read N random keys, files in the page cache, a block cache " +
		"of 8 MiB", Kind: Get, Order: Random, Count: true, State: Warm},
	{Name: "readrandomcached", Doc: "read N random keys after N others were read", Kind: Get,
		Order: Random, Count: true, State: Cached},
	{Name: "multireadrandom", Doc: "read N random keys, 32 at once", Kind: MultiGet, Order: Random,
		Batch: 32, Count: true},
	{Name: "updaterandom", Doc: "read and write N random keys", Kind: Update, Order: Random,
		Count: true},
	{Name: "newiterator", Doc: "make N iterators", Kind: NewIterator},
	{Name: "seekrandom", Doc: "N seeks to random keys, a new iterator for each", Kind: Seek,
		Order: Random, Reopen: true, Count: true},
	{Name: "seekrandomcold", Doc: "N/100 seeks to random keys, a new iterator for each, files " +
		"dropped from the page cache", Kind: Seek, Order: Random, Divide: 100, Reopen: true,
		Count: true, State: Cold},
	{Name: "seekrandomwarm", Doc: "N seeks to random keys, a new iterator for each, files in the " +
		"page cache, a block cache of 8 MiB", Kind: Seek, Order: Random, Reopen: true, Count: true,
		State: Warm},
	{Name: "seekordered", Doc: "N seeks forward with one iterator", Kind: Seek, Order: Ascending,
		Count: true},
	{Name: "scan1000cold", Doc: "N/10000 scans of 1000 entries from a random key on, a new " +
		"iterator for each, files dropped from the page cache", Kind: Stretch, Order: Random,
		Divide: 10000, Length: 1000, Count: true, State: Cold},
	{Name: "scan1000warm", Doc: "N/1000 scans of 1000 entries from a random key on, a new " +
		"iterator for each, files in the page cache, a block cache of 8 MiB", Kind: Stretch,
		Order: Random, Divide: 1000, Length: 1000, Count: true, State: Warm},
	{Name: "readwhilewriting", Doc: "readrandom while one more thread writes", Kind: Get,
		Order: Random, Count: true, Writers: 1},
	{Name: "seekrandomwhilewriting", Doc: "seekrandom while one more thread writes", Kind: Seek,
		Order: Random, Reopen: true, Count: true, Writers: 1},
	{Name: "readwhilewriting10k", Doc: "readrandom while one more thread writes, 10,000 a second",
		Kind: Get, Order: Random, Count: true, Writers: 1, WriteRate: 1e4},
	{Name: "readwhilewriting100k", Doc: "readrandom while one more thread writes, 100,000 a " +
		"second", Kind: Get, Order: Random, Count: true, Writers: 1, WriteRate: 1e5},
	{Name: "seekrandomwhilewriting10k", Doc: "seekrandom while one more thread writes, 10,000 a " +
		"second", Kind: Seek, Order: Random, Reopen: true, Count: true, Writers: 1, WriteRate: 1e4},
	{Name: "seekrandomwhilewriting100k", Doc: "seekrandom while one more thread writes, " +
		"100,000 a second", Kind: Seek, Order: Random, Reopen: true, Count: true, Writers: 1,
		WriteRate: 1e5},
	{Name: "readwhilescanning", Doc: "readrandom while one more thread scans", Kind: Get,
		Order: Random, Count: true, Scanners: 1},
	{Name: "readrandomwriterandom", Doc: "N operations, 9 of 10 read and the rest write a " +
		"random key", Kind: Mixed, Count: true, Mix: Mix{Read: 90, Update: 10}},
	{Name: "ycsba", Doc: "YCSB A: half reads, half updates", Kind: Mixed, Count: true,
		Mix: Mix{Read: 50, Update: 50, Keys: Zipfian}},
	{Name: "ycsbb", Doc: "YCSB B: 95 % reads, 5 % updates", Kind: Mixed, Count: true,
		Mix: Mix{Read: 95, Update: 5, Keys: Zipfian}},
	{Name: "ycsbc", Doc: "YCSB C: reads", Kind: Mixed, Count: true,
		Mix: Mix{Read: 100, Keys: Zipfian}},
	{Name: "ycsbd", Doc: "YCSB D: 95 % reads of what came last, 5 % inserts", Kind: Mixed,
		Count: true, Mix: Mix{Read: 95, Insert: 5, Keys: Latest}},
	{Name: "ycsbe", Doc: "YCSB E: N/10 operations, 95 % scans of 1 to 100 entries, 5 % inserts",
		Kind: Mixed, Divide: 10, Count: true, Mix: Mix{Scan: 95, Insert: 5, Keys: Zipfian}},
	{Name: "ycsbf", Doc: "YCSB F: half reads, half read-modify-writes", Kind: Mixed, Count: true,
		Mix: Mix{Read: 50, ReadModifyWrite: 50, Keys: Zipfian}},
	{Name: "opencold", Doc: "open the database N/100000 times, its files dropped from the " +
		"page cache", Kind: Open, Divide: 100000, State: Cold},
	{Name: "open", Doc: "close and open the database N/10000 times", Kind: Open, Divide: 10000},
	{Name: "compact", Doc: "compact the whole database", Kind: Compact},
	{Name: "checkpoint", Doc: "make N/100000 checkpoints of the database, by links where the " +
		"engine has them", Kind: Copy, Subject: Checkpoint, Divide: 100000},
	{Name: "backup", Doc: "make N/1000000 backups of the database, each in an empty folder",
		Kind: Copy, Subject: FirstBackup, Divide: 1000000},
	{Name: "backup2", Doc: "make N/100000 more backups in a folder that has one, the database " +
		"being the same", Kind: Copy, Subject: SecondBackup, Divide: 100000},
	{Name: "restore", Doc: "restore a backup N/1000000 times", Kind: Copy, Subject: Restore,
		Divide: 1000000},
	{Name: "dump", Doc: "write N/1000000 dumps of the database to a file", Kind: Copy,
		Subject: Dump, Divide: 1000000},
	{Name: "load", Doc: "load a dump into a new database N/1000000 times", Kind: Copy,
		Subject: Load, Divide: 1000000},
	{Name: "budget", Doc: "4 threads, N writes and reads each of a database of its own; the 4 " +
		"databases share 256 MiB, and the resident set is watched", Kind: Shared, Order: Random,
		Share: Sharing{Databases: 4, Memory: 256 << 20, Each: true}},
	{Name: "quietshared", Doc: "N/100 writes and reads, timed, 1000 a second, of one of 4 " +
		"databases that share 256 MiB", Kind: Shared, Order: Random, Divide: 100,
		Share: Sharing{Databases: 4, Memory: 256 << 20, Rate: 1000}},
	{Name: "quietwhileloading", Doc: "quietshared while another one of the databases is written " +
		"as fast as possible", Kind: Shared, Order: Random, Divide: 100,
		Share: Sharing{Databases: 4, Memory: 256 << 20, Rate: 1000, Loaders: 1}},
	{Name: "stats", Doc: "print the engine's statistics", Kind: Property, Subject: "leveldb.stats"},
	{Name: "sstables", Doc: "print the engine's tables", Kind: Property,
		Subject: "leveldb.sstables"},
	{Name: "crc32c", Doc: "checksum 500 MB, 4 KB at a time", Kind: Codec, Subject: "crc32c",
		Bytes: 500 << 20},
	{Name: "snappycomp", Doc: "compress 1 GB with snappy, 4 KB at a time", Kind: Codec,
		Subject: "snappy", Bytes: 1 << 30},
	{Name: "snappyuncomp", Doc: "decompress 1 GB with snappy, 4 KB at a time", Kind: Codec,
		Subject: "snappy", Decode: true, Bytes: 1 << 30},
	{Name: "zstdcomp", Doc: "compress 1 GB with zstd, 4 KB at a time", Kind: Codec, Subject: "zstd",
		Bytes: 1 << 30},
	{Name: "zstduncomp", Doc: "decompress 1 GB with zstd, 4 KB at a time", Kind: Codec,
		Subject: "zstd", Decode: true, Bytes: 1 << 30},
}

// DefaultSteps are LevelDB's eighteen, in its order. The second readrandom
// lets earlier compactions come to rest.
var DefaultSteps = []string{
	"fillseq", "fillsync", "fillrandom", "overwrite",
	"readrandom", "readrandom", "readseq", "readreverse",
	"compact",
	"readrandom", "readseq", "readreverse",
	"fill100K",
	"crc32c", "snappycomp", "snappyuncomp", "zstdcomp", "zstduncomp",
}

// Find returns the benchmark with the name.
func Find(name string) (Spec, bool) {
	i := slices.IndexFunc(Specs, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return Spec{}, false
	}
	return Specs[i], true
}

// Writes reports whether the benchmark changes the database.
func (s *Spec) Writes() bool {
	m := &s.Mix
	switch s.Kind {
	case Put, Delete, Update, DeleteRange, Add, Transact, Queue:
		return true
	}
	return s.Writers > 0 || m.Update+m.Insert+m.ReadModifyWrite > 0
}

// NeedsStore reports whether the benchmark needs the run's database.
func (s *Spec) NeedsStore() bool { return s.Kind != Codec && s.Kind != Shared }

// Ops is the number of operations of one thread, given the run's numbers of
// entries and of reads.
func (s *Spec) Ops(num, reads int64) int64 {
	n := num
	if s.Parts > 0 {
		return 1
	}
	switch s.Kind {
	case Get, MultiGet, Scan, Stretch, Seek, Update, Mixed, NewIterator:
		n = reads
	case Compact, Property, Release:
		return 1
	case Hold:
		return int64(max(s.Length, 1))
	case Codec:
		return 0
	}
	if s.Divide > 1 {
		n = max(n/s.Divide, 1)
	}
	return n
}
