package tree

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// house is what a database gives to its trees.
type house struct {
	Shared
	manifest *manifest.Set
	last     base.SeqNum
	released int // calls of Holders' release
	failed   error
}

func newHouse(t *testing.T) *house {
	t.Helper()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	h := &house{}
	set, err := manifest.New(manifest.Options{FS: fsys, Dir: "db", Comparer: base.Bytewise})
	if err != nil {
		t.Fatal(err)
	}
	c := cache.New(1 << 20)
	h.manifest = set
	h.Shared = Shared{
		Seqs: &Sequences{}, Reads: epoch.New(nil), Folds: &Folds{}, Ops: NewOperations(),
		Holders: NewHolders(func() { h.released++ }),
		Fail:    func(err error) error { h.failed = err; return err },
		Late:    new(atomic.Pointer[Tree]),
	}
	h.Files = files.New(files.Options{FS: fsys, Dir: "db", Cache: c, Comparer: base.Bytewise,
		Reads: h.Reads})
	t.Cleanup(func() {
		h.Reads.DrainFor(time.Minute)
		if err := errors.Join(h.Files.Close(), set.Close()); err != nil {
			t.Error(err)
		}
		c.Unref()
	})
	return h
}

// open makes and starts a tree whose first log has the given number.
func (h *house) open(id base.KeyspaceID, firstLog uint64) *Tree {
	t := New(Options{ID: id, Comparer: base.Bytewise, MemTableSize: 64 << 10}, h.Shared)
	t.Start(firstLog, nil, h.manifest.Current(base.DefaultKeyspace))
	return t
}

// current is the state of a tree that nobody else changes.
func current(t *Tree) *ReadState {
	s := t.Acquire()
	defer s.Unref()
	return s
}

func newestSealed(t *Tree) *Sealed { return current(t).Sealed[0] }

// put is what a commit leader does.
func (h *house) put(t *testing.T, tree *Tree, key, value string) {
	t.Helper()
	if err := tree.Apply(batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace,
		base.KindSet, []byte(key), []byte(value)), h.last+1); err != nil {
		t.Fatal(err)
	}
	h.last++
	h.Seqs.Publish(h.last)
}

func (h *house) rotate(t *testing.T, tree *Tree, log uint64) {
	t.Helper()
	if err := tree.Rotate(0, 0, func(base.SeqNum) (uint64, error) { return log, nil }); err != nil {
		t.Fatal(err)
	}
}

func wantGet(t *testing.T, tree *Tree, snap *Snapshot, key, value string) {
	t.Helper()
	got, err := tree.Get([]byte(key), nil, snap, 0)
	if value == "" && errors.Is(err, base.ErrNotFound) {
		return
	}
	if err != nil || string(got) != value {
		t.Errorf("Get(%s) = %q, %v; want %q", key, got, err, value)
	}
}

// TestRefuseAmongSnapshots opens snapshots of one sequence number before and after a tree is
// refused: those before read it until they are closed, those after never do.
func TestRefuseAmongSnapshots(t *testing.T) {
	h := newHouse(t)
	tree := h.open(7, 1)
	h.put(t, tree, "k", "v")
	var before, after Snapshot
	h.Seqs.Open(&before)
	h.Seqs.Refuse(tree)
	h.Seqs.Open(&after)
	h.Seqs.Refuse(tree) // a second attempt to drop it
	refused := func() {
		t.Helper()
		if v, err := tree.Get([]byte("k"), nil, &after, 0); !errors.Is(err, base.ErrNoKeyspace) {
			t.Errorf("a later snapshot reads %q, %v", v, err)
		}
	}
	refused()
	wantGet(t, tree, &before, "k", "v")
	if !h.Seqs.MayRead(tree) {
		t.Error("no snapshot may read, beside one that does")
	}
	before.Close()
	refused()
	if h.Seqs.MayRead(tree) {
		t.Error("a later snapshot may read")
	}
	after.Close()
	tree.Close()
}

