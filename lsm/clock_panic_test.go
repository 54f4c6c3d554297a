package lsm

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestClockPanics has the clock panic in each call, and in the background: no panic reaches the
// caller or ends the process, and the database is read-only with the panic as the cause.
func TestClockPanics(t *testing.T) {
	needsNative(t)
	calls := map[string]func(db *DB, s *Snapshot){
		"Snapshot":      func(db *DB, _ *Snapshot) { _ = db.Snapshot().Close() },
		"TTL":           func(db *DB, _ *Snapshot) { _, _, _ = db.TTL(key(0)) },
		"TTL, snapshot": func(_ *DB, s *Snapshot) { _, _, _ = s.TTL(key(0)) },
		"Get":           func(db *DB, _ *Snapshot) { _, _ = db.Get(key(0), nil) },
		"Has":           func(db *DB, _ *Snapshot) { _, _ = db.Has(key(0)) },
		"MultiGet": func(db *DB, _ *Snapshot) {
			_ = db.MultiGet([][]byte{key(0), key(1)}, new(MultiResult))
		},
		"Iter": func(db *DB, _ *Snapshot) {
			it := db.Iter(nil)
			it.First()
			_ = it.Close()
		},
		"PutTTL": func(db *DB, _ *Snapshot) {
			_ = db.PutTTL(key(9), value(9), time.Hour, NoSync)
		},
		"Merge": func(db *DB, _ *Snapshot) { _ = db.Merge(key(0), []byte("x"), NoSync) },
		"Begin": func(db *DB, _ *Snapshot) {
			tx := db.Begin(nil)
			_ = tx.PutTTL(key(9), value(9), time.Hour)
			_ = tx.Commit(NoSync)
		},
		"Metrics":      func(db *DB, _ *Snapshot) { _ = db.Metrics() },
		"Flush":        func(db *DB, _ *Snapshot) { _ = db.Flush() },
		"CompactRange": func(db *DB, _ *Snapshot) { _ = db.CompactRange(nil, nil) },
		"Close":        func(_ *DB, s *Snapshot) { _ = s.Close() },
		"nothing":      func(*DB, *Snapshot) {},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var armed atomic.Bool
				mem := vfs.NewMem()
				db := mustOpen(t, "db", &Options{FS: mem, Clock: func() time.Time {
					if armed.Load() {
						panic("no time today")
					}
					return time.Now()
				}, MergeOperator: MergeOperatorNamed("append:")})
				for i := range 4 {
					must(t, db.PutTTL(key(i), value(i), time.Hour, NoSync))
					if i == 1 {
						mustFlush(t, db)
					}
				}
				s := db.Snapshot()
				armed.Store(true)
				call(db, s)
				time.Sleep(2 * time.Hour) // timers of the background
				call(db, s)
				armed.Store(false)
				err := db.Put(key(5), value(5), NoSync)
				if err != nil && (!errors.Is(err, ErrReadOnly) ||
					!strings.Contains(err.Error(), "no time today")) {
					t.Error(err)
				}
				if err == nil && name != "nothing" && name != "TTL, snapshot" && name != "Close" {
					t.Error("the database takes writes")
				}
				_ = s.Close()
				_ = db.Close()
				armed.Store(true)
				_ = db.Snapshot().Close()
				db = mustOpen(t, "db", &Options{FS: mem})
				wantMissing(t, db, 9)
				mustClose(t, db)
			})
		})
	}
}
