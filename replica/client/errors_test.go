package client

import (
	"errors"
	"fmt"
	"testing"
)

// TestDoubtStays: an earlier try may have changed something. The failure of a later try does not
// make the call ErrNotApplied.
func TestDoubtStays(t *testing.T) {
	lost := errors.New("connection lost")
	last := fmt.Errorf("%w: %w", ErrNotApplied, ErrUnavailable)
	err := new(Client).conclude(once, last, lost)
	if errors.Is(err, ErrNotApplied) || !errors.Is(err, ErrUnknown) {
		t.Errorf("%v: not applied %v, unknown %v", err, errors.Is(err, ErrNotApplied),
			errors.Is(err, ErrUnknown))
	}
}
