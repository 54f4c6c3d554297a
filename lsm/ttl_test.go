package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/os/vfs"
)

// fakeClock is a clock that a test sets.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *fakeClock { return &fakeClock{now: time.Unix(1_000_000, 0)} }

func (c *fakeClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// ttlStore is a native database in memory whose clock the test sets.
type ttlStore struct {
	t     *testing.T
	fs    *vfs.Mem
	clock *fakeClock
	opts  Options
	*DB
}

func openTTL(t *testing.T, change func(*Options)) *ttlStore {
	s := &ttlStore{t: t, fs: vfs.NewMem(), clock: newClock()}
	s.opts = Options{FS: s.fs, Format: FormatNative, Clock: s.clock.read, WriteBufferSize: 64 << 10,
		MaxFileSize: 64 << 10, MergeOperator: MergeOperatorNamed("uint64add")}
	if change != nil {
		change(&s.opts)
	}
	s.open()
	t.Cleanup(func() {
		if s.DB != nil {
			s.DB.Close()
		}
	})
	return s
}

func (s *ttlStore) open() {
	s.t.Helper()
	db, err := Open("db", &s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.DB = db
}

func (s *ttlStore) reopen() {
	s.t.Helper()
	s.ok(s.DB.Close())
	s.open()
}

func (s *ttlStore) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *ttlStore) putTTL(key, value string, ttl time.Duration) {
	s.t.Helper()
	s.ok(s.PutTTL([]byte(key), []byte(value), ttl, NoSync))
}

func (s *ttlStore) put(key, value string) {
	s.t.Helper()
	s.ok(s.Put([]byte(key), []byte(value), NoSync))
}

// contents is what a reader has, by an iterator forward; backward, gets, multi-gets and has must
// say the same.
func contents(t *testing.T, r Reader, keys ...string) string {
	t.Helper()
	var all []string
	it := r.Iter(nil)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, string(it.Key())+"="+string(it.Value()))
	}
	i := len(all)
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || all[i] != string(it.Key())+"="+string(it.Value()) {
			t.Fatalf("backward %s=%s, forward %v", it.Key(), it.Value(), all)
		}
	}
	if it.Err() != nil || i != 0 {
		t.Fatal(it.Err(), i, all)
	}
	have := map[string]string{}
	for _, kv := range all {
		k, v, _ := strings.Cut(kv, "=")
		have[k] = v
	}
	var list [][]byte
	for _, k := range keys {
		list = append(list, []byte(k))
	}
	var result MultiResult
	if err := r.MultiGet(list, &result); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		want, there := have[k]
		v, err := r.Get([]byte(k), []byte("+"))
		if there && (err != nil || string(v) != "+"+want) || !there &&
			(!errors.Is(err, ErrNotFound) || string(v) != "+") {
			t.Errorf("get %s: %q %v; the iterator has %q, %v", k, v, err, want, there)
		}
		if v, ok := result.Value(i); ok != there || string(v) != want {
			t.Errorf("multiget %s: %q %v; the iterator has %q, %v", k, v, ok, want, there)
		}
		if ok, err := r.Has([]byte(k)); ok != there || err != nil {
			t.Errorf("has %s: %v %v", k, ok, err)
		}
	}
	return strings.Join(all, " ")
}

