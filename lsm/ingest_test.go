package lsm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/model"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// writeTable writes a table of puts in the order given.
func writeTable(t testing.TB, path string, o *Options, pairs ...string) string {
	t.Helper()
	w, err := NewTableWriter(path, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		if err := w.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantIs(t testing.TB, r interface {
	Get(key, dst []byte) ([]byte, error)
}, key, want string) {
	t.Helper()
	v, err := r.Get([]byte(key), nil)
	if want == "" {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s is %q, %v; want nothing", key, v, err)
		}
	} else if err != nil || string(v) != want {
		t.Errorf("%s is %q, %v; want %q", key, v, err, want)
	}
}

// TestIngest: entries of tables are newer than those of memtables and tables, invisible to open
// snapshots and iterators, older than later writes; and so it stays after compactions and another
// opening.
func TestIngest(t *testing.T) {
	for name, o := range map[string]*Options{
		"cached":   {Format: FormatNative},
		"in place": {Format: FormatNative, CacheSize: -1, Mmap: MmapOn, Compression: NoCompression},
	} {
		t.Run(name, func(t *testing.T) { testIngest(t, o) })
	}
}

func testIngest(t *testing.T, o *Options) {
	top := t.TempDir()
	db := mustOpen(t, filepath.Join(top, "db"), o)
	put := func(key, value string) {
		t.Helper()
		if err := db.Put([]byte(key), []byte(value), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "old")
	put("c", "old")
	mustFlush(t, db)
	put("b", "memtable")
	put("c", "memtable")
	put("e", "gone")
	snap, it := db.Snapshot(), db.Iter(nil)
	defer it.Close()
	large := strings.Repeat("z", 3*os.Getpagesize()) // the last page of a file is not read in place
	path := writeTable(t, filepath.Join(top, "one"), o, "b", "new", "c", "new", "d", "new",
		"dz", large)
	w, err := NewTableWriter(filepath.Join(top, "two"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Delete([]byte("e")), w.DeleteRange([]byte("e"), []byte("g")),
		w.Put([]byte("f"), []byte("new")), w.Finish(), w.Close()); err != nil {
		t.Fatal(err)
	}
	put("f", "memtable")
	if err := db.Ingest(context.Background(), nil, filepath.Join(top, "two"), path); err != nil {
		t.Fatal(err)
	}
	put("d", "newer")
	check := func() {
		t.Helper()
		for _, kv := range [][2]string{{"a", "old"}, {"b", "new"}, {"c", "new"}, {"d", "newer"},
			{"e", ""}, {"f", "new"}} {
			wantIs(t, db, kv[0], kv[1])
		}
	}
	check()
	for range 3 { // the last ones read verified blocks
		for _, kv := range [][2]string{{"a", "old"}, {"b", "memtable"}, {"c", "memtable"},
			{"d", ""}, {"e", "gone"}, {"f", ""}} {
			wantIs(t, snap, kv[0], kv[1])
		}
	}
	var keys []string
	for ok := it.First(); ok; ok = it.Next() {
		keys = append(keys, string(it.Key())+"="+string(it.Value()))
	}
	if got := fmt.Sprint(keys); got != "[a=old b=memtable c=memtable e=gone]" {
		t.Errorf("an older iterator sees %s", got)
	}
	mustCompact(t, db)
	check()
	wantIs(t, snap, "d", "")
	wantIs(t, snap, "c", "memtable")
	if err := db.Verify(context.Background(), nil); err != nil {
		t.Error(err)
	}
	snap.Close()
	mustClose(t, db)
	db = mustOpen(t, filepath.Join(top, "db"), o)
	check()
	if m := db.RecoveryReport(); !m.WasClean {
		t.Errorf("%+v", m)
	}
	mustClose(t, db)
}

// TestIngestedEntriesStay: after an opening the tables keep their sequence number, and logs are
// whole although the ingest has no entry in them.
func TestIngestedEntriesStay(t *testing.T) {
	for round := range 4 {
		mem := vfs.NewMem()
		o := &Options{FS: mem, Format: FormatNative}
		db := mustOpen(t, "db", o)
		if err := mustSpace(t, db, "keeps the log").Put([]byte("a"), []byte("1"),
			NoSync); err != nil {
			t.Fatal(err)
		}
		if err := db.Put([]byte("a"), []byte("1"), NoSync); err != nil {
			t.Fatal(err)
		}
		if err := mem.MkdirAll("out"); err != nil {
			t.Fatal(err)
		}
		if err := db.Ingest(context.Background(), nil, writeTable(t, "out/t", o, "b", "2", "k",
			"2")); err != nil {
			t.Fatal(err)
		}
		if round&1 != 0 {
			mustFlush(t, db) // the next log begins right behind the ingest
		}
		if err := db.Put([]byte("b"), []byte("3"), NoSync); err != nil {
			t.Fatal(err)
		}
		after := mem.CrashClone(vfs.KeepAll())
		if round&2 != 0 {
			after = mem.CrashClone(vfs.DropAll())
		}
		mustClose(t, db)
		o.FS = after
		db = mustOpen(t, "db", o)
		if r := db.RecoveryReport(); !r.WasClean {
			t.Errorf("round %d: %+v", round, r)
		}
		wantIs(t, db, "a", "1")
		wantIs(t, db, "k", "2")
		if round&2 == 0 {
			wantIs(t, db, "b", "3")
		}
		if err := db.Put([]byte("k"), []byte("4"), NoSync); err != nil {
			t.Fatal(err)
		}
		mustCompact(t, db)
		wantIs(t, db, "k", "4")
		mustClose(t, db)
	}
}

// shuffled are the entries k0 to k(n-1) in random order, some of them twice: the second one counts.
func shuffled(rng *rand.Rand, n int, repeats bool) (iter.Seq2[[]byte, []byte], *model.Model) {
	m := model.New(base.Bytewise)
	order := rng.Perm(n)
	twice := slices.Clone(order[:n/10])
	return func(yield func(k, v []byte) bool) {
		var k, v []byte
		for round, list := range [][]int{order, twice} {
			for _, i := range list {
				k = fmt.Appendf(k[:0], "k%08d", i)
				x := uint64(i*8+round+1) * 0x9e3779b97f4a7c15
				v = fmt.Appendf(v[:0], "value %d of %d, whose words are those of all others, so "+
					"that a dictionary pays: %020d, also %020d", round, i, x, x)
				if repeats {
					v = fmt.Appendf(v[:0], "%020d", x)
					v = append(append(v, v...), v[:i%20]...)
				}
				m.Put(k, v)
				if !yield(k, v) {
					return
				}
			}
		}
	}, m
}

// wantModel compares the database with a model.
func wantModel(t testing.TB, db *DB, m *model.Model) {
	t.Helper()
	want := m.Scan(m.Now(), nil, nil)
	var err error
	i := 0
	for k, v := range db.All(nil, nil, &err) {
		if i >= len(want) || string(k) != want[i].Key || string(v) != want[i].Value {
			t.Fatalf("entry %d of %d is %q = %q", i, len(want), k, v)
		}
		i++
	}
	if err != nil || i != len(want) {
		t.Fatalf("%d entries, %v; want %d", i, err, len(want))
	}
}

// TestBulkLoad: entries in any order are there afterwards, in one level, without leftover runs.
func TestBulkLoad(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	for run := range seed.Scale(1, 3, 3) {
		format := []Format{FormatNative, FormatLevelDB, FormatNative}[run]
		many := seed.Scale(20_000, 20_000, 60_000)
		for _, n := range []int{0, 1, 1000, many} {
			dir := filepath.Join(t.TempDir(), "db")
			db := mustOpen(t, dir,
				small(Options{Format: format, WriteBufferSize: 64 << 10, MaxFileSize: 256 << 10}))
			entries, m := shuffled(rng, n, run == 2) // such values are packed in runs
			if err := db.BulkLoad(context.Background(), entries, nil); err != nil {
				t.Fatal(err)
			}
			wantModel(t, db, m)
			if n > 1000 {
				if m := db.Metrics().Ingests; m.Count != 1 || m.Failed != 0 || m.Runs == 0 ||
					m.Loaded != uint64(n) || m.Tables < 2 {
					t.Errorf("%+v", m)
				}
			}
			mustCompact(t, db)
			wantModel(t, db, m)
			db.engine.Parts().Shared.Files.WaitDeleted()
			mustClose(t, db)
			db = mustOpen(t, dir, &Options{})
			wantModel(t, db, m)
			mustClose(t, db)
		}
	}
}

// TestNilContexts: a call that needs a context says so, and the database goes on.
func TestNilContexts(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer mustClose(t, db)
	load, err := db.BulkLoader(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := mustChanges(t, db, 0, nil)
	defer f.Close()
	_, next := f.Next(nil)
	for what, err := range map[string]error{
		"CompactRangeContext": db.CompactRangeContext(nil, nil, nil),
		"Verify":              db.Verify(nil, nil), "Rekey": db.Rekey(nil),
		"Checkpoint": db.Checkpoint(nil, "copy"), "Next": next,
		"Export":     Export(nil, "db", "copy", FormatNative, nil, nil),
		"Ingest":     db.Ingest(nil, nil),
		"BulkLoad":   db.BulkLoad(nil, func(func(k, v []byte) bool) {}, nil),
		"Finish":     load.Finish(nil),
		"UpdateWith": db.UpdateWith(nil, nil, func(*Txn) error { return nil }),
	} {
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := load.Put([]byte("k"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("behind the end of the load: %v", err)
	}
	mustPut(t, db, 1)
}

// TestBulkLoadSize: tables take as many bytes whether the load wrote runs or had all in memory,
// whatever packs the values best.
func TestBulkLoadSize(t *testing.T) {
	for _, repeats := range []bool{false, true}[:seed.Scale(1, 2, 2)] {
		var size [2]uint64
		for i, memory := range []int64{1 << 20, 64 << 20} {
			db := mustOpen(t, filepath.Join(t.TempDir(), "db"), &Options{Format: FormatNative})
			defer db.Close()
			entries, _ := shuffled(rand.New(rand.NewPCG(1, 1)), 20000, repeats)
			if err := db.BulkLoad(context.Background(), entries,
				&BulkLoadOptions{Memory: memory}); err != nil {
				t.Fatal(err)
			}
			m := db.Metrics().Ingests
			if size[i] = m.Bytes; (m.Runs > 0) != (i == 0) {
				t.Errorf("%d runs with %d bytes of memory", m.Runs, memory)
			}
		}
		if size[0] > size[1]+size[1]/20 || size[1] > size[0]+size[0]/20 {
			t.Errorf("values that repeat %v: %d bytes with runs, %d without", repeats, size[0],
				size[1])
		}
	}
}

// TestFollowIngest: a follower sees an ingest, also as the last operation, and later writes, and a
// feed of changes fails at it.
func TestFollowIngest(t *testing.T) {
	top := t.TempDir()
	o := &Options{Format: FormatNative}
	db := mustOpen(t, filepath.Join(top, "db"), o)
	defer db.Close()
	put := func(key, value string) {
		t.Helper()
		if err := db.Put([]byte(key), []byte(value), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "1")
	f, err := OpenFollower(filepath.Join(top, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for round := range 4 {
		tables := writeTable(t, filepath.Join(top, fmt.Sprint("t", round)), o, "b",
			fmt.Sprint(round), fmt.Sprint("c", round), "in")
		if err := db.Ingest(context.Background(), nil, tables); err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			put("b", fmt.Sprint("over ", round))
		}
		if err := f.CatchUp(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint(round)
		if round%2 == 1 {
			want = "over " + want
		}
		wantIs(t, f, "b", want)
		wantIs(t, f, fmt.Sprint("c", round), "in")
		put("a", fmt.Sprint(round))
	}
}

// TestIngestRangeAtKey ingests tables with an entry at the key at which a range begins: the
// bounds in the MANIFEST are those of the table, whichever of both is first.
func TestIngestRangeAtKey(t *testing.T) {
	needsNative(t)
	for what, add := range map[string]func(w *TableWriter) error{
		"put":    func(w *TableWriter) error { return w.Put([]byte("b"), []byte("1")) },
		"delete": func(w *TableWriter) error { return w.Delete([]byte("b")) },
		"put that expires": func(w *TableWriter) error {
			return w.PutTTL([]byte("b"), []byte("1"), time.Hour)
		},
	} {
		for _, below := range []string{"", "a"} { // a table of this key, in the same level
			top := t.TempDir()
			db := mustOpen(t, filepath.Join(top, "db"), &Options{Format: FormatNative})
			put := func(key string) {
				t.Helper()
				if err := db.Put([]byte(key), []byte("old"), NoSync); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range []string{"b", "c", "d"} {
				put(key)
			}
			mustFlush(t, db)
			w, err := NewTableWriter(filepath.Join(top, "table"), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(add(w), w.DeleteRange([]byte("b"), []byte("d")), w.Finish())
			var tables []string
			if below != "" {
				tables = append(tables, writeTable(t, filepath.Join(top, "below"), nil, below, "1"))
			}
			err = errors.Join(err,
				db.Ingest(context.Background(), nil,
					append(tables, filepath.Join(top, "table"))...))
			if err != nil {
				t.Fatal(err)
			}
			want := "1"
			if what == "delete" {
				want = ""
			}
			check := func(step string) {
				t.Helper()
				wantIs(t, db, "b", want)
				wantIs(t, db, "c", "")
				wantIs(t, db, "d", "old")
				it := db.Iter(nil)
				if !it.SeekLT([]byte("c")) != (want == "" && below == "") {
					t.Errorf("%s, %s: SeekLT: %q, %v", what, step, it.Key(), it.Err())
				}
				if err := errors.Join(it.Close(), db.Verify(context.Background(), nil)); err !=
					nil {
					t.Errorf("%s, %s: %v", what, step, err)
				}
			}
			check("ingested")
			mustClose(t, db)
			db = mustOpen(t, filepath.Join(top, "db"), nil)
			check("opened again")
			mustCompact(t, db)
			check("compacted")
			mustClose(t, db)
			report, err := Repair(filepath.Join(top, "db"), nil)
			if err != nil {
				t.Fatal(what, err, report)
			}
			db = mustOpen(t, filepath.Join(top, "db"), nil)
			check("repaired")
			mustClose(t, db)
		}
	}
}

// namesFS keeps the names of files that are opened or linked.
type namesFS struct {
	FS
	mu    sync.Mutex
	names []string
}

func (f *namesFS) note(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, name)
}

func (f *namesFS) Open(name string) (ReadFile, error) {
	f.note(name)
	return f.FS.Open(name)
}

func (f *namesFS) Remove(name string) error {
	f.note(name)
	return f.FS.Remove(name)
}

// TestIngestRelativePath: a file system of the caller's own gets absolute names of the tables, also
// where the caller names them from the working directory.
func TestIngestRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	fsys := &namesFS{FS: OSFS()}
	o := &Options{FS: fsys, Format: FormatNative}
	db := mustOpen(t, "db", o)
	writeTable(t, "one", o, "b", "new")
	if err := db.Ingest(context.Background(), &IngestOptions{Move: true}, "one",
		"./one"); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("one table under two names: %v", err)
	}
	if err := db.Ingest(context.Background(), &IngestOptions{Move: true}, "one"); err != nil {
		t.Fatal(err)
	}
	wantIs(t, db, "b", "new")
	if _, err := os.Stat("one"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the table was not moved: %v", err)
	}
	mustClose(t, db)
	for _, name := range fsys.names {
		if !filepath.IsAbs(name) {
			t.Errorf("the file system was asked for %q", name)
		}
	}
}

// TestIngestSmallTables: the memory that an ingest takes for a table is in proportion to the table.
func TestIngestSmallTables(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, filepath.Join(dir, "db"), nil)
	defer db.Close()
	paths := make([]string, 32)
	for i := range paths {
		key := fmt.Sprintf("%03d", i)
		paths[i] = writeTable(t, filepath.Join(dir, key+".sst"), nil, key, "value")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := db.Ingest(t.Context(), nil, paths...); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	taken := (after.TotalAlloc - before.TotalAlloc) / uint64(len(paths))
	if taken > 256<<10 {
		t.Errorf("%d bytes for a table of one entry", taken)
	}
}

// TestIngestBesideACompaction: a compaction begins with a table that is being ingested, and ends
// while the disk holds up the last step of the ingest. Reads, and a snapshot that is opened
// meanwhile, find the ingested value, not one older than the value before.
func TestIngestBesideACompaction(t *testing.T) {
	needsNative(t)
	mem := vfs.NewMem()
	var ingesting, inEdit atomic.Bool
	reached, goOn := make(chan struct{}), make(chan struct{})
	compacted := make(chan struct{}, 1)
	o := &Options{L0Compaction: 4, Events: &EventListener{
		CompactionEnd: func(CompactionInfo) { compacted <- struct{}{} },
	}}
	o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		switch {
		case op.Kind != vfs.OpAppend || !ingesting.Load():
		case !strings.HasSuffix(op.Name, ".wal"):
			inEdit.Store(true)
		case inEdit.Load(): // the ingest appends its markers
			ingesting.Store(false)
			close(reached)
			<-goOn
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", o)
	const n = 10
	for _, v := range []string{"first", "second", "third", "fourth"} {
		for i := range n {
			must(t, db.Put(key(i), []byte(v), NoSync))
		}
		for i := range 1000 {
			if v == "first" { // this table goes to the last level, and is too large to be merged
				must(t, db.Put(key(n+i), value(i), NoSync))
			}
		}
		mustFlush(t, db)
	}
	var pairs []string
	for i := range n {
		pairs = append(pairs, string(key(i)), "ingested")
	}
	table := writeTable(t, "table", &Options{FS: mem}, pairs...)
	ingesting.Store(true)
	done := make(chan error)
	go func() { done <- db.Ingest(context.Background(), nil, table) }()
	<-reached
	<-compacted
	snap := db.Snapshot()
	wantIs(t, db, string(key(0)), "ingested")
	wantIs(t, snap, string(key(0)), "ingested")
	close(goOn)
	must(t, <-done)
	wantIs(t, db, string(key(0)), "ingested")
	wantIs(t, snap, string(key(0)), "ingested")
	must(t, snap.Close())
	mustClose(t, db)
}

// TestIngestBesideStrangers: ingests and loads take no number for what they write, link and rename
// that another program's file has, and leave such files.
func TestIngestBesideStrangers(t *testing.T) {
	for _, links := range []bool{true, false} {
		mem := vfs.NewMem()
		fsys := vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if op.Kind == vfs.OpLink && !links {
				out.Err = vfs.ErrCannotLink
			}
			return out
		})
		o := &Options{FS: fsys, Format: FormatNative}
		db := mustOpen(t, "db", o)
		must(t, db.Put([]byte("b"), []byte("old"), Sync))
		var strangers []string
		for n := range 40 {
			name := filepath.Join("db", base.Native.FileName(base.FileTable, uint64(5+3*n)))
			must(t, fstest.WriteFile(mem, name, []byte("mine")))
			strangers = append(strangers, name)
		}
		for i := range 4 {
			from := writeTable(t, fmt.Sprintf("%d.table", i), o, "b", fmt.Sprint(i))
			excise := &Range{Start: []byte("a"), Limit: []byte("c")}
			must(t, db.Ingest(t.Context(), &IngestOptions{Excise: excise}, from))
			wantIs(t, db, "b", fmt.Sprint(i))
		}
		must(t, db.BulkLoad(t.Context(), func(yield func(key, value []byte) bool) {
			for i := 0; i < 300 && yield([]byte(fmt.Sprintf("l%03d", i)), make([]byte, 99)); i++ {
			}
		}, &BulkLoadOptions{Memory: 1}))
		for _, name := range strangers {
			if b, err := fstest.ReadFile(mem, name); err != nil || string(b) != "mine" {
				t.Errorf("links %v: %s is %.20q, %v", links, name, b, err)
			}
		}
		mustClose(t, db)
	}
}
