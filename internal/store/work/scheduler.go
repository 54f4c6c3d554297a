package work

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Env is what a Scheduler needs of its database. All fields are required. None of
// the functions may block or call the Scheduler.
type Env struct {
	// Writable returns why the database takes no writes, Close among the reasons, or nil.
	Writable func() error
	// Failure returns why the database is read-only for good, or nil.
	Failure func() error
	// Fail makes the database read-only with err as the cause, and returns the
	// error that later writes get.
	Fail func(err error) error
	// BeginStall and EndStall enclose a wait of the commit leader.
	BeginStall, EndStall func()
	// Exclusive runs f while no commit is under way.
	Exclusive func(f func() error) error
	// Warn takes what does not stop the work.
	Warn func(what string, err error)
	// All goes over the keyspaces that were added. Dropped ones may be among them.
	All iter.Seq[*Keyspace]
	// Find returns the keyspace of an ID, or nil if it was dropped; Several reports whether batches
	// may name other keyspaces than the default one. For the commit leader.
	Find    func(base.KeyspaceID) *Keyspace
	Several func() bool
	// Events takes the events of a Scheduler, in order.
	Events Events
}

// Events takes the events of a Scheduler.
type Events interface {
	FlushBegin()
	FlushEnd(memtable int64, added []manifest.AddedFile, d time.Duration, err error)
	CompactionBegin(plan *picker.Plan)
	CompactionEnd(plan *picker.Plan, added []manifest.AddedFile, d time.Duration, err error)
	// WriteStall takes every wait of a writer: StallMemTables, StallLevel0 or StallDebt.
	WriteStall(cause string, d time.Duration)
	// JobFailed takes a flush or compaction that failed and is tried again.
	JobFailed(job string, err error)
	// MergeFailed takes the first failure of the merge operator in a flush or compaction. The
	// operands stay as they are.
	MergeFailed(err error)
}

// Options configures a Scheduler.
type Options struct {
	Env

	Files    *files.Set
	Manifest *manifest.Set
	WAL      *wal.Set
	Cache    *cache.Cache
	Seqs     *tree.Sequences
	Folds    *tree.Folds
	Spare    *arena.Spare // see trims; nil: none is kept

	Keyspaces bool // there may be more trees than that of the default keyspace
	ReadOnly  bool // the database was opened so: nothing is started
	Paused    bool // as after Pause
	Limits         // until SetLimits

	// LargeValue is the length in bytes from which on values that flushes and compactions make are
	// written into value files; 0: none are.
	LargeValue int64

	// What databases share; each is nil where nothing is shared.
	Account *budget.Account // of the memtables
	Pool    *budget.Pool
	Rate    *budget.Rate
}

// Limits are what may change while the database is open.
type Limits struct {
	MaxJobs           int   // pieces of automatic compactions at once
	MaxSubcompactions int   // pieces of one compaction
	MaxMemTables      int   // memtables of a tree before writes wait
	L0Trigger         int   // tables in level 0 that start a compaction
	L0Stop            int   // tables in level 0 at which writes wait
	FileSize          int64 // bytes at which a compaction starts another table
	WriteBuffer       int64 // bytes of a memtable
	// MaxSpaceAmplification bounds the bytes of a tree's tables when writers are not
	// fast, as a multiple of those that are live.
	MaxSpaceAmplification float64
	// MaxLogs is how many bytes of logs there may be before the trees that keep the
	// oldest one are flushed; with Keyspaces.
	MaxLogs int64
	// MaxMemTableBytes bounds the memory of the memtables of all trees; with Keyspaces.
	MaxMemTableBytes int64
	// BytesPerSecond bounds what flushes and compactions read and write; 0: no bound.
	BytesPerSecond int64
}

