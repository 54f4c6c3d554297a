// Package crash puts databases through what can befall them short of a
// programming error: power cuts at every file-system call, failing calls, full
// disks, damaged bytes. What a database holds afterwards is checked against a
// ledger of numbered batches.
//
// The functions run their cases on several goroutines by themselves.
package crash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// dir is where the database stands in its file system.
const dir = "db"

// maxBatches is more than any workload writes.
const maxBatches = 400

// progress is how far a session's writer has come, readable from anywhere.
type progress struct {
	begun  atomic.Int64 // the newest batch handed to Write
	synced atomic.Int64 // the newest batch that must survive a power cut

	dropsBegun atomic.Int64 // of a keyspace
	dropsEnded atomic.Int64 // of these, up to the newest that succeeded
	copies     copies
	backups    backups
	extra      func() any // what a test knows besides; nil: nothing
}

// session is a database that a workload works with.
type session struct {
	fs     vfs.FS
	opts   lsm.Options
	ledger *testkit.Ledger
	trees  *trees
	progress
	db    *lsm.DB
	batch *lsm.Batch
	last  int // batch

	// failed takes every operation's error and decides whether the workload continues; nil ends it
	// at the first.
	failed func(op string, batch int, err error) error
	// acked takes every successful write.
	acked func(batch int, sync bool)
	// closing is called before every Close.
	closing func() error
}

func (s *session) fail(op string, batch int, err error) error {
	if err == nil {
		return nil
	}
	if s.failed == nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return s.failed(op, batch, err)
}

var errNoDatabase = errors.New("the database could not be opened")

// open opens the database; without it the workload ends.
func (s *session) open() error {
	o := s.opts
	o.FS = s.fs
	s.trees.enable(&o)
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return errors.Join(s.fail("open", 0, err), errNoDatabase)
	}
	s.db = db
	return s.makeSpaces()
}

func (s *session) close() error {
	if s.db == nil {
		return nil
	}
	if s.closing != nil {
		if err := s.closing(); err != nil {
			return err
		}
	}
	err := s.db.Close()
	s.db = nil
	return s.fail("close", 0, err)
}

// reopen closes and opens.
func (s *session) reopen() error {
	if err := s.close(); err != nil {
		return err
	}
	return s.open()
}

// write adds n batches, every syncEvery-th of them synced (0: none).
func (s *session) write(n, syncEvery int) error {
	for range n {
		s.last++
		mode := lsm.NoSync
		if syncEvery > 0 && s.last%syncEvery == 0 {
			mode = lsm.Sync
		}
		s.begun.Store(int64(s.last))
		if err := s.writeBatch(s.last, mode); err != nil {
			if err := s.fail("write", s.last, err); err != nil {
				return err
			}
			continue
		}
		if mode == lsm.Sync {
			s.synced.Store(int64(s.last))
		}
		if s.acked != nil {
			s.acked(s.last, mode == lsm.Sync)
		}
	}
	return nil
}

// writeBatch writes batch i.
func (s *session) writeBatch(i int, mode lsm.WriteMode) error {
	if s.trees != nil {
		return s.trees.write(s.db, i, int(s.dropsBegun.Load()), mode)
	}
	if s.batch == nil {
		s.batch = lsm.NewBatch()
	}
	s.ledger.Fill(s.batch, i)
	return s.db.Write(s.batch, mode)
}

// flush makes all that was written durable in tables.
func (s *session) flush() error {
	if err := s.db.Flush(); err != nil {
		return s.fail("flush", 0, err)
	}
	if s.failed == nil {
		s.synced.Store(int64(s.last))
	}
	return nil
}

func (s *session) compact() error { return s.fail("compact", 0, s.db.CompactRange(nil, nil)) }

// read looks at every tenth batch's number and scans.
func (s *session) read() error {
	if _, err := testkit.Last(s.db); err != nil {
		return s.fail("get", 0, err)
	}
	if _, err := testkit.Dump(s.db); err != nil {
		return s.fail("scan", 0, err)
	}
	return nil
}

