package replicate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/dump"
)

// RestoreOptions configures Restore. A nil *RestoreOptions and zero fields mean the defaults.
type RestoreOptions struct {
	// At is the moment to restore: the last state that was sent by then. The default is the newest
	// state.
	At time.Time
	// Open is how the new database is opened: it needs the comparers and merge operators that are
	// not built in, and may have an FS. Default times to live and compaction filters are not
	// applied. The format is the one of the database, unless Open names one.
	Open *lsm.Options
	// Progress is called with the number of objects read, and of all to be read. The default is
	// nil.
	Progress func(done, of int)
}

// Restored says what Restore made.
type Restored struct {
	// Generation is the history to which the state belongs.
	Generation string
	// Sequence is the sequence number that the state has in its database. The restored database
	// counts anew.
	Sequence uint64
	// Time is when the state was the newest one.
	Time time.Time
}

// Restore writes the database as it was at a moment into dir, which must not exist or be empty, and
// not be where a file system is mounted (lsm.ErrInvalidArgument). Each object is compared with its
// checksum, and no sequence number may be missing. When Restore returns nil, the database is
// complete and durable; after an error it is not there. It is made in a directory next to dir,
// named with ".incomplete" appended, and renamed, as checkpoints are.
//
// It fails with lsm.ErrCorruption, which names the object that is damaged or missing, with
// ErrNoReplica if the target has no snapshot of that moment or before, with lsm.ErrExists, with
// lsm.ErrComparerMismatch and lsm.ErrNoMergeOperator if Open lacks a comparer or operator, with the
// target's error, ctx's, or one of the file system.
func Restore(ctx context.Context, t Target, dir string, o *RestoreOptions) (Restored, error) {
	if ctx == nil || t == nil {
		return Restored{}, base.Invalidf("Restore needs a context and a target")
	}
	made, err := restore(ctx, t, dir, o, "")
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	return made, nil
}

// restore is Restore of one generation, "" for any.
func restore(ctx context.Context, t Target, dir string, o *RestoreOptions,
	gen string) (Restored, error) {
	o = cmp.Or(o, &RestoreOptions{})
	all, err := catalog(ctx, t)
	if err != nil {
		return Restored{}, err
	}
	at := int64(1<<63 - 1)
	if !o.At.IsZero() {
		at = o.At.UnixMilli()
	}
	p, err := choose(all, at, gen)
	if err != nil {
		return Restored{}, err
	}
	open := lsm.Options{}
	if o.Open != nil {
		open = *o.Open
	}
	r := restorer{ctx: ctx, target: t, plan: p, open: reopened(&open), progress: o.Progress}
	var fsys vfs.FS = vfs.Default
	if open.FS != nil {
		fsys = open.FS
	}
	if dir, err = vfs.Absolute(fsys, dir); err != nil {
		return Restored{}, err
	}
	var left []error // of cleaning up
	warn := func(what string, err error) {
		left = append(left, fmt.Errorf("%s: %w", what, err))
	}
	err = base.Protect(func() error {
		return backup.Make(fsys, dir, false, warn, func(s *backup.Stage) (backup.Content, error) {
			return r.fill(fsys, s)
		})
	})
	if err != nil {
		return Restored{}, errors.Join(append([]error{err}, left...)...)
	}
	return Restored{p.gen.id, p.seq, moment(p.time)}, nil
}

// reopened are options for a database that is restored.
func reopened(o *lsm.Options) lsm.Options {
	n := *o
	n.ReadOnly, n.ErrorIfMissing, n.ErrorIfExists = false, false, false
	n.FollowInterval, n.DefaultTTL, n.CompactionFilter, n.Inspect = 0, 0, nil, false
	n.WALRetentionBytes, n.WALRetentionTime = 0, 0
	return n
}

// plan is what a restore reads.
type plan struct {
	gen      *generation
	snapshot *snapshot
	segments []segment
	seq      uint64 // of the state
	time     int64
}

// choose finds the last state at a time: that of the generation which came closest to it.
func choose(all []*generation, at int64, only string) (*plan, error) {
	var best *plan
	reached := int64(-1)
	for _, g := range all {
		if only != "" && g.id != only {
			continue
		}
		p := &plan{gen: g}
		for _, s := range g.snapshots {
			if s.whole && s.time <= at {
				p.snapshot = s
			}
		}
		if p.snapshot == nil {
			continue
		}
		until := p.snapshot.time
		for _, s := range g.segments {
			if s.time <= at {
				p.segments = append(p.segments, s)
				until = max(until, s.time)
			}
		}
		if until >= reached {
			best, reached = p, until
		}
	}
	if best == nil {
		return nil, noneAt(all, at)
	}
	return best, best.link()
}

// noneAt is the error where no snapshot is old enough.
func noneAt(all []*generation, at int64) error {
	first, half := int64(-1), ""
	for _, g := range all {
		for _, s := range g.snapshots {
			if !s.whole {
				half = fmt.Sprintf(": %s%s is not there, or not yet", s.dir, wholeName)
			}
			if s.whole && (first < 0 || s.time < first) {
				first = s.time
			}
		}
	}
	if first < 0 {
		return fmt.Errorf("%w: the target has no whole snapshot%s", ErrNoReplica, half)
	}
	return fmt.Errorf("%w: the earliest state is that of %s, %s was asked for", ErrNoReplica,
		text(first), text(at))
}