// TestTreesShareSequences has two trees of one database: a snapshot is one state of
// both, and a key of one is not in the other.
func TestTreesShareSequences(t *testing.T) {
	h := newHouse(t)
	a, b := h.open(0, 1), h.open(7, 1)
	if a.ID() != 0 || b.ID() != 7 {
		t.Errorf("keyspaces %d and %d", a.ID(), b.ID())
	}
	h.put(t, a, "k", "a1")
	h.put(t, b, "k", "b1")
	var snap Snapshot
	h.Seqs.Open(&snap)
	h.put(t, a, "k", "a2")
	h.put(t, b, "l", "b2")
	wantGet(t, a, nil, "k", "a2")
	wantGet(t, a, &snap, "k", "a1")
	wantGet(t, a, nil, "l", "")
	wantGet(t, b, nil, "l", "b2")
	wantGet(t, b, &snap, "l", "")
	if got, _ := h.Seqs.Snapshots(); !slices.Equal(got, []base.SeqNum{2}) {
		t.Errorf("snapshots %v", got)
	}
	snap.Close()
	snap.Close()
	if n := h.Seqs.NumSnapshots(); n != 0 {
		t.Errorf("%d snapshots after Close", n)
	}
	if _, err := a.Get([]byte("k"), nil, &snap, 0); !errors.Is(err, base.ErrClosed) {
		t.Errorf("a closed snapshot answers: %v", err)
	}
	a.Close()
	wantGet(t, b, nil, "k", "b1")
	b.Close()
	h.Holders.Release()
	h.Reads.DrainFor(time.Minute)
	if h.released != 1 {
		t.Errorf("files and cache were released %d times", h.released)
	}
}

// TestSpareWaitsForReads fills and flushes memtables beside a read that is under way, by a guard
// and then by a reference: the memory that it may read is not reused for another memtable
// meanwhile.
func TestSpareWaitsForReads(t *testing.T) {
	if offheap.Unmap {
		t.Skip("freed memory stays unreadable")
	}
	h := newHouse(t)
	h.Spare = memtable.NewSpare(64 << 10)
	defer h.Spare.Close()
	tree := h.open(0, 1)
	defer tree.Close()
	log := uint64(1)
	flush := func() { // fills a memtable, and takes the one before away
		t.Helper()
		for i := 0; ; i++ {
			if ok, err := tree.HasRoom(100, 1); err != nil {
				t.Fatal(err)
			} else if !ok {
				break
			}
			h.put(t, tree, fmt.Sprint(log, "-", i), "value")
		}
		log++
		h.rotate(t, tree, log)
		tree.Install(h.manifest.Current(base.DefaultKeyspace), newestSealed(tree), 0)
	}
	for _, guarded := range []bool{true, false} {
		h.put(t, tree, "key", "old")
		g := h.Reads.Enter()
		state, seq := tree.state.Load(g), h.Seqs.Visible()
		if !guarded {
			state.ref()
			g.Exit()
		}
		for range 4 {
			flush()
			if !guarded {
				h.Reads.DrainFor(time.Minute)
			}
			value, _, ok := state.Mem.Get(memtable.MakeLookup(base.Bytewise, []byte("key"), seq))
			if !ok || string(value) != "old" {
				t.Fatalf("guarded %v: a read under way finds %q, %v", guarded, value, ok)
			}
		}
		h.Spare.Trim()
		if guarded {
			g.Exit()
		} else {
			state.Unref()
		}
		h.Reads.DrainFor(time.Minute)
		if h.Spare.Bytes() == 0 {
			t.Fatalf("guarded %v: nothing is kept for the next memtable", guarded)
		}
	}
	flush()
	flush()
	if h.Reads.DrainFor(time.Minute); tree.lead.mem.Len() != 0 {
		t.Error("the memtable is not new")
	}
}

