package lsm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// opened is mustOpen of a database that is closed at the end of the test.
func opened(t testing.TB, dir string, o *Options) *DB {
	t.Helper()
	db := mustOpen(t, dir, o)
	t.Cleanup(func() { db.Close() })
	return db
}

func mustChanges(t testing.TB, db *DB, from uint64, o *ChangesOptions) *Changes {
	t.Helper()
	c, err := db.Changes(from, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// opText is an operation in words, with its sequence number.
func opText(o Operation) string {
	s := fmt.Sprintf("%d %v %s/%q=%q", o.Seq, o.Op, o.Keyspace, o.Key, o.Value)
	if !o.Expires.IsZero() {
		s += " expires"
	}
	return s
}

// drain lists the operations that are there now, and checks that the numbers have no gaps.
func drain(t testing.TB, c *Changes) (ops []string) {
	t.Helper()
	for {
		at := c.Position()
		change, ok, err := c.TryNext()
		if err != nil {
			t.Fatalf("after %d operations: %v", len(ops), err)
		}
		if !ok {
			return ops
		}
		n := 0
		for o := range change.Operations() {
			if o.Seq != at+uint64(n) {
				t.Fatalf("operation %d of the change from %d has number %d", n, at, o.Seq)
			}
			ops = append(ops, opText(o))
			n++
		}
		if change.Seq != at || n == 0 || change.Len() != n || change.Next() != at+uint64(n) ||
			c.Position() != change.Next() {
			t.Fatalf("change %d of %d operations, then %d; want %d of %d", change.Seq, change.Len(),
				change.Next(), at, n)
		}
	}
}

// onBothFormats runs a test on each format.
func onBothFormats(t *testing.T, test func(t *testing.T, o Options)) {
	for _, format := range []Format{FormatNative, FormatLevelDB} {
		t.Run(format.String(), func(t *testing.T) { test(t, Options{Format: format}) })
	}
}

// TestChangesKinds: every kind of operation appears as it was written, in every keyspace.
func TestChangesKinds(t *testing.T) {
	needsNative(t)
	o := &Options{FS: vfs.NewMem()}
	o.Set("merge_operator", "append")
	db := opened(t, "/db", o)
	users, err := db.Keyspace("users", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := db.Keyspace("gone", nil)
	if err != nil {
		t.Fatal(err)
	}
	feed := mustChanges(t, db, 1, nil)
	b := db.NewBatch()
	b.Put([]byte("a"), []byte("1"))
	b.In(users).Put([]byte("b"), nil)
	b.In(gone).Delete([]byte("c"))
	b.Merge([]byte("a"), []byte("x")) // its value lives for ever
	b.DeleteRange([]byte("e"), []byte("f"))
	b.PutTTL([]byte("g"), []byte("2"), time.Hour)
	for _, err := range []error{db.Write(b, NoSync), db.DropKeyspace("gone"),
		db.Delete([]byte("h"), NoSync),
		db.Update(context.Background(), func(tx *Txn) error {
			return errors.Join(tx.Put([]byte("i"), nil), tx.Put([]byte("j"), nil))
		})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`1 put default/"a"="1"`, `2 put users/"b"=""`, `3 delete /"c"=""`,
		`4 merge default/"a"="x"`, `5 delete_range default/"e"="f"`,
		`6 put default/"g"="2" expires`, `7 delete default/"h"=""`, `8 put default/"i"=""`,
		`9 put default/"j"=""`}
	if got := drain(t, feed); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// From within a batch, its earlier operations are left out.
	if got := drain(t, mustChanges(t, db, 5, nil)); !slices.Equal(got, want[4:]) {
		t.Errorf("from 5: %q", got)
	}
	if got := drain(t, mustChanges(t, db, 10, nil)); got != nil {
		t.Errorf("from the end: %q", got)
	}
}

// history writes random batches and keeps what a feed has to show.
type history struct {
	mu  sync.Mutex
	ops []string // operation i has sequence number i + 1
	max int      // operations of a batch
}

// write writes a random batch. No other batch is written meanwhile.
func (h *history) write(t testing.TB, db *DB, rng *rand.Rand, mode WriteMode) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	b := NewBatch()
	for range 1 + rng.IntN(h.max) {
		key, value := fmt.Appendf(nil, "k%d", rng.IntN(500)), make([]byte, rng.IntN(200))
		o := Operation{Seq: uint64(len(h.ops)) + 1, Op: OpPut, Keyspace: "default", Key: key,
			Value: value}
		if rng.IntN(4) == 0 {
			o.Op, o.Value = OpDelete, nil
			b.Delete(key)
		} else {
			b.Put(key, value)
		}
		h.ops = append(h.ops, opText(o))
	}
	if err := db.Write(b, mode); err != nil {
		t.Fatal(err)
	}
}

// TestChangesModel: over rotations, flushes and reopenings a feed with enough retention shows each
// operation once, from any place on, and what it shows rebuilds the database.
func TestChangesModel(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		s := seed.Of(t)
		rng := rand.New(rand.NewPCG(uint64(s), 1))
		o.FS, o.WriteBufferSize, o.WALRetentionBytes = vfs.NewMem(), 64<<10, 1<<40
		h := &history{max: 20}
		for range 6 {
			db := opened(t, "/db", &o)
			live := mustChanges(t, db, uint64(len(h.ops))+1, nil)
			before := len(h.ops)
			for range 60 + rng.IntN(150) {
				h.write(t, db, rng, NoSync)
				if rng.IntN(50) == 0 {
					mustFlush(t, db)
				}
			}
			if got := drain(t, live); !slices.Equal(got, h.ops[before:]) {
				t.Fatalf("seed %d: live: %d operations, want %d", s, len(got), len(h.ops)-before)
			}
			for _, from := range []int{0, 1, 1 + rng.IntN(len(h.ops)), 1 + rng.IntN(len(h.ops))} {
				got := drain(t, mustChanges(t, db, uint64(from), nil))
				if !slices.Equal(got, h.ops[max(from, 1)-1:]) {
					t.Fatalf("seed %d: from %d: %d operations, want %d", s, from, len(got),
						len(h.ops)-max(from, 1)+1)
				}
			}
			if rng.IntN(2) == 0 {
				mustClose(t, db)
			} else { // the process dies
				o.FS = o.FS.(*vfs.Mem).CrashClone(vfs.KeepAll())
			}
		}
		db := opened(t, "/db", &o)
		sameRebuilt(t, db)
	})
}

