package crash

import (
	"fmt"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// changesWorkload writes, rotates, flushes, compacts and reopens a database that keeps all its
// logs. Between, a feed of durable changes shows the writes that must survive.
var changesWorkload = workload{name: "changes", maxValue: 6000, run: func(s *session) error {
	s.opts.WALRetentionBytes = keepAll
	return steps(s.open, s.claim,
		func() error { return s.write(20, 0) }, s.claim,
		func() error { return s.write(15, 4) }, s.claim, s.flush,
		func() error { return s.write(20, 0) }, s.claim, s.reopen, s.claim,
		func() error { return s.write(5, 0) }, s.reopen,
		func() error { return s.write(10, 3) }, s.compact, s.claim,
		func() error { return s.write(5, 0) }, s.close)
}}

// keepAll is a retention without limit.
const keepAll = 1 << 40

// claim asks a feed what is durable: that must survive.
func (s *session) claim() error {
	last, err := testkit.LastDurable(s.db)
	if err != nil {
		return s.fail("changes", 0, err)
	}
	if s.failed == nil && int64(last) > s.synced.Load() {
		s.synced.Store(int64(last))
	}
	return nil
}

// ChangesStates is States for a workload with a feed of changes. In each state the feed has
// the batches that the database has, from the first on, and nothing else.
func ChangesStates(seed int64, every int) (Result, error) {
	l := newSession(&changesWorkload, seed, nil, false).ledger
	return explore(&changesWorkload, seed, int64(every), func(s state) error {
		return withHistory(s.fs, l.CheckChanges)
	})
}

// withHistory opens a database whose logs are all kept.
func withHistory(fs vfs.FS, check func(*lsm.DB) error) error {
	o := options()
	o.FS, o.WALRetentionBytes = fs, keepAll
	db, err := lsm.Open(dir, &o)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := check(db); err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	return db.Close()
}

// verifyChanges wants the feed after a trial to make what the database has.
func (t *trial) verifyChanges(fs *vfs.Mem) error {
	if t.w != &changesWorkload {
		return nil
	}
	return withHistory(fs.Clone(), testkit.CheckRebuilt)
}