// TestRotateSealsOrChangesNothing rotates with a log that cannot be made, then with
// one that can, and installs the versions of flushes.
func TestRotateSealsOrChangesNothing(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 5)
	h.put(t, tree, "a", "1")
	before := current(tree)
	full := errors.New("disk full")
	if err := tree.Rotate(0, 0, func(base.SeqNum) (uint64, error) {
		return 0, full
	}); !errors.Is(err, full) {
		t.Fatal(err)
	}
	if current(tree) != before {
		t.Error("a rotation that failed changed the state")
	}
	h.rotate(t, tree, 6)
	h.put(t, tree, "b", "2")
	h.put(t, tree, "c", "3")
	h.rotate(t, tree, 8)
	s := tree.Acquire()
	var got []string
	for _, m := range s.Sealed {
		got = append(got, fmt.Sprintf("log %d, %d entries to %d", m.FirstLog, m.Mem.Len(), m.Last))
	}
	if want := []string{"log 6, 2 entries to 3", "log 5, 1 entries to 1"}; !slices.Equal(got,
		want) || s.FirstLog != 8 {
		t.Errorf("sealed: %q, then log %d; want %q, then log 8", got, s.FirstLog, want)
	}
	newest, oldest := s.Sealed[0], s.Sealed[1]
	for flushed, want := range map[*Sealed]uint64{nil: 5, oldest: 6, newest: 5} {
		if num, any := s.OldestLog(flushed); num != want || !any {
			t.Errorf("oldest log %d, %v; want %d", num, any, want)
		}
	}
	for _, key := range []string{"a", "b", "c"} {
		if _, err := tree.Get([]byte(key), nil, nil, 0); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	tree.Install(h.manifest.Current(base.DefaultKeyspace), oldest, 0)
	tree.Install(h.manifest.Current(base.DefaultKeyspace), newest, 0)
	if s := current(tree); len(s.Sealed) != 0 {
		t.Errorf("%d sealed memtables after the flushes", len(s.Sealed))
	}
	if num, any, ok := tree.OldestLog(nil); any || !ok {
		t.Errorf("log %d is needed after the flushes, %v", num, ok)
	}
	h.put(t, tree, "d", "4")
	if num, any, _ := tree.OldestLog(nil); num != 8 || !any {
		t.Errorf("oldest log %d, %v after another write; want 8", num, any)
	}
	wantGet(t, tree, nil, "a", "") // this flush made no table
	s.Unref()
	tree.Close()
	tree.Install(h.manifest.Current(base.DefaultKeyspace), nil, 0)
	if !tree.Closed() || tree.Acquire() != nil {
		t.Error("Install has opened a closed tree")
	}
}

// TestGuardKeepsState: the state that a guard may have seen keeps its own reference
// until the guard exits.
func TestGuardKeepsState(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 1)
	h.put(t, tree, "k", "v")
	g := h.Reads.Enter()
	s := tree.state.Load(g)
	h.rotate(t, tree, 2) // other states follow
	tree.Install(h.manifest.Current(base.DefaultKeyspace), newestSealed(tree), 0)
	if n := h.Holders.n.Load(); current(tree) == s || n != 4 { // the house, three states
		t.Errorf("%d holders inside a guard", n)
	}
	g.Exit()
	h.Reads.DrainFor(time.Minute)
	if n := h.Holders.n.Load(); n != 2 {
		t.Errorf("%d holders after the guard", n)
	}
	tree.Close()
}

// TestIteratorOutlivesItsTree: the files stay until an iterator is closed that
// outlives its database, and its moves say that it is closed.
func TestIteratorOutlivesItsTree(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 1)
	h.put(t, tree, "k", "v")
	var it Iterator
	tree.Init(&it, &IterOptions{})
	if !it.First() || string(it.Key()) != "k" || string(it.Value()) != "v" {
		t.Fatalf("%q %q %v", it.Key(), it.Value(), it.Err())
	}
	tree.Close()
	h.Holders.Release()
	h.Reads.DrainFor(time.Minute)
	if h.released != 0 {
		t.Error("files and cache were released beneath an iterator")
	}
	if it.First() || !errors.Is(it.Err(), base.ErrClosed) {
		t.Errorf("a move after Close: %v", it.Err())
	}
	it.Close()
	h.Reads.DrainFor(time.Minute)
	if h.released != 1 {
		t.Errorf("files and cache were released %d times", h.released)
	}
}

// TestPanicOfComparerFails: a panic in a read is the read's error, and the database
// is told.
func TestPanicOfComparerFails(t *testing.T) {
	h := newHouse(t)
	cmp := *base.Bytewise
	cmp.Name, cmp.EqualIsBytewise = "panics", false
	broken := false
	cmp.Compare = func(a, b []byte) int {
		if broken {
			panic("broke")
		}
		return base.Bytewise.Compare(a, b)
	}
	tree := New(Options{Comparer: &cmp, MemTableSize: 64 << 10}, h.Shared)
	tree.Start(1, nil, h.manifest.Current(base.DefaultKeyspace))
	h.put(t, tree, "a", "1")
	h.put(t, tree, "b", "2")
	broken = true
	var p *base.Panic
	if _, err := tree.Get([]byte("b"), nil, nil, 0); !errors.As(err, &p) ||
		!errors.Is(h.failed, err) {
		t.Errorf("Get says %v, the database is told %v", err, h.failed)
	}
	h.failed = nil
	var r MultiResult
	if err := tree.MultiGet([][]byte{[]byte("b")}, nil, &r); !errors.As(err, &p) ||
		!errors.Is(h.failed, err) {
		t.Errorf("MultiGet says %v, the database is told %v", err, h.failed)
	}
	h.failed = nil
	var it Iterator
	tree.Init(&it, &IterOptions{})
	if it.SeekGE([]byte("b")) || !errors.As(it.Err(), &p) || h.failed == nil {
		t.Errorf("SeekGE says %v, the database is told %v", it.Err(), h.failed)
	}
	it.Close()
	broken = false
	tree.Close()
}

