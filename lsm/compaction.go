package lsm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

// errStopped ends a running compaction because of Close or a pause.
var errStopped = errors.New("compaction stopped")

// env is what a flush or compaction needs of the database.
func (b *background) env() *compact.Env {
	db := b.db
	return &compact.Env{
		Comparer: db.cmp,
		Open: func(m *manifest.FileMeta, flags sstable.ReadFlags) (base.Source, error) {
			return db.tree.OpenSource(m, flags)
		},
		NewWriter: func() (uint64, sstable.Writer, error) {
			num := db.manifest.NewFileNum()
			w, _, err := db.shared.Files.Create(num, db.opts.tables())
			return num, w, err
		},
	}
}

// startLocked runs a plan in the background. version is the one it was picked
// from.
//
// REQUIRES: b.mu held.
func (b *background) startLocked(ctx context.Context, plan *compact.Plan, version *manifest.Version) <-chan error {
	version.Ref()
	b.running = append(b.running, plan)
	if b.manual[plan] == nil { // those take no workers from the automatic ones
		b.workers += plan.Pieces()
	}
	done := make(chan error, 1)
	go func() {
		err := b.compact(ctx, plan)
		version.Unref()
		b.finishedCompaction(plan, err)
		done <- err
	}()
	return done
}

// compact runs the pieces of a plan side by side and installs their results.
func (b *background) compact(ctx context.Context, plan *compact.Plan) (err error) {
	defer b.db.catch(&err)
	db := b.db
	info := CompactionInfo{Reason: plan.Reason, OutputLevel: plan.OutputLevel, TrivialMove: plan.TrivialMove}
	plan.Files(func(level int, m *manifest.FileMeta) {
		info.Inputs = append(info.Inputs, TableInfo{Number: m.Num, Level: level, Size: m.Size})
	})
	if f := db.opts.Events.CompactionBegin; f != nil {
		begun := info
		db.events.Post(func() { f(begun) })
	}
	start := time.Now()
	var results []compact.Result
	var edit *manifest.Edit
	if err = b.mendManifest(); err != nil {
		// reported below
	} else if plan.TrivialMove {
		edit, err = plan.Edit()
	} else {
		cached := b.cached(plan)
		if results, edit, err = b.runPieces(ctx, plan); err == nil && cached {
			b.warm(ctx, results)
		}
	}
	if err == nil {
		for _, r := range results {
			b.openDense(r)
		}
		err = b.installCompaction(edit, results)
	}
	info.Duration, info.Err = time.Since(start), err
	for _, r := range results {
		info.Output = append(info.Output, tableInfos(r.Added)...)
	}
	db.stats.compacted(plan, results, info.Duration, err)
	if f := db.opts.Events.CompactionEnd; f != nil {
		db.events.Post(func() { f(info) })
	}
	return err
}

func (b *background) installCompaction(edit *manifest.Edit, results []compact.Result) error {
	b.install.Lock()
	defer b.install.Unlock()
	return b.apply(edit, nil, results...)
}

// runPieces merges every piece on a goroutine of its own and makes the tables'
// names durable. It returns the change to install. If a piece fails, or entries
// were lost on the way, the outputs of all are deleted.
func (b *background) runPieces(ctx context.Context, plan *compact.Plan) ([]compact.Result, *manifest.Edit, error) {
	env := b.env()
	env.Stop = func() error {
		if b.stop.Load() || b.db.failure.Load() != nil {
			return errStopped
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", errStopped, err)
		}
		return nil
	}
	snapshots := b.db.shared.Seqs.Snapshots()
	results := make([]compact.Result, plan.Pieces())
	errs := make([]error, plan.Pieces())
	var wg sync.WaitGroup
	for i := range results {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer b.db.catch(&errs[i])
			results[i], errs[i] = plan.Run(i, env, snapshots)
		}()
	}
	wg.Wait()
	err := joinFailures(errs)
	var edit *manifest.Edit
	if err == nil {
		edit, err = plan.Edit(results...)
	}
	if err == nil {
		err = b.db.opts.FS.SyncDir(b.db.dir)
	}
	if err != nil {
		for _, r := range results {
			b.discard(r)
		}
	}
	return results, edit, err
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

// finishedCompaction takes the plan off the list and starts what may come next;
// after a failure automatic compaction pauses for a while.
func (b *background) finishedCompaction(plan *compact.Plan, err error) {
	if err != nil {
		b.report("compaction", err) // first: Close waits only for what is running
	}
	b.mu.Lock()
	b.running = remove(b.running, plan)
	if cancel := b.manual[plan]; cancel != nil {
		delete(b.manual, plan)
		cancel(nil)
	} else {
		b.workers -= plan.Pieces()
	}
	b.compErr = err
	switch {
	case errors.Is(err, errStopped):
		b.compErr = nil
	case err != nil && b.retry == nil && !b.closing:
		b.compBackoff = min(max(2*b.compBackoff, minBackoff), maxBackoff)
		b.retry = time.AfterFunc(b.compBackoff, b.retryCompaction)
	case err == nil:
		b.compBackoff = 0
	}
	b.scheduleLocked()
	b.cond.Broadcast()
	b.mu.Unlock()
}

func remove(running compact.Busy, plan *compact.Plan) compact.Busy {
	left := running[:0:0]
	for _, p := range running {
		if p != plan {
			left = append(left, p)
		}
	}
	return left
}

// retryCompaction ends the pause after a failed compaction.
func (b *background) retryCompaction() {
	b.mu.Lock()
	b.retry = nil
	b.mu.Unlock()
	b.wake()
}
