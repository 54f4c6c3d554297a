package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/tree"
)

// has reports whether a key is there at a snapshot, nil for the present, for a Get, a
// MultiGet and an iterator, which must agree.
func (d *database) has(key string, snap *tree.Snapshot) bool {
	d.t.Helper()
	_, err := d.tree.Get([]byte(key), nil, snap, 0)
	if err != nil && !errors.Is(err, base.ErrNotFound) {
		d.t.Fatal(err)
	}
	var r tree.MultiResult
	if err := d.tree.MultiGet([][]byte{[]byte(key)}, snap, &r); err != nil {
		d.t.Fatal(err)
	}
	var it tree.Iterator
	d.tree.Init(&it, &tree.IterOptions{Snapshot: snap})
	defer it.Close()
	_, multi := r.Value(0)
	seek := it.SeekGE([]byte(key)) && string(it.Key()) == key
	if found := err == nil; multi != found || seek != found {
		d.t.Errorf("%s: Get finds %v, MultiGet %v, SeekGE %v", key, found, multi, seek)
	}
	return err == nil
}

// TestFilterLeavesSnapshotsAlone opens snapshots before and during a compaction whose filter
// removes everything: both see what they saw, whatever is compacted later, until they are
// closed. Then nothing keeps the states of before.
func TestFilterLeavesSnapshotsAlone(t *testing.T) {
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	d := openFiltered(t, vfs.NewMem(), &base.CompactionFilter{Name: "test.Remove",
		Filter: func(_ int, key, _ []byte) (base.FilterDecision, error) {
			asked <- struct{}{}
			<-answer
			if strings.HasPrefix(string(key), "keep") {
				return base.FilterKeep, nil
			}
			return base.FilterRemove, nil
		}})
	compact := func() {
		t.Helper()
		d.seal()
		if err := errors.Join(d.jobs.WaitFlushed(d.tree, 0),
			d.jobs.CompactRange(context.Background(), d.tree, nil, nil)); err != nil {
			t.Error(err)
		}
	}
	var before, during, same tree.Snapshot
	d.mustPut("a")
	d.shared.Seqs.Open(&before)
	for _, k := range []string{"b", "c", "keep"} {
		d.mustPut(k)
	}
	done := make(chan struct{})
	go func() { defer close(done); compact() }()
	hang.Within(t, "the filter", func() { <-asked })
	d.shared.Seqs.Open(&during)
	d.shared.Seqs.Open(&same)
	d.mustPut("d")
	close(answer)
	hang.Within(t, "the compaction", func() { <-done })
	want := func(snap *tree.Snapshot, has string) {
		t.Helper()
		for _, k := range []string{"a", "b", "c", "d", "keep"} {
			if got, want := d.has(k, snap), strings.Contains(has, k); got != want {
				t.Errorf("%s: found %v, want %v", k, got, want)
			}
		}
	}
	want(nil, "a d keep") // a is seen by a snapshot; d is not compacted yet
	want(&before, "a")
	want(&during, "a b c keep")
	compact()
	want(nil, "a keep") // during does not see d
	want(&before, "a")
	want(&during, "a b c keep")
	before.Close()
	during.Close()
	want(&same, "a b c keep")
	same.Close()
	if p := d.shared.Seqs; p.NumSnapshots() != 0 {
		t.Fatalf("%d snapshots", p.NumSnapshots())
	}
	compact()
	want(nil, "keep")
	c := d.jobs.Counters()
	if c.Filter.Removed != 4 || c.Filter.Changed != 0 || c.Filter.Failed != 0 {
		t.Errorf("counted %+v", c.Filter)
	}
	d.tree.Drop()
	d.shared.Reads.DrainFor(time.Minute)
	if !d.tree.Unused() {
		t.Error("a state is kept")
	}
}