// Scheduler does the background work of a database. It is safe for concurrent use,
// but for the methods of the commit leader.
type Scheduler struct {
	opts   Options
	limits atomic.Pointer[Limits]
	client *budget.Client // of opts.Pool; nil: there is none
	own    *budget.Rate   // of Limits.BytesPerSecond

	mu         sync.Mutex
	cond       *sync.Cond // signalled at every change of the fields below
	trees      trees
	closing    bool
	paused     int  // Pause calls not yet undone
	flushing   bool // the flush goroutine runs
	workers    int  // running pieces of automatic compactions
	waitsFor   string
	waits      atomic.Bool // waitsFor is not empty; read without mu
	flush      flushes
	pace       pace
	compaction compactions   // of all trees: shortages
	forced     int           // waits for level 0 without a plan from Pick: 0, but for a bug
	kick       chan struct{} // closed and replaced by Retry, and to end the pause of flushes

	install sync.Mutex // serialises an edit and the read state that follows
	// guarded by install: tables and value files of edits that failed, see installLocked
	orphans      []manifest.AddedFile
	orphanValues []uint64
	values       valueSpace

	stop       atomic.Bool  // running compactions give up, and none begin
	stopFlush  atomic.Bool  // the running flush gives up: Close has waited long enough
	delayNanos atomic.Int64 // write delay per KiB from the debt, see updateDelay
	paceNanos  atomic.Int64 // write delay per KiB from the flush, see pace
	flushFirst atomic.Bool  // compactions give way to the flush
	owed       int64        // nanoseconds of delay not yet slept; commit leader only
	lookups    int64        // in the cache, up to the last flush; flush goroutine only
	home       *Keyspace    // the default one
	group      group        // commit leader only
	// bytes appended to logs at which boundLogs looks again; commit leader only
	nextLook  int64
	nextWeigh int64 // the same of boundMemory; commit leader only
	stats     stats
	calm      *time.Timer // wakes the Scheduler for the work of quiet times, see watchLocked
	calmAt    time.Time   // when calm fires; zero: it does not
	trims     trims
	deletes   quietDeletes
	held      atomic.Bool // a decision left something alone for a snapshot, see heldLocked
}

// flushes is how the last flushes went.
type flushes struct {
	err    error  // of the last one, nil after a success
	begun  uint64 // how many flushes began
	failed uint64 // which of them failed last
	pause  time.Duration
}

// compactions is how the last compactions of a tree went, or those of all trees.
type compactions struct {
	err   error // of the last one, nil after a success
	pause time.Duration
	retry *time.Timer // after a failure: none is picked before it fires
}

// failed begins a pause of the compactions that err concerns. REQUIRES: s.mu held.
func (c *compactions) failed(err error, s *Scheduler) {
	c.err = err
	if c.retry != nil || s.closing {
		return
	}
	c.pause = longer(c.pause)
	c.retry = time.AfterFunc(c.pause, func() {
		s.mu.Lock()
		c.retry = nil
		s.mu.Unlock()
		s.Wake()
	})
}

// goOn ends the pause. REQUIRES: Scheduler.mu held.
func (c *compactions) goOn() {
	c.err = nil
	if c.retry != nil {
		c.retry.Stop()
		c.retry = nil
	}
}

// Pauses after failures.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// longer is the pause after another failure.
func longer(pause time.Duration) time.Duration { return min(max(2*pause, minPause), maxPause) }

// New makes a Scheduler without trees. Wake begins its work.
func New(o Options) *Scheduler {
	s := &Scheduler{opts: o, kick: make(chan struct{}), own: budget.NewRate(0)}
	s.cond = sync.NewCond(&s.mu)
	s.SetLimits(o.Limits)
	if o.Pool != nil {
		s.client = o.Pool.Open(s.Wake)
	}
	s.stats.stalls = map[string]Stall{}
	s.trees.pressed = map[*Keyspace]float64{}
	s.values.damaged = valueFiles{}
	s.group.rotateLog = s.rotateLogOnce
	if o.Paused {
		s.paused = 1
	}
	return s
}

// Add takes on the work for a keyspace, that of the default one first.
func (s *Scheduler) Add(k *Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.home == nil {
		s.home = k
	}
	s.trees.markDue(k)
	s.trees.seal(k)
}

// WakeFor is Wake after a change of a keyspace.
func (s *Scheduler) WakeFor(k *Keyspace) {
	s.mu.Lock()
	s.trees.markDue(k)
	s.mu.Unlock()
	s.Wake()
}

// wakeSealed is Wake after a memtable was sealed.
func (s *Scheduler) wakeSealed(k *Keyspace) {
	s.mu.Lock()
	s.trees.seal(k)
	s.updatePaceLocked(time.Now())
	s.mu.Unlock()
	s.Wake()
}

// Wake starts all runnable work and wakes all waiting goroutines.
func (s *Scheduler) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleLocked()
	s.cond.Broadcast()
}

