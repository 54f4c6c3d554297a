package tikv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/tikv/client-go/v2/oracle"
	client "github.com/tikv/client-go/v2/tikv"
)

// driver is what a keeper calls of PD.
type driver interface {
	// UpdateServiceGCSafePoint keeps all versions that reads since point need, for ttl seconds;
	// 0: no longer. It returns the smallest point of all services: a larger one than point says
	// that PD refused.
	UpdateServiceGCSafePoint(ctx context.Context, id string, ttl int64,
		point uint64) (smallest uint64, err error)
}

// keeper keeps the versions of open iterators and snapshots from garbage collection, by one service
// safe point of PD at the oldest of them. As newer states need no more than an older one, PD hears
// of the first one that is opened, and from then on every third of the TTL, however many are opened
// and closed in between.
type keeper struct {
	pd   driver
	id   string
	ttl  time.Duration
	now  func() time.Time
	stop context.CancelFunc
	over chan struct{} // closed when the goroutine ended

	mu     sync.Mutex
	open   map[*hold]struct{}
	point  uint64    // what PD keeps; 0: nothing
	expiry time.Time // of point
}

// hold is a state that is kept.
type hold struct {
	k  *keeper
	ts uint64
}

func newKeeper(pd driver, ttl time.Duration) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{pd: pd, id: "loam-" + uuid.NewString(), ttl: ttl, now: time.Now, stop: cancel,
		over: make(chan struct{}), open: map[*hold]struct{}{}}
	go k.run(ctx)
	return k
}

func (k *keeper) run(ctx context.Context) {
	defer close(k.over)
	t := time.NewTicker(k.ttl / 3)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			// An error is tried again at the next tick, before the point expires. Reads of a state
			// whose point expired fail with ErrTooOld.
			_ = k.refresh(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// hold keeps a state; 0: the present one.
func (db *DB) hold(ctx context.Context, ts uint64) (*hold, error) {
	var err error
	if ts == 0 {
		if ts, err = db.now(ctx); err != nil {
			return nil, err
		}
	}
	return db.points.hold(ctx, ts)
}

func (k *keeper) hold(ctx context.Context, ts uint64) (*hold, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := &hold{k, ts}
	k.open[h] = struct{}{}
	if k.point != 0 && k.point <= ts && k.now().Before(k.expiry) {
		return h, nil
	}
	err := k.tell(ctx)
	if _, kept := k.open[h]; err == nil && !kept {
		err = fmt.Errorf("tikv: %w: it is older than what others need", ErrTooOld)
	}
	if err != nil {
		delete(k.open, h)
		return nil, err
	}
	return h, nil
}

func (h *hold) release() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	delete(h.k.open, h)
}

// refresh has PD keep what is open now.
func (k *keeper) refresh(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.open) > 0 {
		return k.tell(ctx)
	}
	return k.forget(ctx)
}

// tell has PD keep the oldest open state. One that PD refuses to keep is lost, as PD was away for
// longer than the TTL, say: it is open no more, so that the others are kept. k.mu is held.
func (k *keeper) tell(ctx context.Context) error {
	for len(k.open) > 0 {
		oldest := uint64(math.MaxUint64)
		for h := range k.open {
			oldest = min(oldest, h.ts)
		}
		sent := k.now()
		smallest, err := k.pd.UpdateServiceGCSafePoint(ctx, k.id, int64(k.ttl/time.Second), oldest)
		if err != nil {
			return fmt.Errorf("tikv: keeping a state: %w", err)
		}
		if smallest <= oldest {
			k.point, k.expiry = oldest, sent.Add(k.ttl)
			return nil
		}
		maps.DeleteFunc(k.open, func(h *hold, _ struct{}) bool { return h.ts < smallest })
	}
	return nil
}

// forget has PD keep nothing. k.mu is held.
func (k *keeper) forget(ctx context.Context) error {
	if k.point == 0 {
		return nil
	}
	_, err := k.pd.UpdateServiceGCSafePoint(ctx, k.id, 0, k.point)
	if err == nil {
		k.point = 0
	}
	return err
}

// close ends the goroutine and has PD keep nothing. PD forgets by itself what cannot be told.
func (k *keeper) close() error {
	k.stop()
	<-k.over
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return k.forget(ctx)
}

// MinKeep is the shortest time that Collect keeps versions: longer than any single call takes.
const MinKeep = 10 * time.Minute

// collector is the service of PD that collects: TiDB's name, since PD waits for this one.
const collector = "gc_worker"

// Collect has the cluster drop versions that were overwritten or deleted before the last keep, at
// least MinKeep and not from before 1970 on, as far as no open iterator or snapshot of any program
// needs them, and returns since when all are kept. A cluster of TiDB collects by itself; in another
// one nothing is dropped unless a program calls Collect from time to time.
func (db *DB) Collect(ctx context.Context, keep time.Duration) (since time.Time, err error) {
	if err := db.enter(ctx); err != nil {
		return since, err
	}
	defer db.leave()
	ts, err := db.now(ctx) // by the cluster's clock, as the states of all programs are
	if err != nil {
		return since, err
	}
	at := oracle.GetTimeFromTS(ts).Add(-keep)
	if keep < MinKeep || at.Unix() < 0 { // before 1970 there are no timestamps
		return since, invalid("Collect keeps at least MinKeep, and not from before 1970 on")
	}
	point := oracle.GoTimeToTS(at)
	smallest, err := db.client.GetPDClient().UpdateServiceGCSafePoint(ctx, collector, math.MaxInt64,
		point)
	if err != nil {
		return since, fmt.Errorf("tikv: collecting: %w", err)
	}
	point = min(point, smallest)
	if err := db.announce(point); err != nil {
		return since, fmt.Errorf("tikv: collecting: %w", err)
	}
	point, err = db.client.GC(ctx, point)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return since, fmt.Errorf("tikv: collecting: %w", err)
	}
	return oracle.GetTimeFromTS(point), nil
}

// announce has clients refuse to read states before a point. What is announced never goes back.
func (db *DB) announce(point uint64) error {
	points := db.client.GetSafePointKV()
	text, err := points.Get(client.GcSavedSafePoint)
	if err != nil {
		return err
	}
	if before, err := strconv.ParseUint(text, 10, 64); err == nil && before >= point {
		return nil
	}
	return points.Put(client.GcSavedSafePoint, strconv.FormatUint(point, 10))
}
