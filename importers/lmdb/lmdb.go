//go:build cgo

// Package lmdb reads LMDB's environments for importers. A named database becomes the keyspace of
// its name; entries of the main database are in "default".
package lmdb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/PowerDNS/lmdb-go/lmdb"

	"github.com/loamdb/loam/importers"
)

// mostNamed bounds the named databases, for whose handles memory is set apart.
const mostNamed = 1 << 16

type source struct {
	env   *lmdb.Env
	tx    *lmdb.Txn
	root  lmdb.DBI
	names importers.Names
	named map[string]lmdb.DBI // by the name of the keyspace
	own   map[string]bool     // keys of the main database that are names of others
	plain bool                // the main database has entries
	lossy bool
}

// Open opens the environment at path, a directory or, of an environment without one, its file. It
// is an importers.Open. Where there is a file for locks, the transaction is noted in it, so that
// writers keep what it reads.
func Open(path string, o importers.Options) (importers.Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	flags, locks, data := uint(lmdb.Readonly), filepath.Join(path, "lock.mdb"),
		filepath.Join(path, "data.mdb")
	if !info.IsDir() {
		flags, locks, data = flags|lmdb.NoSubdir, path+"-lock", path
	}
	if err := importers.Filled(data); err != nil {
		return nil, err
	}
	if _, err := os.Stat(locks); errors.Is(err, os.ErrNotExist) {
		flags |= lmdb.NoLock // nobody else has it open, and none is made
	}
	s := &source{named: map[string]lmdb.DBI{}, own: map[string]bool{}, lossy: o.Lossy}
	runtime.LockOSThread() // to which the transaction is bound, until Close
	err = importers.Guard(func() error { return s.open(path, data, flags) })
	if errors.Is(err, os.ErrPermission) && flags&lmdb.NoLock == 0 {
		err = fmt.Errorf("%w; %s, in which readers note themselves, has to be written, or left "+
			"out of a copy", err, filepath.Base(locks))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *source) open(path, data string, flags uint) error {
	env, err := lmdb.NewEnv()
	if err != nil {
		return err
	}
	s.env = env
	if err := env.SetMaxDBs(mostNamed); err != nil {
		return err
	}
	if err := env.Open(path, flags, 0); err != nil {
		return err
	}
	if s.tx, err = env.BeginTxn(nil, lmdb.Readonly); err != nil {
		return err
	}
	s.tx.RawRead = true
	if err := checkWhole(data, env, s.tx); err != nil {
		return err
	}
	if s.root, err = s.tx.OpenRoot(0); err != nil {
		return err
	}
	if err := s.findNamed(); err != nil {
		return err
	}
	if s.plain {
		if err := s.names.Add(importers.Default); err != nil {
			return err
		}
	}
	return nil
}

// findNamed opens the databases of which the main one has the names.
func (s *source) findNamed() error {
	return s.each(s.root, func(key, _ []byte) error {
		if bytes.IndexByte(key, 0) >= 0 { // C would take what is before the zero for the name
			s.plain = true
			return nil
		}
		dbi, err := s.tx.OpenDBI(string(key), 0)
		switch {
		case lmdb.IsErrno(err, lmdb.Incompatible) || lmdb.IsNotFound(err):
			s.plain = true
			return nil
		case err != nil:
			return err
		}
		name, err := importers.Name(key)
		if err == nil {
			err = s.names.Add(name)
		}
		if err != nil {
			return err
		}
		s.named[name], s.own[string(key)] = dbi, true
		return nil
	})
}

// each calls visit with all entries of a database.
func (s *source) each(dbi lmdb.DBI, visit func(key, value []byte) error) error {
	c, err := s.tx.OpenCursor(dbi)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		key, value, err := c.Get(nil, nil, lmdb.Next)
		if lmdb.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = visit(key, value)
		}
		if err != nil {
			return err
		}
	}
}

func (s *source) Spaces() []string { return s.names.All }

func (s *source) Each(space string, visit func(importers.Entry) error) error {
	dbi, named := s.named[space]
	if !named {
		dbi = s.root
	}
	flags, err := s.tx.Flags(dbi)
	if err != nil {
		return err
	}
	switch {
	case flags&lmdb.DupSort != 0:
		return importers.Unsupported("several values of one key (MDB_DUPSORT)")
	case flags&lmdb.ReverseKey != 0 && !s.lossy:
		return importers.Unsupported("keys ordered from their ends (MDB_REVERSEKEY); with " +
			"--lossy they are ordered from their beginnings")
	case flags&integerKey != 0 && !s.lossy:
		return importers.Unsupported("keys ordered as numbers (MDB_INTEGERKEY); with --lossy " +
			"they are copied as they are, and ordered by their bytes")
	}
	return s.each(dbi, func(key, value []byte) error {
		if !named && s.own[string(key)] {
			return nil
		}
		return visit(importers.Entry{Key: key, Value: value})
	})
}

// integerKey is MDB_INTEGERKEY of lmdb.h, to which the package gives no name.
const integerKey = 0x08

func (s *source) Close() error {
	defer runtime.UnlockOSThread()
	if s.tx != nil {
		s.tx.Abort()
	}
	if s.env != nil {
		return s.env.Close()
	}
	return nil
}