// scheduleLocked starts what can run. It is called after every change that may let work begin, and
// before every wait for work. A call too many does nothing.
//
// It loses no work, because each list that it goes by errs on the safe side. A keyspace is on
// trees.sealed from the sealing of a memtable until nextFlushLocked finds none. It is on trees.due
// from any change of its memtables, tables or plans until a search for a compaction finds none,
// unless something under way changes the answer (restLocked). Where time alone changes the answer
// the keyspace is on trees.watched, which has a timer. One goroutine flushes, the memtable of the
// oldest log first. Compactions begin one for each keyspace in turn, until MaxJobs pieces run.
func (s *Scheduler) scheduleLocked() {
	if s.closing || s.opts.ReadOnly || s.opts.Failure() != nil {
		s.reservedLocked(false)
		return
	}
	if !s.flushing {
		if k := s.nextFlushLocked(); k != nil {
			s.flushing = true
			s.beginPaceLocked(k, k.Sealed()...)
			go s.flushLoop()
		}
	}
	refused := false // a compaction waits for a worker
	queue, later := s.trees.due, s.trees.due[:0]
	for ; len(queue) > 0; queue = queue[1:] {
		k := queue[0]
		if !s.mayCompactLocked() || k.compaction.retry != nil {
			later = append(later, k)
			continue
		}
		if !s.reserveLocked(k) {
			refused = true
			later = append(later, k)
			continue
		}
		switch began, rests := s.startNextLocked(k); {
		case began:
			queue = append(queue, k) // perhaps for another one, after the others
		case rests:
			k.isDue = false
		default:
			later = append(later, k)
		}
	}
	s.trees.due = later
	s.reservedLocked(refused)
	s.watchLocked()
}

// mayCompactLocked reports whether automatic compactions may begin.
func (s *Scheduler) mayCompactLocked() bool {
	return s.paused == 0 && !s.stop.Load() && s.workers < s.limits.Load().MaxJobs &&
		s.compaction.retry == nil
}

// startNextLocked starts the most urgent compaction of a keyspace, if there is one. rests says that
// the keyspace leaves trees.due: no compaction of it can begin until a change, a timer or the end
// of a running one makes it due again. While a manual compaction goes first, it stays due.
func (s *Scheduler) startNextLocked(k *Keyspace) (began, rests bool) {
	state := k.Acquire()
	if state == nil {
		return false, false
	}
	defer state.Unref()
	v := state.Version
	if s.manualFirstLocked(k, v) {
		return false, false
	}
	k.heldBySnapshot = false
	plan := s.pickLocked(k, func(c picker.Config) *picker.Plan { return s.nextPlanLocked(k, v, c) })
	if plan == nil {
		return false, s.restLocked(k, v)
	}
	k.SpendRunsSought(plan.RunsSought())
	s.startLocked(context.Background(), k, plan, v)
	return true, false
}

// nextPlanLocked is what the picker finds: what the limits ask for, then, while no flush runs, what
// makes reads faster, then what a quiet time is good for.
func (s *Scheduler) nextPlanLocked(k *Keyspace, v *manifest.Version, c picker.Config) *picker.Plan {
	plan := picker.Pick(v, k.running, c)
	if plan != nil || s.flushing {
		return plan
	}
	plan = picker.PickReadTriggered(v, k.running, c, k.RunsSought())
	if plan == nil && s.idleLocked(k, v, c) {
		plan = picker.PickIdle(v, k.running, c)
		if plan != nil {
			k.quiet.plan = plan
		}
	}
	if plan != nil {
		k.optional = plan
	}
	return plan
}

// pickLocked calls a decision of package picker. Decisions call the user's comparer while s.mu is
// held: neither a panic nor runtime.Goexit must leave it so.
func (s *Scheduler) pickLocked(k *Keyspace,
	decide func(picker.Config) *picker.Plan) (plan *picker.Plan) {
	err := k.Comparer().Guard(func() error { plan = decide(s.configLocked(k)); return nil })
	if err != nil {
		_ = s.opts.Fail(err)
		go s.Wake() // the caller may be about to wait
		return nil
	}
	return plan
}

