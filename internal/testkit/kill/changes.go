package kill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/lsm"
)

// keepArg is serveArg for a writer that keeps its logs.
const keepArg = "kill-keep"

const keepAll = 1 << 40

// consumer makes a copy of a database from its feed of changes.
type consumer struct {
	dir  string
	next uint64 // to go on with
	has  map[string]string
}

// KillFed kills writers at random moments, beside a consumer of changes that follows them and goes
// on where it was: it sees each operation once, and has at the end what the database has.
func KillFed(seed int64, rounds int, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 11))
	l, b := ledger(seed), &bounds{}
	c := consumer{dir: dir, next: 1, has: map[string]string{}}
	for round := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.follow(ctx) }()
		err := killProgram([]string{self, keepArg}, dir, l, b, rng)
		cancel()
		if err := errors.Join(err, <-ended); err != nil {
			return fmt.Errorf("seed %d, round %d: %w", seed, round, err)
		}
	}
	if err := c.compare(); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return nil
}

// follow consumes what a writer commits, until ctx is done.
func (c *consumer) follow(ctx context.Context) error {
	var f *lsm.Follower
	var err error
	hang.Until(func() bool { // the first writer has not made it yet
		f, err = lsm.OpenFollower(c.dir, &lsm.Options{FollowInterval: time.Millisecond})
		return !errors.Is(err, lsm.ErrDoesNotExist) || ctx.Err() != nil
	})
	if errors.Is(err, lsm.ErrDoesNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	feed, err := f.Changes(c.next, nil)
	if err != nil {
		return err
	}
	for {
		change, err := feed.Next(ctx)
		if errors.Is(err, context.Canceled) {
			return f.Close()
		}
		if err == nil {
			err = c.take(change)
		}
		if err != nil {
			return err
		}
	}
}

// take does in the copy what a change did.
func (c *consumer) take(change lsm.Change) error {
	for o := range change.Operations() {
		switch {
		case o.Seq != c.next:
			return fmt.Errorf("the feed goes on with %d, not with %d", o.Seq, c.next)
		case o.Op == lsm.OpPut:
			c.has[string(o.Key)] = string(o.Value)
		case o.Op == lsm.OpDelete:
			delete(c.has, string(o.Key))
		default:
			return fmt.Errorf("a %v, which nobody wrote", o.Op)
		}
		c.next++
	}
	return nil
}

// compare consumes the rest, and wants the copy to be what the database is.
func (c *consumer) compare() error {
	o := ledger(0).options()
	o.WALRetentionBytes = keepAll
	db, err := lsm.Open(c.dir, o)
	if err != nil {
		return err
	}
	defer db.Close()
	feed, err := db.Changes(c.next, nil)
	if err != nil {
		return err
	}
	for {
		change, ok, err := feed.TryNext()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := c.take(change); err != nil {
			return err
		}
	}
	if last := db.Metrics().LastSequence; c.next != last+1 {
		return fmt.Errorf("the feed ends before %d, the database at %d", c.next, last)
	}
	var want []model.Pair
	for _, key := range slices.Sorted(maps.Keys(c.has)) {
		want = append(want, model.Pair{Key: key, Value: c.has[key]})
	}
	return testkit.Same(db, want)
}
