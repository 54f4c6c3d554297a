package replicate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/fileid"
	encryption "github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/lsm"
)

// begun is the object begin of a generation.
type begun struct {
	Directory string `json:"directory"`
	Host      string `json:"host"`
	Format    string `json:"format"`
	Sequence  uint64 `json:"sequence"` // the last one before the generation
	Time      int64  `json:"time"`     // in milliseconds
	Tail      *tail  `json:"tail,omitempty"`
}

// owner names the replicator that writes to a target.
type owner struct {
	Token     string    `json:"token"`
	Directory string    `json:"directory"`
	Host      string    `json:"host"`
	Since     time.Time `json:"since"`
}

// runner is a Run. It is used by one goroutine; jobs get what they need.
type runner struct {
	db     *lsm.DB
	target Target
	o      Options
	me     owner

	resumed bool
	gen     string // the generation; "": the next step begins one
	pos     uint64 // the last sequence number that the target has
	last    int64  // the time of the newest object
	feed    *lsm.Changes
	spaces  []space // the last list that was sent, nil if none was in this generation
	merges  merges  // of the last segment or snapshot; nil: not known
	// settled is the end of the changes that were sent beside spaces: states within have no list
	// of keyspaces of their own.
	settled uint64
	pending *sealed // a segment whose Put failed
	sent    segment // the last one with operations; its digest is empty before the first one
	// doubt is set when a follower could not read its directory: another database may have got its
	// place there.
	doubt bool

	snapshot time.Time // of the newest whole snapshot of the generation; zero: none
	seqThen  uint64    // its sequence number
	verified verified
	// snapped and tested are when the last snapshot and the last verification were made, not later
	// than the clock, which may have been set back since.
	snapped, tested time.Time
	pruned          bool // objects were deleted since the last snapshot
	job             *job
	jobErr          error     // of the last job
	failures        int       // of jobs, in a row
	rest            int       // steps in which no job begins
	complete        time.Time // when the target had everything

	cancel context.CancelFunc // of jobs
	jobs   context.Context
}

// sealed is a segment that is to be stored.
type sealed struct {
	segment
	payload []byte
}

// state is a moment of the database.
type state struct {
	spaces []space
	seq    uint64
	time   int64          // in names: later than that of all other objects
	clock  time.Time      // before the state was read
	snap   *tree.Snapshot // nil unless it was asked for
}

func newRunner(ctx context.Context, db *lsm.DB, t Target, o *Options) (*runner, error) {
	if ctx == nil || db == nil || t == nil {
		return nil, base.Invalidf("Run needs a context, a database and a target")
	}
	filled, err := o.filled()
	if err != nil {
		return nil, err
	}
	if encryption.KeysOf(db.Inside().Place().FS) != nil && !filled.AllowClear {
		return nil, base.Invalidf("the database is encrypted, and its replica would not be: " +
			"AllowClear permits that")
	}
	r := &runner{db: db, target: t, o: filled}
	host, _ := os.Hostname() // for messages
	r.me = owner{Token: rand.Text(), Directory: db.Inside().Place().Dir, Host: host,
		Since: r.o.Clock()}
	r.jobs, r.cancel = context.WithCancel(ctx)
	r.complete = r.o.Clock()
	if d, ok := t.(*dirTarget); ok {
		place := db.Inside().Place()
		_, err := fileid.Outside(place.FS, d.root, place.Dir, "the database")
		if errors.Is(err, fs.ErrClosed) { // by Close, which gives the directory up
			return nil, base.ErrDatabaseClosed
		}
		if err != nil {
			return nil, fmt.Errorf("the replica: %w", err)
		}
		d.tidy()
	}
	return r, nil
}

// close ends the job under way and waits for it.
func (r *runner) close() {
	r.cancel()
	if r.job != nil {
		<-r.job.ended
		r.job = nil
	}
	r.closeFeed()
}

func (r *runner) closeFeed() {
	if r.feed != nil {
		_ = r.feed.Close() // it returns nil
		r.feed = nil
	}
}

