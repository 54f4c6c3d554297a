package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/loamdb/loam/internal/feature/locks"
)

// Retry calls try until it succeeds or fails with something else than a conflict, a deadlock or a
// lock time-out, or until ctx ends; then the error is both that of ctx and the last one.
func Retry(ctx context.Context, try func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		err := try()
		if !errors.Is(err, ErrConflict) && !errors.Is(err, locks.ErrDeadlock) &&
			!errors.Is(err, locks.ErrTimeout) {
			return err
		}
		if ctxErr := backOff(ctx, attempt); ctxErr != nil {
			return fmt.Errorf("%w: %w", ctxErr, err)
		}
	}
}

// Pauses between attempts are random, from 0 to a bound that doubles from firstPause to
// lastPause; the first repetition follows at once.
const (
	firstPause = 50 * time.Microsecond
	lastPause  = 20 * time.Millisecond
)

func backOff(ctx context.Context, attempt int) error {
	if attempt > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(min(firstPause<<min(attempt, 20), lastPause))):
		}
	}
	return ctx.Err() // also where the pause and ctx end at once: select takes either
}