// TestBeginLog: the first entries of a memtable say which logs it needs, however
// long it stood empty.
func TestBeginLog(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 3)
	firstLog := func(want uint64) {
		t.Helper()
		if got := current(tree).FirstLog; got != want {
			t.Errorf("first log %d, want %d", got, want)
		}
	}
	before := tree.Acquire()
	tree.BeginLog(3)
	firstLog(3)
	tree.BeginLog(8)
	firstLog(8)
	h.put(t, tree, "k", "v")
	tree.BeginLog(9) // the memtable has entries in log 8
	firstLog(8)
	if before.FirstLog != 3 || before.Mem.Len() != 1 {
		t.Error("a state that is held was changed, or its memtable is another")
	}
	before.Unref()
	tree.Close()
}

// TestWrittenSinceKeepsItsState: while the check of a commit looks at a sealed memtable, a flush
// takes that away, and what no read has any more is freed.
func TestWrittenSinceKeepsItsState(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 1)
	defer tree.Close()
	h.put(t, tree, "a", "1")
	place, err := tree.Place()
	if err != nil {
		t.Fatal(err)
	}
	since := h.Seqs.Visible()
	h.put(t, tree, "b", "2")
	h.put(t, tree, "c", "3")
	h.rotate(t, tree, 2)
	var keys []string
	ok := tree.WrittenSince(place, since, func(key []byte) bool {
		if len(keys) == 0 {
			tree.Install(h.manifest.Current(base.DefaultKeyspace), newestSealed(tree), 0)
			if !h.Reads.DrainFor(time.Minute) {
				t.Error("a guard is entered while the comparer is called")
			}
		}
		keys = append(keys, string(key))
		return true
	}, nil)
	if !ok || !slices.Equal(keys, []string{"b", "c"}) {
		t.Errorf("%v, %q; want b and c", ok, keys)
	}
}

// TestGetKeepsItsState: a flush takes a memtable away while a Get searches it. The guard keeps its
// memory, however long the comparer takes.
func TestGetKeepsItsState(t *testing.T) {
	h := newHouse(t)
	var beside func()
	cmp := *base.Bytewise
	cmp.EqualIsBytewise = false // so that the search calls Compare
	cmp.Compare = func(a, b []byte) int {
		if f := beside; f != nil {
			beside = nil
			f()
		}
		return bytes.Compare(a, b)
	}
	tree := New(Options{Comparer: &cmp, MemTableSize: 64 << 10}, h.Shared)
	tree.Start(1, nil, h.manifest.Current(base.DefaultKeyspace))
	defer tree.Close()
	for i := range 100 {
		h.put(t, tree, fmt.Sprint("k", i), "v")
	}
	wantGet(t, tree, nil, "k50", "v") // orders the entries
	beside = func() {
		h.rotate(t, tree, 2)
		tree.Install(h.manifest.Current(base.DefaultKeyspace), newestSealed(tree), 0)
		if h.Reads.DrainFor(time.Millisecond) {
			t.Error("the state was freed beside a guard")
		}
	}
	wantGet(t, tree, nil, "k50", "v")
	if beside != nil {
		t.Error("the comparer was not called")
	}
}

// TestPinnedStateWaitsForGuards: a state that a snapshot was pinned to is kept by the guards that
// have seen it, when the snapshot is closed.
func TestPinnedStateWaitsForGuards(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 1)
	defer tree.Close()
	h.put(t, tree, "k", "v")
	var snap Snapshot
	h.Seqs.Open(&snap)
	tree.InstallFiltered(h.manifest.Current(base.DefaultKeyspace), nil)
	h.Reads.DrainFor(time.Minute)
	g := h.Reads.Enter()
	s, _, err := tree.stateFor(g, &snap)
	if err != nil || s == tree.state.Load(g) {
		t.Fatalf("the snapshot is not pinned: %v", err)
	}
	snap.Close()
	if n := h.Holders.n.Load(); n != 3 { // the house, the current state, and the pinned one
		t.Errorf("%d holders inside a guard", n)
	}
	g.Exit()
	h.Reads.DrainFor(time.Minute)
	if n := h.Holders.n.Load(); n != 2 {
		t.Errorf("%d holders after the guard", n)
	}
}

