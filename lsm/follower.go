package lsm

import (
	"context"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// Follower reads a database that another process writes, be it Loam, LevelDB or goleveldb. It has
// the methods of DB; its writes fail with ErrReadOnly.
//
// Its reads show a state that the writer had: all batches up to a sequence number, whole, over all
// keyspaces. CatchUp moves that state on, never back. Snapshots and iterators keep the state that
// they were opened with. See docs/follower.md. All methods are safe for concurrent use.
type Follower struct{ *DB }

// OpenFollower opens the database in dir, which must exist, at the present state. It changes
// nothing in the directory, takes no lock, and needs no permission to write; it waits for no
// writer, and no writer waits for it. All tables are kept open, as the writer may delete them. Of
// the options it uses those of a read-only database and FollowInterval.
//
// It fails as Open does: with ErrDoesNotExist where there is no database, with ErrTooManyFiles
// where the process may not open as many files as there are tables, with ErrCorruption for damage.
// An unfinished write of the writer is not damage.
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

var errNoFollower = base.Invalidf("the database was not opened by OpenFollower")

// CatchUp reads what the writer has written up to this call, and usually more, and makes it
// visible. Concurrent calls wait for each other.
//
// After a failure the state is the one before, or one between that and the writer's, and the next
// call tries again. CatchUp fails with ErrDirectoryChanged (dir has become another directory, or an
// older state of this one), ErrCorruption, ErrComparerMismatch (of a new keyspace), ErrClosed, a
// shortage, an error of the file system, or the context's.
func (f *Follower) CatchUp(ctx context.Context) error {
	if f.engine.Follower == nil {
		return errNoFollower
	}
	return f.engine.Follower.CatchUp(ctx)
}

// Lag says how far a Follower is behind its directory, see Follower.Lag.
type Lag struct {
	// Sequences is the number of operations in the directory that the follower does not show yet.
	Sequences uint64
	// Time is an upper bound of the time since the follower showed everything; 0 if it does now.
	Time time.Duration
}

// Lag measures how far the follower is behind: it reads the writer's logs ahead without taking them
// into memory. Its error is that of the last CatchUp if that failed, or says why the logs cannot be
// read; the errors are those of CatchUp.
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
