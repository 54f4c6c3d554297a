package lsm

import (
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/engine"
	"github.com/loamdb/loam/internal/feed"
	"github.com/loamdb/loam/internal/wal"
)

// ErrGap: what a feed of changes was to go on with is in no log any more; see DB.Changes.
var ErrGap = base.ErrGap

// GapError says which sequence number is gone (Asked), and with which a feed can begin (Next; 0: not known). It is an ErrGap.
type GapError = feed.GapError

// Changes is a feed, see DB.Changes. Its methods are Next, TryNext, Position, KeyspaceName and Close. Next and TryNext are for
// one goroutine at a time; Close may be called beside them.
type Changes = feed.Changes

// Change is a batch that was committed, or several ones that share a record of the log. Its fields are Seq, the
// sequence number of its first operation, and Batch, its wire form, which is valid until the next call on the feed.
// Operations lists what it does, Len counts that, and Next is the sequence number to go on from.
type Change = feed.Change

// Operation is one operation of a Change.
type Operation = feed.Operation

// Op is what an Operation does.
type Op = feed.Op

// The kinds of operations: their fields are those of Operation.
const (
	OpPut         = feed.OpPut         // Key gets Value, until Expires if that is not zero
	OpDelete      = feed.OpDelete      // Key is deleted
	OpMerge       = feed.OpMerge       // Value is an operand for Key
	OpDeleteRange = feed.OpDeleteRange // the keys from Key up to Value, exclusive, are deleted
)

// ChangesOptions says what a feed shows. Its field Durable holds changes back until they survive a power cut. The
// default, false, shows them as soon as reads do: a power cut may take them back, with all that follows.
type ChangesOptions = feed.Options

// Changes returns a feed of what is committed, from this program's beginning or from long before: all operations
// in their order, from sequence number from on, without a gap, none twice. 0 stands for the first that is there. Whoever
// goes on after a restart keeps Change.Next of the last change that it has dealt with, best in the same
// batch, and begins there. nil options are the default.
//
// The feed reads logs. Those that the database needs no longer stay as Options.WALRetentionBytes and
// WALRetentionTime say, whether feeds are open or not. A feed for which that is not enough fails with a *GapError, then or when
// it begins (ErrGap), and so does one that meets what was never in a log, or that the database lost in a crash. A Follower's feed
// shows what catch-ups have read; it refuses Durable (ErrInvalidArgument) and may meet ErrDirectoryChanged. See
// docs/changes.md. Changes fails with ErrClosed and with errors of the file system, too.
func (db *DB) Changes(from uint64, o *ChangesOptions) (*Changes, error) {
	if o == nil {
		o = &ChangesOptions{}
	}
	c, err := db.engine.Feeds.New(from, *o)
	if err != nil {
		return nil, fmt.Errorf("changes from %d: %w", from, err)
	}
	return c, nil
}

// ChangesMetrics tells of feeds of changes.
type ChangesMetrics struct {
	Feeds    int   // open ones
	Logs     int   // that are kept for feeds, and needed no longer otherwise
	LogBytes int64 // of these
}

func changesMetrics(db *engine.DB) ChangesMetrics {
	logs, bytes := db.WAL.Retained()
	return ChangesMetrics{Feeds: db.Feeds.Open(), Logs: logs, LogBytes: bytes}
}

// retention is what the options say of logs that are not needed. o is resolved.
func (o *Options) retention() wal.Retention {
	return wal.Retention{Bytes: max(o.WALRetentionBytes, 0), For: max(o.WALRetentionTime, 0).Round(time.Millisecond)}
}
