package lsm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/tree"
)

// background runs flushes and compactions. Its goroutines exist only while
// there is work: an idle database has none.
type background struct {
	db *DB

	// Guarded by mu, inside of which only the tree's lock may be taken. cond is signalled
	// at every change.
	mu                        sync.Mutex
	cond                      *sync.Cond
	closing                   bool
	paused                    int  // PauseCompaction calls not yet undone
	flushing                  bool // the flush goroutine runs
	workers                   int  // running compaction pieces
	running                   compact.Busy
	manual                    map[*compact.Plan]context.CancelCauseFunc // running steps of manual compactions
	manualWaits               int                                       // manual compactions that wait for their next step
	waitsFor                  string                                    // what a writer waits for: memtables, level0, or nothing
	flushErr                  error                                     // of the last flush, nil after a success
	flushTries, flushFailed   uint64                                    // how many flushes began, and which of them failed last
	compErr                   error                                     // of the last compaction, nil after a success
	retry                     *time.Timer                               // after a failed compaction: none is picked before it fires
	flushBackoff, compBackoff time.Duration
	forced                    int           // waits for level 0 for which Pick found nothing to do: 0, but for a bug
	kick                      chan struct{} // closed and replaced to cut the flush's back-off short

	install sync.Mutex           // serialises edit + view; taken before manifest.Set's lock
	orphans []manifest.AddedFile // guarded by install: tables of edits that failed, see orphan

	stop       atomic.Bool  // running compactions should give up, and none begin
	stopFlush  atomic.Bool  // the running flush should give up: Close has waited long enough
	delayNanos atomic.Int64 // write delay per KiB, from the debt
	owed       int64        // nanoseconds of delay not yet slept; commit leader only
	lookups    int64        // in the cache, up to the last flush; flush goroutine only
}

func newBackground(db *DB) *background {
	b := &background{db: db, kick: make(chan struct{}), manual: map[*compact.Plan]context.CancelCauseFunc{}}
	b.cond = sync.NewCond(&b.mu)
	if db.opts.DisableCompaction {
		b.paused = 1
	}
	return b
}

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// wake starts whatever can be started and wakes all who wait.
func (b *background) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.scheduleLocked()
	b.cond.Broadcast()
}

func (b *background) scheduleLocked() {
	if b.closing || b.db.opts.ReadOnly || b.db.failure.Load() != nil {
		return
	}
	v := b.db.tree.Acquire()
	if v == nil {
		return
	}
	defer v.Unref()
	if !b.flushing && len(v.Sealed) > 0 {
		b.flushing = true
		go b.flushLoop()
	}
	for b.paused == 0 && !b.stop.Load() && b.workers < b.db.opts.MaxBackgroundJobs && b.retry == nil && !b.manualFirstLocked(v) {
		plan := b.pickLocked(func(c compact.Config) *compact.Plan {
			plan := compact.Pick(v.Version, b.running, c)
			if plan == nil && !b.flushing {
				plan = compact.PickRead(v.Version, b.running, c, b.db.tree.RunsSought())
			}
			return plan
		})
		if plan == nil {
			break
		}
		b.db.tree.ResetRunsSought()
		b.startLocked(context.Background(), plan, v.Version)
	}
}

// manualFirstLocked reports whether a manual compaction takes its turn before
// further automatic ones: while level 0 is far from making writers wait.
func (b *background) manualFirstLocked(v *tree.ReadState) bool {
	o := b.db.opts
	return b.manualWaits > 0 && len(v.Version.Levels[0].Files) < max(o.L0Compaction, o.L0Stop/2)
}

// pickLocked calls a decision of package compact. Decisions call the user's
// comparer while b.mu is held: a panic must not leave it so.
func (b *background) pickLocked(decide func(compact.Config) *compact.Plan) (plan *compact.Plan) {
	defer func() {
		if r := recover(); r != nil {
			b.db.setFailure(base.NewPanic(r))
			go b.wake() // the caller may be about to wait
			plan = nil
		}
	}()
	return decide(b.config())
}

func (b *background) config() compact.Config {
	o := b.db.opts
	return compact.Config{
		Comparer:          b.db.cmp,
		FileSize:          uint64(o.MaxFileSize),
		WriteBuffer:       uint64(o.WriteBufferSize),
		L0Trigger:         o.L0Compaction,
		L0Stop:            o.L0Stop,
		MaxSubcompactions: o.MaxSubcompactions,
		Dense:             b.dense,
	}
}

// dense reports that half of a table are deletions and no snapshot needs what
// they hide. Tables that nobody has opened are not looked at: new ones that are
// dense are opened at once.
func (b *background) dense(m *manifest.FileMeta) bool {
	r, ok := b.db.shared.Files.OpenNow(m)
	if !ok {
		return false
	}
	if p := r.Props(); 2*p.Deletes < p.Entries || p.Deletes == 0 {
		return false
	}
	return b.db.shared.Seqs.NumSnapshots() == 0
}