// TestTTL: a value goes when its time is over, wherever it lies, and an older one does not come
// back.
func TestTTL(t *testing.T) {
	places := map[string]func(s *ttlStore){
		"memtable":   func(*ttlStore) {},
		"table":      func(s *ttlStore) { s.ok(s.Flush()) },
		"compacted":  func(s *ttlStore) { s.ok(s.CompactRange(nil, nil)) },
		"reopened":   func(s *ttlStore) { s.reopen() },
		"range dels": func(s *ttlStore) { s.ok(s.DeleteRange([]byte("x"), []byte("z"), NoSync)) },
	}
	for name, settle := range places {
		t.Run(name, func(t *testing.T) {
			s := openTTL(t, nil)
			keys := []string{"a", "b", "c", "d", "e", "nothing"}
			s.put("a", "old")
			s.put("d", "stays")
			settle(s)
			s.putTTL("a", "new", 10*time.Second)
			s.putTTL("b", "", 20*time.Second)
			s.putTTL("c", "soon", time.Millisecond) // a second
			s.putTTL("e", "replaced", time.Hour)
			s.ok(s.Delete([]byte("e"), NoSync))
			settle(s)
			check := func(want string) {
				t.Helper()
				if got := contents(t, s, keys...); got != want {
					t.Errorf("%v: %s, want %s", s.clock.read().Unix(), got, want)
				}
			}
			check("a=new b= c=soon d=stays")
			for _, c := range []struct {
				key     string
				left    time.Duration
				expires bool
			}{{"a", 10 * time.Second, true}, {"b", 20 * time.Second, true}, {"d", 0, false}} {
				if left, expires, err := s.TTL([]byte(c.key)); left != c.left ||
					expires != c.expires || err != nil {
					t.Errorf("TTL %s: %v %v %v", c.key, left, expires, err)
				}
			}
			snap := s.Snapshot()
			defer snap.Close()
			it := s.Iter(nil)
			defer it.Close()
			s.clock.add(9*time.Second + 999*time.Millisecond)
			check("a=new b= d=stays")
			if left, _, err := s.TTL([]byte("a")); left != time.Millisecond || err != nil {
				t.Error(left, err)
			}
			s.clock.add(time.Millisecond)
			check("b= d=stays")
			if _, _, err := s.TTL([]byte("a")); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
			settle(s)
			check("b= d=stays")
			if name != "reopened" {
				if got := contents(t, snap, keys...); got != "a=new b= c=soon d=stays" {
					t.Error("snapshot:", got)
				}
				if left, expires, err := snap.TTL([]byte("a")); left != 0 || !expires ||
					err != nil {
					t.Error(left, expires, err)
				}
				n := 0
				for ok := it.First(); ok; ok = it.Next() {
					n++
				}
				if n != 4 || it.Err() != nil {
					t.Errorf("the iterator sees %d keys, %v", n, it.Err())
				}
			}
			snap.Close()
			s.clock.add(10 * time.Second)
			settle(s)
			check("d=stays")
			s.put("a", "again")
			check("a=again d=stays")
		})
	}
}

// TestTTLCompaction: compactions drop expired values, and no others; TTLs are kept.
func TestTTLCompaction(t *testing.T) {
	s := openTTL(t, nil)
	for i := range 1000 {
		s.put(fmt.Sprintf("k%04d", i), "old")
	}
	s.ok(s.CompactRange(nil, nil))
	for i := range 1000 {
		s.putTTL(fmt.Sprintf("k%04d", i), strings.Repeat("v", i%50),
			time.Duration(1+i%100)*time.Second)
	}
	s.ok(s.CompactRange(nil, nil))
	for step := range 11 {
		if want := 1000 - 10*10*step; len(contents(t, s)) == 0 != (want == 0) {
			t.Error(step, want)
		}
		s.ok(s.CompactRange(nil, nil))
		entries := uint64(0)
		v := s.engine.Parts().Manifest.Current(0)
		for i := range v.Levels {
			for _, f := range v.Levels[i].Files {
				entries += f.Entries
			}
		}
		v.Unref()
		if want := uint64(1000 - 10*10*step); entries != want {
			t.Fatalf("after %d s tables have %d entries, want %d", 10*step, entries, want)
		}
		for i := 0; i < 1000; i += 37 {
			left, expires, err := s.TTL(fmt.Appendf(nil, "k%04d", i))
			want := time.Duration(1+i%100-10*step) * time.Second
			if want <= 0 != errors.Is(err, ErrNotFound) || want > 0 && (left != want || !expires) {
				t.Fatal(i, left, expires, err, want)
			}
		}
		s.clock.add(10 * time.Second)
	}
	if m := s.Metrics(); m.Flush.Expired+m.Compact.Expired != 1000 {
		t.Errorf("%d and %d expired, %d tables dropped", m.Flush.Expired, m.Compact.Expired,
			m.Compact.TablesDropped)
	}
}

