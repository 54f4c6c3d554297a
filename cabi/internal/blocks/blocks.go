// Package blocks reads feeds of changes for C, many changes with one call.
package blocks

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/lsm"
)

// Sizes of blocks, in bytes.
const (
	defaultSize = 256 << 10 // where the caller names none
	maxKept     = 1 << 20   // memory that is kept for the next block
)

// Feed is a feed of changes for any number of threads.
type Feed struct {
	feed *lsm.Changes
	next atomic.Uint64 // the sequence number after the last block
	turn chan struct{} // capacity 1: its holder owns the other fields

	block []byte     // read, and not handed out; empty: none
	last  lsm.Change // the one behind it; Batch nil: none was read
}

// New returns the reader of a feed, which it closes.
func New(feed *lsm.Changes) *Feed {
	f := &Feed{feed: feed, turn: make(chan struct{}, 1)}
	f.next.Store(feed.Position())
	return f
}

// Position is the sequence number behind the blocks that were handed out.
func (f *Feed) Position() uint64 { return f.next.Load() }

// KeyspaceName is the name of a keyspace by its number, "" if it was dropped.
func (f *Feed) KeyspaceName(number uint32) string { return f.feed.KeyspaceName(number) }

// Close ends the feed, and calls of Next under way, with ErrClosed.
func (f *Feed) Close() error { return f.feed.Close() }

// Next hands out the changes that are there, each as its length in four bytes and its wire form,
// and waits for the first at most so long; negative: as long as it takes. It returns false if there
// was none in time, or another thread waited for it. No further change is taken once the block has
// size bytes; 0: as many as pay. A failure after some changes is returned by the next call. If give
// fails, the next call hands out the same block.
func (f *Feed) Next(size int, timeout time.Duration, give func(block []byte) error) (bool, error) {
	if size <= 0 {
		size = defaultSize
	}
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if !f.take(ctx, timeout == 0) {
		return false, nil
	}
	defer func() { <-f.turn }()
	if len(f.block) == 0 {
		change := f.last
		f.last = lsm.Change{}
		if change.Batch == nil {
			var err error
			if change, err = f.wait(ctx, timeout == 0); err != nil || change.Batch == nil {
				return false, err
			}
		}
		f.fill(change, size)
	}
	if err := give(f.block); err != nil {
		return false, err
	}
	if f.block = f.block[:0]; cap(f.block) > maxKept {
		f.block = nil
	}
	if f.last.Batch != nil {
		f.next.Store(f.last.Seq)
	} else {
		f.next.Store(f.feed.Position())
	}
	return true, nil
}

// take waits for the turn to read; false: it did not come in time.
func (f *Feed) take(ctx context.Context, now bool) bool {
	select {
	case f.turn <- struct{}{}:
		return true
	default:
	}
	if now {
		return false
	}
	select {
	case f.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait returns the next change, none if there is none in time.
func (f *Feed) wait(ctx context.Context, now bool) (lsm.Change, error) {
	if now {
		change, _, err := f.feed.TryNext()
		return change, err
	}
	change, err := f.feed.Next(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return lsm.Change{}, nil
	}
	return change, err
}

// fill makes the block, which begins with a change.
func (f *Feed) fill(change lsm.Change, size int) {
	for {
		f.block = binary.LittleEndian.AppendUint32(f.block, uint32(len(change.Batch)))
		f.block = append(f.block, change.Batch...)
		var ok bool
		var err error
		if change, ok, err = f.feed.TryNext(); !ok || err != nil {
			return
		}
		if len(f.block)+len(change.Batch) > size {
			change.Batch = append([]byte(nil), change.Batch...)
			f.last = change
			return
		}
	}
}
