package lsm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestChangesOfFollower compares a follower's feed with what its writer wrote: after each catch-up
// it has what the follower shows, from the first operation on, through rotations, flushes and
// reopenings of the writer, as has one that begins anywhere.
func TestChangesOfFollower(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 0))
		o.WALRetentionBytes, o.WriteBufferSize = 1<<40, 64<<10
		dir := t.TempDir()
		db := mustOpen(t, dir, &o)
		f, err := OpenFollower(dir, nil)
		must(t, err)
		defer f.Close()
		feed := mustChanges(t, f.DB, 1, nil)
		h := history{max: 8}
		var seen []string
		for range 40 {
			for range rng.IntN(40) {
				h.write(t, db, rng, NoSync)
			}
			switch rng.IntN(6) {
			case 0:
				must(t, db.Flush())
			case 1:
				must(t, db.Close())
				db = mustOpen(t, dir, &o)
			}
			if got := drain(t, feed); got != nil {
				t.Fatalf("%d operations before a catch-up", len(got))
			}
			must(t, f.CatchUp(context.Background()))
			seen = append(seen, drain(t, feed)...)
			if uint64(len(seen)) != f.Metrics().LastSequence {
				t.Fatalf("%d operations, the follower is at %d", len(seen),
					f.Metrics().LastSequence)
			}
			if !slices.Equal(seen, h.ops) {
				t.Fatalf("%d operations are others than the %d written", len(seen), len(h.ops))
			}
			if len(h.ops) > 0 {
				from := 1 + rng.IntN(len(h.ops))
				if got := drain(t, mustChanges(t, f.DB, uint64(from), nil)); !slices.Equal(got,
					h.ops[from-1:]) {
					t.Fatalf("from %d: %d operations", from, len(got))
				}
			}
		}
		must(t, db.Close())
	})
}

// TestChangesOfFollowerWait has a feed wait for a write of another opening: it comes with the
// interval, and with CatchUp.
func TestChangesOfFollowerWait(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			db := opened(t, dir, &o)
			for _, interval := range []time.Duration{0, time.Millisecond} {
				f, err := OpenFollower(dir, &Options{FollowInterval: interval})
				must(t, err)
				feed := mustChanges(t, f.DB, 0, nil)
				drain(t, feed)
				got := make(chan string, 100)
				go func() {
					defer close(got)
					for {
						change, err := feed.Next(context.Background())
						if err != nil {
							got <- err.Error()
							return
						}
						for o := range change.Operations() {
							got <- string(o.Key)
						}
					}
				}()
				for _, key := range []string{"a", "b", "c"} {
					synctest.Wait() // it waits
					must(t, db.Put([]byte(key), nil, NoSync))
					if interval == 0 {
						must(t, f.CatchUp(context.Background()))
					}
					if k := <-got; k != key {
						t.Fatalf("%s, not %s", k, key)
					}
				}
				must(t, f.Close())
				if err := <-got; !strings.Contains(err, ErrClosed.Error()) {
					t.Error(err)
				}
			}
		})
	})
}

// TestChangesOfFollowerLimits: what a follower cannot know is refused, logs that its writer deleted
// are a gap, and a feed ends with the directory.
func TestChangesOfFollowerLimits(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		dir := t.TempDir() + "/db"
		db := opened(t, dir, &o)
		f, err := OpenFollower(dir, nil)
		must(t, err)
		defer f.Close()
		if _, err := f.Changes(0, &ChangesOptions{Durable: true}); !errors.Is(err,
			ErrInvalidArgument) {
			t.Error(err)
		}
		late, waits := mustChanges(t, f.DB, 1, nil), mustChanges(t, f.DB, 0, nil)
		for range 3 { // no log is kept
			must(t, db.Put([]byte("a"), nil, Sync))
			must(t, db.Flush())
		}
		db.engine.Parts().Shared.Files.WaitDeleted()
		must(t, f.CatchUp(context.Background()))
		gap := (*GapError)(nil)
		if change, err := late.Next(context.Background()); !errors.As(err, &gap) || gap.Asked != 1 {
			t.Error(change.Seq, err)
		}
		if _, err := f.Changes(1, nil); !errors.Is(err, ErrGap) {
			t.Error(err)
		}
		waits.Close()
		waits = mustChanges(t, f.DB, 4, nil)
		ended := make(chan error)
		go func() {
			_, err := waits.Next(context.Background())
			ended <- err
		}()
		must(t, os.Rename(dir, dir+"-away"))
		if err := f.CatchUp(context.Background()); !errors.Is(err, ErrDirectoryChanged) {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, ErrDirectoryChanged) {
			t.Error(err)
		}
		must(t, os.Rename(dir+"-away", dir))
		must(t, f.CatchUp(context.Background()))
		must(t, db.Put([]byte("b"), nil, NoSync))
		must(t, f.CatchUp(context.Background()))
		if got := drain(t, waits); len(got) != 1 {
			t.Errorf("%q after the directory came back", got)
		}
	})
}

