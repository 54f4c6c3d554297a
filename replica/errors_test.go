package replica

import (
	"context"
	"errors"
	"testing"
)

// TestDoubtStays: a change whose first try may have happened fails with ErrUnknown alone, although
// its last try did not happen.
func TestDoubtStays(t *testing.T) {
	c := newCluster(t, nil, "a")
	c.leader()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	err := c.nodes["a"].lead(ctx, true, nil, func(ctx context.Context, _ *session) error {
		if tries++; tries == 1 {
			return unknown(errors.New("connection lost"))
		}
		return conclude(errors.New("the change waited too long"))
	})
	if tries != 2 || errors.Is(err, ErrNotApplied) || !errors.Is(err, ErrUnknown) {
		t.Errorf("%d tries, %v: not applied %v, unknown %v", tries, err,
			errors.Is(err, ErrNotApplied), errors.Is(err, ErrUnknown))
	}
}