// warm opens a job's tables and reads them into the cache before readers find
// them: those that it replaces were there, or have been looked at in memory. So
// seeks beside a writer do not decode each block of each new table themselves.
func (b *background) warm(ctx context.Context, results []compact.Result) {
	stop := func() error {
		runtime.Gosched()
		if b.stop.Load() || ctx.Err() != nil {
			return errStopped
		}
		return nil
	}
	// A full cache lets that tenth of it come and go, see package cache.
	c := b.db.cache
	room := max(c.Spare(), c.Capacity()/10)
	for _, r := range results {
		for _, a := range r.Added {
			used, err := b.db.shared.Files.Warm(a.Meta, room, stop)
			if err != nil { // readers will meet it, if it stays
				b.report("reading a new table", err)
				return
			}
			if room -= used; room <= 0 {
				return
			}
		}
	}
}

// cached reports whether half of the blocks of a plan's inputs are in the cache.
func (b *background) cached(plan *compact.Plan) bool {
	have, of := 0, 0
	plan.Files(func(_ int, m *manifest.FileMeta) {
		h, o := b.db.shared.Files.Cached(m)
		have, of = have+h, of+o
	})
	return 2*have > of
}

// openDense opens those of a job's tables that are full of deletions, so that
// dense sees them. Only before their edit: a later job may make them obsolete, and
// a table that is opened then stays open.
func (b *background) openDense(r compact.Result) {
	for i, t := range r.Tables {
		if t.Deletes > 0 && 2*t.Deletes >= t.Entries {
			b.db.shared.Files.Reader(r.Added[i].Meta) // an error shows again when the table is read
		}
	}
}

// delay makes the writer sleep in proportion to the bytes it writes and to the
// debt, a millisecond or more at a time. Commit leader only.
func (b *background) delay(bytes int64, mode commit.Mode) error {
	perKiB := b.delayNanos.Load()
	if perKiB == 0 {
		b.owed = 0
		return nil
	}
	b.owed += bytes * perKiB >> 10
	if b.owed < int64(time.Millisecond) {
		return nil
	}
	if mode&commit.NoStall != 0 {
		b.owed = int64(time.Millisecond)
		return fmt.Errorf("%w: compaction is behind", ErrBusy)
	}
	d := min(time.Duration(b.owed), 100*time.Millisecond)
	b.owed = 0
	time.Sleep(d)
	b.db.stats.stalled(b.db, "debt", d)
	return nil
}

// updateDelay derives the write delay from the newest version: nothing below
// half of the limits, then growing smoothly, without bound as a limit comes
// near, so that writers and compactions meet in between. At three quarters of
// a limit it is 10 us per KiB.
func (b *background) updateDelay(v *manifest.Version) {
	limit := float64(b.db.opts.L0Stop)
	pressure := float64(len(v.Levels[0].Files))/limit - 0.5
	pressure = 2 * max(pressure, 0) // 0 at half of the limit, 1 at it
	var nanos int64
	if pressure > 0 {
		nanos = int64(10_000 * min(pressure/max(1-pressure, 0.01), 100))
	}
	b.mu.Lock()
	if b.paused > 0 {
		nanos = 0 // the caller wants no compaction: waiting would not help
	}
	b.mu.Unlock()
	b.delayNanos.Store(nanos)
}

// waitForRoom returns when another memtable may be sealed: at most MaxMemtables
// in memory, and level 0 below its limit. It fails when the flush that would
// make room keeps failing. Commit leader only.
func (b *background) waitForRoom(mode commit.Mode) error {
	var start time.Time
	var cause string
	b.mu.Lock()
	defer func() {
		b.waitsFor = ""
		b.mu.Unlock()
		if cause != "" {
			b.db.pipeline.EndStall()
			b.db.stats.stalled(b.db, cause, time.Since(start))
		}
	}()
	for {
		if err := b.db.writable(); err != nil {
			return err
		}
		v := b.db.tree.Current()
		now := ""
		switch {
		case len(v.Sealed) >= b.db.opts.MaxMemtables-1:
			now = "memtables"
			if b.flushErr != nil {
				return fmt.Errorf("no room for the write, as flushing fails: %w", b.flushErr)
			}
		case len(v.Version.Levels[0].Files) >= b.db.opts.L0Stop && b.paused == 0:
			now = "level0"
			if b.compErr != nil {
				return fmt.Errorf("no room for the write, as compaction fails: %w", b.compErr)
			}
		default:
			return nil
		}
		if mode&commit.NoStall != 0 {
			return fmt.Errorf("%w: waiting for %s", ErrBusy, now)
		}
		if cause == "" {
			cause, start = now, time.Now()
			b.db.pipeline.BeginStall()
		}
		b.scheduleLocked()
		if now == "level0" {
			b.yieldManualLocked()
		}
		if !b.underWayLocked(now) {
			return b.db.writable() // nothing would end the wait
		}
		b.waitsFor = now
		b.cond.Wait()
	}
}

