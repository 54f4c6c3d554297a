package tikv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm/kv"
)

// TestSmoke runs the suite in a real cluster, whose placement drivers LOAM_TIKV_PD names, each test
// with a prefix of its own, whose keys it deletes.
func TestSmoke(t *testing.T) {
	addresses := os.Getenv("LOAM_TIKV_PD")
	if addresses == "" {
		t.Skip("LOAM_TIKV_PD names no placement drivers: nothing was run in a real cluster")
	}
	conform.Run(t, func(t *testing.T) kv.Store {
		c := Config{PD: strings.Split(addresses, ","),
			Prefix: fmt.Appendf(nil, "loam-smoke-%s\x00", uuid.NewString())}
		db, err := Open(t.Context(), c)
		must(t, err)
		t.Cleanup(func() { clean(t, c) })
		return db
	})
}

// clean deletes all keys below a prefix.
func clean(t *testing.T, c Config) {
	ctx := context.WithoutCancel(t.Context())
	db, err := Open(ctx, c)
	must(t, err)
	it, err := db.Iter(ctx, &kv.IterOptions{KeysOnly: true})
	must(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		must(t, db.Delete(ctx, it.Key()))
	}
	must(t, it.Close(), db.Close())
}
