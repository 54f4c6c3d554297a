package work

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/picker"
)

// errStopped ends a running compaction because of Close or a pause.
var errStopped = errors.New("compaction stopped")

// errDropped ends a job of a keyspace that was dropped meanwhile. There is nothing
// left to do for it.
var errDropped = fmt.Errorf("%w: the keyspace was dropped", errStopped)

// env is what a flush or compaction of a tree into a level needs. spare is nil, or keeps the
// buffers of the job; pace is called after each write. firstLog, unless 0, is the first log of the
// tables, see sstable.Props; the default is that of the MANIFEST.
func (s *Scheduler) env(t *tree.Tree, level int, spare *sstable.Spare, pace func(int64),
	firstLog uint64) *compact.Env {
	tables := t.Tables().ForLevel(level)
	tables.Spare, tables.Keyspace, tables.KeyspaceName, tables.Pace = spare, t.ID(), t.Name(), pace
	tables.DirectIO = tables.DirectIO && spare != nil // what a flush writes is soon read
	filter, maxUnpacked := t.Filter()
	return &compact.Env{
		Comparer: t.Comparer(),
		Merge:    t.Merge(),
		Filter:   filter, MaxUnpacked: maxUnpacked,
		Naming: s.opts.Manifest.Format().TableNamings()[0],
		// LevelDB's own tools go by sequence numbers when they repair.
		SettleSeqs: s.opts.Manifest.Format() == base.Native,
		Open:       t.OpenSource,
		Value:      s.opts.Files.AppendValue, Unreadable: s.keepDamaged,
		RangeDels: t.RangeDelsOf,
		MayHold: func(m *manifest.FileMeta, key []byte) bool {
			r, ok := s.opts.Files.OpenNow(m)
			return !ok || r.MayContain(base.MakeLookup(t.Comparer(), key, base.MaxSeqNum))
		},
		NewWriter: func() (uint64, sstable.Writer, error) {
			num, o := s.opts.Manifest.NewFileNum(), tables
			o.ForRepair = &sstable.ForRepair{
				// Of a version no older than the inputs'.
				FirstLog: max(firstLog, s.opts.Manifest.FirstLog(t.ID())),
				Ingested: func() []sstable.Ingested { return s.ingested(t.ID()) },
			}
			w, _, err := s.opts.Files.Create(num, o)
			return num, w, err
		},
	}
}

// fewKeyspaces is up to how many keyspaces a table of one records the ingested tables of all.
const fewKeyspaces = 64

// ingested lists the ingested tables that a new table of the keyspace records.
func (s *Scheduler) ingested(id base.KeyspaceID) (list []sstable.Ingested) {
	ids := s.opts.Manifest.IDs()
	if len(ids) > fewKeyspaces {
		ids = []base.KeyspaceID{id}
	}
	for _, id := range ids {
		v := s.opts.Manifest.Current(id)
		if v == nil { // it was dropped
			continue
		}
		for _, m := range v.Tables() {
			if m.GlobalSeq > 0 {
				list = append(list, sstable.Ingested{Num: m.Num, Seq: m.GlobalSeq,
					Keyspace: id})
			}
		}
		v.Unref()
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Num < list[j].Num })
	return list[max(len(list)-sstable.MaxIngested, 0):]
}

// startLocked runs a plan of a tree in the background. version is the one it was picked from.
//
// REQUIRES: s.mu held.
func (s *Scheduler) startLocked(ctx context.Context, k *Keyspace, plan *picker.Plan,
	version *manifest.Version) <-chan error {
	version.Ref()
	s.trees.start(k, plan)
	job := s.beginJob(plan)
	pieces := plan.MaxPieces
	if k.manual[plan] == nil { // those take no workers from the automatic ones
		s.workers += pieces
	}
	done := make(chan error, 1)
	kick := s.kick
	go func() {
		err := base.Alone(func() error { return s.compact(ctx, k, plan, job) })
		job.End()
		version.Unref()
		s.finishedCompaction(k, plan, err, kick)
		done <- err
	}()
	return done
}

// compact runs the pieces of a plan side by side and installs their results.
func (s *Scheduler) compact(ctx context.Context, k *Keyspace, plan *picker.Plan,
	job *budget.Job) (err error) {
	defer s.catchPanic(&err)
	s.opts.Events.CompactionBegin(plan)
	start := time.Now()
	var results []compact.Result
	var edit *manifest.Edit
	if err = s.mendManifest(); err != nil {
		// reported below
	} else if plan.TrivialMove || plan.Drop {
		edit, err = compact.Edit(plan)
	} else {
		cached := s.cached(plan)
		if results, edit, err = s.runPieces(ctx, k, plan, job); err == nil && cached {
			s.warm(ctx, results)
		}
	}
	if err == nil {
		for _, r := range results {
			s.openDense(r)
		}
		err = s.installCompaction(k, edit, results)
	}
	d := time.Since(start)
	var added []manifest.AddedFile
	for _, r := range results {
		added = append(added, r.Added...)
	}
	s.countFolds(results...)
	s.countRelocated(results, err)
	s.stats.compacted(plan, results, d, err)
	s.opts.Events.CompactionEnd(plan, added, d, err)
	return err
}

