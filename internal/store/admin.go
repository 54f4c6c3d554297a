package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/tree"
)

// Flush writes the memtables of a keyspace into tables; see lsm.DB.Flush.
func (k *Keyspace) Flush() error {
	db := k.db
	if err := errors.Join(base.NotWithin(), k.Writable()); err != nil {
		return err
	}
	since := db.jobs.FlushesBegun()
	if err := db.pipeline.Exclusive(func() error { return db.jobs.Seal(&k.work) }); err != nil {
		return err
	}
	return db.jobs.WaitFlushed(&k.work, since)
}

// CompactRange compacts a range of a keyspace; see lsm.DB.CompactRange.
func (k *Keyspace) CompactRange(ctx context.Context, start, limit []byte) (err error) {
	db := k.db
	defer db.health.CatchPanic(&err)
	if start != nil && limit != nil && k.Comparer().Cmp(start, limit) > 0 {
		return base.Invalidf("range ends before it starts")
	}
	if err := base.NotWithin(); err != nil {
		return err
	}
	flushed := make(chan error, 1)
	go base.Always(k.Flush, func(err error) { flushed <- err })
	select {
	case err = <-flushed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	return db.jobs.CompactRange(ctx, &k.work, start, limit)
}

// Verify reads the tables of all keyspaces; see lsm.DB.Verify. A panic of progress ends it, and
// does not concern the database.
func (db *DB) Verify(ctx context.Context, progress func(read, of uint64)) (err error) {
	defer db.health.CatchPanic(&err)
	var trees []*tree.Tree
	for _, k := range db.spaces.live() {
		trees = append(trees, k.Tree)
	}
	if progress == nil {
		return tree.Verify(ctx, trees, nil)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error // of progress
	err = tree.Verify(ctx, trees, func(read, of uint64) {
		err := base.Protect(func() error { progress(read, of); return nil })
		if err != nil {
			failed = fmt.Errorf("the progress function failed: %w", err)
			cancel()
		}
	})
	return cmp.Or(failed, err)
}

// Resume tries failed background work again at once; see lsm.DB.Resume.
func (db *DB) Resume() error {
	if err := db.health.Writable(); err != nil {
		return err
	}
	db.jobs.Retry()
	return nil
}
