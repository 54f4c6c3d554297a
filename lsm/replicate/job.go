package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
)

const (
	partBytes  = 16 << 20  // of a part of a snapshot
	blockBytes = 256 << 10 // of a block of its dump
	// maxTries is how often a part is sent before a snapshot is given up, and begun anew; and how
	// often a Run that is to end tries what fails.
	maxTries = 8
)

// whole is the last object of a snapshot.
type whole struct {
	Sequence uint64  `json:"sequence"`
	Time     int64   `json:"time"` // in milliseconds
	Parts    int     `json:"parts"`
	Bytes    int64   `json:"bytes"`
	Format   string  `json:"format"`
	Spaces   []space `json:"keyspaces"`
	Tail     *tail   `json:"tail,omitempty"`
}

// verified is the object that tells of the last verification.
type verified struct {
	Generation string    `json:"generation"`
	Sequence   uint64    `json:"sequence"`
	Time       time.Time `json:"time"` // of the state
}

// job is a snapshot, a verification or deletions, and runs beside the changes.
type job struct {
	gen   string
	ended chan error // receives once; closed then
	done  func(r *runner)
	sent  atomic.Int64 // bytes of a snapshot
}

// jobIsDue reports whether a state is needed for a job.
func (r *runner) jobIsDue() bool {
	return r.job == nil && r.gen != "" && r.rest == 0 && r.isDue(r.o.Clock())
}

// isDue reports whether a snapshot or a verification was to be made by a time.
func (r *runner) isDue(at time.Time) bool { return r.snapshotIsDue(at) || r.verifyIsDue(at) }

func (r *runner) snapshotIsDue(at time.Time) bool {
	return r.snapshot.IsZero() || r.seqThen < r.pos &&
		at.Sub(r.snapped) >= r.o.SnapshotEvery
}

func (r *runner) verifyIsDue(at time.Time) bool {
	return r.o.VerifyEvery > 0 && !r.snapshot.IsZero() &&
		at.Sub(r.tested) >= r.o.VerifyEvery
}

// startJob begins a job that is due, with the snapshot of a state that the target has. Without a
// snapshot these are deletions, for which an object store takes an hour a day.
func (r *runner) startJob(s *state) {
	at, gen := *s, r.gen
	switch clock := r.o.Clock(); {
	case r.job != nil:
	case s.snap == nil:
		if r.rest == 0 && r.pruneIsDue() {
			r.start(s, r.prune, func(r *runner) { r.pruned = true })
		}
	case r.snapshotIsDue(clock):
		r.start(s, func(ctx context.Context, j *job) error {
			return r.sendSnapshot(ctx, gen, at, j)
		}, func(r *runner) {
			if r.gen == gen {
				r.snapshot, r.snapped = moment(at.time), at.clock
				r.seqThen, r.pruned = at.seq, false
			}
		})
	case r.verifyIsDue(clock):
		made := verified{gen, at.seq, moment(at.time)}
		r.start(s, func(ctx context.Context, _ *job) error {
			err := r.verify(ctx, gen, at)
			if err == nil {
				err = putJSON(ctx, r.target, verifiedName, made)
			}
			return err
		}, func(r *runner) { r.verified, r.tested = made, at.clock })
	}
}

// start runs a job, which takes over the snapshot of a state, if it has one. done is called by the
// goroutine of the runner when it has succeeded.
func (r *runner) start(s *state, do func(context.Context, *job) error, done func(*runner)) {
	j := &job{gen: r.gen, ended: make(chan error, 1), done: done}
	snap := s.snap
	s.snap = nil
	r.job = j
	go base.Always(func() error { return do(r.jobs, j) }, func(err error) {
		if snap != nil {
			r.db.Inside().CloseSnapshot(snap)
		}
		j.ended <- err
		close(j.ended)
	})
}

// jobEnded takes the result of the job. After a failure no job begins for a while, twice as long
// after each further one, up to maxPause. A verification that found a fault counts as one that was
// made: the next one comes after VerifyEvery.
func (r *runner) jobEnded(err error) {
	j := r.job
	r.job, r.jobErr = nil, err
	if err == nil {
		r.failures, r.rest = 0, 0
		j.done(r)
		return
	}
	if errors.Is(err, ErrDiffers) || errors.Is(err, errUnrestorable) {
		r.tested = r.o.Clock()
		if r.gen == j.gen {
			r.gen = "" // what is there cannot be trusted
		}
	}
	r.rest = int(max(1, min(1<<r.failures, maxPause/r.o.Interval)))
	r.failures = min(r.failures+1, 30)
}

// sendSnapshot stores a dump of a state.
func (r *runner) sendSnapshot(ctx context.Context, gen string, s state, j *job) error {
	dir := snapshotDir(gen, s.seq, s.time)
	w := &parts{ctx: ctx, r: r, dir: dir, job: j}
	made, err := transfer.Dump(ctx, r.db.Inside(), w, transfer.DumpOptions{Snapshot: s.snap,
		Codec: block.Snappy, BlockBytes: blockBytes})
	if err == nil && !sameSpaces(made.IDs, s.spaces) {
		err = errors.New("keyspaces were created or dropped when it began")
	}
	if err == nil {
		err = w.flush()
	}
	var before *tail
	if err == nil {
		before, err = r.tailOf(s.seq)
	}
	// A try whose error is all that is known of it may have stored the object. After the first one
	// no part is deleted: the snapshot is whole, or the next runner finds that it is not.
	tried := false
	if err == nil {
		err = w.put(dir+wholeName, func(name string) error {
			// A runner that took over since has deleted the parts.
			if err := r.owns(ctx); err != nil {
				return err
			}
			tried = true
			return putJSON(ctx, r.target, name, whole{s.seq, s.time, w.n, made.Size,
				r.db.Inside().Place().Format.String(), s.spaces, before})
		})
	}
	if err != nil {
		if !tried && !errors.Is(err, ErrTakenOver) {
			w.drop()
		}
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// sameSpaces compares numbers: a keyspace that took the name of a dropped one has other entries.
func sameSpaces(dumped []base.KeyspaceID, list []space) bool {
	return slices.EqualFunc(dumped, list, func(id base.KeyspaceID, s space) bool {
		return uint32(id) == s.ID
	})
}

// parts stores what is written to it in objects.
type parts struct {
	ctx context.Context
	r   *runner
	dir string
	job *job
	buf []byte
	n   int
}

func (w *parts) Write(b []byte) (int, error) {
	if w.buf == nil {
		w.buf = make([]byte, 0, partBytes)
	}
	w.buf = append(w.buf, b...)
	if len(w.buf) < partBytes {
		return len(b), nil
	}
	return len(b), w.flush()
}

func (w *parts) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.put(partName(w.dir, w.n), func(name string) error {
		return put(w.ctx, w.r.target, name, w.buf)
	})
	if err == nil {
		w.n++
		w.job.sent.Add(int64(len(w.buf)))
		w.buf = w.buf[:0]
	}
	return err
}

// put tries until an object is stored, or no further try can succeed.
func (w *parts) put(name string, do func(name string) error) error {
	pause := w.r.o.Interval
	for try := 1; ; try++ {
		err := do(name)
		if err == nil || try == maxTries || final(err) {
			return err
		}
		select {
		case <-w.ctx.Done():
			return w.ctx.Err()
		case <-w.r.o.after(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// drop deletes the parts of a snapshot that did not become whole; those that stay are deleted with
// the generation. The context may be done.
func (w *parts) drop() {
	for i := range w.n {
		if w.r.target.Delete(w.ctx, partName(w.dir, i)) != nil {
			return
		}
	}
}