// sameRebuilt applies the feed of a database to an empty one and wants the same contents.
func sameRebuilt(t *testing.T, db *DB) {
	t.Helper()
	again := opened(t, "/again", &Options{FS: vfs.NewMem()})
	feed := mustChanges(t, db, 1, nil)
	for {
		change, ok, err := feed.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		b, err := BatchFromBytes(change.Batch)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Write(b, NoSync); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	want, got := map[string]string{}, map[string]string{}
	for k, v := range db.All(nil, nil, &err) {
		want[string(k)] = string(v)
	}
	for k, v := range again.All(nil, nil, &err) {
		got[string(k)] = string(v)
	}
	if err != nil || len(want) == 0 {
		t.Fatalf("%d keys, %v", len(want), err)
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("key %q is %q, rebuilt %q", k, v, got[k])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d keys, rebuilt %d", len(want), len(got))
	}
}

// TestChangesConcurrent: beside several writers, a feed that waits sees every batch whole and once,
// in the order in which the database has them.
func TestChangesConcurrent(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		const writers, each = 4, 2000
		o.WriteBufferSize, o.WALRetentionBytes = 64<<10, 1<<40
		db := opened(t, t.TempDir(), &o)
		feed := mustChanges(t, db, 0, nil)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					b := NewBatch()
					for part := range 3 {
						b.Put(fmt.Appendf(nil, "%d/%d", w, part), fmt.Appendf(nil, "%d", i))
					}
					mode := NoSync
					if i%500 == 0 {
						mode = Sync
					}
					if err := db.Write(b, mode); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		seen, next, groups := [writers]int{}, uint64(1), 0
		for next <= 3*writers*each {
			change, err := feed.Next(t.Context())
			if err != nil {
				t.Fatalf("at %d: %v", next, err)
			}
			if change.Seq != next || change.Len()%3 != 0 {
				t.Fatalf("change %d of %d operations, want %d", change.Seq, change.Len(), next)
			}
			if change.Len() > 3 {
				groups++
			}
			for o := range change.Operations() {
				var w, part, i int
				if _, err := fmt.Sscanf(string(o.Key)+" "+string(o.Value), "%d/%d %d", &w, &part,
					&i); err != nil {
					t.Fatal(err)
				}
				if seen[w] != 3*i+part {
					t.Fatalf("writer %d: part %d of batch %d after %d operations", w, part, i,
						seen[w])
				}
				seen[w]++
			}
			next = change.Next()
		}
		wg.Wait()
		if visible := db.Metrics().LastSequence; visible != next-1 {
			t.Errorf("the feed ends at %d, the database at %d", next-1, visible)
		}
		t.Logf("%d changes of several batches", groups)
	})
}

