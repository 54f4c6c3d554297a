package lsm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/compact"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/memtable"
	"github.com/loamdb/loam/internal/tree"
)

// flushLoop flushes sealed memtables, oldest first, until there is none.
func (b *background) flushLoop() {
	for {
		b.mu.Lock()
		v := b.db.tree.Acquire()
		if v == nil || len(v.Sealed) == 0 || b.closing || b.db.failure.Load() != nil {
			b.flushing = false
			b.cond.Broadcast()
			b.mu.Unlock()
			if v != nil {
				v.Unref()
			}
			return
		}
		kick := b.kick
		b.flushTries++
		b.mu.Unlock()
		err := b.flush(v.Sealed[len(v.Sealed)-1])
		v.Unref()
		b.finishedFlush(err, kick)
		b.prepareLog()
	}
}

// prepareLog has the next log ready.
func (b *background) prepareLog() {
	var err error
	defer b.db.catch(&err)
	b.db.wal.Prepare()
}

// finishedFlush records the outcome, and after a failure waits before the next
// try.
func (b *background) finishedFlush(err error, kick chan struct{}) {
	if err != nil {
		b.report("flush", err) // first: after a panic the database is read-only when Flush fails
	}
	b.mu.Lock()
	b.flushErr = err
	if err == nil {
		b.flushBackoff = 0
		b.scheduleLocked()
		b.cond.Broadcast()
		b.mu.Unlock()
		return
	}
	b.flushBackoff = min(max(2*b.flushBackoff, minBackoff), maxBackoff)
	b.flushFailed = b.flushTries
	pause := b.flushBackoff
	b.cond.Broadcast()
	b.mu.Unlock()
	select {
	case <-time.After(pause):
	case <-kick:
	}
}

// flush writes a sealed memtable into tables and makes those live.
func (b *background) flush(s *tree.Sealed) (err error) {
	defer b.db.catch(&err)
	db := b.db
	if f := db.opts.Events.FlushBegin; f != nil {
		db.events.Post(f)
	}
	start := time.Now()
	s.Mem.Seal()
	var result compact.Result
	if err = b.mendManifest(); err == nil {
		err = b.writeSealed(s, func(r compact.Result) error {
			result = r
			if b.readSince(r) {
				b.warm(context.Background(), []compact.Result{r})
			}
			b.openDense(r)
			return b.installFlush(s, r)
		})
	}
	d := time.Since(start)
	db.stats.flushed(s.Mem.Bytes(), result, d, err)
	if f := db.opts.Events.FlushEnd; f != nil {
		info := FlushInfo{Bytes: s.Mem.Bytes(), Output: tableInfos(result.Added), Duration: d, Err: err}
		db.events.Post(func() { f(info) })
	}
	return err
}

// readSince reports whether since the call before, readers have looked up more
// blocks than a flush has made.
func (b *background) readSince(r compact.Result) bool {
	blocks := 0
	for _, t := range r.Tables {
		blocks += t.Blocks
	}
	before := b.lookups
	b.lookups = b.db.cache.Lookups()
	return b.lookups-before > int64(blocks)
}

// writeSealed writes a memtable into tables of level 0, or deeper where that
// overlaps nothing, makes them and their names durable, and calls install. The
// tables of a failed write are deleted; those of a failed install are not, as
// the manifest may have them.
func (b *background) writeSealed(s *tree.Sealed, install func(compact.Result) error) error {
	db := b.db
	if s.Mem.Len() == 0 {
		return install(compact.Result{})
	}
	smallest, largest, err := extent(s.Mem)
	if err != nil {
		return err
	}
	version, level, plan := b.placeFlush(smallest, largest)
	defer func() {
		b.mu.Lock()
		b.running = remove(b.running, plan)
		b.mu.Unlock()
		version.Unref()
	}()
	env := b.env()
	env.Stop = func() error {
		if b.stopFlush.Load() || db.failure.Load() != nil {
			return errStopped
		}
		return nil
	}
	result, err := compact.Flush(s.Mem.NewSource(), uint64(s.Mem.Len()), version, level, 0, env, db.shared.Seqs.Snapshots())
	if err == nil && len(result.Added) > 0 {
		err = db.opts.FS.SyncDir(db.dir)
	}
	if err != nil {
		b.discard(result)
		return err
	}
	return install(result)
}

// placeFlush chooses the level of a flush and reserves it.
func (b *background) placeFlush(smallest, largest []byte) (*manifest.Version, int, *compact.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock() // the comparer may panic
	version := b.db.manifest.Current(base.DefaultKeyspace)
	level := compact.FlushLevel(version, b.running, b.db.cmp, smallest, largest)
	plan := compact.FlushPlan(level, smallest, largest)
	if level > 0 {
		b.running = append(b.running, plan)
	}
	return version, level, plan
}

// installFlush makes the tables live and the memtable and its log obsolete, in
// one edit.
func (b *background) installFlush(s *tree.Sealed, result compact.Result) error {
	db := b.db
	b.install.Lock()
	defer b.install.Unlock()
	v := db.tree.Acquire()
	if v == nil {
		return errStopped // Close came first; the log still has it all
	}
	nextLog := v.OldestLogWithout(s)
	v.Unref()
	edit := &manifest.Edit{Added: result.Added}
	edit.SetLogNum(nextLog)
	db.manifest.SetLastSeq(s.Last)
	if err := b.apply(edit, s, result); err != nil {
		return err
	}
	db.wal.CloseUpTo(s.FirstLog)
	db.shared.Files.DeleteFile(base.FileName(base.FileLog, s.FirstLog))
	return nil
}

// extent is the smallest and the largest user key of a memtable, which is not empty.
func extent(t *memtable.MemTable) (smallest, largest []byte, err error) {
	src := t.NewSource()
	defer src.Close()
	var e base.Chunk
	i, err := src.First(&e)
	if i >= 0 {
		smallest = slices.Clone(e.Key(i))
		i, err = src.Last(&e)
	}
	if err == nil && i < 0 {
		err = fmt.Errorf("a memtable of %d entries hands out none", t.Len())
	}
	if err != nil {
		return nil, nil, err
	}
	return smallest, slices.Clone(e.Key(i)), nil
}