// workload is a script of a database's life.
type workload struct {
	name     string
	maxValue int
	run      func(s *session) error
	verify   func(t *trial, mem *vfs.Mem) error
	failed   func(t *trial, op string, batch int, err error)
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

// workloads are the scripts. Together they create, rotate, flush, compact,
// roll the manifest, close cleanly, and recover.
var workloads = []workload{
	{name: "create", maxValue: 200, run: func(s *session) error {
		return steps(s.open,
			func() error { return s.write(5, 1) },
			func() error { return s.write(5, 0) },
			s.close, s.open,
			func() error { return s.write(5, 3) },
			s.reopen, s.close)
	}},
	{name: "rotate", maxValue: 6000, run: func(s *session) error {
		return steps(s.open,
			func() error { return s.write(60, 2) },
			s.close)
	}},
	{name: "flush", maxValue: 300, run: func(s *session) error {
		if err := s.open(); err != nil {
			return err
		}
		for range 6 {
			if err := steps(func() error { return s.write(6, 4) }, s.flush); err != nil {
				return err
			}
		}
		return s.close()
	}},
	{name: "compact", maxValue: 1000, run: func(s *session) error {
		if err := s.open(); err != nil {
			return err
		}
		for range 3 {
			if err := steps(
				func() error { return s.write(8, 5) }, s.flush,
				func() error { return s.write(8, 0) }, s.flush,
				s.compact, s.read,
				func() error { return s.write(2, 0) }); err != nil {
				return err
			}
		}
		return s.close()
	}},
	// Obsolete logs become the next ones.
	{name: "recycle", maxValue: 9000, run: func(s *session) error {
		s.opts.Format = lsm.FormatNative
		return steps(s.open,
			func() error { return s.write(30, 0) }, s.flush,
			func() error { return s.write(25, 9) }, s.reopen,
			func() error { return s.write(10, 4) },
			s.close)
	}},
	{name: "manifest", maxValue: 100, run: func(s *session) error {
		if err := s.open(); err != nil {
			return err
		}
		for range 6 {
			if err := steps(func() error { return s.write(3, 2) }, s.reopen, s.read); err != nil {
				return err
			}
		}
		return s.close()
	}},
	{name: "close", maxValue: 2000, run: func(s *session) error {
		for range 3 {
			if err := steps(s.open,
				func() error { return s.write(30, 11) },
				s.compact,
				func() error { return s.write(4, 0) },
				s.close); err != nil {
				return err
			}
		}
		return nil
	}},
}

// valueWorkload has values that stay in logs, which go with their tables.
var valueWorkload = workload{name: "values", maxValue: 9000, run: func(s *session) error {
	s.opts.Format, s.opts.LargeValue = lsm.FormatNative, 500
	return steps(s.open,
		func() error { return s.write(12, 0) }, s.flush,
		func() error { return s.write(12, 5) }, s.flush,
		s.compact, s.read,
		func() error { return s.write(14, 3) }, s.reopen,
		func() error { return s.write(10, 0) }, s.compact, s.read,
		s.close)
}}

// relocateWorkload has values that compactions copy into value files, which go with their tables.
var relocateWorkload = workload{name: "relocate", maxValue: 9000, run: func(s *session) error {
	s.opts.Format, s.opts.LargeValue, s.opts.CompactionFilter = lsm.FormatNative, 500, nil
	s.opts.MaxSpaceAmplification, s.opts.L0Compaction = 1, 1
	return steps(s.open,
		func() error { return s.write(20, 0) }, s.flush,
		func() error { return s.write(12, 5) }, s.flush, s.compact,
		func() error { return s.write(6, 3) }, s.flush, s.compact, s.read, s.reopen,
		func() error { return s.write(6, 0) }, s.flush, s.compact,
		func() error { return s.write(6, 0) }, s.flush, s.compact, s.relocated, s.read,
		s.close)
}}

// recoverWorkload has values that recoveries make references of, as no flush does.
var recoverWorkload = workload{name: "recover", maxValue: 9000, run: func(s *session) error {
	s.opts.Format, s.opts.LargeValue, s.opts.WriteBufferSize = lsm.FormatNative, 500, 1<<20
	return steps(s.open,
		func() error { return s.write(60, 9) }, s.reopen, s.referred, s.read,
		func() error { return s.write(12, 3) }, s.reopen, s.compact, s.read,
		s.close)
}}

// referred makes sure that tables refer to values, where no call failed.
func (s *session) referred() error {
	if s.failed == nil && s.db.Metrics().Values.Logs == 0 {
		return errors.New("no table refers to a value")
	}
	return nil
}

// relocated makes sure that values were relocated, where no call failed.
func (s *session) relocated() error {
	if s.failed == nil && s.db.Metrics().Values.Relocated == 0 {
		return errors.New("no value was relocated")
	}
	return nil
}

// upgradeWorkload makes a LevelDB directory a native one, with a log to replay, tables,
// and what a second upgrade finds.
var upgradeWorkload = workload{name: "upgrade", maxValue: 600, run: func(s *session) error {
	s.opts.Format = lsm.FormatLevelDB
	return steps(s.open,
		func() error { return s.write(20, 4) }, s.flush,
		func() error { return s.write(10, 3) }, s.flush, s.compact,
		func() error { return s.write(12, 5) }, s.close,
		s.upgrade, s.open,
		func() error { return s.write(10, 4) }, s.flush, s.compact, s.read, s.close,
		s.upgrade)
}}

// upgrade upgrades the closed database.
func (s *session) upgrade() error {
	o := s.opts
	o.FS = s.fs
	return s.fail("upgrade", 0, lsm.Upgrade(dir, &o))
}

// options are small enough for all of it to happen in few writes.
func options() lsm.Options {
	return lsm.Options{
		Encryption:      encryption,
		WriteBufferSize: 64 << 10, MaxFileSize: 64 << 10, BlockSize: 1024, CacheSize: 256 << 10,
		L0Compaction: 2, MaxBackgroundJobs: 1, WALPreallocate: 16 << 10,
	}
}

// rewrite is a compaction filter that changes values into themselves.
var rewrite = &lsm.CompactionFilter{Name: "rewrite",
	Filter: func(_ int, _, value []byte) (lsm.FilterDecision, error) {
		return lsm.FilterChange(slices.Clone(value)), nil
	}}

// newSession prepares a run of w. Sparse ledgers can have holes.
func newSession(w *workload, seed int64, fs vfs.FS, sparse bool) *session {
	l := testkit.Prepared(testkit.Ledger{Seed: seed, MaxValue: w.maxValue, Sparse: sparse},
		maxBatches)
	s := &session{fs: fs, opts: options(), ledger: l}
	if seed%2 != 0 {
		s.opts.CompactionFilter = rewrite
	}
	if w == &treeWorkload || w == &kindsWorkload || w == &largeKindsWorkload ||
		strings.HasPrefix(w.name, "tree-") {
		s.trees = &trees{ledger: l, kinds: &testkit.Kinds{Seed: seed}}
	}
	return s
}

var more []workload // of tests alone

// find returns the workload of a name, or nil.
func find(name string) *workload {
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i]
		}
	}
	for _, w := range []*workload{&kindsWorkload, &largeKindsWorkload, &valueWorkload,
		&relocateWorkload, &recoverWorkload, &changesWorkload} {
		if name == w.name {
			return w
		}
	}
	for _, list := range [][]workload{copyWorkloads, backupWorkloads, more} {
		for i := range list {
			if list[i].name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// Workloads names the workloads that run in both formats.
func Workloads() []string {
	names := make([]string, len(workloads))
	for i := range workloads {
		names[i] = workloads[i].name
	}
	return names
}