// TestChangesWaits: Next waits for a commit without a timer, ends with its context, with the feed
// and with the database, and nobody is counted as waiting afterwards.
func TestChangesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t, "/db", &Options{FS: vfs.NewMem()})
		feed := mustChanges(t, db, 1, nil)
		got := make(chan error)
		next := func(ctx context.Context) {
			_, err := feed.Next(ctx)
			got <- err
		}
		waiting := func() {
			t.Helper()
			synctest.Wait()
			if !db.engine.Feeds.Waiting() {
				t.Error("nobody waits")
			}
		}
		go next(context.Background())
		waiting()
		if err := db.Put([]byte("k"), nil, NoSync); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go next(ctx)
		waiting()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if db.engine.Feeds.Waiting() {
			t.Error("it still counts as waiting")
		}
		go next(context.Background())
		waiting()
		feed.Close()
		if err := <-got; !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		feed = mustChanges(t, db, 2, nil)
		go next(context.Background())
		waiting()
		mustClose(t, db)
		if err := <-got; !errors.Is(err, ErrClosed) {
			t.Errorf("closed database: %v", err)
		}
		if _, err := db.Changes(1, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("opened after Close: %v", err)
		}
		if n := db.engine.Feeds.Open(); n != 0 {
			t.Errorf("%d feeds are open", n)
		}
	})
}

// TestChangesGap: without retention, with too little of it, and before the first log, ErrGap says
// with what to go on; a feed that was open does not go on behind the gap either.
func TestChangesGap(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		o.FS, o.WriteBufferSize = vfs.NewMem(), 64<<10
		for _, keep := range []int64{0, 100 << 10} {
			dir := fmt.Sprint("/db", keep)
			o.WALRetentionBytes = keep
			db := opened(t, dir, &o)
			rng := rand.New(rand.NewPCG(1, 2))
			h := &history{max: 20}
			h.write(t, db, rng, NoSync)
			late := mustChanges(t, db, 1, nil)
			for range 300 {
				h.write(t, db, rng, NoSync)
			}
			mustFlush(t, db)
			db.engine.Parts().Shared.Files.WaitDeleted()
			for _, from := range []uint64{1, 2} {
				_, err := db.Changes(from, nil)
				var gap *GapError
				if !errors.Is(err, ErrGap) || !errors.As(err, &gap) || gap.Asked != from ||
					gap.Next <= from {
					t.Fatalf("from %d: %v", from, err)
				}
				if got := drain(t, mustChanges(t, db, gap.Next, nil)); !slices.Equal(got,
					h.ops[gap.Next-1:]) {
					t.Errorf("from %d on, %d operations, want %d", gap.Next, len(got),
						len(h.ops)-int(gap.Next)+1)
				}
				oldest := mustChanges(t, db, 0, nil)
				if oldest.Position() != gap.Next {
					t.Errorf("the oldest is %d, after a gap it is %d", oldest.Position(), gap.Next)
				}
			}
			var err error
			for err == nil {
				_, err = late.Next(context.Background())
			}
			if !errors.Is(err, ErrGap) {
				t.Errorf("a feed that was left behind: %v", err)
			}
			if _, ok, again := late.TryNext(); ok || !errors.Is(again, ErrGap) {
				t.Errorf("once more: %v, %v", ok, again)
			}
			_, err = db.Changes(uint64(len(h.ops))+2, nil)
			if gap := (*GapError)(nil); !errors.As(err, &gap) || !errors.Is(err, ErrGap) ||
				gap.Asked != uint64(len(h.ops))+2 || gap.Next != 0 {
				t.Errorf("behind the end: %v", err)
			}
			mustClose(t, db)
		}
	})
}

