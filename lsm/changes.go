package lsm

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/loamdb/loam/internal/feature/feed"
)

// GapError says where a feed of changes cannot go on: the logs between are gone. errors.As finds it
// in an error for which errors.Is(err, ErrGap) holds.
type GapError struct {
	Asked uint64 // Asked is the sequence number that is in no log.
	// Next is the sequence number with which a new feed can begin; 0 if unknown.
	Next uint64
}

// Error names the missing sequence number and says how to go on.
func (e *GapError) Error() string { return (*feed.GapError)(e).Error() }

// Is makes errors.Is(e, ErrGap) hold.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// Changes is an open feed of commits, see DB.Changes. Next and TryNext are for one goroutine at a
// time; the other methods may be called beside them.
type Changes struct{ c *feed.Changes }

// Next returns the next change. It waits for one until ctx is done, whose error it then returns. It
// fails with a *GapError (ErrGap) where the change is in no log any more, with ErrClosed after
// Close of the feed or the database, with the cause that made the database read-only once
// everything before it was returned, and with errors of the file system. After an error of the
// file system or of ctx the next call goes on at the same place.
func (c *Changes) Next(ctx context.Context) (Change, error) {
	next, err := c.c.Next(ctx)
	return Change{next.Seq, next.Batch, next}, err
}

// TryNext is Next without waiting: ok is false if there is no further change yet.
func (c *Changes) TryNext() (change Change, ok bool, err error) {
	next, ok, err := c.c.TryNext()
	return Change{next.Seq, next.Batch, next}, ok, err
}

// Position is the sequence number of the next operation: a feed that begins there goes on here.
func (c *Changes) Position() uint64 { return c.c.Position() }

// KeyspaceName is the name of a keyspace by its number, see Keyspace.ID; "" if it was dropped.
func (c *Changes) KeyspaceName(number uint32) string { return c.c.KeyspaceName(number) }

// Close ends the feed; a Next under way fails with ErrClosed. Further calls do nothing. The error
// is always nil.
func (c *Changes) Close() error { return c.c.Close() }

// Change is one record of the log: a batch that was committed, or several batches of concurrent
// writers, or of a recovery, that share a record. A batch is never in two Changes.
type Change struct {
	Seq uint64 // the sequence number of the first operation; operation i has Seq + i
	// the operations in wire form, see docs/format-batch.md; valid until the next call on the feed
	Batch []byte

	inside feed.Change
}

// Len is the number of operations.
func (c Change) Len() int { return c.inside.Len() }

// Next is the sequence number after the change: a program that has processed the change stores it,
// and begins there after a restart.
func (c Change) Next() uint64 { return c.Seq + uint64(c.Len()) }

// Operations returns the operations of the change in order. They are valid as long as Batch.
func (c Change) Operations() iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for o := range feed.Operations[Op](c.inside) {
			if !yield(Operation(o)) {
				return
			}
		}
	}
}

// Operation is one operation of a Change. Key and Value are valid as long as the Change.
type Operation struct {
	Seq        uint64    // its sequence number
	Op         Op        // what it does
	Key        []byte    // the key, or the start of a range
	Value      []byte    // the value, the operand, or the limit of a range; nil for OpDelete
	Expires    time.Time // of OpPut: when the value expires; zero: never
	Keyspace   string    // its name; "" if the keyspace was dropped since
	KeyspaceID uint32    // its number, see Keyspace.ID; 0: the default keyspace
}

// Op is what an Operation does.
type Op uint8

// The kinds of operations.
const (
	// OpPut sets Key to Value, until Expires if that is not zero.
	OpPut Op = iota + 1
	// OpDelete deletes Key.
	OpDelete
	// OpMerge adds the operand Value to Key.
	OpMerge
	// OpDeleteRange deletes the keys from Key up to, not including, Value.
	OpDeleteRange
)

// The kinds are those of package feed.
var (
	_ = [1]struct{}{}[OpPut-feed.OpPut]
	_ = [1]struct{}{}[OpDeleteRange-feed.OpDeleteRange]
)

// String is "put", "delete", "merge" or "delete_range".
func (o Op) String() string {
	if o < OpPut || o > OpDeleteRange {
		return "unknown"
	}
	return [...]string{"put", "delete", "merge", "delete_range"}[o-1]
}

// ChangesOptions configures a feed of changes. Nil and zero fields mean the defaults.
type ChangesOptions struct {
	// Durable holds changes back until they survive a power cut. The default, false, shows them as
	// soon as reads do: a power cut may take them back, with all that follows.
	Durable bool
}

// Changes opens a feed of commits: all operations in their order, from sequence number from on,
// without a gap, none twice, be they old or still to come. A from of 0 begins with the first that
// is there. A program that continues after a restart stores Change.Next of the last change that it
// has processed, best in the same batch as its results, and begins there. A nil o means the
// defaults.
//
// The feed reads logs. Obsolete logs are kept as Options.WALRetentionBytes and WALRetentionTime
// say, whether feeds are open or not. A feed that needs older logs fails with a *GapError (ErrGap),
// when it begins or later, and so does one that meets sequence numbers that were never in a log, or
// that the database lost in a crash.
//
// A Follower's feed shows what catch-ups have read; it refuses Durable (ErrInvalidArgument) and may
// fail with ErrDirectoryChanged. Changes fails with ErrClosed and with errors of the file system,
// too. See docs/changes.md.
func (db *DB) Changes(from uint64, o *ChangesOptions) (*Changes, error) {
	o = cmp.Or(o, &ChangesOptions{})
	c, err := db.engine.Feeds.New(from, feed.Options(*o))
	if err != nil {
		return nil, fmt.Errorf("changes from %d: %w", from, err)
	}
	return &Changes{c}, nil
}

// ChangesMetrics describes the feeds of changes and the logs that are kept for them.
type ChangesMetrics struct {
	Feeds int // Feeds is the number of open feeds.
	// Logs is the number of obsolete logs that are kept for feeds.
	Logs     int
	LogBytes int64 // LogBytes is the size of these logs.
}
