package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestUnknownIsNotNotApplied: a change that may have happened is not one that is safe to try again,
// whatever ended the last try, here and behind an answer.
func TestUnknownIsNotNotApplied(t *testing.T) {
	last := fmt.Errorf("%w: %w: %w", ErrNotApplied, ErrUnavailable, context.DeadlineExceeded)
	for _, err := range []error{Unknown(last), Unknown(Unknown(last)),
		Unknown(errors.Join(ErrUnknown, last)), fmt.Errorf("a write: %w", Unknown(last))} {
		answered := errorOf(flagsOf(err), []byte(err.Error()))
		for _, err := range []error{err, answered} {
			if errors.Is(err, ErrNotApplied) || !errors.Is(err, ErrUnknown) ||
				!errors.Is(err, ErrUnavailable) {
				t.Errorf("%v: not applied %v, unknown %v, unavailable %v", err,
					errors.Is(err, ErrNotApplied), errors.Is(err, ErrUnknown),
					errors.Is(err, ErrUnavailable))
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v has no cause", err)
		}
	}
	var remote *RemoteError
	if !errors.As(Unknown(errorOf(errorBit|1, nil)), &remote) {
		t.Error("the answer is not found")
	}
}
