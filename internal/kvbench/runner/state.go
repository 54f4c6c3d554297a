package runner

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// errNoState says that the system cannot bring about a state.
var errNoState = errors.New("files cannot be dropped from the page cache here")

// bring makes the state that a benchmark begins in.
func (r *Runner) bring(ctx context.Context, spec *workload.Spec) error {
	if r.db == nil || spec.State == workload.AsIs {
		return nil
	}
	if spec.State == workload.Cached {
		before := *spec
		before.State = workload.AsIs
		_, err := r.measure(ctx, &before, Result{Name: spec.Name, Threads: r.threadCount(spec)})
		return err
	}
	if err := r.db.Flush(); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	if spec.State == workload.Cold {
		if err := DropCache(r.Dir); err != nil {
			return errors.Join(err, r.open())
		}
		return r.open()
	}
	if err := eachFile(r.Dir, func(f *os.File) error {
		_, err := io.Copy(io.Discard, f)
		return err
	}); err != nil {
		return err
	}
	small := store.Setting{Name: "cache_size", Value: workload.WarmCache}
	if !slices.ContainsFunc(r.Driver.Options(), func(o store.Option) bool {
		return o.Name == small.Name
	}) {
		return r.open()
	}
	return r.open(small)
}

// reopenWith closes and opens the database with settings on top of its own.
func (r *Runner) reopenWith(more ...store.Setting) error {
	if err := r.Close(); err != nil {
		return err
	}
	return r.open(more...)
}

// eachFile opens the files below dir one by one, for reading. A missing file is no error: a store
// may be no directory at all.
func eachFile(dir string, f func(*os.File) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f(file), file.Close())
	})
}
