package replica

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/wire"
)

// Errors of changes: one of the first three, or ErrHalted beside one of them.
var (
	// ErrNotApplied: the change did not happen and will not. It is safe to try again.
	ErrNotApplied = wire.ErrNotApplied
	// ErrUnknown: the change may have happened, or may happen later. Try again with the same
	// idempotency key, see Node.Once, or read what is there.
	ErrUnknown = wire.ErrUnknown
	// ErrHalted: this node met an error of its disk and takes no part in the cluster until Rejoin.
	// The other nodes go on. The error wraps the cause.
	ErrHalted = wire.ErrHalted
)

// Errors of reads and of openings.
var (
	// ErrUnavailable: no leader answered in time.
	ErrUnavailable = wire.ErrUnavailable
	// ErrTooOld: the state of this node may be older than Local allows.
	ErrTooOld = wire.ErrTooOld
	// ErrRefused: the other node is of another cluster, or speaks another version of the protocol.
	ErrRefused = wire.ErrRefused
	// ErrForeign: the directory is of another node or cluster, or of none.
	ErrForeign = errors.New("directory of another node")
	// ErrClosed: the node was closed.
	ErrClosed = lsm.ErrClosed
	// ErrTooLarge: a change is above MaxChange.
	ErrTooLarge = lsm.ErrTooLarge
)

// errNotLeader says that another node has to be asked. Nothing was done.
var errNotLeader = errors.New("node does not lead")

// conclude wraps what made a change fail: as a change that did not happen unless the outcome is
// known to be unknown, so that every error of a change is one of both.
func conclude(err error) error {
	if err == nil || errors.Is(err, ErrNotApplied) || errors.Is(err, ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotApplied, err)
}

func unknown(err error) error { return wire.Unknown(err) }
