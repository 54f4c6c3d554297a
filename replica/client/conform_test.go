package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/loamdtest"
)

// TestStore runs the suite of all stores over a client of one node, and of three.
func TestStore(t *testing.T) {
	for _, ids := range [][]string{{"a"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprint(len(ids)), func(t *testing.T) {
			conform.Run(t, func(t *testing.T) kv.Store {
				c := loamdtest.Start(t, nil, ids...)
				return retrying{dial(t, c)}
			})
		})
	}
}

// dial makes a client that the caller closes.
func dial(t testing.TB, c *loamdtest.Cluster) *client.Client {
	t.Helper()
	db, err := client.Dial(c.Addrs(), &client.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// retrying gives every write an idempotency key, so that it is tried again where the leader is lost
// meanwhile, as happens on a busy machine.
type retrying struct{ *client.Client }

var fresh atomic.Int64

func (r retrying) Write(ctx context.Context, b *kv.Batch) error {
	return r.Once(fmt.Sprint("fresh ", fresh.Add(1))).Write(ctx, b)
}