// removeBeside returns a database whose key a was removed by the filter of a compaction, during
// which the snapshot was opened.
func removeBeside(t *testing.T, during *tree.Snapshot) *database {
	var d *database
	d = openFiltered(t, vfs.NewMem(), &base.CompactionFilter{Name: "test.Remove",
		Filter: func(int, []byte, []byte) (base.FilterDecision, error) {
			d.shared.Seqs.Open(during)
			return base.FilterRemove, nil
		}})
	d.mustPut("a")
	d.seal()
	if err := errors.Join(d.jobs.WaitFlushed(d.tree, 0), d.jobs.CompactRange(context.Background(),
		d.tree, nil, nil)); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSnapshotsOutliveTheirTree drops a tree while a snapshot is pinned to a state of it.
func TestSnapshotsOutliveTheirTree(t *testing.T) {
	var snap tree.Snapshot
	d := removeBeside(t, &snap)
	if !d.has("a", &snap) || d.has("a", nil) {
		t.Error("the snapshot does not see what it saw")
	}
	d.shared.Seqs.Refuse(d.tree.Tree)
	d.tree.Drop()
	d.shared.Reads.DrainFor(time.Minute)
	if !d.tree.Unused() {
		t.Error("the snapshot keeps a state of a dropped tree")
	}
	if _, err := d.tree.Get([]byte("a"), nil, &snap, 0); !errors.Is(err, base.ErrNoKeyspace) {
		t.Errorf("Get of a dropped tree: %v", err)
	}
	snap.Close()
}

// TestSnapshotsAfterAFilter opens snapshots of one sequence number while a filter removes a key and
// after it did: the first sees the key as long as it is open, the later ones never do.
func TestSnapshotsAfterAFilter(t *testing.T) {
	var during, after, last tree.Snapshot
	d := removeBeside(t, &during)
	d.shared.Seqs.Open(&after)
	d.shared.Seqs.Open(&last)
	for _, closed := range []func(){func() {}, after.Close, during.Close} {
		closed()
		for name, snap := range map[string]*tree.Snapshot{"during": &during, "last": &last} {
			if _, err := d.tree.Get([]byte("a"), nil, snap, 0); errors.Is(err,
				base.ErrSnapshotClosed) {
				continue
			}
			if got, want := d.has("a", snap), snap == &during; got != want {
				t.Errorf("%s: found %v, want %v", name, got, want)
			}
		}
	}
	last.Close()
	d.tree.Drop()
	d.shared.Reads.DrainFor(time.Minute)
	if !d.tree.Unused() {
		t.Error("a state is kept")
	}
}

// TestFilterFails has the filter of a compaction return an error, then panic: each time the
// compaction fails with the cause, nothing is lost, and the database goes on.
func TestFilterFails(t *testing.T) {
	var fails atomic.Int32
	d := openFiltered(t, vfs.NewMem(), &base.CompactionFilter{Name: "test.Moody",
		Filter: func(int, []byte, []byte) (base.FilterDecision, error) {
			switch fails.Load() {
			case 1:
				return base.FilterRemove, errors.New("no network")
			case 2:
				panic("no nerves")
			case 3:
				panic(&base.CallbackError{Callback: "compaction filter", Reason: "no reason"})
			}
			return base.FilterKeep, nil
		}})
	for i, why := range []string{"no network", "no nerves", "no reason", ""} {
		d.mustPut("a")
		d.seal()
		if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
			t.Fatal(err)
		}
		fails.Store(int32(i+1) % 4)
		err := d.jobs.CompactRange(context.Background(), d.tree, nil, nil)
		if why == "" && err != nil || why != "" && (!errors.Is(err, base.ErrCompactionFilter) ||
			!strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), `"a"`)) {
			t.Errorf("%q: %v", why, err)
		}
		if status := d.jobs.Status().Err; why != "" &&
			!errors.Is(status, base.ErrCompactionFilter) {
			t.Errorf("%q: the status is %v", why, status)
		}
		if d.failed() != nil || !d.has("a", nil) {
			t.Fatalf("%q: the database is read-only: %v", why, d.failed())
		}
		d.jobs.Retry()
	}
	if c := d.jobs.Counters(); c.Filter.Failed < 3 || c.Filter.Removed != 0 {
		t.Errorf("counted %+v", c.Filter)
	}
}

// TestFilterSeesTheBottom merges a tree into one run and then again: the second time there
// is nothing to merge, and the filter sees everything all the same.
func TestFilterSeesTheBottom(t *testing.T) {
	var seen atomic.Int32
	d := openFiltered(t, vfs.NewMem(), &base.CompactionFilter{Name: "test.Count",
		Filter: func(int, []byte, []byte) (base.FilterDecision, error) {
			seen.Add(1)
			return base.FilterKeep, nil
		}})
	const n = 500 // many memtables
	for i := range n {
		d.mustPut(fmt.Sprintf("%04d", i))
	}
	d.seal()
	for i := range 2 {
		seen.Store(0)
		if err := errors.Join(d.jobs.WaitFlushed(d.tree, 0),
			d.jobs.CompactRange(context.Background(), d.tree, nil, nil)); err != nil {
			t.Fatal(err)
		}
		// at first, other compactions may be under way
		if got := seen.Load(); got < n || i == 1 && got != n {
			t.Errorf("the filter was asked %d times for %d entries", got, n)
		}
	}
	seen.Store(0)
	if err := d.jobs.CompactRange(context.Background(), d.tree, []byte("0100"),
		[]byte("0101")); err != nil || seen.Load() == 0 {
		t.Errorf("%v; in a range the filter was asked %d times", err, seen.Load())
	}
}
