package lsm

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// openSpaces opens a database with keyspaces in fsys.
func openSpaces(t testing.TB, fsys vfs.FS, change func(*Options)) *DB {
	t.Helper()
	o := &Options{FS: fsys, WriteBufferSize: 64 << 10, WALPreallocate: 16 << 10}
	if change != nil {
		change(o)
	}
	o.Format = FormatNative
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func mustSpace(t testing.TB, db *DB, name string) *Keyspace {
	t.Helper()
	k, err := db.Keyspace(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// putIn writes one entry into each keyspace, nil being the default one, in one batch.
func putIn(t testing.TB, db *DB, key, value string, spaces ...*Keyspace) {
	t.Helper()
	b := NewBatch()
	for _, k := range spaces {
		if k == nil {
			b.Put([]byte(key), []byte(value))
		} else {
			b.In(k).Put([]byte(key), []byte(value))
		}
	}
	if err := db.Write(b, NoSync); err != nil {
		t.Fatal(err)
	}
}

func wantIn(t testing.TB, k *Keyspace, key, value string) {
	t.Helper()
	if got, err := k.Get([]byte(key), nil); err != nil || string(got) != value {
		t.Errorf("keyspace %s: %s is %q, %v; want %q", k.space.Tree.Name(), key, got, err, value)
	}
}

// filesIn counts the files of a type, and their bytes.
func filesIn(t testing.TB, fsys vfs.FS, kind base.FileType) (n int, bytes int64) {
	t.Helper()
	paths, err := fstest.Find(fsys, "db", kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		info, err := fsys.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted since
			continue
		case err != nil:
			t.Fatal(err)
		}
		n, bytes = n+1, bytes+info.Size()
	}
	return n, bytes
}

func TestKeyspacesNeedTheNativeFormat(t *testing.T) {
	fsys := vfs.NewMem()
	// the directory keeps its format
	for _, o := range []*Options{{FS: fsys, Format: FormatLevelDB},
		{FS: fsys, Format: FormatNative}} {
		db, err := Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Keyspace("users", nil); !errors.Is(err, ErrNeedsNative) ||
			!strings.Contains(err.Error(),
				`"users" needs the native format: the database is in LevelDB's, and Upgrade`) {
			t.Errorf("keyspace in LevelDB's format: %v", err)
		}
		mustClose(t, db)
	}
	native := vfs.NewMem()
	for range 2 {
		db, err := Open("db", &Options{FS: native, Format: FormatNative})
		if err != nil {
			t.Fatal(err)
		}
		users := mustSpace(t, db, "users")
		putIn(t, db, "k", "new", users)
		b := NewBatch()
		b.In(users).Put([]byte("k"), nil)
		if _, err := BatchFromBytes(b.Bytes()); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("batch of LevelDB's form that names a keyspace: %v", err)
		}
		other := openSpaces(t, vfs.NewMem(), nil)
		if err := other.Write(b, NoSync); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("batch for another database's keyspace: %v", err)
		}
		mustClose(t, other)
		mustClose(t, db)
	}
}

