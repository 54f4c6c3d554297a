package txn

import (
	"context"
	"errors"
	"testing"
)

// TestRetryEndsWithItsContext: no attempt follows the end of the context, whatever ended the pause
// before it.
func TestRetryEndsWithItsContext(t *testing.T) {
	ctx := &quiet{Context: context.Background()}
	tries := 0
	err := Retry(ctx, func() error {
		if tries++; tries == 3 {
			ctx.err = context.Canceled
		}
		return ErrConflict
	})
	if tries != 3 || !errors.Is(err, context.Canceled) || !errors.Is(err, ErrConflict) {
		t.Error(tries, err)
	}
}

// quiet is a context whose end is found by Err alone, as if a select had taken its other case.
type quiet struct {
	context.Context
	err error
}

func (q *quiet) Err() error { return q.err }
