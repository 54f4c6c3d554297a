package lsm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestTTLFirstBatch: a merge keeps the deadline of a value of its own batch, also if that is the
// first one of the keyspace that expires.
func TestTTLFirstBatch(t *testing.T) {
	ways := map[string]func(s *ttlStore, b *Batch) error{
		"batch": func(s *ttlStore, b *Batch) error { return s.Write(b, NoSync) },
		"bytes": func(s *ttlStore, b *Batch) error { return s.WriteBytes(b.Bytes(), NoSync) },
		"txn": func(s *ttlStore, _ *Batch) error {
			return s.Update(context.Background(), func(tx *Txn) error {
				return errors.Join(tx.PutTTL([]byte("a"), u64(1), 10*time.Second),
					tx.Merge([]byte("a"), u64(2)))
			})
		},
	}
	for name, write := range ways {
		t.Run(name, func(t *testing.T) {
			s := openTTL(t, nil)
			b := NewBatch()
			b.PutTTL([]byte("a"), u64(1), 10*time.Second)
			b.Merge([]byte("a"), u64(2))
			s.ok(write(s, b))
			if left, expires, err := s.TTL([]byte("a")); left != 10*time.Second || !expires ||
				err != nil {
				t.Error(left, expires, err)
			}
			if got := contents(t, s, "a"); got != "a="+string(u64(3)) {
				t.Errorf("%q", got)
			}
			s.clock.add(10 * time.Second)
			if got := contents(t, s, "a"); got != "" {
				t.Errorf("an operand is left: %q", got)
			}
		})
	}
}

// TestTTLExportDefault: an export gives no value a time to live.
func TestTTLExportDefault(t *testing.T) {
	s := openTTL(t, nil)
	s.put("a", "stays")
	s.ok(s.DB.Close())
	o := s.opts
	o.DefaultTTL = time.Second
	s.ok(Export(context.Background(), "db", "leveldb", FormatLevelDB, &o, nil))
	s.ok(Export(context.Background(), "leveldb", "native", FormatNative, &o, nil))
	s.ok(Export(context.Background(), "db", "copy", FormatNative, &o, nil))
	for _, dir := range []string{"native", "copy"} {
		db, err := Open(dir, &s.opts)
		s.ok(err)
		if left, expires, err := db.TTL([]byte("a")); left != 0 || expires || err != nil {
			t.Error(dir, left, expires, err)
		}
		s.ok(db.Close())
	}
	s.open()
}

// TestTTLFirstSecond: a snapshot stays as it is also if it was taken when the clock stood at 0.
func TestTTLFirstSecond(t *testing.T) {
	for _, start := range []time.Time{time.Unix(0, 0), time.Unix(-1000, 1), time.Unix(1, 0)} {
		s := openTTL(t, nil)
		s.clock.now = start
		s.putTTL("a", "1", 5*time.Second)
		snap := s.Snapshot()
		it := s.Iter(nil)
		s.clock.now = time.Unix(20, 0)
		for _, settle := range []func() error{func() error {
			return nil
		}, s.Flush, func() error { return s.CompactRange(nil, nil) }} {
			s.ok(settle())
			if got := contents(t, snap, "a"); got != "a=1" {
				t.Errorf("%v: snapshot: %q", start, got)
			}
			if got := contents(t, s, "a"); got != "" {
				t.Errorf("%v: now: %q", start, got)
			}
			if !it.First() {
				t.Errorf("%v: iterator: %v", start, it.Err())
			}
		}
		s.ok(it.Close())
		s.ok(snap.Close())
	}
}

// TestTTLCheckpointClock: what had expired when a checkpoint was made stays away in it when the
// clock is set back.
func TestTTLCheckpointClock(t *testing.T) {
	s := openTTL(t, nil)
	s.putTTL("a", "1", 10*time.Second)
	s.putTTL("b", "2", time.Hour)
	s.ok(s.Flush())
	check := func(dir string) {
		t.Helper()
		s.ok(s.Checkpoint(context.Background(), dir))
		s.clock.add(-time.Minute)
		for _, readOnly := range []bool{true, false} {
			o := s.opts
			o.ReadOnly = readOnly
			db, err := Open(dir, &o)
			s.ok(err)
			if got := contents(t, db, "a", "b", "c"); got != "b=2" {
				t.Errorf("%s, read-only %v: %s", dir, readOnly, got)
			}
			s.ok(db.Close())
		}
		s.clock.add(time.Minute)
	}
	s.clock.add(20 * time.Second)
	if got := contents(t, s, "a", "b"); got != "b=2" {
		t.Error(got)
	}
	check("copy")
	s.putTTL("c", "3", 40*time.Second)
	s.ok(s.DB.Close())
	s.opts.ReadOnly = true
	s.open()
	s.clock.add(time.Minute)
	if got := contents(t, s, "a", "b", "c"); got != "b=2" {
		t.Error(got)
	}
	check("copy of a read-only one")
}

// TestTTLRepair: what has expired stays away in a database that is repaired without its MANIFEST
// and its logs, and so has a new MANIFEST that knows of the tables what they say themselves.
func TestTTLRepair(t *testing.T) {
	s := openTTL(t, nil)
	s.putTTL("a", "1", 10*time.Second)
	s.putTTL("b", "2", 30*time.Second)
	s.ok(s.Flush())
	s.ok(s.DB.Close())
	for _, dir := range []string{"db/CURRENT", "db"} {
		names, err := s.fs.List(dir)
		s.ok(err)
		for _, name := range names {
			if strings.HasSuffix(name, "manifest") || strings.HasSuffix(name, ".wal") {
				s.ok(s.fs.Remove(dir + "/" + name))
			}
		}
	}
	report, err := Repair("db", &s.opts)
	if err != nil || report.Tables != 1 || report.Logs != 0 {
		t.Fatalf("%+v %v", report, err)
	}
	s.clock.add(20 * time.Second)
	s.open()
	if got := contents(t, s, "a", "b"); got != "b=2" {
		t.Error(got)
	}
	if left, expires, err := s.TTL([]byte("b")); left != 10*time.Second || !expires || err != nil {
		t.Error(left, expires, err)
	}
	s.ok(s.CompactRange(nil, nil))
	if n := s.Metrics().Compact.Expired; n != 1 {
		t.Errorf("CompactRange dropped %d entries", n)
	}
}

// TestTTLMergeAndClockBack: after a crash with a clock that was set back, a value that had expired
// may be there again, but not below what was merged since.
func TestTTLMergeAndClockBack(t *testing.T) {
	s := openTTL(t, nil)
	s.opts.MergeOperator = MergeOperatorNamed("append:,")
	s.reopen()
	s.putTTL("read", "1", 10*time.Second)
	s.putTTL("merged", "1", 10*time.Second)
	s.clock.add(time.Minute)
	s.ok(s.Merge([]byte("merged"), []byte("2"), NoSync))
	s.ok(s.Merge([]byte("merged"), []byte("3"), NoSync))
	if got := contents(t, s, "read", "merged"); got != "merged=2,3" {
		t.Error(got)
	}
	s.clock.add(-time.Minute)
	o := s.opts
	o.FS = o.FS.(*vfs.Mem).CrashClone(vfs.KeepAll())
	db, err := Open("db", &o)
	s.ok(err)
	defer db.Close()
	if got := contents(t, db, "read", "merged"); got != "merged=2,3 read=1" {
		t.Errorf("after a crash: %s", got)
	}
}
