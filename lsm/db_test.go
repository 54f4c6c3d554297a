package lsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/vfs"
)

// small options make flushes and compactions happen with little data.
func small(o Options) *Options {
	o.WriteBufferSize = 256 << 10
	o.MaxFileSize = 128 << 10
	o.CacheSize = 1 << 20
	return &o
}

func mustOpen(t testing.TB, dir string, o *Options) *DB {
	t.Helper()
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func mustClose(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func key(i int) []byte   { return fmt.Appendf(nil, "key%08d", i) }
func value(i int) []byte { return fmt.Appendf(nil, "value-%d-%s", i, strings.Repeat("x", i%97)) }

func mustPut(t testing.TB, db *DB, i int) {
	t.Helper()
	if err := db.Put(key(i), value(i), NoSync); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t testing.TB, db *DB, i int) {
	t.Helper()
	v, err := db.Get(key(i), nil)
	if err != nil || !bytes.Equal(v, value(i)) {
		t.Fatalf("get %s: %q, %v; want %q", key(i), v, err, value(i))
	}
}

func wantMissing(t testing.TB, db *DB, i int) {
	t.Helper()
	if v, err := db.Get(key(i), nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("get %s: %q, %v; want not found", key(i), v, err)
	}
}

func TestPutGetDeleteReopen(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, small(Options{}))
	const n = 20_000
	for i := range n {
		mustPut(t, db, i)
	}
	for i := 0; i < n; i += 3 {
		if err := db.Delete(key(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		for i := range n {
			if i%3 == 0 {
				wantMissing(t, db, i)
			} else {
				wantValue(t, db, i)
			}
		}
		got := 0
		var err error
		for k, v := range db.All(nil, nil, &err) {
			for got%3 == 0 {
				got++
			}
			if !bytes.Equal(k, key(got)) || !bytes.Equal(v, value(got)) {
				t.Fatalf("at %d: %q = %q", got, k, v)
			}
			got++
		}
		if err != nil || got != n && got != n-1 {
			t.Fatalf("scan ended at %d: %v", got, err)
		}
	}
	check()
	mustClose(t, db)
	db = mustOpen(t, dir, small(Options{}))
	check()
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	check()
	mustClose(t, db)
	db = mustOpen(t, dir, &Options{ReadOnly: true})
	check()
	if err := db.Put(key(0), nil, NoSync); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("put on a read-only database: %v", err)
	}
	mustClose(t, db)
}

func TestReadOnlyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, small(Options{}))
	for i := range 5_000 {
		mustPut(t, db, i)
	}
	mustClose(t, db)
	before := listing(t, dir)
	ro := mustOpen(t, dir, small(Options{ReadOnly: true}))
	for i := range 5_000 {
		wantValue(t, ro, i)
	}
	mustClose(t, ro)
	if after := listing(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		info, err2 := e.Info()
		if errors.Is(errors.Join(err, err2), fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %s %x\n", e.Name(), len(data), info.ModTime(), data[:min(len(data), 16)])
	}
	return b.String()
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rocks := filepath.Join(dir, "rocks")
	os.Mkdir(rocks, 0o700)
	os.WriteFile(filepath.Join(rocks, "OPTIONS-000007"), nil, 0o600)
	orphan := filepath.Join(dir, "orphan")
	os.Mkdir(orphan, 0o700)
	os.WriteFile(filepath.Join(orphan, "000005.ldb"), nil, 0o600)
	made := filepath.Join(dir, "made")
	db := mustOpen(t, made, nil)
	defer db.Close()
	other := filepath.Join(dir, "other")
	mustClose(t, mustOpen(t, other, nil))
	for _, c := range []struct {
		dir  string
		o    *Options
		want error
		text string
	}{
		{file, nil, ErrNotADatabase, "a file"},
		{rocks, nil, ErrNotADatabase, "RocksDB"},
		{orphan, nil, ErrCorruption, "CURRENT"},
		{filepath.Join(dir, "none"), &Options{ErrorIfMissing: true}, ErrDoesNotExist, ""},
		{filepath.Join(dir, "none"), &Options{ReadOnly: true}, ErrDoesNotExist, ""},
		{other, &Options{ErrorIfExists: true}, ErrExists, ""},
		{made, nil, ErrLocked, ""},
		{other, &Options{Comparer: ReverseBytewiseComparer}, ErrComparerMismatch, "rocksdb.ReverseBytewiseComparator"},
		{other, &Options{BlockSize: 1}, ErrInvalidArgument, "block_size"},
		{other, &Options{Comparer: &Comparer{}}, ErrInvalidArgument, "Comparer"},
	} {
		db, err := Open(c.dir, c.o)
		if err == nil {
			db.Close()
		}
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("open %s with %+v: %v; want %v with %q", c.dir, c.o, err, c.want, c.text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a failed open made the directory")
	}
}

func TestClosedDatabase(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	mustPut(t, db, 1)
	it := db.Iter(nil)
	snap := db.Snapshot()
	if !it.First() {
		t.Fatal("no entry")
	}
	mustClose(t, db)
	_, getErr := db.Get(key(1), nil)
	_, snapErr := snap.Get(key(1), nil)
	closedIter := db.Iter(nil)
	for what, err := range map[string]error{
		"get": getErr, "snapshot": snapErr, "put": db.Put(key(2), nil, NoSync), "close": db.Close(),
		"flush": db.Flush(), "compact": db.CompactRange(nil, nil), "iter": closedIter.Err(),
		"multiget": db.MultiGet([][]byte{key(1)}, new(MultiResult)),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if it.Next() || it.Valid() || !errors.Is(it.Err(), ErrClosed) {
		t.Errorf("iterator on a closed database: %v", it.Err())
	}
	it.Close()
	it.Close()
	snap.Close()
}

func TestSnapshotsSurviveCompaction(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	for i := range 3_000 {
		mustPut(t, db, i)
	}
	snap := db.Snapshot()
	defer snap.Close()
	for i := range 3_000 {
		if err := db.Put(key(i), []byte("new"), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 3_000 {
		v, err := snap.Get(key(i), nil)
		if err != nil || !bytes.Equal(v, value(i)) {
			t.Fatalf("snapshot get %d: %q %v", i, v, err)
		}
		if v, _ := db.Get(key(i), nil); string(v) != "new" {
			t.Fatalf("get %d: %q", i, v)
		}
	}
}

func TestBlocks(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	const n = 5_000
	for i := range n {
		mustPut(t, db, i)
	}
	it := db.Iter(nil)
	defer it.Close()
	read := func(block []byte, count int, each func(k, v []byte)) {
		t.Helper()
		for range count {
			k := int(binary.LittleEndian.Uint32(block))
			v := int(binary.LittleEndian.Uint32(block[4:]))
			each(block[8:8+k], block[8+k:8+k+v])
			block = block[8+k+v:]
		}
		if len(block) != 0 {
			t.Fatalf("%d bytes left over", len(block))
		}
	}
	i := 0
	it.First()
	for {
		block, count := it.NextBlock(nil, 100, 4096)
		if count == 0 {
			break
		}
		read(block, count, func(k, v []byte) {
			if !bytes.Equal(k, key(i)) || !bytes.Equal(v, value(i)) {
				t.Fatalf("at %d: %q %q", i, k, v)
			}
			i++
		})
	}
	if i != n || it.Err() != nil {
		t.Fatalf("forward: %d, %v", i, it.Err())
	}
	it.Last()
	for {
		block, count := it.PrevBlock(nil, 0, 1000)
		if count == 0 {
			break
		}
		read(block, count, func(k, v []byte) {
			i--
			if !bytes.Equal(k, key(i)) {
				t.Fatalf("at %d: %q", i, k)
			}
		})
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("backward: %d, %v", i, it.Err())
	}
}

func TestLargeBatchAndValue(t *testing.T) {
	db := mustOpen(t, t.TempDir(), small(Options{}))
	defer db.Close()
	b := NewBatch()
	for i := range 20_000 { // several times the write buffer
		b.Put(key(i), value(i))
	}
	if err := db.Write(b, Sync); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	if err := db.Put([]byte("big"), big, NoSync); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for i := range 20_000 {
			wantValue(t, db, i)
		}
		if v, err := db.Get([]byte("big"), nil); err != nil || !bytes.Equal(v, big) {
			t.Fatalf("%d bytes, %v", len(v), err)
		}
	}
	check()
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestConcurrentWritersAndReaders(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	const writers, per = 4, 5_000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for i := range per {
				if err := db.Put(key(w*per+i), value(w*per+i), WriteMode(i%64/63)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		go func() {
			defer wg.Done()
			for i := range per {
				v, err := db.Get(key(w*per+i), nil)
				if err == nil && !bytes.Equal(v, value(w*per+i)) || err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("%q %v", v, err)
					return
				}
			}
		}()
	}
	wg.Wait()
	for i := range writers * per {
		wantValue(t, db, i)
	}
	mustClose(t, db)
}

func TestTryGet(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	mustPut(t, db, 1)
	if v, err := db.TryGet(key(1), nil); err != nil || !bytes.Equal(v, value(1)) {
		t.Fatalf("from the memtable: %q %v", v, err)
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	db = mustOpen(t, dir, nil)
	defer db.Close()
	if _, err := db.TryGet(key(1), nil); !errors.Is(err, ErrWouldBlock) {
		t.Fatalf("not in memory: %v", err)
	}
	wantValue(t, db, 1)
	if v, err := db.TryGet(key(1), nil); err != nil || !bytes.Equal(v, value(1)) {
		t.Fatalf("from the cache: %q %v", v, err)
	}
}

// TestNewTablesAreWarm: what readers had in memory is there after a flush and
// after a compaction, and what nobody reads is not put there.
func TestNewTablesAreWarm(t *testing.T) {
	o := small(Options{})
	o.CacheSize = 16 << 20
	o.DisableCompaction = true
	db := mustOpen(t, t.TempDir(), o)
	defer mustClose(t, db)
	const n = 20000
	write := func(n int) {
		for i := range n {
			mustPut(t, db, i)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	compact := func() {
		if err := db.CompactRange(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	inMemory := func(n int) (found int) {
		for i := range n {
			v, err := db.TryGet(key(i), nil)
			switch {
			case err == nil && bytes.Equal(v, value(i)):
				found++
			case !errors.Is(err, ErrWouldBlock):
				t.Fatalf("%s: %q, %v", key(i), v, err)
			}
		}
		return found
	}
	write(n)
	compact()
	if got := inMemory(n); got != 0 {
		t.Errorf("%d of %d keys in memory before any read", got, n)
	}
	for i := range n {
		wantValue(t, db, i)
	}
	write(n / 50) // one memtable, after more reads than it gives blocks
	if got := inMemory(n / 50); got != n/50 {
		t.Errorf("%d of %d keys in memory after a flush", got, n/50)
	}
	write(n / 50)
	compact()
	if got := inMemory(n); got != n {
		t.Errorf("%d of %d keys in memory after a compaction", got, n)
	}
}

func TestPanicInComparerPoisons(t *testing.T) {
	bad := false
	cmp := &Comparer{Name: "test.panics", EqualIsBytewise: false, Compare: func(a, b []byte) int {
		if bad {
			panic("comparer")
		}
		return bytes.Compare(a, b)
	}}
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: cmp})
	for i := range 10 {
		mustPut(t, db, i)
	}
	bad = true
	if _, err := db.Get(key(1), nil); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "comparer") {
		t.Fatalf("%v", err)
	}
	bad = false
	if err := db.Put(key(1), nil, NoSync); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("put after the panic: %v", err)
	}
	wantValue(t, db, 1)
	mustClose(t, db)
}

func TestOptionsByName(t *testing.T) {
	var o Options
	for _, c := range []struct{ name, value, want string }{
		{"cache_size", "1 GiB", ""}, {"write_buffer_size", "1048576", ""}, {"compression", "ZSTD", ""}, {"bloom_bits", "0", ""},
		{"read_only", "true", ""}, {"comparator", "idb_cmp1", ""}, {"block_size", "16k", ""},
		{"blok_size", "1", `"block_size"`}, {"block_size", "x", "number"}, {"block_size", "1", "256 to"},
		{"compression", "lz4", "snappy"}, {"comparator", "mine", "idb_cmp1"}, {"read_only", "2", "true or false"}, {"block_size", "9000000000G", "number"},
	} {
		err := o.Set(c.name, c.value)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s = %s: %v; want %q", c.name, c.value, err, c.want)
		}
	}
	want := Options{CacheSize: 1 << 30, WriteBufferSize: 1 << 20, Compression: ZstdCompression, BloomBits: -1, ReadOnly: true, Comparer: IndexedDBComparer, BlockSize: 16 << 10}
	if o != want {
		t.Errorf("got %+v\nwant %+v", o, want)
	}
	for _, d := range OptionDocs() {
		if d.Doc == "" || d.Default == "" {
			t.Errorf("%+v is not documented", d)
		}
		if d.Max > 0 {
			if err := new(Options).Set(d.Name, d.Default); err != nil {
				t.Errorf("its own default: %v", err)
			}
		}
	}
}

func TestRepair(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, small(Options{}))
	const n = 5_000
	for i := range n {
		mustPut(t, db, i)
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	tables, _ := filepath.Glob(filepath.Join(dir, "*.ldb"))
	data, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	data[1000] ^= 0xff
	if err := os.WriteFile(tables[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "CURRENT")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, ErrCorruption) {
		t.Fatalf("open: %v", err)
	}
	report, err := Repair(dir, nil)
	if err != nil || len(report.Dropped) == 0 || len(report.SetAside) == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	db = mustOpen(t, dir, nil)
	defer db.Close()
	found := 0
	for i := range n {
		v, err := db.Get(key(i), nil)
		if err == nil && !bytes.Equal(v, value(i)) || err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatalf("%d: %q %v", i, v, err)
		}
		if err == nil {
			found++
		}
	}
	if found < n*9/10 || found == n {
		t.Errorf("%d of %d entries are left after the loss of one block", found, n)
	}
}

// TestDeletionsAreCompactedAway deletes nearly everything: no table full of
// deletions may stay below level 0.
func TestDeletionsAreCompactedAway(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	const n = 20_000
	for i := range n {
		mustPut(t, db, i)
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := db.Delete(key(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute) // ends a hang
	for {
		m := db.Metrics()
		below := uint64(0)
		for _, l := range m.Levels[1:] {
			below += l.Bytes
		}
		if below < 256<<10 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are left below level 0: %+v", below, m.Levels)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestSeeksMergeRuns: runs that no rule of writing wants merged are merged once
// seeks have paid for it, and not for reads that pass most runs by.
func TestSeeksMergeRuns(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	const n = 1000
	for range 3 {
		for i := range n {
			mustPut(t, db, i)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	runs := func() int {
		m := db.Metrics()
		runs := m.Levels[0].Files
		for _, l := range m.Levels[1:] {
			runs += min(l.Files, 1)
		}
		return runs
	}
	before := runs()
	for i := range 100 * n {
		wantValue(t, db, i%n)
	}
	if got := runs(); got != before || got < 2 {
		t.Fatalf("%d runs, then %d after gets", before, got)
	}
	deadline := time.Now().Add(2 * time.Minute) // ends a hang
	for i := 0; runs() > 1; i++ {
		it := db.Iter(nil)
		if !it.SeekGE(key(i%n)) || !bytes.Equal(it.Key(), key(i%n)) {
			t.Fatal(i, it.Err())
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d runs after %d seeks", runs(), i)
		}
	}
}

func TestDestroy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := mustOpen(t, dir, nil)
	mustPut(t, db, 1)
	if err := Destroy(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("destroy of an open database: %v", err)
	}
	mustClose(t, db)
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("still there: %v", err)
	}
	if err := Destroy(dir, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAllocations(t *testing.T) {
	db := mustOpen(t, t.TempDir(), nil)
	defer db.Close()
	const n = 10_000
	for i := range n {
		mustPut(t, db, i)
	}
	if err := db.CompactRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := range n / 2 { // half in the memtable, half in tables
		mustPut(t, db, 2*i)
	}
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key(i)
	}
	it := db.Iter(nil)
	defer it.Close()
	it.First()
	batch := NewBatch()
	var multi MultiResult
	buf := make([]byte, 0, 256)
	val := value(5)
	i := 0
	next := func() []byte { i++; return keys[i*7%n] }
	for i := range n {
		buf, _ = db.Get(keys[i], buf[:0]) // fill the cache
	}
	for _, c := range []struct {
		name string
		op   func()
	}{
		{"Get", func() { buf, _ = db.Get(next(), buf[:0]) }},
		{"Get missing", func() { db.Get(keys[0][:4], buf[:0]) }},
		{"Has", func() { db.Has(next()) }},
		{"Put", func() { db.Put(next(), val, NoSync) }},
		{"Delete", func() { db.Delete(keys[0][:5], NoSync) }},
		{"Write", func() { batch.Clear(); batch.Put(next(), val); batch.Put(next(), val); db.Write(batch, NoSync) }},
		{"Next", func() {
			if !it.Next() {
				it.First()
			}
		}},
		{"Prev", func() {
			if !it.Prev() {
				it.Last()
			}
		}},
		{"SeekGE", func() { it.SeekGE(next()) }},
		{"MultiGet", func() { db.MultiGet(keys[:32], &multi) }},
	} {
		c.op()
		if got := testing.AllocsPerRun(1000, c.op); got > 0 {
			t.Errorf("%s: %v allocations", c.name, got)
		}
	}
}

func TestIdleDatabaseWritesNothing(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, nil)
	defer db.Close()
	mustPut(t, db, 1)
	// The work that opening and writing left behind may take any time.
	before, after := "", listing(t, dir)
	for try := 0; before != after; try++ {
		if try == 100 {
			t.Fatalf("before:\n%s\nafter:\n%s", before, after)
		}
		time.Sleep(300 * time.Millisecond)
		before, after = after, listing(t, dir)
	}
}
