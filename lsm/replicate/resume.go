package replicate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/lsm"
)

// resume finds where the target ends, and goes on there if the database continues that. Then the
// target is this runner's.
func (r *runner) resume(ctx context.Context) error {
	all, err := catalog(ctx, r.target)
	if err != nil {
		return err
	}
	var found verified
	if err := getJSON(ctx, r.target, verifiedName, &found); err == nil {
		r.verified, r.tested = found, found.Time
	}
	var same bool
	if len(all) > 0 {
		g := all[len(all)-1]
		for _, old := range all {
			r.last = max(r.last, old.end())
		}
		if same, err = r.continues(ctx, g); err != nil {
			return err
		}
		if !same && !r.o.TakeOver {
			if err := r.sameDirectory(ctx, g); err != nil {
				return err
			}
		}
	}
	if err := putJSON(ctx, r.target, ownerName, r.me); err != nil {
		return err
	}
	if same {
		return r.dropHalves(ctx)
	}
	return nil
}

// sameDirectory fails where a generation is known to be another directory's.
func (r *runner) sameDirectory(ctx context.Context, g *generation) error {
	var b begun
	err := getJSON(ctx, r.target, g.id+beginName, &b)
	if errors.Is(err, lsm.ErrCorruption) {
		return nil // not known
	}
	if err == nil && b.Directory != r.me.Directory {
		err = fmt.Errorf("%w: of %s on host %q, and this one is %s: choose another target, or ask "+
			"to take it over", ErrOtherDatabase, b.Directory, b.Host, r.me.Directory)
	}
	return err
}

