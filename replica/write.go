package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/optimistic"
	"github.com/loamdb/loam/replica/internal/wire"
)

// Writer changes a Node. Every change that returned nil is on stable storage of a majority. Every
// other one fails with ErrNotApplied or ErrUnknown.
type Writer struct {
	node *Node
	once []byte
}

// Once returns a Writer of one change that takes effect once, however often it is tried, also by
// other nodes and after restarts: a change with an idempotency key that was applied answers as it
// did, whatever the operations are. So the key belongs to one change: an order's number, or random
// bytes. It has at most 255 bytes, and is forgotten after OnceKept later ones.
//
// Calls try again by themselves after ErrUnknown, until their context is done.
func (n *Node) Once(key string) *Writer { return &Writer{n, []byte(key)} }

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

// Write makes all operations of a batch take effect together. It fails with ErrTooLarge, too, where
// the batch is above MaxChange.
func (w *Writer) Write(ctx context.Context, b *kv.Batch) error {
	if b == nil {
		return conclude(invalid("Write needs a batch"))
	}
	_, err := w.node.change(ctx, &wire.Change{Once: w.once, Batch: b.Bytes()})
	return err
}

// DeleteRange removes all keys from start up to, not including, limit. It costs as much as one put.
// A node of a version that has no DeleteRange halts at it: upgrade all nodes first.
func (w *Writer) DeleteRange(ctx context.Context, start, limit []byte) error {
	_, err := w.node.change(ctx, &wire.Change{Once: w.once, Batch: kv.NewBatch().Bytes(),
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
	o, err := w.node.change(ctx, &wire.Change{Once: w.once, Batch: b.Bytes(),
		Conditions: []wire.Condition{wire.ConditionOf(key, old)}})
	return o == done, err
}

// Update calls f with a transaction and commits what it wrote if it returns nil. Nothing that f
// read was changed by others before the commit: else f is called again, with a newer state, until
// the context is done, and Update fails with lsm.ErrConflict. An error of f is returned as it is.
func (w *Writer) Update(ctx context.Context, f func(*Txn) error) error {
	n := w.node
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	for {
		v, err := n.view(ctx, Linearizable)
		if err != nil {
			return conclude(err)
		}
		t := &Txn{optimistic.Begin(v)}
		err = func() error {
			defer v.end() // also where f panics
			return f(t)
		}()
		if err != nil {
			return err
		}
		o, err := n.change(ctx, t.t.Change(w.once))
		if err != nil || o == done {
			return err
		}
		if ctx.Err() != nil {
			return conclude(fmt.Errorf("%w: %w", lsm.ErrConflict, ctx.Err()))
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
func (n *Node) Put(ctx context.Context, key, value []byte) error {
	return n.Once("").Put(ctx, key, value)
}

// Delete removes key, whether it exists or not.
func (n *Node) Delete(ctx context.Context, key []byte) error { return n.Once("").Delete(ctx, key) }

// Write makes all operations of a batch take effect together.
func (n *Node) Write(ctx context.Context, b *kv.Batch) error { return n.Once("").Write(ctx, b) }

// DeleteRange is Writer.DeleteRange.
func (n *Node) DeleteRange(ctx context.Context, start, limit []byte) error {
	return n.Once("").DeleteRange(ctx, start, limit)
}

// CompareAndSwap is Writer.CompareAndSwap.
func (n *Node) CompareAndSwap(ctx context.Context, key, old, value []byte) (bool, error) {
	return n.Once("").CompareAndSwap(ctx, key, old, value)
}

// Update is Writer.Update.
func (n *Node) Update(ctx context.Context, f func(*Txn) error) error {
	return n.Once("").Update(ctx, f)
}

// change has a change applied by the leader, wherever it is. It tries again where that is safe.
func (n *Node) change(ctx context.Context, c *wire.Change) (outcome, error) {
	b, err := c.Encode()
	if err != nil {
		return 0, conclude(fmt.Errorf("replica: %w", err))
	}
	return n.propose(ctx, b, len(c.Once) > 0, nil)
}

// Apply has a change applied that comes as bytes, as docs/format-loamd.md has them, and reports
// whether its conditions held: it is for servers. The bytes must not be changed afterwards. It
// fails as Write does, with lsm.ErrInvalidArgument, too, for bytes that are no change.
func (n *Node) Apply(ctx context.Context, change []byte) (held bool, err error) {
	c, err := checked(change)
	if err != nil {
		return false, conclude(err)
	}
	o, err := n.propose(ctx, change, len(c.Once) > 0, nil)
	return o == done, err
}

// ApplyAll is Apply of several changes, which share what a call costs. It calls report for each of
// them, in any order, on several goroutines, and returns when all are reported.
func (n *Node) ApplyAll(ctx context.Context, changes [][]byte,
	report func(i int, held bool, err error)) {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	var slow sync.WaitGroup
	defer slow.Wait()
	var at []int // where the valid ones stand
	var valid [][]byte
	again := make([]bool, len(changes)) // they may be tried again after ErrUnknown
	for i, b := range changes {
		c, err := checked(b)
		if err != nil {
			report(i, false, conclude(err))
			continue
		}
		at, valid, again[i] = append(at, i), append(valid, b), len(c.Once) > 0
	}
	for k, a := range n.tryAll(ctx, valid) {
		i := at[k]
		unsure := errors.Is(a.err, ErrUnknown)
		switch {
		case a.err == nil:
			report(i, a.outcome == done, nil)
		case unsure && !again[i]:
			report(i, false, a.err)
		case unsure || errors.Is(a.err, errNotLeader):
			slow.Go(func() {
				var doubt error
				if unsure {
					doubt = a.err
				}
				o, err := n.propose(ctx, changes[i], again[i], doubt)
				report(i, o == done, err)
			})
		default:
			report(i, false, conclude(a.err))
		}
	}
}

// tryAll has changes applied by this node, if it leads.
func (n *Node) tryAll(ctx context.Context, changes [][]byte) []applied {
	err := ctx.Err()
	var s *session
	if err == nil {
		s, err = n.running()
	}
	if err == nil {
		if _, here := s.leader(); here && len(changes) > 0 {
			return s.applyAll(ctx, changes)
		}
		err = errNotLeader
	}
	return slices.Repeat([]applied{{err: err}}, len(changes))
}

// checked decodes a change that came from outside, and makes sure that every state machine takes
// it.
func checked(b []byte) (*wire.Change, error) {
	c, err := wire.DecodeChange(b)
	if errors.Is(err, wire.ErrMalformed) {
		err = fmt.Errorf("%w: %w", err, lsm.ErrInvalidArgument)
	}
	if err == nil && len(b) > MaxChange {
		err = fmt.Errorf("a change of %d bytes, and at most %d go: cut it: %w", len(b), MaxChange,
			ErrTooLarge)
	}
	if err == nil {
		_, err = lsm.BatchFromBytes(c.Batch)
	}
	return c, err
}

// propose has an encoded change applied. again says that the change may be tried again after
// ErrUnknown; doubt is such an error of a try before.
func (n *Node) propose(ctx context.Context, b []byte, again bool, doubt error) (outcome, error) {
	var o outcome
	err := n.lead(ctx, again, doubt, func(ctx context.Context, s *session) error {
		var err error
		o, err = s.change(ctx, b)
		return err
	})
	return o, err
}

// lead calls f until it meets the leader. again says that it may be called after ErrUnknown, too;
// doubt is the error of a try before whose outcome is unknown, nil for none.
func (n *Node) lead(ctx context.Context, again bool, doubt error,
	f func(context.Context, *session) error) error {
	if err := ctx.Err(); err != nil {
		return orDoubt(err, doubt)
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	var pause pause
	for {
		s, err := n.running()
		if err == nil {
			err = f(ctx, s)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrUnknown):
			if doubt = err; !again {
				return err
			}
		case !errors.Is(err, errNotLeader):
			return orDoubt(err, doubt)
		}
		if pause.wait(ctx) != nil {
			return orDoubt(fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, ctx.Err())), doubt)
		}
	}
}

// orDoubt returns the error of the last try, which decides nothing about an earlier one.
func orDoubt(err, doubt error) error {
	if doubt != nil {
		return unknown(err)
	}
	return conclude(err)
}

// change asks the leader for a change, once.
func (s *session) change(ctx context.Context, b []byte) (outcome, error) {
	addr, here := s.leader()
	if here {
		return s.apply(ctx, b)
	}
	result, err := s.forward(ctx, addr, opChange, b)
	if err == nil && len(result) != 1 {
		err = unknown(wire.ErrMalformed)
	}
	if err != nil {
		return 0, err
	}
	return outcome(result[0]), nil
}

// forward makes a call that changes something. After errNotLeader the call had no effect.
func (s *session) forward(ctx context.Context, addr string, op operation,
	args []byte) ([]byte, error) {
	if addr == "" {
		return nil, errNotLeader
	}
	result, sent, err := s.peers.call(ctx, addr, op, args)
	var remote *remoteError
	switch {
	case err == nil:
		return result, nil
	case !sent:
		return nil, fmt.Errorf("%w: %w", errNotLeader, err)
	case errors.As(err, &remote) && !errors.Is(err, ErrUnknown):
		return nil, err
	}
	return nil, unknown(err)
}

// refusal says what an error of Raft means to a change: those that come before an entry is appended
// are errNotLeader.
func refusal(err error) error {
	if errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) ||
		errors.Is(err, raft.ErrLeadershipTransferInProgress) || errors.Is(err, errNotLeader) {
		return fmt.Errorf("%w: %w", errNotLeader, err)
	}
	return unknown(err)
}

// await calls f, which waits for Raft, and returns early when the context or the session ends: Raft
// answers not every call that it had when it ended.
func (s *session) await(ctx context.Context, f func() error) error {
	answer := make(chan error, 1)
	go func() { answer <- f() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// pause waits between tries, longer every time.
type pause struct{ last time.Duration }

func (p *pause) wait(ctx context.Context) error {
	p.last = min(max(2*p.last, 2*time.Millisecond), 100*time.Millisecond)
	t := time.NewTimer(p.last)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