// configLocked is what decisions about a tree go by.
func (s *Scheduler) configLocked(k *Keyspace) picker.Config {
	o := s.limits.Load()
	return picker.Config{
		Comparer:          k.Comparer(),
		FileSize:          uint64(o.FileSize),
		WriteBuffer:       uint64(o.WriteBuffer),
		L0Trigger:         o.L0Trigger,
		L0Stop:            o.L0Stop,
		MaxSubcompactions: o.MaxSubcompactions,
		TombstoneDense:    func(m *manifest.FileMeta) bool { return s.tombstoneDense(k, m) },
		RangeDels: func(m *manifest.FileMeta) *rangedel.List {
			return s.settledRangeDels(k, m)
		},
		Held:     func(m *manifest.FileMeta) bool { return s.heldLocked(k, m.Newest) },
		Expired:  s.opts.Seqs.Expired(),
		Live:     k.quiet.live,
		MaxSpace: o.MaxSpaceAmplification,
		Values:   s.valuesLocked(k),
		Fast:     k.quiet.fast(time.Now()),
	}
}

// Pause stops automatic compaction, running ones included, and returns when none runs. Flushes go
// on. Each call needs an Unpause. In a callback, which a compaction may wait for, it does not wait.
func (s *Scheduler) Pause() {
	within := base.NotWithin() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused++ // another Pause that ends lets manual compactions go on
	for s.stop.Store(true); s.trees.running > 0 && !within; s.stop.Store(true) {
		s.cond.Wait()
	}
	s.stop.Store(s.closing || errors.Is(s.opts.Writable(), base.ErrClosed))
	s.cond.Broadcast() // manual compactions go on
}

// Unpause undoes one Pause, or Options.Paused.
func (s *Scheduler) Unpause() {
	s.mu.Lock()
	s.paused = max(s.paused-1, 0)
	s.mu.Unlock()
	s.Wake()
}

// Retry tries failed work again at once instead of at the end of its pause. Work that
// began before, and fails, does so without a pause and fails no write.
func (s *Scheduler) Retry() {
	s.mu.Lock()
	s.endPauseLocked()
	s.flush.err = nil // writes wait for the next try
	s.goOnLocked()
	s.mu.Unlock()
	s.Wake()
}

// goOnLocked ends the pauses after failed compactions.
func (s *Scheduler) goOnLocked() {
	s.compaction.goOn()
	for k := range s.opts.All {
		k.compaction.goOn()
	}
}

// endPauseLocked ends the pause after a failed flush.
func (s *Scheduler) endPauseLocked() {
	close(s.kick)
	s.kick = make(chan struct{})
}

// flushPatience is how long Close lets sealed memtables reach tables. Their logs
// have all that they have.
const flushPatience = time.Second

// BeginClose stops compactions, gives up writers that wait for room, and waits for
// flushes, but not for long. Writable says already that the database is closed.
func (s *Scheduler) BeginClose() {
	s.mu.Lock()
	s.stop.Store(true)
	s.mu.Unlock()
	s.Wake()
	if s.opts.ReadOnly {
		return
	}
	patience := time.AfterFunc(flushPatience, func() {
		s.stopFlush.Store(true)
		s.recheckShared()
		s.Wake()
	})
	defer patience.Stop()
	for k := range s.opts.All {
		_ = s.WaitFlushed(k, 0)
	}
}

// Close stops everything and waits for it.
func (s *Scheduler) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.stop.Store(true)
	s.stopFlush.Store(true)
	s.goOnLocked()
	if s.calm != nil {
		s.calm.Stop()
	}
	if s.trims.timer != nil {
		s.trims.timer.Stop()
	}
	s.forgetDeletesLocked()
	s.endPauseLocked()
	s.recheckShared()
	s.cond.Broadcast()
	for s.flushing || s.trims.running || s.deletes.busy || s.trees.running > 0 {
		s.cond.Wait()
	}
	s.leaveShared()
}

// fail makes the database read-only. The caller does not hold s.mu.
func (s *Scheduler) fail(err error) error {
	cause := s.opts.Fail(err)
	s.Wake()
	return cause
}

// catchPanic is deferred where a panic is to become err and the end of writing.
func (s *Scheduler) catchPanic(err *error) {
	if r := recover(); r != nil {
		*err = s.fail(base.NewPanic(r))
	}
}

// failed tells of a job that failed. A panic, even one that a package below
// recovered, makes the database read-only; the rest is tried again.
func (s *Scheduler) failed(job string, err error) {
	if errors.Is(err, errStopped) || s.opts.Failure() != nil {
		return
	}
	var p *base.Panic
	if errors.As(err, &p) {
		_ = s.fail(err)
	}
	s.opts.Events.JobFailed(job, err)
}