// TestReadsLoadStateAndNumberTogether: between the two loads of a read, tables are ingested and the
// memtable gets a write. The read does not show the write without the tables.
func TestReadsLoadStateAndNumberTogether(t *testing.T) {
	h := newHouse(t)
	tree := h.open(0, 1)
	defer tree.Close()
	h.put(t, tree, "k", "v")
	g := h.Reads.Enter()
	defer g.Exit()
	s := tree.state.Load(g)
	if seq, together := tree.shownWith(g, s); seq != h.last || !together {
		t.Fatalf("%d, %v", seq, together)
	}
	h.last++
	tree.Install(h.manifest.Current(base.DefaultKeyspace), nil, h.last)
	ingested := h.last
	h.put(t, tree, "k", "written upon what was ingested")
	if seq, together := tree.shownWith(g, s); together {
		t.Errorf("the state of before the ingest is read at %d", seq)
	}
	s, seq, err := tree.stateFor(g, nil)
	if err != nil || s != tree.state.Load(g) || seq != ingested+1 {
		t.Errorf("%d, %v; want %d in the current state", seq, err, ingested+1)
	}
}

// TestAppendsAreSealedHalfFull: a memtable of entries in the order of their keys is full at half
// its size where no table has keys among them and no memtable waits for its flush.
func TestAppendsAreSealedHalfFull(t *testing.T) {
	const size = 32 << 20
	value := make([]byte, 1000)
	// fill writes until there is no room and returns how much there was in the memtable.
	fill := func(t *testing.T, h *house, tree *Tree, key func(i int) int) int64 {
		t.Helper()
		for i := 0; ; i++ {
			batch := batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, base.KindSet,
				fmt.Appendf(nil, "%08d", key(i)), value)
			room, err := tree.HasRoom(int64(len(batch)), 1)
			if err == nil && !room {
				return current(tree).Mem.Bytes()
			}
			if err == nil {
				err = tree.Apply(batch, h.last+1)
			}
			if err != nil {
				t.Fatal(err)
			}
			h.last++
			h.Seqs.Publish(h.last)
		}
	}
	ascending := func(i int) int { return i }
	version := func(level, n int, smallest, largest string) *manifest.Version {
		key := func(s string) base.InternalKey {
			return base.InternalKey{User: []byte(s), Trailer: base.MakeTrailer(1, base.KindSet)}
		}
		var files [manifest.NumLevels][]*manifest.FileMeta
		for i := range n {
			files[level] = append(files[level], &manifest.FileMeta{Num: uint64(i + 1), Size: 1,
				Smallest: key(smallest), Largest: key(largest)})
		}
		v, err := manifest.NewVersion(base.Bytewise, files)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		name    string
		key     func(i int) int
		version *manifest.Version
		sealed  bool
		half    bool
	}{
		{name: "behind all", key: ascending, version: version(6, 1, "", "0"), half: true},
		{name: "before all", key: ascending, version: version(6, 1, "1", "2"), half: true},
		{name: "beside a new table", key: ascending, version: version(0, 1, "1", "2"), half: true},
		{name: "beside new tables", key: ascending, version: version(0, 2, "1", "2")},
		{name: "random", key: func(i int) int { return i * 7919 % 100_003 }},
		{name: "over a table", key: ascending, version: version(6, 1, "0", "1")},
		{name: "over a new table", key: ascending, version: version(0, 1, "00000100", "00000100")},
		{name: "behind the flush", key: ascending, sealed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			tree := New(Options{Comparer: base.Bytewise, MemTableSize: size}, h.Shared)
			if c.version == nil {
				c.version = h.manifest.Current(base.DefaultKeyspace)
			}
			tree.Start(1, nil, c.version)
			defer tree.Close()
			if c.sealed {
				h.put(t, tree, "x", "")
				h.rotate(t, tree, 2)
			}
			got := fill(t, h, tree, c.key)
			if half := got < size*3/4; half != c.half {
				t.Errorf("it was full with %d of %d bytes", got, size)
			}
			if !c.sealed {
				return
			}
			tree.Install(h.manifest.Current(base.DefaultKeyspace), newestSealed(tree), 0)
			h.rotate(t, tree, 3)
			tree.Install(h.manifest.Current(base.DefaultKeyspace), newestSealed(tree), 0)
			if got := fill(t, h, tree, func(i int) int { return 1_000_000 + i }); got >= size*3/4 {
				t.Errorf("the next one was full with %d of %d bytes", got, size)
			}
		})
	}
}