// TestRetention: logs go when they exceed the bytes or the time, at once, by the timer and at the
// next opening, and only then; without limits none is kept.
func TestRetention(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		synctest.Test(t, func(t *testing.T) {
			fsys := vfs.NewMem()
			o.FS, o.WriteBufferSize = fsys, 64<<10
			logs := func() (n int) {
				names, err := fsys.List("/db")
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					if ext := filepath.Ext(name); ext == ".log" || ext == ".wal" {
						n++
					}
				}
				return n
			}
			fill := func(o Options) (kept int) {
				t.Helper()
				db := opened(t, "/db", &o)
				h, rng := &history{max: 20}, rand.New(rand.NewPCG(3, 4))
				for range 400 {
					h.write(t, db, rng, NoSync)
				}
				mustFlush(t, db)
				synctest.Wait() // the background has given up the log of the last memtable
				n, bytes := db.engine.Parts().WAL.Retained()
				if o.WALRetentionBytes > 0 && bytes > o.WALRetentionBytes {
					t.Errorf("%d bytes are kept, %d may be", bytes, o.WALRetentionBytes)
				}
				mustClose(t, db)
				return n
			}
			if n := fill(o); n != 0 || logs() != 1 {
				t.Fatalf("no retention: %d logs are kept, %d are there", n, logs())
			}
			o.WALRetentionBytes = 200 << 10
			if n := fill(o); n < 2 || n > 4 || logs() != n+1 {
				t.Errorf("200 KiB: %d logs are kept, %d are there", n, logs())
			}
			o.WALRetentionBytes, o.WALRetentionTime = 0, time.Hour
			first := fill(o)
			if first < 5 || logs() != first+1 {
				t.Errorf("an hour: %d logs are kept, %d are there", first, logs())
			}
			o.WALRetentionTime = 20 * time.Millisecond
			db := opened(t, "/db", &o)
			time.Sleep(time.Minute)
			synctest.Wait()
			// the current one, one that stands ready
			if n, bytes := db.engine.Parts().WAL.Retained(); n != 0 || bytes != 0 || logs() > 2 {
				t.Errorf("20 ms: %d logs of %d bytes are kept, %d are there", n, bytes, logs())
			}
			mustClose(t, db)
		})
	})
}

// TestChangesDurable: a feed of durable changes shows no change that a power cut takes, and all of
// them after a sync or a flush.
func TestChangesDurable(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		synctest.Test(t, func(t *testing.T) {
			o.FS = vfs.NewMem()
			db := opened(t, "/db", &o)
			visible, durable := mustChanges(t, db, 1, nil), mustChanges(t, db, 1,
				&ChangesOptions{Durable: true})
			put := func(key string, mode WriteMode) {
				t.Helper()
				if err := db.Put([]byte(key), nil, mode); err != nil {
					t.Fatal(err)
				}
			}
			want := func(visibly, durably int) {
				t.Helper()
				if a, b := len(drain(t, visible)), len(drain(t, durable)); a != visibly ||
					b != durably {
					t.Errorf("%d operations are visible and %d durable, want %d and %d", a, b,
						visibly, durably)
				}
			}
			put("a", NoSync)
			put("b", NoSync)
			want(2, 0)
			got := make(chan error)
			go func() {
				_, err := durable.Next(context.Background())
				got <- err
			}()
			synctest.Wait()
			if !db.engine.Feeds.Waiting() {
				t.Error("nobody waits")
			}
			if err := db.Write(NewBatch(), Sync); err != nil { // an empty batch
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			want(0, 1)
			put("c", NoSync)
			want(1, 0)
			mustFlush(t, db)
			want(0, 1)
			put("d", Sync)
			put("e", NoSync)
			want(2, 1)
		})
	})
}

