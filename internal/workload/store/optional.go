package store

// Checkpointer is implemented by stores that copy themselves, while they are open.
type Checkpointer interface {
	// Checkpoint makes dir, which does not exist, a durable database with what this one has.
	Checkpoint(dir string) error
}

// BackerUp is implemented by stores that make backups of themselves, while they are open.
type BackerUp interface {
	// Backup makes a durable backup in the folder dir, which is made if it does not exist, of
	// everything that no earlier backup there has.
	Backup(dir string) error
	// RestoreBackup makes to, which does not exist, a durable database as the newest backup in the
	// folder dir has it.
	RestoreBackup(dir, to string) error
}

// Dumper is implemented by stores that write all they have as a stream, for other databases.
type Dumper interface {
	// Dump writes what the store has to a new file, durably.
	Dump(file string) error
	// LoadDump makes to, which does not exist, a durable database with what the dump in file has.
	LoadDump(file, to string) error
}

// Ingester is implemented by stores that take in tables which were written outside of them.
type Ingester interface {
	// NewTable begins a table, which takes entries in key order.
	NewTable(file string) (Sink, error)
	// Ingest makes the entries of finished tables part of the store, durably. The files may go.
	Ingest(files []string) error
}

// BulkLoader is implemented by stores that sort entries outside of their log and memtables.
type BulkLoader interface {
	// BulkLoad begins a load, which takes entries in any order. Finish makes them part of the
	// store, durably.
	BulkLoad() (Sink, error)
}

// Sink takes entries, from one goroutine.
type Sink interface {
	Put(key, value []byte) error
	Finish() error
	// Close comes last, and gives up what was not finished.
	Close() error
}

// Changing is implemented by stores with a feed of changes, if they were opened for it.
type Changing interface {
	// Changes begins with what the store had first.
	Changes() (Changes, error)
}

// Changes is what was committed, in its order, for one goroutine.
type Changes interface {
	// Next reads at most limit batches, and says how many operations and bytes they have. It reads
	// none where no more were committed.
	Next(limit int) (batches, operations, bytes int64, err error)
	Close() error
}

// Followed is implemented by drivers of engines that read a database beside its writer, which may
// be another process.
type Followed interface {
	// OpenFollower opens the database in dir for reading. own is a directory, which need not exist,
	// for files of the follower.
	OpenFollower(dir, own string, c Config) (Follower, error)
}

// Follower shows a state of a database that another process writes, to one goroutine.
type Follower interface {
	// CatchUp reads all writes from before the call.
	CatchUp() error
	// Get appends the value to dst.
	Get(key, dst []byte) (value []byte, found bool, err error)
	Close() error
}

// Sharing is implemented by drivers of engines whose databases can share memory.
type Sharing interface {
	// OpenShared opens a database in each directory; memory is how many bytes they have for caches,
	// memtables and what else the engine counts, all together. It fails with errors.ErrUnsupported
	// where the engine's build cannot do it.
	OpenShared(dirs []string, memory int64, c Config) ([]Store, error)
}

// Pinning is implemented by stores that show a value where it lies in memory.
type Pinning interface {
	// NewPinned returns what GetPinned fills.
	NewPinned() Pinned
	// GetPinned looks a key up, without a copy where that is possible. v is released before.
	GetPinned(key []byte, v Pinned) (found bool, err error)
}

// Pinned is a value where it lies, for one goroutine.
type Pinned interface {
	// Bytes is the value until Release.
	Bytes() []byte
	Release()
	// Close comes last, after Release.
	Close()
}
