package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// marker is the file that says that a directory's database was made here and
// may be destroyed.
const marker = "KVBENCH"

// ErrForeign is wrapped by the refusal to destroy what was not made here.
var ErrForeign = errors.New("not made by kvbench")

// prepare opens the database for a benchmark, a new one if it asks for that. An open database stays
// open if it has what the benchmark needs.
func (r *Runner) prepare(ctx context.Context, spec *workload.Spec) error {
	fresh := spec.Fresh
	needs := store.Needs{
		Counters:     spec.Kind == workload.Add || spec.Counters || r.needs.Counters && !fresh,
		Transactions: spec.Kind == workload.Transact && !spec.Txn.Plain || spec.Queue.Txn,
		Locks:        spec.Txn.Locks,
		Changes:      spec.Kind == workload.Changes,
	}
	if spec.Counters && !r.needs.Counters && !r.Params.UseExisting {
		needs.Counters = false // there are none
	}
	again := r.db != nil && !fresh
	if again && needs == r.needs {
		return nil
	}
	if err := r.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	r.needs = needs
	if again {
		if err := r.open(); err != nil {
			return err
		}
		if r.Params.Quiet {
			waitQuiet(ctx)
		}
		return nil
	}
	if !r.Params.UseExisting && (fresh || !r.begun) {
		if err := r.renew(); err != nil {
			return err
		}
		r.oracle, r.inserted, r.mixedSizes = newOracle(r.Params.Num), 0, false
	}
	r.begun = true
	return r.open()
}

func (r *Runner) open(more ...store.Setting) error {
	c := r.Config
	c.Settings = slices.Concat(c.Settings, more)
	c.MustExist = r.Params.UseExisting
	c.Needs = r.needs
	if r.Params.Comparisons {
		c.Comparisons = &r.compare
	}
	db, err := r.Driver.Open(r.Dir, c)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	r.db = db
	return nil
}

// renew makes the directory an empty one of ours.
func (r *Runner) renew() error {
	if err := mayDestroy(r.Dir); err != nil {
		return err
	}
	if err := r.Driver.Destroy(r.Dir); err != nil {
		return fmt.Errorf("destroy: %w", err)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	text := "The database in this directory was made by kvbench, which may destroy it.\n"
	return os.WriteFile(filepath.Join(r.Dir, marker), []byte(text), 0o600)
}

// mayDestroy refuses a directory that holds something else than a database
// made here.
func mayDestroy(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) == 0:
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w and not empty: name a new directory, or keep what is there with "+
		"--use_existing_db", dir, ErrForeign)
}
