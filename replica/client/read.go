package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/wire"
)

// errAnswer says that an answer is damaged, though its frame is not. It counts as the loss of a
// connection does: another node may do better.
var errAnswer error = damaged{fmt.Errorf("%w answer", wire.ErrMalformed)}

type damaged struct{ error }

func (d damaged) Is(target error) bool { return target == ErrUnavailable }
func (d damaged) Unwrap() error        { return d.error }

// reader reads a state, by calls that do makes.
type reader struct {
	view wire.View
	do   func(ctx context.Context, op wire.Operation, args func([]byte) []byte) ([]byte, error)
}

func (r reader) key(ctx context.Context, op wire.Operation, key []byte) ([]byte, error) {
	return r.do(ctx, op, func(dst []byte) []byte {
		return wire.AppendBytes(wire.AppendView(dst, r.view), key)
	})
}

func (r reader) get(ctx context.Context, key []byte) ([]byte, error) {
	b, err := r.key(ctx, wire.OpGet, key)
	if err != nil {
		return nil, err
	}
	f := wire.Fields{Rest: b}
	switch found := f.Bool(); {
	case f.Bad || !found && len(f.Rest) > 0:
		return nil, errAnswer
	case !found:
		return nil, fmt.Errorf("client: %w", lsm.ErrNotFound)
	}
	return f.Rest, nil
}

func (r reader) has(ctx context.Context, key []byte) (bool, error) {
	b, err := r.key(ctx, wire.OpHas, key)
	if err != nil {
		return false, err
	}
	return said(b)
}

// said reads an answer that is yes or no.
func said(b []byte) (bool, error) {
	f := wire.Fields{Rest: b}
	if yes := f.Bool(); !f.Bad && len(f.Rest) == 0 {
		return yes, nil
	}
	return false, errAnswer
}

func (r reader) multiGet(ctx context.Context, keys [][]byte) ([][]byte, error) {
	b, err := r.do(ctx, wire.OpMultiGet, func(dst []byte) []byte {
		dst = binary.AppendUvarint(wire.AppendView(dst, r.view), uint64(len(keys)))
		for _, k := range keys {
			dst = wire.AppendBytes(dst, k)
		}
		return dst
	})
	if err != nil {
		return nil, err
	}
	f := wire.Fields{Rest: b}
	values := make([][]byte, len(keys))
	for i := range values {
		if f.Bool() {
			values[i] = f.Bytes()
		}
	}
	if f.Bad || len(f.Rest) > 0 {
		return nil, errAnswer
	}
	return values, nil
}

// chunk is what a scan returned.
type chunk struct {
	more    bool
	entries []entry // in the order of the scan
}

type entry struct{ key, value []byte }

func (r reader) scan(ctx context.Context, s *wire.Scan) (*chunk, error) {
	b, err := r.do(ctx, wire.OpScan, func(dst []byte) []byte {
		return wire.AppendScan(wire.AppendView(dst, r.view), s)
	})
	if err != nil {
		return nil, err
	}
	f := wire.Fields{Rest: b}
	c := &chunk{more: f.Bool()}
	f.Number() // no snapshot is kept
	for len(f.Rest) > 0 && !f.Bad {
		e := entry{key: f.Bytes()}
		if !s.KeysOnly {
			e.value = f.Bytes()
		}
		c.entries = append(c.entries, e)
	}
	if f.Bad || c.more && len(c.entries) == 0 {
		return nil, errAnswer
	}
	return c, nil
}

// of makes a reader of a state that any node has.
func (c *Client) of(v wire.View) reader {
	return reader{v, func(ctx context.Context, op wire.Operation,
		args func([]byte) []byte) ([]byte, error) {
		return c.do(ctx, reads, op, args)
	}}
}

// Get returns the value of key, which is not nil. A missing key is lsm.ErrNotFound.
func (c *Client) Get(ctx context.Context, key []byte) ([]byte, error) {
	return c.of(wire.View{}).get(ctx, key)
}

// Has reports whether key has a value.
func (c *Client) Has(ctx context.Context, key []byte) (bool, error) {
	return c.of(wire.View{}).has(ctx, key)
}

// MultiGet looks up many keys in one state. values[i] is that of keys[i], nil if it is missing.
func (c *Client) MultiGet(ctx context.Context, keys [][]byte) (values [][]byte, err error) {
	return c.of(wire.View{}).multiGet(ctx, keys)
}

// Iter opens an iterator over the present state, to be closed by the caller.
func (c *Client) Iter(ctx context.Context, o *kv.IterOptions) (kv.Iterator, error) {
	return c.iter(ctx, wire.View{}, o)
}

func (c *Client) iter(ctx context.Context, v wire.View, o *kv.IterOptions) (kv.Iterator, error) {
	s, err := c.snapshot(ctx, v)
	if err != nil {
		return nil, err
	}
	it, err := s.Iter(ctx, o)
	return it, errors.Join(err, s.Close())
}

