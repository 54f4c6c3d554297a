package runner

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// TestHeldSnapshot: the snapshot shows what was there when it was taken, until it is released.
func TestHeldSnapshot(t *testing.T) {
	r, _ := newRunner(t)
	if res := run(t, r, "fillrandom", "readsnapshot"); res.Skipped != "no snapshot is held: "+
		"holdsnapshot takes one" {
		t.Errorf("%+v", res)
	}
	before := r.oracle.count
	if res := run(t, r, "holdsnapshot", "filluniquerandom", "readsnapshot"); res.Skipped == "" {
		t.Errorf("a snapshot of a database that is gone: %s", res.Line())
	}
	run(t, r, "fillrandom", "holdsnapshot", "overwrite", "overwrite")
	if res := run(t, r, "readsnapshot"); res.Asked != num || res.Found == num || before == num {
		t.Errorf("%s", res.Line())
	}
	run(t, r, "deleteseq")
	if res := run(t, r, "readsnapshot"); res.Found == 0 {
		t.Errorf("deleted in the snapshot: %s", res.Line())
	}
	if res := run(t, r, "readrandom"); res.Found != 0 {
		t.Errorf("%s", res.Line())
	}
	if res := run(t, r, "holdsnapshot", "readsnapshot"); res.Found != 0 || res.Asked != num {
		t.Errorf("the second snapshot: %s", res.Line())
	}
	if res := run(t, r, "release", "readsnapshot"); res.Skipped == "" || r.held.snapshot != nil {
		t.Errorf("a released snapshot: %s", res.Line())
	}
}

// liveDriver has stores whose snapshots show what is written later.
type liveDriver struct{ *storetest.Model }

type liveStore struct{ store.Store }

type liveSnapshot struct{ store.Reader }

func (d liveDriver) Open(dir string, c store.Config) (store.Store, error) {
	db, err := d.Model.Open(dir, c)
	return liveStore{db}, err
}

func (s liveStore) Snapshot() (store.Snapshot, error) { return liveSnapshot{s.Store}, nil }

func (liveSnapshot) Close() error { return nil }

// TestLiveSnapshot: a snapshot that sees later writes is found out.
func TestLiveSnapshot(t *testing.T) {
	r, m := newRunner(t)
	r.Driver = liveDriver{m}
	run(t, r, "fillrandom", "holdsnapshot", "overwrite")
	spec, _ := workload.Find("readsnapshot")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
		t.Errorf("%v", err)
	}
}

// TestHeldIterators: 500 iterators stay where they are, and one that does not is found out.
func TestHeldIterators(t *testing.T) {
	r, _ := newRunner(t)
	run(t, r, "fillrandom", "holditerators", "deleteseq", "fillsync")
	if len(r.held.iterators) != 0 {
		t.Errorf("%d iterators of a database that is gone", len(r.held.iterators))
	}
	if res := run(t, r, "fillrandom", "holditerators", "deleteseq", "release"); res.Found != 500 ||
		res.Asked != 500 || len(r.held.iterators) != 0 {
		t.Errorf("%s", res.Line())
	}
	run(t, r, "fillrandom", "holditerators")
	i := slices.IndexFunc(r.held.iterators, func(it heldIterator) bool { return it.key != nil })
	r.held.iterators[i].Next()
	spec, _ := workload.Find("release")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
		t.Errorf("an iterator that moved: %v", err)
	}
}

// TestSeries: points come in turn, all of them, and scans find the last hundred of a series.
func TestSeries(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseries")
	p := (&thread{shared: &shared{r: r}}).picker(workload.Interleaved)
	rnd := workload.NewRand(1)
	for _, want := range []uint64{0, 100, 200, 300} {
		if n := p.next(&rnd); n != want {
			t.Errorf("key %d, want %d", n, want)
		}
	}
	if n := len(m.Table(r.Dir).Contents()); n != num {
		t.Errorf("%d points", n)
	}
	res := run(t, r, "readseries")
	if res.Ops != num/100 || res.Found != num || res.Asked != num {
		t.Errorf("%s", res.Line())
	}
	m.Table(r.Dir).Empty()
	spec, _ := workload.Find("readseries")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
		t.Errorf("series that are lost: %v", err)
	}
	r.Params.Num = 50 // fewer than a series has elsewhere
	if res := run(t, r, "fillseries", "readseries"); res.Found != 50 {
		t.Errorf("%s", res.Line())
	}
}

// TestStretchBefore counts what lies before a key, gaps left out.
func TestStretchBefore(t *testing.T) {
	o := newOracle(10)
	for _, n := range []uint64{1, 2, 7, 9} {
		o.set(n, true)
	}
	for _, tt := range []struct {
		n      uint64
		length int
		want   int64
	}{{9, 2, 2}, {9, 5, 3}, {10, 5, 4}, {1, 5, 0}, {0, 5, 0}} {
		if got := o.stretchBefore(tt.n, tt.length); got != tt.want {
			t.Errorf("%d before %d: %d, want %d", tt.length, tt.n, got, tt.want)
		}
	}
}
