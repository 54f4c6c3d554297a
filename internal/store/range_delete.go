package store

import "time"

// sealAfter is how long after a range delete its memtable is sealed, where that lets tables go.
// Those that follow meanwhile are flushed with it.
const sealAfter = 100 * time.Millisecond

// RangeDeleted is called after keys from start up to limit were deleted. If a table is covered
// whole, the memtable is flushed soon, however little it has: then the table is dropped, and its
// space comes back though nobody may write again. The delete is done: the next call tells of a
// comparer that panics.
func (k *Keyspace) RangeDeleted(start, limit []byte) {
	var err error
	defer k.db.health.CatchPanic(&err)
	if k.Tree.CoversTable(start, limit) && !k.sealing.Swap(true) {
		k.sealSoon()
	}
}

// sealSoon seals the memtable after a while. While automatic compactions are paused no table would
// be dropped: then ResumeCompaction calls it again.
func (k *Keyspace) sealSoon() {
	if k.db.jobs.Status().Paused {
		return
	}
	time.AfterFunc(sealAfter, func() {
		k.sealing.Store(false)
		// A failure shows at the next write. After Close there is nothing to seal.
		_ = k.db.pipeline.Exclusive(func() error { return k.db.jobs.Seal(&k.work) })
	})
}

// ResumeCompaction undoes a pause of automatic compactions; see lsm.DB.ResumeCompaction.
func (db *DB) ResumeCompaction() {
	db.jobs.Unpause()
	for _, k := range db.spaces.live() {
		if k.sealing.Load() {
			k.sealSoon()
		}
	}
}