// continues makes the runner go on behind a generation, and reports whether the database has what
// the generation has: of the operations that the logs still have, all, and those of at least one
// segment, the last one among them, are compared by their digests.
func (r *runner) continues(ctx context.Context, g *generation) (bool, error) {
	from, before, with, err := r.base(ctx, g)
	if errors.Is(err, lsm.ErrCorruption) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	in, end, hole := follow(g.segments, from)
	if hole != 0 {
		return false, nil
	}
	if len(in) > 0 {
		with, err = r.mergesAfter(ctx, in[len(in)-1])
		if errors.Is(err, lsm.ErrCorruption) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if before != nil {
		in = append([]segment{before.segment(from)}, in...)
	}
	same, err := r.compare(in, end)
	if errors.Is(err, lsm.ErrGap) {
		return false, nil
	}
	if err != nil || !same {
		return false, err
	}
	r.gen, r.pos, r.merges, r.sent = g.id, end, with, segment{}
	for _, s := range in {
		if s.first <= s.last {
			r.sent = s
		}
	}
	if s := g.newest(); s != nil {
		r.snapshot, r.seqThen = moment(s.time), s.seq
		r.snapped = r.snapshot
	}
	return true, nil
}

// base is the sequence number from which segments of a generation are read, the tail before, and
// the merge operators then, nil if they are not known.
func (r *runner) base(ctx context.Context, g *generation) (uint64, *tail, merges, error) {
	if s := g.newest(); s != nil {
		var w whole
		err := getJSON(ctx, r.target, s.dir+wholeName, &w)
		return s.seq, w.Tail, mergesOf(w.Spaces), err
	}
	var b begun
	err := getJSON(ctx, r.target, g.id+beginName, &b)
	return b.Sequence, b.Tail, nil, err
}

// mergesAfter is the merge operators when a segment was sent, nil if they are not known.
func (r *runner) mergesAfter(ctx context.Context, s segment) (merges, error) {
	payload, err := get(ctx, r.target, s.name)
	if err != nil {
		return nil, err
	}
	p, err := parse(s, payload)
	if err != nil {
		return nil, err
	}
	return p.head.Merges, nil
}

// tail is the digest of operations from one on up to the begin of a generation or a snapshot. By it
// a database is known that was not written since.
type tail struct {
	First  uint64 `json:"first"`
	Digest string `json:"digest"`
}

// segment is a tail that ends with an operation; nil has none.
func (t *tail) segment(last uint64) segment {
	if t == nil {
		return segment{}
	}
	return segment{first: t.First, last: last, digest: t.Digest}
}

// settleDoubt ends the generation if the logs have other operations than the last ones that were
// sent. If they have these no more, the generation goes on.
func (r *runner) settleDoubt() error {
	if !r.doubt {
		return nil
	}
	if r.gen != "" && r.sent.digest != "" {
		sums, err := r.sums([]segment{r.sent}, r.sent.first)
		if err != nil && !errors.Is(err, lsm.ErrGap) {
			return err
		}
		if len(sums) == 1 && sums[0] != r.sent.digest {
			r.gen = ""
		}
	}
	r.closeFeed()
	r.doubt = false
	return nil
}

// tailOps is how many operations a tail has at most.
const tailOps = 1000

// tailOf reads the operations before and at a sequence number; nil if the logs have none.
func (r *runner) tailOf(seq uint64) (*tail, error) {
	oldest, err := r.oldest()
	if err != nil {
		return nil, err
	}
	first := max(oldest, seq-min(seq, tailOps-1))
	if seq == 0 || first > seq {
		return nil, nil
	}
	sum, err := r.sums([]segment{{first: first, last: seq}}, first)
	if errors.Is(err, lsm.ErrGap) || err == nil && len(sum) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &tail{first, sum[0]}, nil
}

// oldest is the first sequence number that the logs have.
func (r *runner) oldest() (uint64, error) {
	feed, err := r.db.Changes(0, nil)
	if err != nil {
		return 0, ofSource(err)
	}
	defer feed.Close()
	return feed.Position(), nil
}

// compare reports whether the operations of the last of these segments, from the first one on that
// the logs have whole, are those of the database.
func (r *runner) compare(in []segment, end uint64) (bool, error) {
	oldest, err := r.oldest()
	if err != nil {
		return false, err
	}
	in = slices.DeleteFunc(in, func(s segment) bool { return s.last < s.first })
	// Those that overlap cannot be read in one go.
	next, i := end+1, len(in)
	for ; i > 0 && in[i-1].last == next-1 && in[i-1].first >= oldest; i-- {
		next = in[i-1].first
	}
	in = in[i:]
	sums, err := r.sums(in, next)
	if err != nil || len(in) == 0 || len(sums) < len(in) {
		return false, err
	}
	for i, s := range in {
		if sums[i] != s.digest {
			return false, nil
		}
	}
	return true, nil
}

// sums are the digests of segments that follow each other from a sequence number on, as far as the
// database has them.
func (r *runner) sums(in []segment, first uint64) (sums []string, err error) {
	feed, err := r.db.Changes(first, nil)
	if err != nil {
		return nil, ofSource(err)
	}
	defer feed.Close()
	ops := operations{feed: feed, seq: first}
	for _, s := range in {
		sum := newDigest()
		for ops.seq <= s.last {
			op, err := ops.next()
			if err != nil || op == nil {
				return sums, ofSource(err)
			}
			sum.add(op)
		}
		sums = append(sums, sum.String())
	}
	return sums, nil
}

// operations reads a feed by single operations, as bytes.
type operations struct {
	feed  *lsm.Changes
	seq   uint64 // of the next one
	batch []byte
	it    batchrepr.Iter
}

// next is nil where the feed ends.
func (o *operations) next() ([]byte, error) {
	for {
		if o.batch != nil {
			at := o.it.Pos()
			if _, _, _, _, ok := o.it.Next(); ok {
				o.seq++
				return o.batch[at:o.it.Pos()], nil
			}
		}
		c, ok, err := o.feed.TryNext()
		if err != nil || !ok || c.Seq != o.seq {
			return nil, err
		}
		o.batch, o.it = c.Batch, batchrepr.Read(c.Batch)
	}
}

// dropHalves deletes the parts of snapshots of the generation that never became whole. Another
// runner may be about to make one whole, and not know yet that the target is this one's: so an
// object says first that the snapshot does not count.
func (r *runner) dropHalves(ctx context.Context) error {
	all, err := list(ctx, r.target, r.gen+"/snapshot/")
	if err != nil {
		return err
	}
	for _, g := range all {
		for _, s := range g.snapshots {
			if s.whole {
				continue
			}
			dropped := s.dir + droppedName
			if !s.dropped {
				if err := put(ctx, r.target, dropped, nil); err != nil {
					return err
				}
			}
			names := slices.DeleteFunc(g.objectsOf(s), func(name string) bool {
				return name == dropped
			})
			if err := r.remove(ctx, names); err != nil {
				return err
			}
		}
	}
	return nil
}
