package lsm

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestGetsMergeRuns: Gets that search runs in vain pay for merging them, be the blocks
// cached or not.
func TestGetsMergeRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cacheSize := range []int64{-1, 1 << 20}[:seed.Scale(1, 2, 2)] {
			o := small(Options{FS: vfs.NewMem(), BloomBits: -1})
			o.CacheSize = cacheSize
			db := mustOpen(t, "db", o)
			const n = 1000
			threeRuns(t, db, n)
			for i := range n / 2 { // the newest run has not the odd ones
				mustPut(t, db, 2*i)
			}
			mustFlush(t, db)
			for i := 0; numRuns(db) > 1; i++ {
				wantValue(t, db, 2*(i%(n/2))+1)
				if i%n == n-1 {
					synctest.Wait()
				}
				if i == 150*n {
					t.Fatalf("cache of %d: %d runs after %d gets", cacheSize, numRuns(db), i)
				}
			}
			mustClose(t, db)
		}
	})
}

// TestIdleBecomesOneRun: a database that nobody writes ends as one run, and then does
// nothing at all.
func TestIdleBecomesOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
		defer db.Close()
		n := 20_000
		if testing.Short() {
			n = 3_000
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 5 {
			for range n {
				mustPut(t, db, rng.IntN(n))
			}
		}
		for i := range n {
			mustPut(t, db, i)
		}
		mustFlush(t, db)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := numRuns(db); n > 1 {
			t.Fatalf("%d runs", n)
		}
		before, goroutines := db.Metrics().Compact, runtime.NumGoroutine()
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := db.Metrics().Compact; after != before {
			t.Errorf("work on one run: %+v, then %+v", before, after)
		}
		if got := runtime.NumGoroutine(); got > goroutines {
			t.Errorf("%d goroutines, then %d", goroutines, got)
		}
		for i := range n {
			wantValue(t, db, i)
		}
	})
}

// TestSpaceAmplification: after overwrites, and while few writes come, the tables take
// what the option allows and what level 0 has before it is merged.
func TestSpaceAmplification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []float64{0, 1.1} {
			o := small(Options{FS: vfs.NewMem()})
			o.MaxSpaceAmplification = limit
			db := mustOpen(t, "db", o)
			n := 40_000
			if testing.Short() {
				n = 10_000
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range n {
				mustPut(t, db, i)
			}
			if err := db.CompactRange(nil, nil); err != nil {
				t.Fatal(err)
			}
			live := float64(db.Metrics().DiskBytes)
			for range 4 * n {
				mustPut(t, db, rng.IntN(n))
			}
			// The estimate is off by a few hundredths.
			times := limit
			if limit == 0 {
				times = 1.3
			}
			bound := 1.05*times*live + float64(2*o.WriteBufferSize)
			for writes := 0; ; writes++ {
				mustPut(t, db, rng.IntN(n)) // not idle
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if float64(db.Metrics().DiskBytes) <= bound {
					break
				}
				if writes == 1200 {
					t.Fatalf("limit %.1f: %.2f times the live bytes", limit,
						float64(db.Metrics().DiskBytes)/live)
				}
			}
			mustClose(t, db)
		}
	})
}
