package replica

import (
	"context"
	"testing"

	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm/kv"
)

// TestStore runs the suite of all stores over a node alone, and over a follower of three.
func TestStore(t *testing.T) {
	t.Run("Alone", func(t *testing.T) {
		conform.Run(t, func(t *testing.T) kv.Store {
			c := newCluster(t, nil, "a")
			return taken(c, "a")
		})
	})
	t.Run("Follower", func(t *testing.T) {
		conform.Run(t, func(t *testing.T) kv.Store {
			c := newCluster(t, nil, "a", "b", "c")
			return retrying{taken(c, c.follower(c.leader()))}
		})
	})
}

// retrying gives every write an idempotency key, so that it is tried again where the leader is lost
// meanwhile, as happens on a busy machine.
type retrying struct{ *Node }

func (r retrying) Write(ctx context.Context, b *kv.Batch) error {
	return r.Once(fresh()).Write(ctx, b)
}

// taken returns a node that the caller closes.
func taken(c *cluster, id string) *Node {
	n := c.nodes[id]
	delete(c.nodes, id)
	return n
}
