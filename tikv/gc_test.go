package tikv

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/tikv/client-go/v2/oracle"
	client "github.com/tikv/client-go/v2/tikv"
)

// recorder is a PD that notes what it is told.
type recorder struct {
	told  []uint64 // points; 0: nothing is kept
	least uint64   // what others need
	err   error
}

func (r *recorder) UpdateServiceGCSafePoint(_ context.Context, id string, ttl int64,
	point uint64) (uint64, error) {
	if ttl == 0 {
		point = 0
	} else if ttl != 60 || id == "" {
		return 0, errors.New("wrong arguments")
	}
	r.told = append(r.told, point)
	return max(point, r.least), r.err
}

// manual is a keeper whose clock and ticks are the test's.
func manual(pd driver) (*keeper, *time.Time) {
	now := time.Unix(1000, 0)
	k := &keeper{pd: pd, id: "one", ttl: time.Minute, stop: func() {}, over: make(chan struct{}),
		now: func() time.Time { return now }, open: map[*hold]struct{}{}}
	close(k.over)
	return k, &now
}

// TestKeeper opens and closes states, and reads what PD was told: the first state, then the oldest
// at every tick, and in the end nothing.
func TestKeeper(t *testing.T) {
	r := &recorder{}
	k, now := manual(r)
	open := func(ts uint64) *hold {
		h, err := k.hold(t.Context(), ts)
		must(t, err)
		return h
	}
	said := func(want ...uint64) {
		t.Helper()
		if len(r.told) != len(want) || len(want) > 0 && r.told[0] != want[0] {
			t.Errorf("PD was told %d, not %d", r.told, want)
		}
		r.told = nil
	}
	must(t, k.refresh(t.Context()))
	said()
	a := open(10)
	said(10)
	b, c := open(20), open(30)
	said()
	a.release()
	said()
	must(t, k.refresh(t.Context()))
	said(20)
	b.release()
	c.release()
	d := open(40) // 20 is still kept
	said()
	d.release()
	must(t, k.refresh(t.Context()))
	said(0)
	e := open(50)
	said(50)
	*now = now.Add(time.Minute) // no tick came: it expired
	f := open(60)
	said(50)
	g := open(5) // an older one
	said(5)
	for _, h := range []*hold{e, f, g} {
		h.release()
	}
	must(t, k.close())
	said(0)
}

// TestKeeperFails has PD refuse, and be away.
func TestKeeperFails(t *testing.T) {
	r := &recorder{least: 100}
	k, _ := manual(r)
	if _, err := k.hold(t.Context(), 10); !errors.Is(err, ErrTooOld) {
		t.Errorf("a refused state: %v", err)
	}
	r.least, r.err = 0, errLost
	if _, err := k.hold(t.Context(), 20); !errors.Is(err, errLost) {
		t.Errorf("a state without PD: %v", err)
	}
	if r.err = nil; len(k.open) != 0 || k.point != 0 {
		t.Errorf("%d states are kept at %d", len(k.open), k.point)
	}
	_, err := k.hold(t.Context(), 30)
	must(t, err)
}

// TestKeeperLoses has PD forget a state, and others collect behind it: the states that are newer
// are kept all the same.
func TestKeeperLoses(t *testing.T) {
	r := &recorder{}
	k, _ := manual(r)
	for _, ts := range []uint64{10, 20, 40} {
		_, err := k.hold(t.Context(), ts)
		must(t, err)
	}
	r.least, k.expiry = 30, time.Time{}
	if _, err := k.hold(t.Context(), 25); !errors.Is(err, ErrTooOld) {
		t.Errorf("a state that is not kept: %v", err)
	}
	_, err := k.hold(t.Context(), 50)
	must(t, err, k.refresh(t.Context()))
	if k.point != 40 || len(k.open) != 2 {
		t.Errorf("%d states are kept since %d", len(k.open), k.point)
	}
}

// TestCollect collects while a state is open, and afterwards. What a collection announced makes
// older states unreadable, with an error.
func TestCollect(t *testing.T) {
	_, db := newCluster(t)
	defer db.Close()
	for _, keep := range []time.Duration{MinKeep - 1, math.MinInt64, 100 * 365 * 24 * time.Hour,
		math.MaxInt64} { // of the last two nothing would be kept
		if at, err := db.Collect(t.Context(), keep); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%v: %v, %v", keep, at, err)
		}
	}
	must(t, db.Put(t.Context(), []byte("a"), []byte("1")))
	start := time.Now()
	ts := oracle.GoTimeToTS(start.Add(-time.Hour))
	held, err := db.points.hold(t.Context(), ts)
	must(t, err)
	since, err := db.Collect(t.Context(), MinKeep)
	must(t, err)
	if got := oracle.GoTimeToTS(since); got > ts || since.Before(start.Add(-61*time.Minute)) {
		t.Errorf("all is kept since %v, and a state is of %v", since, oracle.GetTimeFromTS(ts))
	}
	held.release()
	must(t, db.points.refresh(t.Context()))
	// the clock of this machine is wrong
	db.points.now = func() time.Time { return start.Add(time.Hour) }
	since, err = db.Collect(t.Context(), MinKeep)
	must(t, err)
	if want := start.Add(-MinKeep); since.Sub(want).Abs() > time.Minute {
		t.Errorf("all is kept since %v, not %v", since, want)
	}
	saved, err := client.StoreProbe{KVStore: db.client.KVStore}.LoadSafePoint()
	must(t, err)
	db.client.UpdateSPCache(saved, time.Now())
	if _, err := db.get(t.Context(), ts, []byte("a")); !errors.Is(err, ErrTooOld) {
		t.Errorf("a state before the point: %v", err)
	}
	must(t, db.announce(saved-1))
	again, err := client.StoreProbe{KVStore: db.client.KVStore}.LoadSafePoint()
	if must(t, err); again != saved {
		t.Error("what is announced went back")
	}
}
