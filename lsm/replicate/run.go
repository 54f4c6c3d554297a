package replicate

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// Options configures Run. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Interval is the time between two looks for changes: how much may be lost with the machine,
	// and the precision of a restore's time. The default is a second.
	Interval time.Duration
	// SegmentBytes is the size in bytes from which on an object of changes takes no more of them.
	// The default is 8 MiB.
	SegmentBytes int
	// SnapshotEvery is the time between two snapshots. The default is 24 hours. A snapshot makes
	// restores faster, and lets older objects be deleted.
	SnapshotEvery time.Duration
	// Keep is how far back states can be restored: objects that no such restore needs are deleted
	// after each snapshot. The default, 0, deletes nothing.
	Keep time.Duration
	// VerifyEvery is the time between two test restores: the replica is restored into VerifyDir and
	// compared with the database entry by entry. The default, 0, is never.
	VerifyEvery time.Duration
	// VerifyDir is the directory in which these restores are made, in a directory named
	// "loam-verify-" and the generation's name; an existing one of that name is replaced. It is
	// required with VerifyEvery.
	VerifyDir string
	// Restore is how a verification opens the restored database, see RestoreOptions.Open. It needs
	// the comparers and merge operators of the database.
	Restore *lsm.Options
	// TakeOver continues the replica of another directory with a new generation. The default is
	// false: Run then fails with ErrOtherDatabase.
	TakeOver bool
	// AllowClear permits replicas of an encrypted database: their objects are not encrypted, and
	// neither are the restores of VerifyEvery unless Restore has keys. The default is false: Run
	// then fails with lsm.ErrInvalidArgument.
	AllowClear bool
	// Until ends Run when it is closed: Run sends everything that was committed before, and returns
	// nil. Close it before the database is closed. If it is closed before Run begins, Run also
	// makes the snapshot and the verification that are due and deletes old objects. A failure of
	// these is returned after eight tries. The default, nil, never ends Run.
	Until <-chan struct{}
	// Status is called after each look for changes, on Run's goroutine. The default is nil.
	Status func(Status)
	// Clock returns the time that is stored in the names of objects. The default is time.Now.
	Clock func() time.Time

	after func(time.Duration) <-chan time.Time // of tests; the default is time.After
}

// Status says how far Run is.
type Status struct {
	// Generation is the history that is being written; empty before the first one.
	Generation string
	// Sequence is the last sequence number that the target has.
	Sequence uint64
	// Lag is an upper bound of the age of the oldest change that the target does not have yet.
	Lag time.Duration
	// Pending is the number of operations that the target does not have yet.
	Pending uint64
	// Snapshot is the time of the newest complete snapshot. It is zero while the generation has
	// none, so that nothing can be restored from it.
	Snapshot time.Time
	// Sending is how many bytes of a snapshot under way were sent; 0 if none is under way.
	Sending int64
	// Verified is the time of the last state that was restored and found equal to the database's.
	Verified time.Time
	// Err is the error of the last look, snapshot, verification or deletion, which is retried; nil
	// if there is none.
	Err error
}

const (
	defaultInterval = time.Second
	defaultSegment  = 8 << 20
	defaultSnapshot = 24 * time.Hour
	// maxPause is the longest time between two tries.
	maxPause = time.Minute
)

func (o *Options) filled() (Options, error) {
	f := *cmp.Or(o, &Options{})
	switch {
	case f.Interval < 0 || f.SegmentBytes < 0 || f.SnapshotEvery < 0 || f.Keep < 0 ||
		f.VerifyEvery < 0:
		return f, base.Invalidf("an option of a replicator is negative")
	case f.VerifyEvery > 0 && f.VerifyDir == "":
		return f, base.Invalidf("VerifyEvery needs VerifyDir")
	}
	f.Interval = cmp.Or(f.Interval, defaultInterval)
	f.SegmentBytes = cmp.Or(f.SegmentBytes, defaultSegment)
	f.SnapshotEvery = cmp.Or(f.SnapshotEvery, defaultSnapshot)
	if f.Clock == nil {
		f.Clock = time.Now
	}
	if f.after == nil {
		f.after = time.After
	}
	return f, nil
}

// Run keeps a replica of a database in target until ctx is done, whose error it then returns at
// once, or until Options.Until is closed. The database is an open one, or the DB of a Follower,
// which Run catches up. A nil o means the defaults.
//
// Run continues where the target ends if the logs of the database still have the last changes that
// the target has and all changes since. Otherwise, after an ingest, which is in no log, and where a
// keyspace has got another merge operator since the last changes that were sent, it begins a new
// generation with a snapshot. Options.WALRetentionBytes of the writer keeps logs for a replicator
// that was not running.
//
// Failures of the target and of the file system are retried, after a minute at most, and reported
// by Status. Run ends with ErrTakenOver when another Run began to write to the target, with
// ErrOtherDatabase, with lsm.ErrClosed when the database is closed, with lsm.ErrDirectoryChanged,
// lsm.ErrCorruption and lsm.ErrComparerMismatch of the database, with lsm.ErrInvalidArgument, and
// with a panic of the target.
func Run(ctx context.Context, db *lsm.DB, target Target, o *Options) (err error) {
	defer base.CatchPanic(&err)
	r, err := newRunner(ctx, db, target, o)
	if err != nil {
		return err
	}
	defer r.close()
	pause := r.o.Interval
	once, began := closed(r.o.Until), r.o.Clock() // jobs that are due then are waited for
	for {
		until := closed(r.o.Until)
		err := r.step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final(err) {
			return err
		}
		r.report(err)
		switch {
		case err != nil:
			pause = min(2*pause, max(maxPause, r.o.Interval))
		case until && !r.snapshot.IsZero() && !once:
			return nil
		case until && !r.snapshot.IsZero() && (r.failures >= maxTries ||
			!r.isDue(began) && !r.pruneIsDue()):
			return r.jobErr
		default:
			pause = r.o.Interval
		}
		var ended <-chan error
		if r.job != nil {
			ended = r.job.ended
		}
		stop := r.o.Until
		if until { // which is looked at once
			stop = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
		case err := <-ended:
			r.jobEnded(err)
			if errors.Is(err, ErrTakenOver) || errors.Is(err, errEnded) {
				return err
			}
		case <-r.o.after(pause):
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// final reports errors after which there is no further try.
func final(err error) bool {
	var of *sourceError
	if errors.As(err, &of) {
		for _, end := range []error{lsm.ErrClosed, lsm.ErrDirectoryChanged, lsm.ErrCorruption,
			lsm.ErrComparerMismatch, lsm.ErrInvalidArgument} {
			if errors.Is(err, end) {
				return true
			}
		}
		return false
	}
	return errors.Is(err, errEnded) || errors.Is(err, ErrTakenOver) ||
		errors.Is(err, ErrOtherDatabase) || errors.Is(err, lsm.ErrInvalidArgument)
}

// sourceError is an error of the database.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

func ofSource(err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{err}
}