// TestTTLSnapshotKeeps: a compaction keeps what an open snapshot sees, which began before the
// deadline.
func TestTTLSnapshotKeeps(t *testing.T) {
	s := openTTL(t, nil)
	s.putTTL("a", "1", 10*time.Second)
	early := s.Snapshot()
	s.clock.add(20 * time.Second)
	late := s.Snapshot()
	s.ok(s.CompactRange(nil, nil))
	if got := contents(t, early, "a"); got != "a=1" {
		t.Error(got)
	}
	if got := contents(t, late, "a"); got != "" {
		t.Error(got)
	}
	early.Close()
	s.ok(s.CompactRange(nil, nil))
	if got := contents(t, late, "a"); got != "" {
		t.Error(got)
	}
	if m := s.Metrics(); m.Levels[1].Files+m.Levels[6].Files+m.Levels[0].Files != 0 {
		t.Errorf("%+v", m.Levels)
	}
	late.Close()
}

// TestTTLClockBack: nothing comes back when the clock is set back, after a reopening either.
func TestTTLClockBack(t *testing.T) {
	s := openTTL(t, nil)
	s.putTTL("a", "1", 10*time.Second)
	s.putTTL("b", "2", 30*time.Second)
	s.clock.add(20 * time.Second)
	if got := contents(t, s, "a", "b"); got != "b=2" {
		t.Fatal(got)
	}
	s.clock.add(-time.Hour)
	if got := contents(t, s, "a", "b"); got != "b=2" {
		t.Error("clock set back:", got)
	}
	s.reopen()
	if got := contents(t, s, "a", "b"); got != "b=2" {
		t.Error("reopened:", got)
	}
	if left, _, err := s.TTL([]byte("b")); left != 10*time.Second || err != nil {
		t.Error(left, err)
	}
	s.clock.add(time.Hour + 10*time.Second)
	if got := contents(t, s, "a", "b"); got != "" {
		t.Error(got)
	}
}

