package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store/wal"
)

// Lag is how far the visible state is behind the directory.
type Lag struct {
	Sequences uint64        // invisible operations
	Time      time.Duration // age of the oldest at most; 0 without any
}

// peek looks ahead in the logs. It is safe for concurrent use.
type peek struct {
	mu     sync.Mutex
	tail   *wal.Tail // nil: not open
	last   base.SeqNum
	closed bool
}

// Lag reads the logs past the visible state, but puts nothing into memtables. failed is why the
// last catch-up failed, if it did.
func (f *Follower) Lag(ctx context.Context) (l Lag, failed error, err error) {
	if ctx == nil {
		return Lag{}, nil, errNoContext
	}
	defer base.CatchPanic(&err)
	f.o.Seqs.Demand.Wait(ctx.Done())
	p := &f.peek
	p.mu.Lock()
	defer p.mu.Unlock()
	at := f.at.Load()
	if at == nil || p.closed {
		return Lag{}, nil, base.ErrDatabaseClosed
	}
	if e := f.failed.Load(); e != nil {
		failed = *e
	}
	if p.tail != nil && p.tail.Place().Before(at.Place) {
		p.closeLocked()
	}
	if p.tail == nil {
		f.peekFrom(at.Place, at.format)
	}
	if at.Place == at.severed { // the logs end there until another opening begins new ones
		if err := f.peekAnew(); err != nil {
			return Lag{}, failed, err
		}
		if p.tail.Place().Log <= at.severed.Log {
			p.closeLocked()
			return Lag{}, failed, nil
		}
	}
	if err := f.peekToEnd(ctx); err != nil {
		return Lag{}, failed, err
	}
	if visible := f.o.Seqs.Visible(); p.last > visible {
		l = Lag{uint64(p.last - visible), time.Since(f.begun) - time.Duration(f.level.Load())}
	}
	return l, failed, nil
}

// peekToEnd reads the logs to their end. A writer deletes a log after the edit that makes it
// obsolete: if one is gone and the MANIFEST needs the same logs as the last time, one is missing.
// p.mu is held.
func (f *Follower) peekToEnd(ctx context.Context) error {
	needed := ^uint64(0) // the first log that the MANIFEST needed the last time
	for n := 1; ; n++ {
		r, err := f.peek.tail.Next()
		if errors.Is(err, wal.ErrLogGone) {
			gone := f.peek.tail.Place().Log
			if err = f.peekAnew(); err == nil && f.peek.tail.Place().Log == needed {
				name := f.at.Load().format.FileName(base.FileLog, gone)
				err = base.Corruptf("log record", "the log is missing, which the MANIFEST "+
					"needs").At(name, 0, 0)
			}
			needed = f.peek.tail.Place().Log
		}
		if err == nil && n%256 == 0 {
			err = ctx.Err()
		}
		switch {
		case errors.Is(err, wal.ErrNotYet):
			return nil
		case err != nil:
			return err
		}
		f.peek.last = max(f.peek.last, r.Last)
	}
}

// peekFrom looks from a place on. p.mu is held.
func (f *Follower) peekFrom(at wal.Place, format base.Format) {
	f.peek.tail = wal.NewTail(wal.TailOptions{FS: f.o.FS, Dir: f.o.Dir, Format: format}, at)
}

// peekAnew looks from the first log on that the MANIFEST needs. p.mu is held.
func (f *Follower) peekAnew() error {
	edits := NewEdits(f.o.FS, f.o.Dir)
	defer edits.Close()
	if _, err := edits.Poll(); err != nil {
		return err
	}
	st := edits.State()
	f.peek.closeLocked()
	f.peek.last = max(f.peek.last, st.LastSeq)
	f.peekFrom(wal.Place{Log: st.LogNum}, edits.Format())
	return nil
}

func (p *peek) closeLocked() {
	if p.tail != nil {
		_ = p.tail.Close() // of files that were read: nothing is lost
		p.tail = nil
	}
}

func (p *peek) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.closeLocked()
}