// step sends what was committed until now, and begins a job that is due.
func (r *runner) step(ctx context.Context) error {
	if f := r.db.Inside().Follower; f != nil {
		if err := f.CatchUp(ctx); err != nil {
			r.doubt = true
			return ofSource(err)
		}
	}
	if !r.resumed {
		if err := r.resume(ctx); err != nil {
			return err
		}
		r.resumed, r.doubt = true, false
	}
	if err := r.settleDoubt(); err != nil {
		return err
	}
	clock := r.o.Clock()
	r.snapped, r.tested = earlier(r.snapped, clock), earlier(r.tested, clock)
	now, err := r.now(r.jobIsDue())
	if err != nil {
		return err
	}
	defer r.release(&now) // also when the target panics
	if r.otherOperator(&now) {
		r.gen = ""
	}
	if r.gen != "" {
		err = r.ship(ctx, now)
		if errors.Is(err, lsm.ErrGap) {
			r.gen, err = "", nil
		}
	}
	if err == nil && r.gen == "" {
		r.release(&now)
		if now, err = r.now(true); err == nil {
			err = r.begin(ctx, now)
		}
		if err == nil {
			err = r.ship(ctx, now)
		}
	}
	if err == nil && r.pos >= now.seq {
		r.complete = now.clock
		r.startJob(&now)
	}
	r.rest = max(0, r.rest-1)
	return err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// now reads the list of keyspaces and the sequence number of one moment.
func (r *runner) now(open bool) (s state, err error) {
	in := r.db.Inside()
	s.clock = r.o.Clock()
	_, err = in.Keyspaces().All(func(all []*store.Keyspace) {
		if open {
			s.snap = new(tree.Snapshot)
			in.Sequences().Open(s.snap)
			s.seq = uint64(s.snap.Seq())
		} else {
			s.seq = uint64(in.Sequences().Visible())
		}
		for _, k := range all {
			sp := space{Name: k.Tree.Name(), ID: uint32(k.ID()), Comparer: k.Comparer().Name}
			if op := k.Tree.Merge(); op != nil {
				sp.Merge = op.Name
			}
			s.spaces = append(s.spaces, sp)
		}
	})
	if err != nil {
		return s, ofSource(err)
	}
	// Later than the state, and than all other objects.
	s.time = max(r.o.Clock().UnixMilli(), r.last+1)
	r.last = s.time
	return s, nil
}

// release gives up the snapshot of a state.
func (r *runner) release(s *state) {
	if s.snap != nil {
		r.db.Inside().CloseSnapshot(s.snap)
		s.snap = nil
	}
}

// begin begins a generation with a state.
func (r *runner) begin(ctx context.Context, s state) error {
	if err := r.owns(ctx); err != nil {
		return err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	gen := fmt.Sprintf("%013d-%s", s.time, hex.EncodeToString(random[:]))
	before, err := r.tailOf(s.seq)
	if err == nil {
		err = putJSON(ctx, r.target, gen+beginName, begun{r.me.Directory, r.me.Host,
			r.db.Inside().Place().Format.String(), s.seq, s.time, before})
	}
	if err != nil {
		return err
	}
	r.closeFeed()
	r.gen, r.pos, r.spaces, r.merges, r.pending = gen, s.seq, nil, mergesOf(s.spaces), nil
	r.sent = before.segment(s.seq)
	r.snapshot, r.seqThen = time.Time{}, 0
	return nil
}

// otherOperator reports whether a keyspace has another merge operator since the last changes that
// were sent, while there are later ones: some operands among them may be the operator's before, and
// nothing tells which. Then another generation begins.
func (r *runner) otherOperator(s *state) bool {
	return r.pos < s.seq && slices.ContainsFunc(s.spaces, func(k space) bool {
		was := r.merges[k.ID]
		return was != "" && k.Merge != "" && was != k.Merge
	})
}

// owns fails with ErrTakenOver if another replicator has begun since.
func (r *runner) owns(ctx context.Context) error {
	b, err := r.target.Get(ctx, ownerName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading object %s: %w", ownerName, err)
	}
	var found owner
	if err == nil {
		b, err = opened(ownerName, b)
	}
	if err == nil {
		err = json.Unmarshal(b, &found)
	}
	switch {
	case err != nil: // missing or damaged
		return putJSON(ctx, r.target, ownerName, r.me)
	case found.Token != r.me.Token:
		return fmt.Errorf("%w: that of %s on host %q, since %s", ErrTakenOver, found.Directory,
			found.Host, found.Since.UTC().Format(time.RFC3339))
	}
	return nil
}

// ship sends the changes up to a state.
func (r *runner) ship(ctx context.Context, s state) error {
	if s.seq < r.pos { // the database lost its end
		return lsm.ErrGap
	}
	if err := r.putPending(ctx); err != nil {
		return err
	}
	b := newBuilder(r.pos + 1)
	if r.spaces == nil || !slices.Equal(r.spaces, s.spaces) {
		b.head.Spaces = s.spaces
	}
	for r.pos < s.seq {
		more, err := r.fill(b, s)
		gone := errors.Is(err, lsm.ErrGap)
		if err != nil && !gone {
			return err
		}
		if !b.empty() {
			if err := r.send(ctx, b, s); err != nil {
				return err
			}
		}
		if gone || !more {
			return err
		}
		b = newBuilder(r.pos + 1)
	}
	if b.empty() {
		return nil
	}
	return r.send(ctx, b, s) // keyspaces changed, and nothing else
}

// fill reads changes up to a state until the segment is full. more is false where the feed ends.
func (r *runner) fill(b *builder, s state) (more bool, err error) {
	if r.feed == nil {
		if r.feed, err = r.db.Changes(b.next, nil); err != nil {
			return false, ofSource(err)
		}
	}
	known := func(id uint32) bool {
		return slices.ContainsFunc(s.spaces, func(k space) bool { return k.ID == id })
	}
	for b.next <= s.seq && len(b.batches) < r.o.SegmentBytes {
		c, ok, err := r.feed.TryNext()
		if err != nil {
			r.closeFeed()
			return false, ofSource(err)
		}
		if !ok {
			return false, nil
		}
		if c.Seq != b.next {
			r.closeFeed()
			return false, fmt.Errorf("a change begins with %d, expected %d: %w", c.Seq, b.next,
				lsm.ErrGap)
		}
		b.add(c.Batch, known)
	}
	return true, nil
}

// send stores a segment. After a failure it is pending, and what follows waits in the logs.
func (r *runner) send(ctx context.Context, b *builder, s state) error {
	b.head.Merges = mergesOf(s.spaces)
	payload, err := b.payload()
	if err != nil {
		return err
	}
	r.merges = b.head.Merges
	if b.head.Spaces != nil {
		r.spaces, r.settled = b.head.Spaces, s.seq
	}
	last := b.next - 1
	seg := segment{first: b.first, last: last, time: s.time, digest: b.digest.String()}
	seg.point = last >= r.settled && last <= s.seq && (len(b.head.Dropped) == 0 || last == s.seq)
	seg.name = segmentName(r.gen, seg)
	r.pending = &sealed{seg, payload}
	return r.putPending(ctx)
}

func (r *runner) putPending(ctx context.Context) error {
	p := r.pending
	if p == nil {
		return nil
	}
	if err := r.owns(ctx); err != nil {
		return err
	}
	if err := put(ctx, r.target, p.name, p.payload); err != nil {
		return err
	}
	if r.pos, r.pending = p.last, nil; p.first <= p.last {
		r.sent = p.segment
	}
	return nil
}

// report tells how far the runner is.
func (r *runner) report(err error) {
	if r.o.Status == nil {
		return
	}
	s := Status{Generation: r.gen, Sequence: r.pos, Snapshot: r.snapshot,
		Verified: r.verified.Time, Err: errors.Join(err, r.jobErr)}
	if visible := uint64(r.db.Inside().Sequences().Visible()); visible > r.pos {
		s.Pending = visible - r.pos
	}
	if err != nil || s.Pending > 0 {
		s.Lag = max(0, r.o.Clock().Sub(r.complete))
	}
	if r.job != nil {
		s.Sending = r.job.sent.Load()
	}
	r.o.Status(s)
}