// TestTTLBadInput: bad times are refused in one sentence, and nothing is written.
func TestTTLBadInput(t *testing.T) {
	s := openTTL(t, nil)
	s.put("a", "stays")
	b := s.NewBatch()
	b.Put([]byte("b"), nil)
	b.PutTTL([]byte("a"), nil, 0)
	tx := s.Begin(nil)
	defer tx.Rollback()
	for name, err := range map[string]error{
		"negative":    s.PutTTL([]byte("a"), nil, -time.Second, NoSync),
		"zero":        s.PutTTL([]byte("a"), nil, 0, NoSync),
		"batch":       s.Write(b, NoSync),
		"transaction": tx.PutTTL([]byte("a"), nil, -1),
	} {
		if !errors.Is(err, ErrInvalidArgument) ||
			!strings.Contains(err.Error(), "must be positive") ||
			strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.clock.now = time.Unix(1<<39-100, 0)
	for name, err := range map[string]error{
		"beyond the clock": s.PutTTL([]byte("a"), nil, 200*time.Second, NoSync),
		"in a batch": func() error {
			b := NewBatch()
			b.PutTTL([]byte("a"), nil, 200*time.Second)
			return s.Write(b, NoSync)
		}(),
	} {
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "19391") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := contents(t, s, "a", "b"); got != "a=stays" {
		t.Error(got)
	}
	if _, err := Open("other", &Options{FS: s.fs, Format: FormatNative,
		DefaultTTL: -1}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	db, err := Open("leveldb", &Options{FS: s.fs, Format: FormatLevelDB})
	s.ok(err)
	defer db.Close()
	b = NewBatch()
	b.PutTTL([]byte("a"), nil, time.Second)
	tx2 := db.Begin(nil)
	defer tx2.Rollback()
	for name, err := range map[string]error{
		"PutTTL": db.PutTTL([]byte("a"), nil, time.Second, NoSync), "batch": db.Write(b, NoSync),
		"transaction": tx2.PutTTL([]byte("a"), nil, time.Second),
	} {
		if !errors.Is(err, ErrNeedsNative) {
			t.Errorf("%s in LevelDB's format: %v", name, err)
		}
	}
	if _, err := Open("leveldb2", &Options{FS: s.fs, Format: FormatLevelDB,
		DefaultTTL: time.Hour}); !errors.Is(err, ErrNeedsNative) {
		t.Error(err)
	}
}

// TestTTLDefault: a keyspace's time to live is that of all its values which say none.
func TestTTLDefault(t *testing.T) {
	s := openTTL(t, func(o *Options) { o.DefaultTTL = time.Minute })
	users, err := s.Keyspace("users", &KeyspaceOptions{DefaultTTL: 10 * time.Second,
		MergeOperator: MergeOperatorNamed("append")})
	s.ok(err)
	plain, err := s.Keyspace("plain", nil)
	s.ok(err)
	s.put("a", "1")
	s.putTTL("b", "2", time.Second)
	b := NewBatch()
	b.Put([]byte("c"), []byte("3"))
	b.In(users).Put([]byte("c"), []byte("3"))
	b.In(plain).Put([]byte("c"), []byte("3"))
	s.ok(s.Write(b, NoSync))
	s.ok(users.Merge([]byte("d"), []byte("x"), NoSync))
	s.ok(s.Update(context.Background(), func(tx *Txn) error {
		if err := tx.In(users).Put([]byte("e"), []byte("5")); err != nil {
			return err
		}
		if v, err := tx.In(users).Get([]byte("e"), nil); string(v) != "5" || err != nil {
			return fmt.Errorf("own write: %q %w", v, err)
		}
		if got := contents(t, tx.In(users), "c", "d", "e"); got != "c=3 d=x e=5" {
			return errors.New(got)
		}
		return tx.In(users).PutTTL([]byte("f"), []byte("6"), time.Second)
	}))
	if put, err := users.PutIfAbsent([]byte("g"), []byte("7"), NoSync); !put || err != nil {
		t.Error(put, err)
	}
	for _, c := range []struct {
		r    *Keyspace
		key  string
		left time.Duration
	}{{users, "c", 10 * time.Second}, {users, "d", 10 * time.Second}, {users, "e",
		10 * time.Second}, {users, "f", time.Second}, {users, "g", 10 * time.Second},
		{plain, "c", 0}} {
		if left, expires, err := c.r.TTL([]byte(c.key)); left != c.left ||
			expires != (c.left > 0) || err != nil {
			t.Errorf("%s: %v %v %v", c.key, left, expires, err)
		}
	}
	s.clock.add(time.Second)
	if got := contents(t, s, "a", "b", "c"); got != "a=1 c=3" {
		t.Error(got)
	}
	s.clock.add(4 * time.Second)
	s.ok(users.Merge([]byte("d"), []byte("y"), NoSync)) // 10 s from now
	s.ok(users.Merge([]byte("c"), []byte("y"), NoSync))
	s.clock.add(5 * time.Second)
	if got := contents(t, users, "c", "d", "e", "f", "g"); got != "c=3,y d=x,y" {
		t.Error(got)
	}
	s.clock.add(5 * time.Second)
	if got := contents(t, users, "c", "d", "e", "f", "g"); got != "" {
		t.Error(got)
	}
	if got := contents(t, plain, "c"); got != "c=3" {
		t.Error(got)
	}
}

// TestTTLMerge: merges keep the deadline of the value; after it they begin anew.
func TestTTLMerge(t *testing.T) {
	for _, settled := range []bool{false, true} {
		s := openTTL(t, nil)
		settle := func() {
			if settled {
				s.ok(s.CompactRange(nil, nil))
			}
		}
		one := binary.LittleEndian.AppendUint64(nil, 1)
		is := func(want uint64) {
			t.Helper()
			v, err := s.Get([]byte("n"), nil)
			if want == 0 {
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("%x %v, want nothing", v, err)
				}
			} else if err != nil || binary.LittleEndian.Uint64(v) != want {
				t.Errorf("%x %v, want %d", v, err, want)
			}
		}
		s.ok(s.PutTTL([]byte("n"), one, 10*time.Second, NoSync))
		s.ok(s.Merge([]byte("n"), one, NoSync))
		is(2)
		settle()
		b := NewBatch()
		b.Merge([]byte("n"), one)
		b.Put([]byte("m"), one)
		b.Merge([]byte("m"), one)
		b.Merge([]byte("n"), one)
		s.ok(s.Write(b, NoSync))
		settle()
		is(4)
		if left, expires, err := s.TTL([]byte("n")); left != 10*time.Second || !expires ||
			err != nil {
			t.Error(left, expires, err)
		}
		s.clock.add(10 * time.Second)
		is(0)
		s.ok(s.Merge([]byte("n"), one, NoSync))
		is(1)
		settle()
		s.ok(s.Merge([]byte("n"), one, NoSync))
		is(2)
		if _, expires, err := s.TTL([]byte("n")); expires || err != nil {
			t.Error(expires, err)
		}
		s.clock.add(time.Hour)
		is(2)
		if v, err := s.Get([]byte("m"), nil); err != nil || v[0] != 2 {
			t.Error(v, err)
		}
		b = NewBatch() // deleted, put with a time, merged: all in one batch
		b.Merge([]byte("n"), one)
		b.DeleteRange([]byte("n"), []byte("o"))
		b.Merge([]byte("n"), one)
		b.PutTTL([]byte("m"), one, 5*time.Second)
		b.Merge([]byte("m"), one)
		s.ok(s.Write(b, NoSync))
		settle()
		is(1)
		if left, expires, err := s.TTL([]byte("m")); left != 5*time.Second || !expires ||
			err != nil {
			t.Error(left, expires, err)
		}
		// A batch that is written again lives again.
		b = s.NewBatch()
		b.PutTTL([]byte("again"), one, 5*time.Second)
		s.ok(s.Write(b, NoSync))
		s.clock.add(4 * time.Second)
		s.ok(s.Write(b, NoSync))
		if left, _, err := s.TTL([]byte("again")); left != 5*time.Second || err != nil {
			t.Error(left, err)
		}
	}
}

// TestTTLMergeRace: no merge is lost beside others.
func TestTTLMergeRace(t *testing.T) {
	s := openTTL(t, nil)
	one := binary.LittleEndian.AppendUint64(nil, 1)
	s.ok(s.PutTTL([]byte("n"), one, time.Hour, NoSync))
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 100 {
				if err := s.Merge([]byte("n"), one, NoSync); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if v, err := s.Get([]byte("n"), nil); err != nil || binary.LittleEndian.Uint64(v) != 401 {
		t.Error(v, err)
	}
}

// TestTTLTransactions: a transaction reads at the time at which it began; an expired value is
// none for a swap.
func TestTTLTransactions(t *testing.T) {
	s := openTTL(t, nil)
	s.putTTL("a", "1", 10*time.Second)
	tx := s.Begin(&TxnOptions{Isolation: Serializable})
	defer tx.Rollback()
	s.clock.add(10 * time.Second)
	if got := contents(t, tx, "a"); got != "a=1" {
		t.Error(got)
	}
	if put, err := s.PutIfAbsent([]byte("a"), []byte("2"), NoSync); !put || err != nil {
		t.Error(put, err)
	}
	if err := tx.Put([]byte("a"), []byte("3")); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(NoSync); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	s.putTTL("b", "1", 10*time.Second)
	if swapped, err := s.CompareAndSwap([]byte("b"), []byte("1"), []byte("2"), NoSync); !swapped ||
		err != nil {
		t.Error(swapped, err)
	}
	if _, expires, err := s.TTL([]byte("b")); expires || err != nil {
		t.Error(expires, err)
	}
	s.putTTL("c", "1", 10*time.Second)
	s.clock.add(10 * time.Second)
	if swapped, err := s.CompareAndSwap([]byte("c"), []byte("1"), []byte("2"), NoSync); swapped ||
		err != nil {
		t.Error(swapped, err)
	}
}

// TestTTLLog: a log of events loses its tables without being read.
func TestTTLLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openTTL(t, func(o *Options) {
			o.Events = &EventListener{CompactionEnd: func(c CompactionInfo) {
				t.Log(c.Reason, c.Inputs, c.Output, c.Err)
			}}
		})
		n := 0
		for hour := range 48 {
			for range 500 {
				s.putTTL(fmt.Sprintf("%012d", n), strings.Repeat("event ", 10), 10*time.Hour)
				n++
			}
			s.clock.add(time.Hour)
			if hour == 5 {
				s.put("zz", "stays")
			}
			synctest.Wait() // how many tables become one does not depend on the machine
		}
		s.ok(s.Flush())
		time.Sleep(time.Minute) // in the bubble: compactions give way to flushes by pauses
		m := waitForExpiry(t, s, func(m Metrics) bool { return m.DiskBytes < 100<<10 })
		if m.Compact.TablesDropped < 20 {
			t.Errorf("%d tables were dropped", m.Compact.TablesDropped)
		}
		s.clock.add(20 * time.Hour)
		s.put("zzz", "wakes")
		s.ok(s.Flush())
		time.Sleep(time.Minute)
		waitForExpiry(t, s, func(m Metrics) bool { return m.DiskBytes < 4<<10 })
		if got := contents(t, s, "zz", "zzz"); got != "zz=stays zzz=wakes" {
			t.Error(got)
		}
	})
}

