package replica

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// Errors of changes: one of the first three, or ErrHalted beside one of them.
var (
	// ErrNotApplied: the change did not happen and will not. It is safe to try again.
	ErrNotApplied = errors.New("change not applied")
	// ErrUnknown: the change may have happened, or may happen later. Try again with the same
	// idempotency key, see Node.Once, or read what is there.
	ErrUnknown = errors.New("outcome of the change unknown")
	// ErrHalted: this node met an error of its disk and takes no part in the cluster until Rejoin.
	// The other nodes go on. The error wraps the cause.
	ErrHalted = errors.New("node halted")
)

// Errors of reads and of openings.
var (
	// ErrUnavailable: no leader answered in time.
	ErrUnavailable = errors.New("no leader")
	// ErrTooOld: the state of this node may be older than Local allows.
	ErrTooOld = errors.New("state too old")
	// ErrRefused: the other node is of another cluster, or speaks another version of the protocol.
	ErrRefused = errors.New("connection refused by the node")
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

func unknown(err error) error { return fmt.Errorf("%w: %w", ErrUnknown, err) }
