package tikv

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	failures "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"
)

var (
	// ErrNotApplied: the change did not happen and will not. It is safe to try again.
	ErrNotApplied = errors.New("change not applied")
	// ErrUnknown: the change may have happened, or may happen later. Read what is there.
	ErrUnknown = errors.New("outcome of the change unknown")
	// ErrTooOld: the cluster no longer keeps the state of an iterator or a snapshot.
	ErrTooOld = errors.New("state no longer kept")
	// ErrConflict: others changed the same keys at the same time. It comes beside ErrNotApplied.
	ErrConflict = lsm.ErrConflict
	// ErrTooLarge: a key is above MaxKey, an entry above MaxEntry, or a batch above MaxBatch. It
	// comes beside ErrNotApplied.
	ErrTooLarge = lsm.ErrTooLarge
	// ErrClosed: the DB or the snapshot was closed.
	ErrClosed = lsm.ErrClosed
)

// DB is a kv.Store in a TiKV cluster. Its methods are safe for concurrent use.
type DB struct {
	client *txnkv.Client
	cfg    Config
	end    []byte // first key behind those of the DB
	points *keeper

	mu     sync.Mutex // leaf
	closed bool
	calls  sync.WaitGroup // under way: none is added once closed is set
}

var _ kv.Store = (*DB)(nil)

// enter begins a call, which leave ends.
func (db *DB) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return fmt.Errorf("tikv: %w", ErrClosed)
	}
	db.calls.Add(1)
	return nil
}

func (db *DB) leave() { db.calls.Done() }

// Close ends the connection, after the calls under way: a function of Update must not call it.
// Further calls, those of iterators and snapshots included, fail from then on.
func (db *DB) Close() error {
	db.mu.Lock()
	closed := db.closed
	db.closed = true
	db.mu.Unlock()
	if closed {
		return fmt.Errorf("tikv: %w", ErrClosed)
	}
	db.calls.Wait()
	return errors.Join(db.points.close(), db.client.Close())
}

// newest is the timestamp of reads of one key, which see what was committed last. States of several
// keys have a timestamp of PD.
const newest = math.MaxUint64

// now fetches a timestamp: reads with it see what was committed before.
func (db *DB) now(ctx context.Context) (uint64, error) {
	ts, err := db.client.GetTimestamp(ctx)
	return ts, explain(err)
}

// at returns a reader of client-go, for one call: it caches what it read, without a bound.
func (db *DB) at(ts uint64) *txnsnapshot.KVSnapshot { return db.client.GetSnapshot(ts) }

// Get returns the value of key, which is not nil. A missing key is lsm.ErrNotFound.
func (db *DB) Get(ctx context.Context, key []byte) ([]byte, error) {
	return db.get(ctx, newest, key)
}

// Has reports whether key has a value. It reads the value.
func (db *DB) Has(ctx context.Context, key []byte) (bool, error) {
	return present(db.get(ctx, newest, key))
}

// MultiGet looks up many keys in one state. values[i] is that of keys[i], nil if it is missing.
func (db *DB) MultiGet(ctx context.Context, keys [][]byte) (values [][]byte, err error) {
	return db.multiGet(ctx, 0, keys)
}

// Iter opens an iterator over the present state. A nil o means all keys.
func (db *DB) Iter(ctx context.Context, o *kv.IterOptions) (kv.Iterator, error) {
	return db.iter(ctx, 0, o)
}

// Snapshot fixes the present state, to be closed by the caller.
func (db *DB) Snapshot(ctx context.Context) (kv.Snapshot, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	h, err := db.hold(ctx, 0)
	if err != nil {
		return nil, err
	}
	return &snapshot{db: db, held: h}, nil
}

// snapshot is a fixed state.
type snapshot struct {
	db     *DB
	held   *hold
	closed atomic.Bool
}

func (s *snapshot) Get(ctx context.Context, key []byte) ([]byte, error) {
	if s.closed.Load() {
		return nil, errSnapshotClosed
	}
	return s.db.get(ctx, s.held.ts, key)
}

func (s *snapshot) Has(ctx context.Context, key []byte) (bool, error) {
	return present(s.Get(ctx, key))
}

func (s *snapshot) MultiGet(ctx context.Context, keys [][]byte) ([][]byte, error) {
	if s.closed.Load() {
		return nil, errSnapshotClosed
	}
	return s.db.multiGet(ctx, s.held.ts, keys)
}

func (s *snapshot) Iter(ctx context.Context, o *kv.IterOptions) (kv.Iterator, error) {
	if s.closed.Load() {
		return nil, errSnapshotClosed
	}
	return s.db.iter(ctx, s.held.ts, o)
}

func (s *snapshot) Close() error {
	if !s.closed.Swap(true) {
		s.held.release()
	}
	return nil
}

var errSnapshotClosed = fmt.Errorf("tikv: snapshot: %w", ErrClosed)

func (db *DB) get(ctx context.Context, ts uint64, key []byte) ([]byte, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	v, err := db.at(ts).Get(ctx, db.key(key))
	if err != nil {
		return nil, explain(err)
	}
	return value(key, v)
}

func present(_ []byte, err error) (bool, error) {
	if errors.Is(err, lsm.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// multiGet reads at a timestamp; 0: the present one.
func (db *DB) multiGet(ctx context.Context, ts uint64, keys [][]byte) ([][]byte, error) {
	if err := db.enter(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	full := make([][]byte, len(keys))
	for i, k := range keys {
		full[i] = db.key(k)
	}
	var err error
	if ts == 0 {
		if ts, err = db.now(ctx); err != nil {
			return nil, err
		}
	}
	found, err := db.at(ts).BatchGet(ctx, full)
	if err != nil {
		return nil, explain(err)
	}
	values := make([][]byte, len(keys))
	for i, k := range full {
		if v, ok := found[string(k)]; ok {
			if values[i], err = value(keys[i], v); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// key is the key of the cluster that a key of the DB has.
func (db *DB) key(key []byte) []byte {
	return append(append(make([]byte, 0, len(db.cfg.Prefix)+len(key)), db.cfg.Prefix...), key...)
}

// present values of the cluster begin with this byte.
const valueVersion = 1

func stored(value []byte) []byte { return append([]byte{valueVersion}, value...) }

// value copies the value out of what the cluster has.
func value(key, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != valueVersion {
		return nil, fmt.Errorf("tikv: the value of %.40q is of another program: "+
			"choose another Prefix: %w", key, lsm.ErrCorruption)
	}
	return append([]byte{}, stored[1:]...), nil
}

// explain wraps an error of the client's reads in lsm.ErrNotFound or ErrTooOld where it is one.
func explain(err error) error {
	var old *failures.ErrGCTooEarly
	switch {
	case err == nil:
		return nil
	case failures.IsErrNotFound(err):
		return lsm.ErrNotFound
	case errors.As(err, &old):
		return fmt.Errorf("tikv: %w: %w", ErrTooOld, err)
	}
	return fmt.Errorf("tikv: %w", err)
}