func waitForExpiry(t *testing.T, s *ttlStore, done func(Metrics) bool) Metrics {
	t.Helper()
	synctest.Wait()
	m := s.Metrics()
	if !done(m) {
		t.Fatalf("%d bytes of tables are left: %+v", m.DiskBytes, m.Levels)
	}
	return m
}

// TestTTLExport: deadlines go along to the native format; LevelDB's has none.
func TestTTLExport(t *testing.T) {
	s := openTTL(t, nil)
	s.put("a", "stays")
	s.putTTL("b", "1", 10*time.Second)
	s.putTTL("c", "2", 20*time.Second)
	s.ok(s.DB.Close())
	s.clock.add(10 * time.Second)
	err := Export(context.Background(), "db", "leveldb", FormatLevelDB, &s.opts, nil)
	if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "expire") {
		t.Error(err)
	}
	s.ok(Export(context.Background(), "db", "copy", FormatNative, &s.opts, nil))
	db, err := Open("copy", &s.opts)
	s.ok(err)
	defer db.Close()
	if got := contents(t, db, "a", "b", "c"); got != "a=stays c=2" {
		t.Error(got)
	}
	if left, expires, err := db.TTL([]byte("c")); left != 10*time.Second || !expires || err != nil {
		t.Error(left, expires, err)
	}
	s.open()
	s.clock.add(time.Hour)
	s.ok(s.CompactRange(nil, nil))
	s.reopen()
	s.ok(s.DB.Close())
	s.ok(Export(context.Background(), "db", "leveldb", FormatLevelDB, &s.opts, nil))
	s.open()
}

