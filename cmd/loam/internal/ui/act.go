package ui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/lsm"
)

// flush writes the memtables of a keyspace into tables.
func (s *server) flush(ctx context.Context, q query) (any, error) {
	return s.act(ctx, inspect.Request{Do: "flush", Keyspace: q.keyspace()},
		func(k *lsm.Keyspace) error { return k.Flush() })
}

// compact merges the tables of a keyspace.
func (s *server) compact(ctx context.Context, q query) (any, error) {
	return s.act(ctx, inspect.Request{Do: "compact", Keyspace: q.keyspace()},
		func(k *lsm.Keyspace) error { return k.CompactRangeContext(ctx, nil, nil) })
}

// checkpoint copies the database to the directory that the parameter dir names.
func (s *server) checkpoint(ctx context.Context, q query) (any, error) {
	dir := q.Get("dir")
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%w: %q is no absolute path", lsm.ErrInvalidArgument, dir)
	}
	ok, err := s.ask(ctx, asked{inspect.Request{Do: "checkpoint", Dir: dir}, nil})
	if ok || err != nil {
		return struct{}{}, err
	}
	opts, err := s.Options.Options()
	if err != nil {
		return nil, err
	}
	opts.ReadOnly = true
	db, err := lsm.Open(s.dir, opts)
	if err != nil {
		return nil, err
	}
	return struct{}{}, errors.Join(db.Checkpoint(ctx, dir), db.Close())
}

// act asks the process, or opens the closed database for writing.
func (s *server) act(ctx context.Context, r inspect.Request, do func(k *lsm.Keyspace) error) (any,
	error) {
	ok, err := s.ask(ctx, asked{r, nil})
	if ok || err != nil {
		return struct{}{}, err
	}
	opts, err := s.Options.Options()
	if err != nil {
		return nil, err
	}
	db, err := lsm.Open(s.dir, opts)
	if err != nil {
		return nil, err
	}
	k, err := db.Keyspace(r.Keyspace, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if err == nil {
		err = do(k)
	}
	return struct{}{}, errors.Join(err, db.Close())
}
