package testkit

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestKindsWhileFiltered checks keyspaces that a compaction filters meanwhile.
func TestKindsWhileFiltered(t *testing.T) {
	seed := Seed(t)
	for round := range int64(Scale(20, 100, 1000)) {
		if err := checkWhileFiltered(seed + round); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

func checkWhileFiltered(seed int64) error {
	k, l := &Kinds{Seed: seed}, &Ledger{Seed: seed}
	o := &lsm.Options{FS: vfs.NewMem()}
	k.Enable(o)
	db, err := lsm.Open("db", o)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := k.Open(db); err != nil {
		return err
	}
	const batches = 2 * filteredKeys
	for i := 1; i <= batches; i++ {
		if err := k.Write(db, l, i, lsm.NoSync, nil); err != nil {
			return err
		}
	}
	space, err := db.Keyspace(filteredSpace, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err != nil {
		return err
	}
	compacted := make(chan error, 1)
	go func() { compacted <- space.CompactRange(nil, nil) }()
	for running := true; running; {
		select {
		case err = <-compacted:
			running = false
		default:
		}
		err = errors.Join(err, k.Check(db, batches, nil))
		if err != nil && running {
			err, running = errors.Join(err, <-compacted), false
		}
	}
	return err
}