func text(at int64) string { return moment(at).UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// link leaves the segments that continue the snapshot up to the last state.
func (p *plan) link() error {
	in, _, hole := follow(p.segments, p.snapshot.seq)
	if hole != 0 {
		for _, s := range p.segments {
			if s.first > hole {
				return damaged(s.name, "sequence numbers %d to %d, before it, are in no object: "+
					"one is missing", hole, s.first-1)
			}
		}
	}
	rest, aside := p.segments, overlap(p.segments)
	for len(in) > 0 && !in[len(in)-1].point {
		last := in[len(in)-1].name
		in = in[:len(in)-1]
		if aside { // one may have sent a state whole, and the other one a part of a later state
			rest = slices.DeleteFunc(slices.Clone(rest), func(s segment) bool {
				return s.name == last
			})
			in, _, _ = follow(rest, p.snapshot.seq)
		}
	}
	p.segments, p.seq, p.time = in, p.snapshot.seq, p.snapshot.time
	if n := len(in); n > 0 {
		p.seq, p.time = max(p.seq, in[n-1].last), max(p.time, in[n-1].time)
	}
	return nil
}

// restorer makes a database of a plan.
type restorer struct {
	ctx      context.Context
	target   Target
	plan     *plan
	open     lsm.Options
	progress func(done, of int)

	whole whole
	done  int
}

// fill makes the database in a stage.
func (r *restorer) fill(fsys vfs.FS, s *backup.Stage) (backup.Content, error) {
	name := r.plan.snapshot.dir + wholeName
	if err := getJSON(r.ctx, r.target, name, &r.whole); err != nil {
		return nil, err
	}
	if r.whole.Sequence != r.plan.snapshot.seq || len(r.whole.Spaces) == 0 || r.whole.Parts < 0 {
		return nil, damaged(name, "it describes another snapshot")
	}
	if r.open.Format == lsm.DefaultFormat && r.whole.Format == base.LevelDB.String() {
		r.open.Format = lsm.FormatLevelDB
	}
	if known, _ := base.ComparerNamed(r.whole.Spaces[0].Comparer); known != nil &&
		r.open.Comparer == nil {
		r.open.Comparer = (*lsm.Comparer)(known)
	}
	db, err := lsm.Open(s.Dir(), &r.open)
	if err != nil {
		return nil, err
	}
	err = base.Protect(func() error { return r.load(db) })
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	names, err := transfer.DatabaseFiles(fsys, s.Dir())
	if err != nil {
		return nil, err
	}
	made := backup.Content{}
	for _, name := range names {
		made[name] = 0
	}
	return made, s.Note(names)
}

// load loads the snapshot and applies the segments.
func (r *restorer) load(db *lsm.DB) error {
	// If there are fewer parts than that, one of the first names is missing, which the read tells.
	names := make([]string, min(r.whole.Parts, r.plan.snapshot.parts+1))
	for i := range names {
		names[i] = partName(r.plan.snapshot.dir, i)
	}
	next, stop := fetch(r.ctx, r.target, names, partsAhead)
	defer stop()
	in := &partReader{next: func() ([]byte, error) { r.step(); return next() }, left: len(names)}
	info, err := dump.Load(r.ctx, db, in, nil)
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", r.plan.snapshot.dir, err)
	}
	if _, err := io.ReadFull(in, make([]byte, 1)); info.Sequence != r.whole.Sequence ||
		!errors.Is(err, io.EOF) {
		return damaged(r.plan.snapshot.dir+wholeName, "its parts are another dump")
	}
	a, err := newApplier(db, r.whole)
	if err != nil {
		return err
	}
	if err := r.segments(a); err != nil {
		return err
	}
	return db.Write(lsm.NewBatch(), lsm.Sync)
}

func (r *restorer) segments(a *applier) error {
	names := make([]string, len(r.plan.segments))
	for i, s := range r.plan.segments {
		names[i] = s.name
	}
	next, stop := fetch(r.ctx, r.target, names, segmentsAhead)
	defer stop()
	for _, s := range r.plan.segments {
		payload, err := next()
		if err != nil {
			return err
		}
		p, err := parse(s, payload)
		if err == nil {
			err = a.apply(p)
		}
		if err != nil {
			return err
		}
		r.step()
	}
	return nil
}

func (r *restorer) step() {
	if r.done++; r.progress != nil {
		r.progress(r.done, r.whole.Parts+len(r.plan.segments))
	}
}

// partReader reads objects one after the other.
type partReader struct {
	next func() ([]byte, error)
	left int
	b    []byte
}

func (p *partReader) Read(b []byte) (int, error) {
	for len(p.b) == 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		var err error
		if p.b, err = p.next(); err != nil {
			return 0, err
		}
		p.left--
	}
	n := copy(b, p.b)
	p.b = p.b[n:]
	return n, nil
}

// How many objects are read at a time. A part has 16 MiB. Most segments are small: an object store
// takes much longer to answer than to send one.
const (
	partsAhead    = 4
	segmentsAhead = 16
)

// fetch reads objects, ahead of them at a time; next returns their payloads in order. The caller
// calls stop, which waits for reads under way.
func fetch(ctx context.Context, t Target, names []string, ahead int) (next func() ([]byte, error),
	stop func()) {
	type result struct {
		b   []byte
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make([]chan result, len(names))
	begun := 0
	begin := func() {
		if begun == len(names) {
			return
		}
		name, to := names[begun], make(chan result, 1)
		results[begun] = to
		begun++
		go func() {
			var r result
			base.Always(func() (err error) {
				r.b, err = get(ctx, t, name)
				return err
			}, func(err error) {
				r.err = err
				to <- r
			})
		}()
	}
	for range ahead {
		begin()
	}
	i := 0
	next = func() ([]byte, error) {
		r := <-results[i]
		i++
		begin()
		return r.b, r.err
	}
	stop = func() {
		cancel()
		for ; i < begun; i++ {
			<-results[i]
		}
	}
	return next, stop
}