// Snapshot fixes the present state, to be closed by the caller.
func (c *Client) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	s, err := c.snapshot(ctx, wire.View{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Local reads what a node has, which may be old: it has everything that had returned maxLag before
// the read began, rounded up to milliseconds. It needs no leader where that is known, and none at
// all with a maxLag of 0, which allows any age. Reads fail with ErrTooOld, too.
func (c *Client) Local(maxLag time.Duration) kv.Reader {
	return local{c, wire.View{Kind: wire.Local, MaxLag: maxLag}}
}

type local struct {
	c *Client
	v wire.View
}

func (l local) Get(ctx context.Context, key []byte) ([]byte, error) {
	return l.c.of(l.v).get(ctx, key)
}

func (l local) Has(ctx context.Context, key []byte) (bool, error) {
	return l.c.of(l.v).has(ctx, key)
}

func (l local) MultiGet(ctx context.Context, keys [][]byte) ([][]byte, error) {
	return l.c.of(l.v).multiGet(ctx, keys)
}

func (l local) Iter(ctx context.Context, o *kv.IterOptions) (kv.Iterator, error) {
	return l.c.iter(ctx, l.v, o)
}

// remote is a snapshot of a node.
type remote struct {
	c    *Client
	on   *link
	view wire.View
	refs atomic.Int64 // of the snapshot and of iterators
}

func (r *remote) release() {
	if r.refs.Add(-1) == 0 {
		r.on.tell(wire.OpRelease, func(dst []byte) []byte {
			return binary.AppendUvarint(dst, r.view.ID)
		})
	}
}

func (r *remote) reader() reader { return reader{r.view, r.do} }

// do makes a call on the node that has the snapshot.
func (r *remote) do(ctx context.Context, op wire.Operation,
	args func([]byte) []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	end := r.c.deadline(ctx, time.Now())
	result, _, err := r.on.call(ctx, end, op, args)
	var answered *wire.RemoteError
	switch {
	case err == nil:
	case errors.Is(err, errSilent):
		err = fmt.Errorf("%w: %w", ErrSnapshotGone, err)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.As(err, &answered), errors.Is(err, lsm.ErrClosed), ctx.Err() != nil,
		errors.Is(err, lsm.ErrTooLarge):
	default:
		err = fmt.Errorf("%w: %w", ErrSnapshotGone, err)
	}
	return result, err
}

// snapshot is a kv.Snapshot.
type snapshot struct {
	*remote
	once   sync.Once
	closed atomic.Bool
}

func (c *Client) snapshot(ctx context.Context, v wire.View) (*snapshot, error) {
	b, on, err := c.doOn(ctx, reads, wire.OpSnapshot, func(dst []byte) []byte {
		return wire.AppendView(dst, v)
	})
	if err != nil {
		return nil, err
	}
	f := wire.Fields{Rest: b}
	id := f.Number()
	if f.Bad {
		return nil, errAnswer
	}
	s := &snapshot{remote: &remote{c: c, on: on, view: wire.View{Kind: wire.AtSnapshot, ID: id}}}
	s.refs.Store(1)
	return s, nil
}

var errSnapshotClosed = fmt.Errorf("client: snapshot: %w", lsm.ErrClosed)

// open returns the reader, unless the snapshot is closed.
func (s *snapshot) open() (reader, error) {
	if s.closed.Load() {
		return reader{}, errSnapshotClosed
	}
	return s.reader(), nil
}

func (s *snapshot) Get(ctx context.Context, key []byte) ([]byte, error) {
	r, err := s.open()
	if err != nil {
		return nil, err
	}
	return r.get(ctx, key)
}

func (s *snapshot) Has(ctx context.Context, key []byte) (bool, error) {
	r, err := s.open()
	if err != nil {
		return false, err
	}
	return r.has(ctx, key)
}

func (s *snapshot) MultiGet(ctx context.Context, keys [][]byte) ([][]byte, error) {
	r, err := s.open()
	if err != nil {
		return nil, err
	}
	return r.multiGet(ctx, keys)
}

func (s *snapshot) Iter(ctx context.Context, o *kv.IterOptions) (kv.Iterator, error) {
	if _, err := s.open(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	it := &iterator{ctx: context.WithoutCancel(ctx), of: s.remote, size: firstChunk}
	if o != nil {
		it.o = kv.IterOptions{Lower: bytes.Clone(o.Lower), Upper: bytes.Clone(o.Upper),
			KeysOnly: o.KeysOnly}
	}
	s.refs.Add(1)
	return it, nil
}

func (s *snapshot) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		s.release()
	})
	return nil
}

// Status is what a node knows about itself and the cluster.
type Status = wire.Status

// Member is a node of a cluster.
type Member = wire.Member

// Status asks one node, the first of the addresses that answers.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	b, err := c.do(ctx, reads, wire.OpStatus, nil)
	if err != nil {
		return nil, err
	}
	return statusOf(b)
}

func status(ctx context.Context, until time.Time, l *link) (*Status, error) {
	b, _, err := l.call(ctx, until, wire.OpStatus, nil)
	if err != nil {
		return nil, err
	}
	return statusOf(b)
}

func statusOf(b []byte) (*Status, error) {
	s := &Status{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return s, nil
}