// TestChangesOfFollowerCutBack is TestChangesCutBack for a feed of a follower, which reads the
// failed record before it is cut off.
func TestChangesOfFollowerCutBack(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		mem := vfs.NewMem()
		full := false
		var feed *Changes
		o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			switch {
			case full && op.Kind == vfs.OpAppend:
				return vfs.Outcome{Err: syscall.ENOSPC, Short: int(op.N)}
			case full && op.Kind == vfs.OpTruncate:
				full = false
				if got := drain(t, feed); !slices.Equal(got, []string{`1 put default/"a"=""`}) {
					t.Errorf("%q", got)
				}
			}
			return vfs.Outcome{}
		})
		db := opened(t, "/db", &o)
		must(t, db.Put([]byte("a"), nil, NoSync))
		f, err := OpenFollower("/db", &Options{FS: mem})
		must(t, err)
		defer f.Close()
		feed = mustChanges(t, f.DB, 1, nil)
		full = true
		if err := db.Put([]byte("b"), nil, NoSync); !errors.Is(err, ErrNoSpace) || full {
			t.Fatal(err, full)
		}
		must(t, errors.Join(db.Put([]byte("c"), nil, NoSync), db.Put([]byte("d"), nil, NoSync)))
		must(t, f.CatchUp(context.Background()))
		if got := drain(t,
			feed); !slices.Equal(got, []string{`2 put default/"c"=""`, `3 put default/"d"=""`}) {
			t.Errorf("%q", got)
		}
	})
}

// TestChangesOfFollowerUpgrade has a follower's feed go on when the writer's directory becomes a
// native one, or say that it cannot.
func TestChangesOfFollowerUpgrade(t *testing.T) {
	dir := t.TempDir()
	o := Options{Format: FormatLevelDB, WALRetentionBytes: 1 << 40}
	db := mustOpen(t, dir, &o)
	f, err := OpenFollower(dir, nil)
	must(t, err)
	defer f.Close()
	feed := mustChanges(t, f.DB, 1, nil)
	must(t, db.Put([]byte("a"), nil, NoSync))
	must(t, f.CatchUp(context.Background()))
	if got := drain(t, feed); !slices.Equal(got, []string{`1 put default/"a"=""`}) {
		t.Errorf("%q", got)
	}
	must(t, db.Close())
	must(t, Upgrade(dir, nil))
	db = opened(t, dir, &Options{WALRetentionBytes: 1 << 40})
	must(t, db.Put([]byte("b"), nil, NoSync))
	must(t, f.CatchUp(context.Background()))
	if got := drain(t, feed); !slices.Equal(got, []string{`2 put default/"b"=""`}) {
		t.Errorf("%q", got)
	}
}

// TestChangesOfFollowerBesideIngest has a copy of a follower, made from its feed and, behind a gap,
// from its entries, brought up to date between any two calls of a writer that ingests, writes and
// opens the database anew. The copy is each time what the follower shows; in LevelDB's format
// without the ingest under way, whose end the log tells.
func TestChangesOfFollowerBesideIngest(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		mem := vfs.NewMem()
		var f *Follower
		var mu sync.Mutex
		entries, next, gaps, ingest := map[string]string{}, uint64(1), 0, ""
		advance := func() error {
			feed, err := f.Changes(next, nil)
			if err != nil {
				return err
			}
			defer feed.Close()
			for {
				change, ok, err := feed.TryNext()
				if !ok || err != nil {
					return err
				}
				for o := range change.Operations() {
					entries[string(o.Key)] = string(o.Value)
				}
				next = change.Next()
			}
		}
		shown := func() map[string]string {
			var err error
			all := map[string]string{}
			for k, v := range f.All(nil, nil, &err) {
				all[string(k)] = string(v)
			}
			must(t, err)
			return all
		}
		follow := func() {
			must(t, f.CatchUp(context.Background()))
			err := advance()
			if errors.Is(err, ErrGap) {
				gaps++
				entries, next, err = shown(), f.Metrics().LastSequence+1, nil
			}
			must(t, err)
			want := shown()
			if _, has := entries[ingest]; o.Format == FormatLevelDB && !has {
				delete(want, ingest)
			}
			if !maps.Equal(entries, want) {
				t.Errorf("the copy has %v, the follower %v", entries, want)
			}
		}
		fo := o
		fo.FS = mem
		o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if mu.TryLock() {
				defer mu.Unlock()
				if f != nil {
					follow()
				}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", &o)
		opened, err := OpenFollower("db", &fo)
		must(t, err)
		locked := func(set func()) {
			mu.Lock()
			defer mu.Unlock()
			set()
		}
		locked(func() { f = opened })
		for i := range 12 {
			must(t, db.Put(fmt.Append(nil, "a", i), []byte("1"), NoSync))
			key := fmt.Sprintf("z%02d", i)
			locked(func() { ingest = key })
			must(t, db.Ingest(context.Background(), nil, writeTable(t, key, &fo, key, "2")))
			locked(func() { ingest = "" })
			switch i % 4 {
			case 1:
				mustClose(t, db)
				db = mustOpen(t, "db", &o)
			case 2:
				mustFlush(t, db)
			}
		}
		locked(func() {
			follow()
			if len(entries) != 24 || gaps == 0 {
				t.Errorf("%d entries, %d gaps", len(entries), gaps)
			}
			must(t, f.Close())
			f = nil
		})
		mustClose(t, db)
	})
}