func TestKeyspaceComparers(t *testing.T) {
	fsys := vfs.NewMem()
	own := *ReverseBytewiseComparer
	own.Name = "test.down"
	db := openSpaces(t, fsys, func(o *Options) { o.Comparers = []*Comparer{&own} })
	down, err := db.Keyspace("down", &KeyspaceOptions{Comparer: &own})
	if err != nil {
		t.Fatal(err)
	}
	stranger := own
	stranger.Name = "test.stranger"
	if _, err := db.Keyspace("strange", &KeyspaceOptions{Comparer: &stranger}); !errors.Is(err,
		ErrInvalidArgument) || !strings.Contains(err.Error(), "test.stranger") {
		t.Errorf("a comparer that later openings do not know: %v", err)
	}
	for _, key := range []string{"a", "c", "b"} {
		putIn(t, db, key, "1", down, nil)
	}
	order := func(it *Iterator) (keys string) {
		for ok := it.First(); ok; ok = it.Next() {
			keys += string(it.Key())
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		return keys
	}
	for range 2 {
		if up, down := order(db.Iter(nil)), order(down.Iter(nil)); up != "abc" || down != "cba" {
			t.Errorf("default %s, down %s", up, down)
		}
		if err := down.Flush(); err != nil { // from tables
			t.Fatal(err)
		}
	}
	if _, err := db.Keyspace("down", &KeyspaceOptions{Comparer: BytewiseComparer}); !errors.Is(err,
		ErrComparerMismatch) {
		t.Errorf("another comparer: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o := &Options{FS: fsys}
	if _, err := Open("db", o); !errors.Is(err, ErrComparerMismatch) ||
		!strings.Contains(err.Error(), `"down"`) {
		t.Errorf("a comparer that is not known: %v", err)
	}
}

// TestIdleKeyspace: a keyspace that is not written costs little heap and no memory
// outside of it.
func TestIdleKeyspace(t *testing.T) {
	const n = 1000
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, nil)
	for i := range n {
		mustSpace(t, db, fmt.Sprint("space", i))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, outside := heap(), offheap.InUse()
	db = openSpaces(t, fsys, nil)
	each := (int64(heap()) - int64(before)) / n
	t.Logf("%d keyspaces are open, with %d bytes of heap each", n, each)
	if each > 4<<10 {
		t.Errorf("an idle keyspace costs %d bytes of heap", each)
	}
	if more := offheap.InUse() - outside; more > 1<<20 {
		t.Errorf("%d idle keyspaces cost %d bytes outside of the heap", n, more)
	}
	if names := db.Keyspaces(); len(names) != n+1 || names[0] != base.DefaultKeyspaceName {
		t.Errorf("%d keyspaces, the first %q", len(names), names[0])
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSeldomWrittenKeyspaceKeepsNoLogs fills one keyspace while another one has an
// entry in the first log.
func TestSeldomWrittenKeyspaceKeepsNoLogs(t *testing.T) {
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, func(o *Options) {
		o.WALPreallocate = -1
		o.DisableCompaction = true
		o.L0Stop = 1000
	})
	seldom, idle := mustSpace(t, db, "seldom"), mustSpace(t, db, "idle")
	putIn(t, db, "k", "v", seldom)
	value := strings.Repeat("v", 4000)
	most := int64(0)
	for i := range 400 { // 25 write buffers
		putIn(t, db, fmt.Sprint(i), value, nil)
		if i%10 == 0 {
			if err := db.engine.Parts().Jobs.WaitFlushed(db.engine.Parts().Home, 0); err != nil {
				t.Fatal(err)
			}
			db.engine.Parts().Shared.Files.WaitDeleted()
			_, bytes := filesIn(t, fsys, base.FileLog)
			most = max(most, bytes)
		}
	}
	if limit := (maxLogs + 3) * db.engine.Parts().Opts.Jobs.WriteBuffer; most > limit {
		t.Errorf("logs of up to %d bytes, want at most %d", most, limit)
	}
	state := seldom.space.Tree.Acquire()
	if len(state.Version.Levels[manifest.NumLevels-1].Files)+len(state.Version.Levels[0].Files) ==
		0 || state.Mem.Len() > 0 {
		t.Errorf("the keyspace that kept the first log was not flushed:\n%v", state.Version)
	}
	state.Unref()
	wantIn(t, seldom, "k", "v")
	if entries, sealed := memTablesOf(idle.space.Tree); entries != 0 || sealed != 0 {
		t.Error("a keyspace without entries was sealed")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRotationLeavesOtherKeyspaces: a full memtable is flushed alone, and recovery
// reads back only what is not in tables.
func TestRotationLeavesOtherKeyspaces(t *testing.T) {
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, func(o *Options) { o.DisableCompaction = true })
	a, b := mustSpace(t, db, "a"), mustSpace(t, db, "b")
	putIn(t, db, "k", "1", a, b, nil)
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	putIn(t, db, "l", "2", a, b)
	for k, want := range map[*Keyspace][2]int{a: {1, 1}, b: {0, 2}} {
		state := k.space.Tree.Acquire()
		files := 0
		for i := range state.Version.Levels {
			files += len(state.Version.Levels[i].Files)
		}
		if got := [2]int{files, state.Mem.Len()}; got != want {
			t.Errorf("keyspace %s has %d tables and %d entries in memory, want %v",
				k.space.Tree.Name(), got[0], got[1], want)
		}
		state.Unref()
	}
	crashed := fsys.CrashClone(vfs.KeepAll())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openSpaces(t, crashed, func(o *Options) { o.DisableCompaction = true })
	if r := db.RecoveryReport(); r.Entries != 5 || !r.WasClean {
		t.Errorf("%+v", r)
	}
	a, b = mustSpace(t, db, "a"), mustSpace(t, db, "b")
	entries := uint64(0)
	state := a.space.Tree.Acquire()
	for i := range state.Version.Levels {
		for _, f := range state.Version.Levels[i].Files {
			r, err := db.engine.Parts().Shared.Files.Reader(f)
			if err != nil {
				t.Fatal(err)
			}
			entries += r.Props().Entries
		}
	}
	state.Unref()
	if entries != 2 {
		t.Errorf("keyspace a has %d entries in tables, want 2: each once", entries)
	}
	for _, k := range []*Keyspace{a, b} {
		wantIn(t, k, "k", "1")
		wantIn(t, k, "l", "2")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDropForgetsOptions: options of a keyspace go with it, since no other one gets its number.
func TestDropForgetsOptions(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), nil)
	k, err := db.Keyspace("brief", &KeyspaceOptions{BloomBits: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5", "10"} {
		if got, err := db.live.Get(k.ID(), "bloom_bits"); err != nil || got != want {
			t.Errorf("filters have %s bits, %v; want %s", got, err, want)
		}
		if want == "5" {
			if err := db.DropKeyspace("brief"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestDropKeyspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		db := openSpaces(t, fsys, func(o *Options) { o.WALPreallocate = -1 })
		a := mustSpace(t, db, "a")
		putIn(t, db, "k", "table", a)
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
		putIn(t, db, "k", "memory", a)
		snap := db.Snapshot()
		it := a.Iter(nil)
		if err := db.DropKeyspace("a"); err != nil {
			t.Fatal(err)
		}
		if err := db.DropKeyspace("a"); !errors.Is(err, base.ErrNoKeyspace) {
			t.Errorf("second drop: %v", err)
		}
		b := NewBatch()
		b.In(a).Put([]byte("k"), nil)
		if err := db.Write(b, NoSync); !errors.Is(err, base.ErrNoKeyspace) {
			t.Errorf("write into a dropped keyspace: %v", err)
		}
		if _, err := a.Get([]byte("k"), nil); !errors.Is(err, ErrNoKeyspace) {
			t.Errorf("read of a dropped keyspace: %v", err)
		}
		late := db.Snapshot()
		if got, err := late.In(a).Get([]byte("k"), nil); !errors.Is(err, ErrNoKeyspace) {
			t.Errorf("snapshot of the sequence number of an earlier one: %q, %v", got, err)
		}
		putIn(t, db, "k", "v", nil)
		if !it.First() || string(it.Value()) != "memory" {
			t.Errorf("open iterator: %q, %v", it.Value(), it.Err())
		}
		if got, err := snap.In(a).Get([]byte("k"), nil); err != nil || string(got) != "memory" {
			t.Errorf("open snapshot: %q, %v", got, err)
		}
		again := mustSpace(t, db, "a")
		if _, err := again.Get([]byte("k"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("made again under its name: %v", err)
		}
		db.engine.Parts().Shared.Files.WaitDeleted()
		if n, _ := filesIn(t, fsys, base.FileTable); n != 1 {
			t.Errorf("%d tables beside an iterator and a snapshot", n)
		}
		if err := errors.Join(snap.Close(), late.Close(), it.Close()); err != nil {
			t.Error(err)
		}
		db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
		synctest.Wait()
		if n, _ := filesIn(t, fsys, base.FileTable); n != 0 {
			t.Errorf("%d tables of the dropped keyspace are left", n)
		}
		crashed := fsys.CrashClone(vfs.DropAll())
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = openSpaces(t, crashed, nil)
		again = mustSpace(t, db, "a")
		if _, err := again.Get([]byte("k"), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("after a power cut: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDropReleasesLogs: the logs that only a dropped keyspace needed go with it.
func TestDropReleasesLogs(t *testing.T) {
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, nil)
	a := mustSpace(t, db, "a")
	putIn(t, db, "k", "v", a, nil)
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	before := db.engine.Parts().Manifest.LogNum()
	if err := db.DropKeyspace("a"); err != nil {
		t.Fatal(err)
	}
	parts := db.engine.Parts()
	if now := parts.Manifest.LogNum(); now <= before || now != parts.WAL.Num() {
		t.Errorf("the oldest log needed is %d, was %d, the current one is %d", now, before,
			db.engine.Parts().WAL.Num())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKeyspacesUnderWay writes, flushes, compacts, drops and reads side by side.
func TestKeyspacesUnderWay(t *testing.T) {
	db := openSpaces(t, vfs.NewMem(), func(o *Options) { o.L0Compaction = 2 })
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	value := strings.Repeat("v", 3000)
	var wg sync.WaitGroup
	for g := range 3 {
		name := fmt.Sprint("space", g)
		wg.Go(func() {
			fixed := mustSpace(t, db, fmt.Sprint("fixed", g))
			for i := range rounds {
				k, err := db.Keyspace(name, nil)
				if err != nil {
					t.Error(err)
					return
				}
				b := NewBatch()
				for j := range 5 {
					key := fmt.Appendf(nil, "%d-%d", i, j)
					b.Put(key, []byte(value))
					b.In(k).Put(key, []byte(value))
					b.In(fixed).Put(key, []byte(value))
				}
				if err := db.Write(b, NoSync); err != nil {
					t.Error(err)
					return
				}
				if got, err := k.Get(fmt.Appendf(nil, "%d-4", i), nil); err != nil ||
					string(got) != value {
					t.Errorf("round %d: %d bytes, %v", i, len(got), err)
				}
				switch i % 8 {
				case 1:
					err = k.Flush()
				case 3:
					err = k.CompactRange(nil, nil)
				case 5, 7:
					err = db.DropKeyspace(name)
				}
				if err != nil {
					t.Errorf("round %d: %v", i, err)
				}
			}
			n := 0
			it := fixed.Iter(nil)
			for ok := it.First(); ok; ok = it.Next() {
				n++
			}
			if err := it.Close(); err != nil || n != 5*rounds {
				t.Errorf("%d entries, want %d, %v", n, 5*rounds, err)
			}
		})
	}
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if db.engine.Health().Failed() != nil {
		t.Error(db.engine.Health().Failed())
	}
}

// TestDroppedWhileJobsRun drops keyspaces in the middle of their flushes and
// compactions: the jobs end, and their tables go.
func TestDroppedWhileJobsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		slow := vfs.NewFault(fsys, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpSync && fstest.TypeOf(op.Name) == base.FileTable {
				time.Sleep(2 * time.Millisecond)
			}
			return vfs.Outcome{}
		})
		db := openSpaces(t, slow, func(o *Options) { o.L0Compaction = 2 })
		value := strings.Repeat("v", 2000)
		for i := range 20 {
			k := mustSpace(t, db, "a")
			for j := range 40 + i { // more than a memtable
				putIn(t, db, fmt.Sprint(j%30), value, k)
			}
			flushed := make(chan error)
			go func() { flushed <- k.Flush() }()
			if err := db.DropKeyspace("a"); err != nil {
				t.Fatal(err)
			}
			if err := <-flushed; err != nil && !errors.Is(err, ErrNoKeyspace) {
				t.Errorf("round %d: flush of a keyspace that is dropped: %v", i, err)
			}
		}
		if err := db.Flush(); err != nil {
			t.Error(err)
		}
		if m := db.Metrics(); m.ReadOnly != nil || m.BackgroundError != nil {
			t.Errorf("read-only %v, background %v", m.ReadOnly, m.BackgroundError)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = openSpaces(t, fsys, nil) // removes what is left over
		db.engine.Parts().Shared.Files.WaitDeleted()
		if n, _ := filesIn(t, fsys, base.FileTable); n != 0 {
			t.Errorf("%d tables are left", n)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDroppedWhileCompacting drops a keyspace while a compaction of it writes its
// last table: the compaction ends without effect, and the database goes on.
func TestDroppedWhileCompacting(t *testing.T) {
	var armed atomic.Bool
	reached, proceed := make(chan struct{}), make(chan struct{})
	fsys := vfs.NewMem()
	db := openSpaces(t, vfs.NewFault(fsys, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpSync && fstest.TypeOf(op.Name) == base.FileTable &&
			armed.CompareAndSwap(true, false) {
			reached <- struct{}{}
			<-proceed
		}
		return vfs.Outcome{}
	}), func(o *Options) { o.DisableCompaction = true })
	a := mustSpace(t, db, "a")
	for range 3 {
		putIn(t, db, "k", "v", a)
		putIn(t, db, "l", "v", a)
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	armed.Store(true)
	compacted := make(chan error)
	go func() { compacted <- a.CompactRange(nil, nil) }()
	<-reached
	if err := db.DropKeyspace("a"); err != nil {
		t.Error(err)
	}
	close(proceed)
	if err := <-compacted; !errors.Is(err, base.ErrNoKeyspace) && !errors.Is(err, ErrClosed) {
		t.Errorf("compaction of a keyspace that was dropped: %v", err)
	}
	putIn(t, db, "k", "v", nil, mustSpace(t, db, "a"))
	if m := db.Metrics(); m.ReadOnly != nil || m.BackgroundError != nil {
		t.Errorf("read-only %v, background %v", m.ReadOnly, m.BackgroundError)
	}
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	db.engine.Parts().Shared.Files.WaitDeleted()
	if n, _ := filesIn(t, fsys, base.FileTable); n != 0 {
		t.Errorf("%d tables are left", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersOfDroppedKeyspaceStay: the last sequence numbers were those of a keyspace that was
// dropped, their log is deleted, and a power cut takes what the next one begins with. They are not
// given out again.
func TestNumbersOfDroppedKeyspaceStay(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: mem})
	dropped := mustSpace(t, db, "dropped")
	for i := range 5 {
		must(t, dropped.Put(key(i), nil, Sync))
	}
	last := db.Metrics().LastSequence
	parts := db.engine.Parts()
	must(t, parts.Pipeline.Exclusive(func() error {
		_, err := parts.WAL.Rotate(base.SeqNum(last))
		return err
	}))
	must(t, db.DropKeyspace("dropped"))
	after := mustOpen(t, "db", &Options{FS: mem.CrashClone(vfs.DropAll())})
	if got := after.Metrics().LastSequence; got < last {
		t.Errorf("number %d is the last one after a power cut, %d before it", got, last)
	}
	mustClose(t, after)
	mustClose(t, db)
}

// TestManySpacesOpen: the entries of many keyspaces that were closed before a flush are copied into
// the new log. A table in each of them would take an opening two syncs each.
func TestManySpacesOpen(t *testing.T) {
	const spaces, entries = 100, 20
	fsys := vfs.NewMem()
	large := func(o *Options) { o.WriteBufferSize = 8 << 20 }
	name := func(i int) string { return fmt.Sprint("space", i) }
	db := openSpaces(t, fsys, large)
	for i := range spaces {
		k := mustSpace(t, db, name(i))
		for j := range entries {
			err := k.Put(fmt.Append(nil, j), []byte(name(i)+strings.Repeat("v", 100)), NoSync)
			must(t, err)
		}
	}
	for range 2 { // the second opening reads what the first one copied
		mustClose(t, db)
		db = openSpaces(t, fsys, large)
		for i := range spaces {
			k := mustSpace(t, db, name(i))
			for l, m := range k.Metrics().Levels {
				if m.Files != 0 {
					t.Fatalf("%s: an opening wrote %d tables of level %d", name(i), m.Files, l)
				}
			}
			for j := range entries {
				v, err := k.Get(fmt.Append(nil, j), nil)
				if err != nil || !strings.HasPrefix(string(v), name(i)+"v") {
					t.Fatalf("%s: %q, %v", name(i), v, err)
				}
			}
		}
	}
	mustClose(t, db)
}
