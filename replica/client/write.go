package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/optimistic"
	"github.com/loamdb/loam/replica/internal/wire"
)

// Writer changes the database. Every change that returned nil is on stable storage of a majority.
// Every other one fails with ErrNotApplied or ErrUnknown.
type Writer struct {
	c    *Client
	once []byte
}

// Once returns a Writer of one change that takes effect once, however often it is tried: a change
// with an idempotency key that was applied answers as it did, whatever the operations are. So the
// key belongs to one change. It has at most 255 bytes, and is forgotten after 65,536 later ones.
//
// Calls try again by themselves after ErrUnknown, until their context is done.
func (c *Client) Once(key string) *Writer { return &Writer{c, []byte(key)} }

// change has a change made, and reports whether its conditions held.
func (w *Writer) change(ctx context.Context, x *wire.Change) (held bool, err error) {
	b, err := x.Encode()
	if err != nil {
		return false, with(ErrNotApplied, fmt.Errorf("client: %w", err))
	}
	k := writes
	if len(x.Once) > 0 {
		k = once
	}
	result, err := w.c.do(ctx, k, wire.OpWrite, func(dst []byte) []byte {
		return append(dst, b...)
	})
	if err != nil {
		return false, err
	}
	if held, err = said(result); err != nil {
		err = with(ErrUnknown, err)
	}
	return held, err
}

// Put sets key to value.
func (w *Writer) Put(ctx context.Context, key, value []byte) error {
	b := kv.NewBatch()
	b.Put(key, value)
	return w.Write(ctx, b)
}

// Delete removes key, whether it exists or not.
func (w *Writer) Delete(ctx context.Context, key []byte) error {
	b := kv.NewBatch()
	b.Delete(key)
	return w.Write(ctx, b)
}

// Write makes all operations of a batch take effect together. It fails with lsm.ErrTooLarge, too,
// where the batch is above MaxChange.
func (w *Writer) Write(ctx context.Context, b *kv.Batch) error {
	if b == nil {
		return with(ErrNotApplied, fmt.Errorf("client: Write needs a batch: %w",
			lsm.ErrInvalidArgument))
	}
	_, err := w.change(ctx, &wire.Change{Once: w.once, Batch: b.Bytes()})
	return err
}

// DeleteRange removes all keys from start up to, not including, limit. It costs as much as one put.
func (w *Writer) DeleteRange(ctx context.Context, start, limit []byte) error {
	_, err := w.change(ctx, &wire.Change{Once: w.once, Batch: kv.NewBatch().Bytes(),
		Ranges: []lsm.Range{{Start: start, Limit: limit}}})
	return err
}

// CompareAndSwap sets key to value if its value is old, and reports whether it did. A nil old
// stands for no value, an empty one for a value of no bytes; a nil value deletes the key.
func (w *Writer) CompareAndSwap(ctx context.Context, key, old, value []byte) (bool, error) {
	b := kv.NewBatch()
	if value == nil {
		b.Delete(key)
	} else {
		b.Put(key, value)
	}
	return w.change(ctx, &wire.Change{Once: w.once, Batch: b.Bytes(),
		Conditions: []wire.Condition{wire.ConditionOf(key, old)}})
}

// PutIfAbsent sets key to value if it has none, and reports whether it did.
func (w *Writer) PutIfAbsent(ctx context.Context, key, value []byte) (bool, error) {
	if value == nil {
		value = []byte{}
	}
	return w.CompareAndSwap(ctx, key, nil, value)
}