// runPieces merges every piece on a goroutine of its own and makes the tables'
// names durable. It returns the change to install. If a piece fails, or entries
// were lost on the way, the outputs of all are deleted.
func (s *Scheduler) runPieces(ctx context.Context, k *Keyspace, plan *picker.Plan,
	job *budget.Job) ([]compact.Result, *manifest.Edit, error) {
	var spare sstable.Spare
	defer spare.Free()
	env := s.env(k.Tree, plan.OutputLevel, &spare, s.PaceCompaction, 0)
	env.ValueFiles = s.valueFiles(s.PaceCompaction, true)
	env.MaxValues = tableValues * uint64(s.limits.Load().FileSize)
	env.Stop = s.giveWay(k, plan, func() error {
		s.yieldToFlush()
		s.pauseJob(ctx, job)
		if s.stop.Load() || s.opts.Failure() != nil {
			return errStopped
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", errStopped, err)
		}
		return nil
	})
	if !k.Comparer().Serial() { // else the pieces would wait for each other at every comparison
		plan.Cut(k.Comparer(), s.splitKeys)
	}
	snapshots := s.listReaders(env)
	results := make([]compact.Result, plan.Pieces())
	errs := make([]error, plan.Pieces())
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			defer s.catchPanic(&errs[i])
			errs[i] = base.ErrGoexit // unless Run returns
			results[i], errs[i] = compact.Run(plan, i, env, snapshots)
		})
	}
	wg.Wait()
	err := joinFailures(errs)
	var edit *manifest.Edit
	if err == nil {
		edit, err = compact.Edit(plan, results...)
	}
	if err == nil {
		err = s.opts.Files.SyncDir()
	}
	if err != nil {
		for _, r := range results {
			s.discard(r)
		}
	}
	return results, edit, err
}

// listReaders returns the open snapshots for a flush or compaction, and gives env the times of
// all readers.
func (s *Scheduler) listReaders(env *compact.Env) []base.SeqNum {
	clock := &s.opts.Seqs.Clock
	if clock.InUse() {
		env.Clock.Now = clock.Now() // before the list: snapshots that are opened later begin later
	}
	snapshots, begun := s.opts.Seqs.Snapshots()
	env.Clock.Begun = begun
	return snapshots
}

// countFolds counts the work of the merge operator, and tells of its failures.
func (s *Scheduler) countFolds(results ...compact.Result) {
	for _, r := range results {
		s.opts.Folds.Operands.Add(r.Folded)
		s.opts.Folds.Failures.Add(r.FoldFailures)
		if r.FoldErr != nil {
			s.opts.Events.MergeFailed(r.FoldErr)
		}
	}
}

// splitKeys cuts a table. One that cannot be opened is not cut: the plan's run says why.
func (s *Scheduler) splitKeys(f *manifest.FileMeta, n int) [][]byte {
	r, err := s.opts.Files.Reader(f)
	if err != nil {
		return nil
	}
	return r.SplitKeys(n)
}

// joinFailures joins the errors of a compaction's pieces. A piece that was only
// told to stop does not hide that another one failed.
func joinFailures(errs []error) error {
	var failures []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, errStopped) {
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return errors.Join(failures...)
	}
	return errors.Join(errs...)
}

// finishedCompaction takes the plan off the list and starts what may come next. After a failure
// automatic compaction of the tree pauses for a while, after a shortage that of all trees, unless
// the compaction began before Retry.
func (s *Scheduler) finishedCompaction(k *Keyspace, plan *picker.Plan, err error,
	kick chan struct{}) {
	if err != nil {
		s.failed("compaction", err) // first: Close waits only for running work
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trees.end(k, plan)
	if cancel := k.manual[plan]; cancel != nil {
		delete(k.manual, plan)
		cancel(nil)
	} else {
		s.workers -= plan.MaxPieces
	}
	own, all := &k.compaction, &s.compaction
	switch {
	case errors.Is(err, errStopped), err != nil && kick != s.kick:
		own.err, all.err = nil, nil
	case base.IsShortage(err):
		all.failed(err, s)
	case err != nil:
		own.failed(err, s)
	default:
		own.err, own.pause, all.err, all.pause = nil, 0, nil, 0
	}
	s.updateDelayLocked(k)
	s.scheduleLocked()
	s.cond.Broadcast()
}