// TestChangesFaults: whichever call fails once, a feed tells or goes on, and shows each operation
// once.
func TestChangesFaults(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		o.WriteBufferSize, o.WALRetentionBytes = 64<<10, 1<<40
		for at := 1; ; at += seed.Scale(5, 3, 1) {
			var failAt, calls int
			mem := vfs.NewMem()
			var mu sync.Mutex
			o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				mu.Lock()
				defer mu.Unlock()
				reads := op.Kind == vfs.OpOpen || op.Kind == vfs.OpRead
				log := strings.HasSuffix(op.Name, ".wal") || strings.HasSuffix(op.Name, ".log")
				if failAt == 0 || op.Kind != vfs.OpList && !(reads && log) {
					return vfs.Outcome{} // of the background: it opens tables, and makes a log
				}
				if calls++; calls == failAt {
					return vfs.Outcome{Err: errPlanted}
				}
				return vfs.Outcome{}
			})
			db := opened(t, "/db", &o)
			h, rng := &history{max: 20}, rand.New(rand.NewPCG(3, 4))
			for range 150 {
				h.write(t, db, rng, NoSync)
			}
			mustFlush(t, db)
			db.PauseCompaction()
			mu.Lock()
			failAt = at
			mu.Unlock()
			var got []string
			failed := false
			feed, err := db.Changes(1, nil)
			if err != nil {
				if failed = errors.Is(err, errPlanted); !failed {
					t.Fatalf("call %d: %v", at, err)
				}
				feed = mustChanges(t, db, 1, nil)
			}
			for {
				change, ok, err := feed.TryNext()
				if err != nil {
					if failed || !errors.Is(err, errPlanted) {
						t.Fatalf("call %d: %v", at, err)
					}
					failed = true
					continue
				}
				if !ok {
					break
				}
				for o := range change.Operations() {
					got = append(got, opText(o))
				}
			}
			if !slices.Equal(got, h.ops) {
				t.Fatalf("call %d failed: %d operations, want %d", at, len(got), len(h.ops))
			}
			mu.Lock()
			hit := calls >= failAt
			failAt = 0
			mu.Unlock()
			mustClose(t, db)
			if !hit {
				if at < 20 {
					t.Errorf("only %d calls", at)
				}
				return
			}
			if !failed {
				t.Fatalf("call %d failed, and nobody was told", at)
			}
		}
	})
}

var errPlanted = errors.New("planted")

// TestChangesFailedSync: what a failed sync takes back never appears, and the feed says why it
// ends.
func TestChangesFailedSync(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		var fail atomic.Bool
		o.FS = vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if fail.Load() && op.Kind == vfs.OpSync {
				return vfs.Outcome{Err: errPlanted}
			}
			return vfs.Outcome{}
		})
		db := opened(t, "/db", &o)
		feed := mustChanges(t, db, 1, nil)
		if err := db.Put([]byte("kept"), nil, Sync); err != nil {
			t.Fatal(err)
		}
		fail.Store(true)
		if err := db.Put([]byte("failed"), nil, Sync); !errors.Is(err, errPlanted) {
			t.Fatal(err)
		}
		change, err := feed.Next(context.Background())
		if err != nil || change.Len() != 1 || change.Seq != 1 {
			t.Fatalf("%d of %d, %v", change.Seq, change.Len(), err)
		}
		if _, err := feed.Next(context.Background()); !errors.Is(err, ErrReadOnly) ||
			!errors.Is(err, errPlanted) {
			t.Errorf("behind the failed write: %v", err)
		}
		feed.Close()
		db.Close()
	})
}