// underWayLocked reports whether work runs, or stands on a timer, at whose end a
// writer that waits looks again at the cause. A writer never waits without: where
// Pick finds nothing, level 0 is merged by force, and if even that is impossible
// the write goes on.
func (b *background) underWayLocked(cause string) bool {
	switch {
	case cause == "memtables":
		return b.flushing
	case len(b.running) > 0 || b.retry != nil:
		return true
	}
	b.forced++
	v := b.db.tree.Acquire()
	if v == nil {
		return false
	}
	defer v.Unref()
	plan := b.pickLocked(func(c compact.Config) *compact.Plan { return compact.Force(v.Version, b.running, c) })
	if plan != nil {
		b.startLocked(context.Background(), plan, v.Version)
	}
	return plan != nil
}

// report tells of a failed background job. Losing the manifest, or a bug, is
// final; the rest is retried.
func (b *background) report(job string, err error) {
	if errors.Is(err, errStopped) || b.db.failure.Load() != nil {
		return
	}
	b.db.failOnPanic(err)
	b.db.log.Warn(job+" failed; it will be retried", "dir", b.db.dir, "err", err)
	if f := b.db.opts.Events.BackgroundError; f != nil {
		b.db.events.Post(func() { f(err) })
	}
}

// mendManifest begins a new MANIFEST if the last edit failed for want of space or
// descriptors. A job calls it before it writes tables: while the MANIFEST cannot be
// written, none would be of use.
func (b *background) mendManifest() error {
	b.install.Lock()
	defer b.install.Unlock()
	if err := b.db.manifest.Mend(); err != nil {
		return b.manifestError(err)
	}
	b.dropOrphans()
	return nil
}

// manifestError makes the database read-only unless the error heals.
func (b *background) manifestError(err error) error {
	if base.IsShortage(err) && b.db.manifest.Err() == nil {
		return err
	}
	return b.db.fail(err)
}

// dropOrphans deletes the tables of failed edits.
//
// REQUIRES: b.install held; the MANIFEST has been written since.
func (b *background) dropOrphans() {
	for _, a := range b.orphans {
		b.db.shared.Files.Obsolete(a.Meta)
	}
	b.orphans = nil
}

// apply writes the edit to the manifest and makes its version current, without
// the memtable done if that is not nil. results are the tables that the edit adds,
// as far as they are new: if it fails they stay until the MANIFEST is known to be
// without it.
//
// REQUIRES: b.install held.
func (b *background) apply(edit *manifest.Edit, done *tree.Sealed, results ...compact.Result) error {
	db := b.db
	version, err := db.manifest.Apply(edit)
	if err != nil {
		for _, r := range results {
			b.orphans = append(b.orphans, r.Added...)
		}
		return b.manifestError(err)
	}
	b.dropOrphans()
	for _, name := range db.manifest.TakeObsolete() {
		db.shared.Files.DeleteFile(name)
	}
	b.updateDelay(version)
	db.tree.Install(version, done)
	return nil
}

// discard deletes the tables of a job that failed before its edit.
func (b *background) discard(r compact.Result) {
	for _, a := range r.Added {
		b.db.shared.Files.Obsolete(a.Meta) // it may be open: warm, openDense
	}
	for _, num := range r.Abandoned {
		b.db.shared.Files.DeleteFile(base.FileName(base.FileTable, num))
	}
}

func tableInfos(added []manifest.AddedFile) []TableInfo {
	infos := make([]TableInfo, len(added))
	for i, a := range added {
		infos[i] = TableInfo{Number: a.Meta.Num, Level: a.Level, Size: a.Meta.Size}
	}
	return infos
}

// flushPatience is how long Close lets full memtables reach tables. Their logs have
// all that they have.
const flushPatience = time.Second

// beginClose stops compactions, gives up writers that wait for room, and waits for
// flushes, but not for long.
func (b *background) beginClose() {
	b.mu.Lock()
	b.stop.Store(true)
	b.mu.Unlock()
	b.wake()
	if b.db.opts.ReadOnly {
		return
	}
	patience := time.AfterFunc(flushPatience, func() {
		b.stopFlush.Store(true)
		b.wake()
	})
	defer patience.Stop()
	_ = b.waitFlushed(0)
}

// close stops everything and waits for it.
func (b *background) close() {
	b.mu.Lock()
	b.closing = true
	b.stop.Store(true)
	b.stopFlush.Store(true)
	if b.retry != nil {
		b.retry.Stop()
	}
	close(b.kick)
	b.kick = make(chan struct{})
	b.cond.Broadcast()
	for b.flushing || len(b.running) > 0 {
		b.cond.Wait()
	}
	b.mu.Unlock()
}