// TestTTLFilter: a compaction filter sees values without their deadlines, which changed values
// keep.
func TestTTLFilter(t *testing.T) {
	s := openTTL(t, func(o *Options) {
		o.CompactionFilter = &CompactionFilter{Name: "test",
			Filter: func(_ int, key, value []byte) (FilterDecision, error) {
				switch string(value) {
				case "remove":
					return FilterRemove, nil
				case "change":
					return FilterChange([]byte("changed")), nil
				}
				return FilterKeep, nil
			}}
	})
	s.putTTL("a", "remove", 10*time.Second)
	s.putTTL("b", "change", 10*time.Second)
	s.putTTL("c", "keep", 10*time.Second)
	s.ok(s.CompactRange(nil, nil))
	if got := contents(t, s, "a", "b", "c"); got != "b=changed c=keep" {
		t.Error(got)
	}
	if left, _, err := s.TTL([]byte("b")); left != 10*time.Second || err != nil {
		t.Error(left, err)
	}
	s.clock.add(10 * time.Second)
	if got := contents(t, s, "a", "b", "c"); got != "" {
		t.Error(got)
	}
}

// TestTTLUnusedClock: nobody asks the clock of a database where nothing expires.
func TestTTLUnusedClock(t *testing.T) {
	asked := 0
	s := openTTL(t, func(o *Options) {
		o.Clock = func() time.Time { asked++; return time.Unix(1e9, 0) }
	})
	s.put("a", "1")
	snap := s.Snapshot()
	contents(t, s, "a", "b")
	contents(t, snap, "a")
	snap.Close()
	s.ok(s.CompactRange(nil, nil))
	if _, _, err := s.TTL([]byte("a")); err != nil {
		t.Error(err)
	}
	if asked > 0 {
		t.Errorf("the clock was asked %d times", asked)
	}
	s.putTTL("a", "1", time.Hour)
	if contents(t, s, "a"); asked == 0 {
		t.Error("the clock was never asked")
	}
}

