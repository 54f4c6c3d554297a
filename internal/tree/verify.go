package tree

import (
	"context"
	"errors"

	"github.com/loamdb/loam/internal/base"
)

// Verify reads every table of the trees, as of now, whole; see files.Set.Verify. It tells
// progress, unless nil, how many bytes of tables and of values in logs were read, of how many. It
// goes on behind a damaged table and one that cannot be read: the error joins the first one of each
// table. It ends with ctx's error when ctx is done, and with base.ErrClosed when the first tree is
// closed. Trees that were dropped are passed over.
func Verify(ctx context.Context, trees []*Tree, progress func(read, of uint64)) error {
	var states []*ReadState // references keep the tables
	defer func() {
		for _, s := range states {
			s.Unref()
		}
	}()
	var read, of uint64
	for _, t := range trees {
		if s := t.Acquire(); s != nil {
			states = append(states, s)
			of += s.Version.Size() + s.Version.ValueBytes()
		}
	}
	stop := func() error {
		if trees[0].Closed() {
			return base.ErrDatabaseClosed
		}
		return ctx.Err()
	}
	if progress == nil {
		progress = func(read, of uint64) {}
	}
	step := func(bytes int) error {
		if bytes > 0 {
			read += uint64(bytes)
			progress(read, of)
		}
		return stop()
	}
	if err := stop(); err != nil {
		return err
	}
	var errs []error
	for _, s := range states {
		for _, m := range s.Version.Tables() {
			err := s.tree.shared.Files.Verify(m, step)
			errs = append(errs, err)
			if end := stop(); end != nil {
				if !errors.Is(err, end) {
					errs = append(errs, end)
				}
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}