// Update calls f with a transaction and commits what it wrote if it returns nil. Nothing that f
// read was changed by others before the commit: else f is called again, with a newer state, until
// the context is done, and Update fails with lsm.ErrConflict. An error of f is returned as it is.
func (w *Writer) Update(ctx context.Context, f func(*Txn) error) error {
	ctx, cancel := context.WithDeadline(ctx, w.c.deadline(ctx, time.Now()))
	defer cancel()
	for {
		s, err := w.c.snapshot(ctx, wire.View{})
		if err != nil {
			return with(ErrNotApplied, err)
		}
		t := &Txn{optimistic.Begin(s)}
		err = f(t)
		_ = s.Close() // always nil
		if errors.Is(err, ErrSnapshotGone) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		held, err := w.change(ctx, t.t.Change(w.once))
		if err != nil || held {
			return err
		}
		if ctx.Err() != nil {
			return with(ErrNotApplied, fmt.Errorf("%w: %w", lsm.ErrConflict, ctx.Err()))
		}
	}
}

// Txn is a transaction of Update. It is used by one goroutine at a time, while f runs.
type Txn struct{ t optimistic.Txn }

// Get returns the value of key; a missing key is lsm.ErrNotFound.
func (t *Txn) Get(ctx context.Context, key []byte) ([]byte, error) { return t.t.Get(ctx, key) }

// Put sets key to value.
func (t *Txn) Put(key, value []byte) { t.t.Put(key, value) }

// Delete removes key.
func (t *Txn) Delete(key []byte) { t.t.Delete(key) }

// Put sets key to value. See Writer for what the errors of changes mean.
func (c *Client) Put(ctx context.Context, key, value []byte) error {
	return c.Once("").Put(ctx, key, value)
}

// Delete removes key, whether it exists or not.
func (c *Client) Delete(ctx context.Context, key []byte) error {
	return c.Once("").Delete(ctx, key)
}

// Write makes all operations of a batch take effect together.
func (c *Client) Write(ctx context.Context, b *kv.Batch) error { return c.Once("").Write(ctx, b) }

// DeleteRange is Writer.DeleteRange.
func (c *Client) DeleteRange(ctx context.Context, start, limit []byte) error {
	return c.Once("").DeleteRange(ctx, start, limit)
}

// CompareAndSwap is Writer.CompareAndSwap.
func (c *Client) CompareAndSwap(ctx context.Context, key, old, value []byte) (bool, error) {
	return c.Once("").CompareAndSwap(ctx, key, old, value)
}

// PutIfAbsent is Writer.PutIfAbsent.
func (c *Client) PutIfAbsent(ctx context.Context, key, value []byte) (bool, error) {
	return c.Once("").PutIfAbsent(ctx, key, value)
}

// Update is Writer.Update.
func (c *Client) Update(ctx context.Context, f func(*Txn) error) error {
	return c.Once("").Update(ctx, f)
}

// AddVoter adds a node to the cluster, or makes a reader a voter, or changes its address. The node
// is started first. It fails as a change does, and is safe to try again.
func (c *Client) AddVoter(ctx context.Context, id, addr string) error {
	return c.admin(ctx, once, wire.OpAddVoter, id, addr)
}

// AddReader adds a node that gets all changes and has no vote, for reads.
func (c *Client) AddReader(ctx context.Context, id, addr string) error {
	return c.admin(ctx, once, wire.OpAddReader, id, addr)
}

// Remove takes a node out of the cluster.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.admin(ctx, once, wire.OpRemove, id)
}

// TransferLeader makes another voter the leader: the one with that ID, or, if it is "", any.
func (c *Client) TransferLeader(ctx context.Context, id string) error {
	return c.admin(ctx, writes, wire.OpTransfer, id)
}

// Checkpoint has one node make a copy of its database, by hard links, in its directory of
// checkpoints, and returns the path there.
func (c *Client) Checkpoint(ctx context.Context, name string) (string, error) {
	b, err := c.do(ctx, writes, wire.OpCheckpoint, func(dst []byte) []byte {
		return wire.AppendBytes(dst, []byte(name))
	})
	return string(b), err
}

func (c *Client) admin(ctx context.Context, k kind, op wire.Operation, args ...string) error {
	_, err := c.do(ctx, k, op, func(dst []byte) []byte {
		for _, a := range args {
			dst = wire.AppendBytes(dst, []byte(a))
		}
		return dst
	})
	return err
}