// TestChangesCutBack: an append that wrote everything and failed for lack of space is cut off; its
// record, which a feed has read by then, does not appear, and the record that takes its place does.
func TestChangesCutBack(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		var full atomic.Bool
		var feed *Changes
		o.FS = vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			switch {
			case full.Load() && op.Kind == vfs.OpAppend:
				return vfs.Outcome{Err: syscall.ENOSPC, Short: int(op.N)}
			case op.Kind == vfs.OpTruncate && full.Swap(false):
				// The block that is read now has the bytes of b, too.
				if got := drain(t, feed); !slices.Equal(got, []string{`1 put default/"a"=""`}) {
					t.Errorf("%q", got)
				}
			}
			return vfs.Outcome{}
		})
		db := opened(t, "/db", &o)
		feed = mustChanges(t, db, 1, nil)
		put := func(key string) error { return db.Put([]byte(key), nil, NoSync) }
		must(t, put("a"))
		full.Store(true)
		if err := put("b"); !errors.Is(err, ErrNoSpace) || full.Load() {
			t.Fatal(err)
		}
		must(t, errors.Join(put("c"), put("d")))
		if got := drain(t,
			feed); !slices.Equal(got, []string{`2 put default/"c"=""`, `3 put default/"d"=""`}) {
			t.Errorf("%q", got)
		}
	})
}

// TestChangesIngested has a feed, of the database and of a follower, fail where sequence numbers
// are of a table that was ingested, and go on behind it.
func TestChangesIngested(t *testing.T) {
	dir := t.TempDir()
	o := &Options{WALRetentionBytes: 1 << 40}
	db := opened(t, filepath.Join(dir, "db"), o)
	must(t, db.Put([]byte("a"), nil, NoSync))
	must(t, db.Ingest(context.Background(), nil, writeTable(t, filepath.Join(dir, "table"), o, "b",
		"", "c", "")))
	before := db.Metrics().LastSequence
	must(t, db.Put([]byte("d"), nil, NoSync))
	f, err := OpenFollower(filepath.Join(dir, "db"), nil)
	must(t, err)
	defer f.Close()
	for _, db := range []*DB{db, f.DB} {
		feed := mustChanges(t, db, 1, nil)
		if change, ok, err := feed.TryNext(); !ok || err != nil || change.Next() != 2 {
			t.Fatal(change, ok, err)
		}
		gap := (*GapError)(nil)
		if _, ok, err := feed.TryNext(); ok || !errors.As(err, &gap) || gap.Asked != 2 ||
			gap.Next != before+1 {
			t.Fatal(ok, err)
		}
		if got := drain(t, mustChanges(t, db, gap.Next, nil)); len(got) != 1 ||
			!strings.Contains(got[0], `"d"`) {
			t.Errorf("behind the gap: %q", got)
		}
	}
}

// TestChangesReadOnly: an opening for reading has a feed of its logs, which then ends.
func TestChangesReadOnly(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		o.FS = vfs.NewMem()
		db := opened(t, "/db", &o)
		for _, key := range []string{"a", "b"} {
			if err := db.Put([]byte(key), nil, NoSync); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, db)
		o.ReadOnly = true
		db = opened(t, "/db", &o)
		feed := mustChanges(t, db, 0, nil)
		for range 2 {
			if _, err := feed.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := feed.Next(context.Background()); !errors.Is(err, ErrReadOnly) {
			t.Errorf("at the end: %v", err)
		}
	})
}

// TestChangesUnheard: databases without a listener pay nothing: no allocation and no waiting.
func TestChangesUnheard(t *testing.T) {
	db := opened(t, "/db", &Options{FS: vfs.NewMem()})
	feed := mustChanges(t, db, 1, nil)
	for range 2000 {
		if err := db.Put([]byte("k"), []byte("v"), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if allocs := testing.AllocsPerRun(1000, func() {
		change, ok, err := feed.TryNext()
		if !ok || err != nil || batchrepr.Count(change.Batch) != 1 {
			t.Fatal(ok, err)
		}
	}); allocs > 0.2 {
		t.Errorf("%v allocations for each change", allocs)
	}
}

// BenchmarkChanges streams small batches.
func BenchmarkChanges(b *testing.B) {
	db := opened(b, b.TempDir(), &Options{WALRetentionBytes: 1 << 40})
	for range 1 << 20 {
		if err := db.Put([]byte("0123456789abcdef"), make([]byte, 100), NoSync); err != nil {
			b.Fatal(err)
		}
	}
	feed := mustChanges(b, db, 1, nil)
	for b.Loop() {
		_, ok, err := feed.TryNext()
		if err != nil {
			b.Fatal(err)
		}
		if !ok {
			b.StopTimer()
			feed = mustChanges(b, db, 1, nil)
			b.StartTimer()
		}
	}
}
