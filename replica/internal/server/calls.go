package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/internal/wire"
)

// dispatch hands a call to the goroutine that answers it.
func (c *conn) dispatch(x *call) {
	switch {
	case c.of.draining.Load():
		c.answer(x, nil, fmt.Errorf("%w: %w: the node is stopping", wire.ErrNotApplied,
			wire.ErrUnavailable))
	case x.Op >= wire.OpGet && x.Op <= wire.OpSnapshot:
		if len(x.Args) > 0 && wire.ViewKind(x.Args[0]) == wire.Linearizable {
			c.present.add(x)
		} else {
			c.other.add(x)
		}
	case x.Op == wire.OpRelease: // at once: a snapshot behind it has the room
		f := wire.Fields{Rest: x.Args}
		c.snaps.release(f.Number())
		c.answer(x, nil, nil)
	case x.Op == wire.OpStatus: // at once: the client may ask whether the node is there
		b, err := json.Marshal(c.of.Status())
		c.answer(x, b, err)
	case x.Op == wire.OpWrite:
		c.changes = append(c.changes, x)
	default:
		c.workers.Go(func() {
			ctx, cancel := c.bounded(x)
			defer cancel()
			result, err := c.change(ctx, x)
			c.answer(x, result, forClient(err))
		})
	}
}

// bounded returns a context for calls that are answered together. It ends with the last of their
// time-outs, which begin when the calls come: one that has waited for too long is not begun.
func (c *conn) bounded(calls ...*call) (context.Context, context.CancelFunc) {
	var end time.Time
	for _, x := range calls {
		limit := x.Timeout
		if limit == 0 {
			limit = c.of.cfg.Timeout
		}
		if at := x.began.Add(limit); at.After(end) {
			end = at
		}
	}
	return context.WithDeadline(c.calls, end)
}

var errArguments = fmt.Errorf("malformed arguments: %w", lsm.ErrInvalidArgument)

// write answers calls of OpWrite.
func (c *conn) write(calls []*call) {
	ctx, cancel := c.bounded(calls...)
	defer cancel()
	changes := make([][]byte, len(calls))
	for i, x := range calls {
		changes[i] = x.Args
	}
	c.of.node.ApplyAll(ctx, changes, func(i int, held bool, err error) {
		c.answer(calls[i], []byte{bit(held)}, forClient(err))
	})
}

// change answers a call that changes the membership, or makes a checkpoint.
func (c *conn) change(ctx context.Context, x *call) (result []byte, err error) {
	node := c.of.node
	f := wire.Fields{Rest: x.Args}
	name := string(f.Bytes())
	addr := ""
	if x.Op == wire.OpAddVoter || x.Op == wire.OpAddReader {
		addr = string(f.Bytes())
	}
	if f.Bad || len(f.Rest) > 0 {
		return nil, fmt.Errorf("%w: %w", wire.ErrNotApplied, errArguments)
	}
	switch x.Op {
	case wire.OpAddVoter:
		err = node.AddVoter(ctx, name, addr)
	case wire.OpAddReader:
		err = node.AddReader(ctx, name, addr)
	case wire.OpRemove:
		err = node.Remove(ctx, name)
	case wire.OpTransfer:
		err = node.TransferLeader(ctx, name)
	case wire.OpCheckpoint:
		return c.checkpoint(ctx, name)
	default:
		err = fmt.Errorf("%w: this node knows no %v: upgrade it: %w", wire.ErrNotApplied, x.Op,
			lsm.ErrInvalidArgument)
	}
	return nil, err
}

// checkpoint makes a copy of the node's state in its directory of checkpoints.
func (c *conn) checkpoint(ctx context.Context, name string) ([]byte, error) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name || name == "." {
		return nil, fmt.Errorf("%w: a checkpoint has a name without slashes, not %q: %w",
			wire.ErrNotApplied, name, lsm.ErrInvalidArgument)
	}
	above, err := filepath.Abs(filepath.Join(c.of.cfg.Dir, "checkpoints"))
	if err == nil {
		err = c.of.cfg.Node.FS().MkdirAll(above)
	}
	dir := filepath.Join(above, name)
	if err == nil {
		err = c.of.node.Checkpoint(ctx, dir)
	}
	if err != nil { // a checkpoint that fails leaves nothing
		return nil, fmt.Errorf("%w: %w", wire.ErrNotApplied, err)
	}
	return []byte(dir), nil
}

// readOther answers reads that need no confirmation by the leader, one after the other.
func (c *conn) readOther() {
	out := answers{c: c}
	for {
		calls := c.other.next(c.ctx)
		if calls == nil {
			return
		}
		for _, x := range calls {
			out.add(x, func(dst []byte) ([]byte, error) { return c.readOne(dst, x) })
		}
		out.send()
	}
}

func (c *conn) readOne(dst []byte, x *call) ([]byte, error) {
	ctx, cancel := c.bounded(x)
	defer cancel()
	f := wire.Fields{Rest: x.Args}
	v := f.View()
	switch {
	case f.Bad:
		return dst, errArguments
	case v.Kind == wire.AtSnapshot:
		dst, err := c.readSnapshot(ctx, dst, x.Op, v.ID, &f)
		return dst, forClient(err)
	}
	err := c.of.node.View(ctx, func(view *replica.View) (err error) {
		r := &reading{c: c, view: view}
		defer r.end()
		dst, err = r.answer(ctx, dst, x, &f)
		return err
	}, replica.Local(v.MaxLag))
	return dst, forClient(err)
}

// readPresent answers reads of the present: all that wait read one state.
func (c *conn) readPresent() {
	out := answers{c: c}
	for {
		calls := c.present.next(c.ctx)
		if calls == nil {
			return
		}
		ctx, cancel := c.bounded(calls...)
		began := false
		err := c.of.node.View(ctx, func(v *replica.View) error {
			began = true
			r := &reading{c: c, view: v}
			defer r.end()
			for _, x := range calls {
				out.add(x, func(dst []byte) ([]byte, error) {
					f := wire.Fields{Rest: x.Args[1:]} // behind the view
					dst, err := r.answer(ctx, dst, x, &f)
					return dst, forClient(err)
				})
			}
			return nil
		})
		cancel()
		if !began {
			for _, x := range calls {
				out.add(x, func(dst []byte) ([]byte, error) { return dst, forClient(err) })
			}
		}
		out.send()
	}
}

// forClient is an error as a client has to see it: a node that is being closed, or whose time is
// over, leaves the client other nodes to ask.
func forClient(err error) error {
	switch {
	case errors.Is(err, wire.ErrUnknown), errors.Is(err, wire.ErrUnavailable),
		errors.Is(err, wire.ErrLease):
	case errors.Is(err, replica.ErrClosed), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
	}
	return err
}

// Status is what the node knows about itself.
func (s *Server) Status() wire.Status {
	t := s.node.Status()
	w := wire.Status{Cluster: s.cfg.Node.Cluster, ID: t.ID, Addr: t.Addr, Version: s.cfg.Version,
		State: t.State, Leader: t.Leader, LeaderAddr: t.LeaderAddr, Term: t.Term, Commit: t.Commit,
		Applied: t.Applied, LastSnapshot: t.LastSnapshot, Members: []wire.Member{}}
	for _, m := range t.Members {
		w.Members = append(w.Members, wire.Member(m))
	}
	if t.Halted != nil {
		w.Halted = t.Halted.Error()
	}
	return w
}