// TestTTLAllocations: reads of values that expire allocate nothing.
func TestTTLAllocations(t *testing.T) {
	s := openTTL(t, nil)
	s.putTTL("a", "value", time.Hour)
	s.ok(s.Flush())
	s.putTTL("b", "value", time.Hour)
	var dst []byte
	for _, key := range []string{"a", "b"} {
		k := []byte(key)
		if n := testing.AllocsPerRun(100, func() { dst, _ = s.Get(k, dst[:0]) }); n > 0 {
			t.Errorf("Get %s: %v allocations", key, n)
		}
		// With the race detector a sync.Pool forgets at random what it was given.
		if n := testing.AllocsPerRun(100, func() {
			s.PutTTL(k, dst, time.Hour, NoSync)
		}); n > 0 && !arena.RaceDetector {
			t.Errorf("PutTTL %s: %v allocations", key, n)
		}
	}
}

// TestTTLNothingComesBack: a table in which everything has expired, and that hides older values, is
// merged with them.
func TestTTLNothingComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openTTL(t, nil)
		for i := range 100 {
			s.put(fmt.Sprintf("k%02d", i), "old")
		}
		s.ok(s.CompactRange(nil, nil))
		for i := range 100 {
			s.putTTL(fmt.Sprintf("k%02d", i), "new", 10*time.Second)
		}
		s.ok(s.Flush())
		s.clock.add(10 * time.Second)
		s.put("z", "stays")
		s.ok(s.Flush()) // a change of the tree, which wakes the scheduler
		if got := contents(t, s, "k00", "k99", "z"); got != "z=stays" {
			t.Fatal(got)
		}
		synctest.Wait()
		if got := contents(t, s, "k00", "k99", "z"); got != "z=stays" {
			t.Error(got)
		}
		if m := s.Metrics(); m.Compact.Expired != 100 {
			t.Errorf("%d expired, %d tables dropped", m.Compact.Expired, m.Compact.TablesDropped)
		}
	})
}
