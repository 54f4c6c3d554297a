package lsm

import (
	"context"
	"fmt"
	"time"
)

// Follower is a database that another process writes, LevelDB or goleveldb among them, open for
// reading beside it. It has the methods of DB; its writes fail with ErrReadOnly. What it reads at
// present is a state that the writer had: all batches up to a sequence number, whole, over all
// keyspaces. CatchUp moves it on, never back. Snapshots and iterators keep the state that they were
// opened with. See docs/follower.md.
type Follower struct{ *DB }

// OpenFollower opens the database in dir, which must exist, at the present state. It changes
// nothing in the directory, takes no lock, and needs no permission to write; it waits for no
// writer, and no writer waits for it. All tables are kept open, as the writer may delete them. Of
// the options, those matter that a read-only database uses, and FollowInterval.
//
// It fails as Open does: with ErrDoesNotExist where there is no database, with ErrTooManyFiles
// where the process may not open as many files as there are tables, with ErrCorruption for damage.
// What the writer has not finished is no damage.
func OpenFollower(dir string, o *Options) (*Follower, error) {
	following := Options{}
	if o != nil {
		following = *o
	}
	following.follow = true
	db, err := Open(dir, &following)
	if err != nil {
		return nil, err
	}
	return &Follower{db}, nil
}

var errNoFollower = fmt.Errorf("%w: the database was not opened by OpenFollower",
	ErrInvalidArgument)

// CatchUp reads what the writer has written up to this call, and usually more, and makes it
// visible. Calls wait for each other. When CatchUp fails the state stays, or is one on the way, and
// the next call tries again: ErrDirectoryChanged (another directory, or an older state, stands in
// dir), ErrCorruption, ErrComparerMismatch (of a new keyspace), a shortage, an error of the file
// system, ErrClosed, or the context's.
func (f *Follower) CatchUp(ctx context.Context) error {
	if f.engine.Follower == nil {
		return errNoFollower
	}
	return f.engine.Follower.CatchUp(ctx)
}

// Lag is how far a Follower is behind the directory.
type Lag struct {
	Sequences uint64        // operations in the directory that it does not show
	Time      time.Duration // at most so long ago there was none; 0 if there is none
}

// Lag reads the writer's logs ahead, and puts nothing into memory. The error is why the last
// CatchUp failed, that of an interval among them, or why the logs cannot be read; errors as of
// CatchUp.
func (f *Follower) Lag(ctx context.Context) (Lag, error) {
	if f.engine.Follower == nil {
		return Lag{}, errNoFollower
	}
	l, failed, err := f.engine.Follower.Lag(ctx)
	if err == nil {
		err = failed
	}
	return Lag(l), err
}
