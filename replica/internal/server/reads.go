package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/internal/wire"
)

const (
	// scanBytes is what a scan returns that names no limit, and maxScan the largest limit, in bytes
	// of keys and values.
	scanBytes = 128 << 10
	maxScan   = 1 << 20
	// maxResult is the largest result of a read.
	maxResult = wire.MaxBody - 64
	// maxKeys bounds the keys of MultiGet.
	maxKeys = 1 << 16
)

// reading is a state that calls read, which may want to keep it. Its user calls end.
type reading struct {
	c     *conn
	view  *replica.View
	state *state // what keep made; nil: nothing yet
}

// answer appends the result of a read whose view has been read.
func (r *reading) answer(ctx context.Context, dst []byte, x *call,
	f *wire.Fields) ([]byte, error) {
	if x.Op == wire.OpSnapshot {
		id, err := r.keep(x)
		if err != nil {
			return dst, err
		}
		return binary.AppendUvarint(binary.AppendUvarint(dst, id), r.view.Index), nil
	}
	r.c.of.reading <- struct{}{}
	defer func() { <-r.c.of.reading }()
	return read(ctx, dst, r.view, x.Op, f, func() (uint64, error) { return r.keep(x) })
}

// keep makes the state a snapshot of the connection for a call, and returns its ID. The reading
// holds the state as well: the client may release it while further calls of the reading read it.
func (r *reading) keep(x *call) (id uint64, err error) {
	if r.state == nil {
		r.state = &state{snap: r.view.Keep(), refs: 1}
	}
	x.kept, err = r.c.snaps.add(r.state)
	return x.kept, err
}

// end releases the state, unless it was kept.
func (r *reading) end() {
	if r.state != nil {
		r.c.snaps.unhold(r.state)
	}
}

