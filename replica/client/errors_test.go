package client

import (
	"errors"
	"fmt"
	"testing"
)

// TestDoubtStays: where an earlier try may have happened, a later one that did not decides nothing.
func TestDoubtStays(t *testing.T) {
	lost := errors.New("connection lost")
	last := fmt.Errorf("%w: %w", ErrNotApplied, ErrUnavailable)
	err := new(Client).conclude(once, last, lost)
	if errors.Is(err, ErrNotApplied) || !errors.Is(err, ErrUnknown) {
		t.Errorf("%v: not applied %v, unknown %v", err, errors.Is(err, ErrNotApplied),
			errors.Is(err, ErrUnknown))
	}
}
