package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// workload is a script of a database's life. The operations of a trial pass over
// shortages.
type workload struct {
	name     string
	maxValue int
	options  func(o *lsm.Options)
	run      func(t *trial) error
}

// options are small enough for all of it to happen in few writes.
func options() lsm.Options {
	return lsm.Options{
		WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10, BlockSize: 1024, CacheSize: 1 << 20,
		L0Compaction: 2, MaxBackgroundJobs: 1, WALPreallocate: 16 << 10,
	}
}

// steps joins steps into one that stops at the first error.
func steps(list ...func() error) error {
	for _, f := range list {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) writes(n int) func() error { return func() error { return t.write(n) } }

// compactAll compacts all keyspaces.
func (t *trial) compactAll() error {
	for _, name := range t.db.Keyspaces() {
		k, err := t.db.Keyspace(name, nil)
		if err == nil {
			err = k.CompactRange(nil, nil)
		}
		if err := short("compact", err); err != nil {
			return err
		}
	}
	return nil
}

// kindsName is the workload with every kind of write, transactions and keyspaces.
const kindsName = "kinds"

// sharedName is the workload of a database with lsm.Resources.
const sharedName = "shared"

// follow opens a follower, at the second try at the latest when the fault comes once, has it catch
// up with what then writes, and compares the two. Without memory a CatchUp fails with ErrNoMemory,
// and the state is one that the writer had; the next one goes on.
func (t *trial) follow(then ...func() error) func() error {
	return func() (err error) {
		var f *lsm.Follower
		for try := 0; f == nil; try++ {
			o := t.opts
			o.FS = t.fs
			if f, err = lsm.OpenFollower(dir, &o); err == nil {
				break
			}
			if err := short("follow", err); err != nil || t.forever || try > 0 {
				return err
			}
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		shown := 0
		for _, next := range append(then, func() error { return nil }) {
			caught := f.CatchUp(context.Background())
			if err := short("catching up", caught); err != nil {
				return err
			}
			if caught == nil {
				shown = t.last
			}
			may := func(i int) bool { return t.okay[i] }
			must := func(i int) bool { return t.okay[i] && i <= shown }
			if err := short("reading a follower", t.ledger.CheckSparse(f.DB, t.last, must,
				may)); err != nil {
				return fmt.Errorf("CatchUp: %v: %w", caught, err)
			}
			if err := next(); err != nil {
				return err
			}
		}
		return nil
	}
}

// workloads are the scripts. The first seven are those of the usual run.
var workloads = []workload{
	{"sort", 50, func(o *lsm.Options) { o.WriteBufferSize = 4 << 20 }, func(t *trial) error {
		return steps(t.open, t.writes(maxBatches-10), t.flush, t.read, t.close)
	}},
	{"recover", 4000, nil, func(t *trial) error {
		return steps(t.open, t.writes(25), t.kill, t.open, t.read, t.kill, t.open, t.close)
	}},
	{"life", 1000, nil, func(t *trial) error {
		return steps(t.open, t.writes(10), t.flush, t.read,
			t.writes(10), t.flush, t.compact, t.read, t.getMany,
			t.close, t.open, t.read, t.writes(3), t.close)
	}},
	{"rotate", 9000, nil, func(t *trial) error {
		return steps(t.open, t.writes(30), t.read, t.writes(10), t.close)
	}},
	{"follow", 2000, nil, func(t *trial) error {
		return steps(t.open, t.writes(5), t.follow(t.writes(20), t.flush, t.writes(20), t.writes(5),
			t.compact, t.writes(5)), t.read, t.close)
	}},
	{"repair", 1000, nil, func(t *trial) error {
		return steps(t.open, t.writes(12), t.flush, t.writes(6), t.kill, t.repair, t.open, t.read,
			t.close)
	}},
	{kindsName, 300, nil, func(t *trial) error {
		return steps(t.open, t.writes(10), t.flush, t.read, t.writes(10), t.flush, t.compactAll,
			t.read,
			t.writes(6), t.kill, t.open, t.read, t.writes(4), t.compactAll, t.read, t.close)
	}},
	{"values", 2000, func(o *lsm.Options) { o.LargeValue = 100 }, func(t *trial) error {
		return steps(t.open, t.writes(10), t.flush, t.read, t.writes(10), t.flush, t.compact,
			t.read, t.getMany, t.kill, t.open, t.read, t.close)
	}},
	{"order", 300, func(o *lsm.Options) {
		o.Comparer = &lsm.Comparer{Name: "test.Own", Compare: bytes.Compare}
	}, func(t *trial) error {
		return steps(t.open, t.writes(30), t.read, t.writes(10), t.getMany, t.flush, t.read,
			t.close)
	}},
	{"large", 90000, nil, func(t *trial) error { // batches above the write buffer
		return steps(t.open, t.writes(6), t.read, t.compact, t.read, t.kill, t.open, t.read,
			t.close)
	}},
	{"changes", 1000, func(o *lsm.Options) { o.WALRetentionBytes = 1 << 40 }, func(t *trial) error {
		return steps(t.open, t.writes(10), t.feed, t.flush, t.writes(10), t.feed, t.kill, t.open,
			t.feed, t.writes(5), t.feed, t.close)
	}},
	{"scan", 2000, func(o *lsm.Options) { o.CacheSize = -1 }, func(t *trial) error {
		return steps(t.open, t.writes(20), t.flush, t.writes(20), t.flush, t.read, t.getMany,
			t.compact, t.read, t.close)
	}},
	{ingestName, 4000, nil, func(t *trial) error {
		return steps(t.open, t.ingests(4), t.writes(6), t.ingests(6), t.read, t.flush, t.ingests(4),
			t.compact, t.read,
			t.kill, t.open, t.ingests(4), t.read, t.close)
	}},
	{sharedName, 2000, nil, func(t *trial) error {
		return steps(t.open, t.writes(20), t.flush, t.writes(20), t.read, t.compact, t.read, t.kill,
			t.open, t.read, t.close)
	}},
}

// Workloads names all workloads.
func Workloads() []string {
	names := make([]string, len(workloads))
	for i := range workloads {
		names[i] = workloads[i].name
	}
	return names
}
