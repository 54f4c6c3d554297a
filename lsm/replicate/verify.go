package replicate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/lsm"
)

var errUnrestorable = errors.New("the replica cannot be restored, a new generation begins")

// verifyPrefix is before the generation in the names of databases that are restored for a
// comparison: replicators may share a directory, and nobody else's database has such a name.
const verifyPrefix = "loam-verify-"

// verify restores a state that the target has, compares it with the database, and removes it.
func (r *runner) verify(ctx context.Context, gen string, s state) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("verification: %w", err)
		}
	}()
	dir := filepath.Join(r.o.VerifyDir, verifyPrefix+gen)
	open := lsm.Options{}
	if r.o.Restore != nil {
		open = *r.o.Restore
	}
	if err := lsm.Destroy(dir, &open); err != nil {
		return err
	}
	_, err = restore(ctx, r.target, dir, &RestoreOptions{At: moment(s.time), Open: &open}, gen)
	if errors.Is(err, lsm.ErrCorruption) || errors.Is(err, ErrNoReplica) {
		err = fmt.Errorf("%w: %w", errUnrestorable, err)
	}
	if err != nil {
		return err
	}
	open = reopened(&open)
	made, err := lsm.Open(dir, &open)
	if err == nil {
		err = compareSpaces(ctx, r.db.Inside(), made.Inside(), s, r.o.Clock)
		err = errors.Join(err, made.Close())
	}
	return errors.Join(err, lsm.Destroy(dir, &open))
}

// compareSpaces fails with ErrDiffers where a restored database has another entry than a state.
func compareSpaces(ctx context.Context, db, made store.Host, s state,
	now func() time.Time) error {
	all, err := made.Keyspaces().All(func([]*store.Keyspace) {})
	if err != nil {
		return err
	}
	if len(all) != len(s.spaces) {
		return fmt.Errorf("%w: it has %d keyspaces instead of %d", ErrDiffers, len(all),
			len(s.spaces))
	}
	for _, sp := range s.spaces {
		of := db.Keyspaces().ByID(base.KeyspaceID(sp.ID))
		if of == nil {
			continue // it was dropped since
		}
		k, err := made.Keyspaces().Open(sp.Name, nil, nil, false)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDiffers, err)
		}
		if err := compareSpace(ctx, of, k, s.snap, now); err != nil {
			return fmt.Errorf("keyspace %q: %w", sp.Name, err)
		}
	}
	return nil
}

// ctxStep is the number of entries between two looks at a context.
const ctxStep = 1000

func compareSpace(ctx context.Context, of, made *store.Keyspace, snap *tree.Snapshot,
	now func() time.Time) (err error) {
	var a, b tree.Iterator
	of.Reads().Init(&a, &tree.IterOptions{NoFillCache: true, Snapshot: snap})
	made.Reads().Init(&b, &tree.IterOptions{NoFillCache: true})
	defer func() { err = errors.Join(err, a.Close(), b.Close()) }()
	inA, inB := a.First(), b.First()
	for n := 0; inA || inB; n++ {
		if n%ctxStep == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if a.Err() != nil || b.Err() != nil {
			return nil // Close returns it
		}
		order := 0
		switch {
		case !inA:
			order = 1
		case !inB:
			order = -1
		default:
			order = of.Comparer().Cmp(a.Key(), b.Key())
		}
		// The two were opened at different seconds: what expired between is in the first one only.
		expired := inA && a.Deadline() != 0 && a.Deadline() <= uint64(now().Unix())
		switch {
		case order == 0 && bytes.Equal(a.Key(), b.Key()) && bytes.Equal(a.Value(), b.Value()) &&
			a.Deadline() == b.Deadline():
			inA, inB = a.Next(), b.Next()
		case order < 0 && expired:
			inA = a.Next()
		case order > 0:
			return fmt.Errorf("%w: key %q should not be there", ErrDiffers, b.Key())
		default:
			return fmt.Errorf("%w: key %q", ErrDiffers, a.Key())
		}
	}
	return nil
}
