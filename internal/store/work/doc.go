// Package work decides what is done in the background of a database, and does it: flushes,
// compactions, manual compactions, and the waits of writers who are ahead of them.
//
// One Scheduler works for all trees of a database. It has goroutines only while
// there is work: one that flushes sealed memtables, the oldest first, and one for
// each running compaction and each of its pieces.
//
// # Who goes first
//
// Whenever something changes (Wake), the Scheduler starts what can be started. The flush always
// runs. Compactions are planned by package compact, which sees a version and the plans in progress;
// at most MaxJobs pieces run at once. Steps of manual compactions are not among these. While they
// wait, no automatic compaction of their tree begins, unless level 0 is on its way to stopping
// writers. Where nothing else is to do, sorted runs are merged that seeks have paid for.
//
// # Writers who wait
//
// MakeRoom is where a write stalls (stall.go): it delays the commit leader in proportion to level
// 0, or so that the last memtable lasts until the flush is done (pace.go), and stops it when there
// are too many memtables or level 0 tables. Compactions give way to a flush that writers are slowed
// down for. A writer never waits without work under way that ends the wait.
//
// # Failures
//
// A job that fails is tried again after a pause that doubles up to maxPause; Retry ends the pause.
// No flush begins in the pause of a flush. In that of a compaction none of its tree does, and after
// a shortage (base.IsShortage), which all share, none at all. The job's tables are deleted, but for
// those of an edit that failed: they are kept until the MANIFEST is known to be without it
// (install.go). What cannot heal, above all a panic and the loss of the MANIFEST, makes the
// database read-only (Env.Fail).
//
// # Locks, outermost first
//
// Scheduler.install (an edit, then the read state; held during the manifest's
// sync), then the manifest's own; Scheduler.mu (what runs), never held during I/O,
// inside which only the locks of trees may be taken.
package work
