package ui

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/lsm"
)

// ask asks the process that has the database open. ok is false if no process answers: the
// database is closed then, or was opened without a socket. With an error it ended meanwhile.
func (s *server) ask(ctx context.Context, requests ...asked) (ok bool, err error) {
	c, err := inspect.Dial(s.dir)
	if errors.Is(err, lsm.ErrDoesNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	for _, r := range requests {
		if err := c.Ask(ctx, &r.request, r.result); err != nil {
			_ = c.Close()
			return !ended(err), err
		}
	}
	return true, c.Close()
}

// ended reports whether the process went, or closed the database, before it answered.
func ended(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, lsm.ErrClosed) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// asked is a request, and where its result goes.
type asked struct {
	request inspect.Request
	result  any
}

// idleFollower is how long a follower without readers stays open.
const idleFollower = 15 * time.Second

// follower reads a database that no process answers for. It takes no lock, so the database can be
// opened meanwhile.
type follower struct {
	open func() (*lsm.Follower, error)

	mu    sync.Mutex // held while it is opened
	db    *lsm.Follower
	users int
	idle  *time.Timer // closes it; nil while it has users
}

// with calls do with the present state.
func (f *follower) with(ctx context.Context, do func(db *lsm.Follower) error) error {
	db, err := f.take()
	if err != nil {
		return err
	}
	if err = db.CatchUp(ctx); err == nil {
		err = do(db)
	}
	f.give(errors.Is(err, lsm.ErrDirectoryChanged))
	return err
}

func (f *follower) take() (*lsm.Follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.idle != nil {
		f.idle.Stop()
		f.idle = nil
	}
	if f.db == nil {
		db, err := f.open()
		if err != nil {
			return nil, err
		}
		f.db = db
	}
	f.users++
	return f.db, nil
}

// give ends a use. The directory has become another one if it changed.
func (f *follower) give(changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users--
	if changed {
		f.drop()
	}
	if f.users == 0 && f.db != nil {
		f.idle = time.AfterFunc(idleFollower, f.close)
	}
}

// drop closes the follower, if it is open. Reads under way fail with lsm.ErrClosed. mu is held.
func (f *follower) drop() {
	if f.db != nil {
		_ = f.db.Close()
		f.db = nil
	}
}

// close closes a follower that nobody uses.
func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == 0 {
		f.drop()
	}
}