// read appends the result of a read of a state. keep keeps the state for a scan that goes on.
func read(ctx context.Context, dst []byte, from kv.Reader, op wire.Operation, f *wire.Fields,
	keep func() (uint64, error)) ([]byte, error) {
	switch op {
	case wire.OpGet, wire.OpHas:
		key := f.Bytes()
		if f.Bad || len(f.Rest) > 0 {
			return dst, errArguments
		}
		if op == wire.OpHas {
			has, err := from.Has(ctx, key)
			return append(dst, bit(has)), err
		}
		v, err := from.Get(ctx, key)
		if errors.Is(err, lsm.ErrNotFound) {
			return append(dst, 0), nil
		}
		return append(append(dst, 1), v...), orTooLarge(len(v), err)
	case wire.OpMultiGet:
		return multiGet(ctx, dst, from, f)
	case wire.OpScan:
		s := f.Scan()
		if f.Bad || len(f.Rest) > 0 {
			return dst, errArguments
		}
		return scan(ctx, dst, from, s, keep)
	}
	return dst, fmt.Errorf("this node knows no %v of a state: %w", op, lsm.ErrInvalidArgument)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func orTooLarge(size int, err error) error {
	if err == nil && size > maxResult {
		return fmt.Errorf("a result of %d bytes, and at most %d go: ask for less at once: %w", size,
			maxResult, lsm.ErrTooLarge)
	}
	return err
}

func multiGet(ctx context.Context, dst []byte, from kv.Reader, f *wire.Fields) ([]byte, error) {
	n := f.Number()
	if n > maxKeys {
		return dst, fmt.Errorf("%d keys, and at most %d go at once: %w",
			n, maxKeys, lsm.ErrTooLarge)
	}
	keys := make([][]byte, 0, min(n, uint64(len(f.Rest))))
	for ; n > 0 && !f.Bad; n-- {
		keys = append(keys, f.Bytes())
	}
	if f.Bad || len(f.Rest) > 0 {
		return dst, errArguments
	}
	at := len(dst)
	for _, k := range keys { // not all at once: they may be large, and more than goes
		v, err := from.Get(ctx, k)
		switch {
		case errors.Is(err, lsm.ErrNotFound):
			dst = append(dst, 0)
			continue
		case err != nil:
			return dst, err
		}
		dst = wire.AppendBytes(append(dst, 1), v)
		if err := orTooLarge(len(dst)-at, nil); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// scan appends a chunk.
func scan(ctx context.Context, dst []byte, from kv.Reader, s wire.Scan,
	keep func() (uint64, error)) (_ []byte, err error) {
	it, err := from.Iter(ctx, &kv.IterOptions{Lower: s.Lower, Upper: s.Upper, KeysOnly: s.KeysOnly})
	if err != nil {
		return dst, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	most, left := s.Entries, int(min(s.Bytes, maxScan))
	if most == 0 {
		most = math.MaxUint64
	}
	if left == 0 {
		left = scanBytes
	}
	const head = 1 + binary.MaxVarintLen64 // it is written last
	var entries []byte
	move, ok := it.Next, false
	if s.Backward {
		move, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	for n := uint64(0); ok && n < most; n++ {
		size := len(it.Key()) + len(it.Value())
		if size > left && n > 0 {
			break
		}
		left -= size
		if err := orTooLarge(size+head+2*binary.MaxVarintLen64, nil); err != nil {
			return dst, err
		}
		entries = wire.AppendBytes(entries, it.Key())
		if !s.KeysOnly {
			entries = wire.AppendBytes(entries, it.Value())
		}
		ok = move()
	}
	if err := it.Err(); err != nil {
		return dst, err
	}
	var id uint64
	if ok && s.Keep && keep != nil {
		if id, err = keep(); err != nil {
			return dst, err
		}
	}
	return append(binary.AppendUvarint(append(dst, bit(ok)), id), entries...), nil
}

// state is a snapshot that several IDs hold, and the reading that made it.
type state struct {
	snap kv.Snapshot
	refs int // guarded by snapshots.mu of the connection
}

func (s *state) release() { _ = s.snap.Close() } // always nil

// snapshots are those of a connection.
type snapshots struct {
	mu     sync.Mutex
	byID   map[uint64]*held
	last   uint64
	limit  int
	closed bool
}

// held is a snapshot with an ID.
type held struct {
	*state
	used   time.Time
	inUse  bool // by the goroutine that reads snapshots
	closed bool // it is to be released when that is over
}

func (s *snapshots) init(limit int) { s.byID, s.limit = map[uint64]*held{}, limit }

func (s *snapshots) add(x *state) (id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= s.limit || s.closed {
		return 0, fmt.Errorf("%d snapshots are open on this connection, and at most %d go: %w",
			len(s.byID), s.limit, lsm.ErrBusy)
	}
	s.last++
	x.refs++
	s.byID[s.last] = &held{state: x, used: time.Now()}
	return s.last, nil
}

// use calls f with a snapshot.
func (s *snapshots) use(id uint64, f func(kv.Snapshot) error) error {
	s.mu.Lock()
	h := s.byID[id]
	if h == nil {
		s.mu.Unlock()
		return fmt.Errorf("%w: it was released, or not used for too long", wire.ErrLease)
	}
	h.inUse = true
	s.mu.Unlock()
	err := f(h.snap)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.inUse, h.used = false, time.Now()
	if h.closed {
		s.unref(h.state)
	}
	return err
}

func (s *snapshots) release(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
}

// drop forgets a snapshot.
// REQUIRES: s.mu is held.
func (s *snapshots) drop(id uint64) {
	h := s.byID[id]
	if h == nil {
		return
	}
	delete(s.byID, id)
	if h.inUse {
		h.closed = true
		return
	}
	s.unref(h.state)
}

// unhold ends the hold of a reading.
func (s *snapshots) unhold(x *state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unref(x)
}

// REQUIRES: s.mu is held.
func (s *snapshots) unref(x *state) {
	if x.refs--; x.refs == 0 {
		x.release()
	}
}

// expire releases what was not used since a moment.
func (s *snapshots) expire(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, h := range s.byID {
		if !h.inUse && h.used.Before(before) {
			s.drop(id)
		}
	}
}

func (s *snapshots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id := range s.byID {
		s.drop(id)
	}
}

// readSnapshot answers a read of a snapshot of the connection.
func (c *conn) readSnapshot(ctx context.Context, dst []byte, op wire.Operation, id uint64,
	f *wire.Fields) ([]byte, error) {
	err := c.snaps.use(id, func(s kv.Snapshot) (err error) {
		c.of.reading <- struct{}{}
		defer func() { <-c.of.reading }()
		dst, err = read(ctx, dst, s, op, f, nil)
		return err
	})
	if errors.Is(err, replica.ErrClosed) {
		err = fmt.Errorf("%w: %w", wire.ErrLease, err) // the node halted meanwhile
	}
	return dst, err
}
