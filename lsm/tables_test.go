package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

var bothFormats = []Format{FormatLevelDB, FormatNative}

// TestCompressionByLevel writes the same entries to level 0 and to the bottom: each time the
// tables are as small as the level's compression makes them.
func TestCompressionByLevel(t *testing.T) {
	text := strings.Repeat("every word of a text comes more than once in a text of words; ", 16)
	const entries = 500
	// Tables of other levels have other numbers, and LevelDB's blocks other sequence numbers.
	about := func(a, b uint64) bool { return a < b+b/50 && b < a+a/50 }
	for _, format := range bothFormats {
		// bytes is what tables of level 0 and of the bottom take.
		bytes := func(t *testing.T, list string) (zero, bottom uint64) {
			o := &Options{FS: vfs.NewMem(), Format: format, DisableCompaction: true}
			if err := o.Set("compression", list); err != nil {
				t.Fatal(err)
			}
			if got := o.Compression.String(); got != list {
				t.Errorf("compression %s is %s", list, got)
			}
			db := mustOpen(t, "db", o)
			defer func() { mustClose(t, db) }()
			fill := func() {
				for i := range entries {
					if err := db.Put(key(i), fmt.Append(nil, i, text[i%50:], i),
						NoSync); err != nil {
						t.Fatal(err)
					}
				}
				mustFlush(t, db)
			}
			fill()
			bottom = db.Metrics().Levels[6].Bytes
			fill()
			zero = db.Metrics().Levels[0].Bytes
			if err := db.CompactRange(nil, nil); err != nil {
				t.Fatal(err)
			}
			m := db.Metrics()
			if after := m.Levels[6].Bytes; m.Levels[0].Files != 0 || after > bottom+bottom/8 ||
				after < bottom-bottom/8 {
				t.Errorf("%s: the bottom has %d bytes after a flush, %d after a compaction, and "+
					"level 0 %d tables", list, bottom, after, m.Levels[0].Files)
			}
			for i := range entries {
				if v, err := db.Get(key(i), nil); err != nil ||
					string(v) != fmt.Sprint(i, text[i%50:], i) {
					t.Fatalf("%s: entry %d: %q, %v", list, i, v, err)
				}
			}
			return zero, bottom
		}
		size := map[string]uint64{}
		for _, name := range []string{"none", "snappy", "zstd"} {
			zero, bottom := bytes(t, name)
			if size[name] = bottom; !about(zero, bottom) {
				t.Errorf("%v, %s: %d bytes in level 0, %d in the bottom", format, name, zero,
					bottom)
			}
		}
		if size["none"] < 2*size["snappy"] || size["snappy"] <= size["zstd"] {
			t.Errorf("%v: sizes %v tell nothing", format, size)
		}
		for _, lists := range [][2]string{{"none,snappy,zstd", "zstd"}, {"snappy,none", "none"},
			{"zstd,zstd,zstd,zstd,zstd,zstd,none", "none"}, {"none,none,none,none,none,zstd,snappy",
				"snappy"}} {
			first, _, _ := strings.Cut(lists[0], ",")
			if zero, bottom := bytes(t, lists[0]); !about(zero, size[first]) ||
				!about(bottom, size[lists[1]]) {
				t.Errorf("%v, %s: %d bytes in level 0 and %d in the bottom, want %d and %d", format,
					lists[0], zero, bottom, size[first], size[lists[1]])
			}
		}
	}
	if _, err := Open("db",
		&Options{FS: vfs.NewMem(), Compression: CompressionByLevel(NoCompression,
			DefaultCompression)}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a default in a list: %v", err)
	}
}

// TestCompressionOfKeyspaces: a keyspace has a list of its own.
func TestCompressionOfKeyspaces(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
		Compression: NoCompression})
	defer func() { mustClose(t, db) }()
	ks, err := db.Keyspace("packed",
		&KeyspaceOptions{Compression: CompressionByLevel(NoCompression, ZstdCompression)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		for _, put := range []func(key, value []byte, m WriteMode) error{db.Put, ks.Put} {
			if err := put(key(i), bytes.Repeat([]byte("abcdefgh"), 200), NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustFlush(t, db)
	if err := ks.Flush(); err != nil {
		t.Fatal(err)
	}
	if plain, packed := db.Metrics().DiskBytes, ks.Metrics().DiskBytes; packed == 0 ||
		packed*4 > plain {
		t.Errorf("%d bytes in the keyspace, %d in the default one", packed, plain)
	}
	if _, err := db.Keyspace("other", &KeyspaceOptions{Compression: 1 << 14}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Errorf("no list: %v", err)
	}
	if _, err := db.Keyspace("other", &KeyspaceOptions{PrefixLength: 256}); !errors.Is(err,
		ErrInvalidArgument) {
		t.Errorf("long prefixes: %v", err)
	}
}

// TestPrefixesNeedFilters: options that ask for prefixes in filters, and for no filters, are
// refused. Where the one is the database's and the other a keyspace's, or was set later, there
// are no filters.
func TestPrefixesNeedFilters(t *testing.T) {
	needsNative(t)
	o := &Options{FS: vfs.NewMem(), PrefixLength: 3, BloomBits: -1}
	if _, err := Open("db", o); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Open: %v", err)
	}
	if _, err := NewTableWriter("table", o); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("NewTableWriter: %v", err)
	}
	o.BloomBits = 0
	db := mustOpen(t, "db", o)
	both := &KeyspaceOptions{PrefixLength: 3, BloomBits: -1}
	if _, err := db.Keyspace("both", both); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Keyspace: %v", err)
	}
	if _, err := db.Keyspace("plain", &KeyspaceOptions{BloomBits: -1}); err != nil {
		t.Error(err)
	}
	if err := db.SetOption("bloom_bits", "0"); err != nil {
		t.Error(err)
	}
}

// prefixKeys are keys of groups of which most are absent, some too short for a prefix.
func prefixKeys(rng *rand.Rand, n int) (keys []string) {
	for range n {
		k := fmt.Sprintf("u%03d/%02d", 3*rng.IntN(100), rng.IntN(30))
		switch rng.IntN(20) {
		case 0:
			k = k[:rng.IntN(5)]
		case 1:
			k = "\xff\xff\xff\xff\xff"[:1+rng.IntN(5)] + k[:rng.IntN(len(k))]
		}
		keys = append(keys, k)
	}
	return keys
}

// prefixModel is what is in the database.
type prefixModel map[string]string

func (m prefixModel) within(lower, upper []byte) (keys []string) {
	for k := range m {
		if (lower == nil || k >= string(lower)) && (upper == nil || k < string(upper)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestPrefixFilters walks within prefixes and other bounds, forward, backward and by seeks,
// over tables with prefixes of several lengths and without, and compares with a model.
func TestPrefixFilters(t *testing.T) {
	for _, format := range bothFormats {
		t.Run(format.String(), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			fsys, model := vfs.NewMem(), prefixModel{}
			skips := uint64(0)
			for _, length := range []int{4, 0, 5, 1, 4} {
				db := mustOpen(t, "db", &Options{FS: fsys, Format: format, PrefixLength: length,
					L0Compaction: 1 << 10, L0Stop: 1 << 11, BlockSize: 256})
				for range 4 {
					for _, k := range prefixKeys(rng, 60) {
						model[k] = fmt.Sprint(rng.IntN(1000))
						if err := db.Put([]byte(k), []byte(model[k]), NoSync); err != nil {
							t.Fatal(err)
						}
					}
					if format == FormatNative {
						from := fmt.Sprintf("u%03d", rng.IntN(300))
						if err := db.DeleteRange([]byte(from), []byte(from+"/1"),
							NoSync); err != nil {
							t.Fatal(err)
						}
						for _, k := range model.within([]byte(from), []byte(from+"/1")) {
							delete(model, k)
						}
					}
					mustFlush(t, db)
					if rng.IntN(6) == 0 {
						mustCompact(t, db)
					}
				}
				it := db.Iter(nil) // one whose bounds change
				for range 300 {
					walkPrefix(t, rng, db, it, model)
				}
				if err := it.Close(); err != nil {
					t.Fatal(err)
				}
				if n := db.Metrics().PrefixSkips; length == 0 && n > 0 {
					t.Errorf("%d tables skipped without the option", n)
				} else {
					skips += n
				}
				mustClose(t, db)
			}
			if skips < 100 {
				t.Errorf("%d tables were skipped", skips)
			}
		})
	}
}

// walkPrefix compares iterators over random bounds, one of them used again, with the model.
func walkPrefix(t *testing.T, rng *rand.Rand, db *DB, reused *Iterator, model prefixModel) {
	t.Helper()
	prefix := []byte(prefixKeys(rng, 1)[0])
	if len(prefix) > 3 && rng.IntN(2) == 0 {
		prefix = fmt.Appendf(nil, "u%03d", rng.IntN(300))
	}
	o := IterOptions{Prefix: prefix}
	lower, upper := prefix, prefixAfter(prefix)
	switch rng.IntN(4) {
	case 0:
		lower = append(bytes.Clone(prefix), '/', '0'+byte(rng.IntN(4)))
		o.Lower = lower
	case 1:
		upper = append(bytes.Clone(prefix), '/', '0'+byte(rng.IntN(4)))
		o.Upper = upper
	case 2:
		upper = []byte(prefixKeys(rng, 1)[0])
		o = IterOptions{Lower: lower, Upper: upper}
	}
	own := db.Iter(&o)
	defer own.Close()
	reused.SetBounds(lower, upper)
	want := model.within(lower, upper)
	for name, it := range map[string]*Iterator{"new": own, "with other bounds": reused} {
		var forward, back []string
		for ok := it.First(); ok; ok = it.Next() {
			forward = append(forward, string(it.Key()))
			if v := model[string(it.Key())]; v != string(it.Value()) {
				t.Fatalf("%s, %+v: %q has %q, want %q", name, o, it.Key(), it.Value(), v)
			}
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			back = append(back, string(it.Key()))
		}
		slices.Reverse(back)
		if !slices.Equal(forward, want) || !slices.Equal(back, want) || it.Err() != nil {
			t.Fatalf("iterator %s, %+v: %q forward, %q back, %v; want %q", name, o, forward, back,
				it.Err(), want)
		}
		for range 5 {
			key := []byte(prefixKeys(rng, 1)[0])
			i, _ := slices.BinarySearch(want, string(key))
			if ok := it.SeekGE(key); ok != (i < len(want)) || ok && string(it.Key()) != want[i] {
				t.Fatalf("iterator %s, %+v: SeekGE(%q) is at %q, want entry %d of %q", name, o, key,
					it.Key(), i, want)
			} else if ok && it.Prev() != (i > 0) {
				t.Fatalf("iterator %s, %+v: Prev after SeekGE(%q)", name, o, key)
			}
			if ok := it.SeekLT(key); ok != (i > 0) || ok && string(it.Key()) != want[i-1] {
				t.Fatalf("iterator %s, %+v: SeekLT(%q) is at %q, want the entry before %d of %q",
					name, o, key, it.Key(), i, want)
			} else if ok && it.Next() != (i < len(want)) {
				t.Fatalf("iterator %s, %+v: Next after SeekLT(%q)", name, o, key)
			}
		}
	}
}

// prefixAfter is the first key after those with prefix p, nil if there is none.
func prefixAfter(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] < 0xff {
			return append(bytes.Clone(p[:i]), p[i]+1)
		}
	}
	return nil
}

// TestPrefixFiltersNeedTheirOrder: with another comparer prefixes are no ranges, and no table
// is skipped.
func TestPrefixFiltersNeedTheirOrder(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: ReverseBytewiseComparer,
		PrefixLength: 3, L0Compaction: 100})
	defer func() { mustClose(t, db) }()
	for i := range 10 {
		mustPut(t, db, i)
		mustFlush(t, db)
	}
	it := db.Iter(&IterOptions{Lower: []byte("kez"), Upper: []byte("kex")})
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil || n != 10 || db.Metrics().PrefixSkips != 0 {
		t.Errorf("%d of 10 keys, %d tables skipped, %v", n, db.Metrics().PrefixSkips, err)
	}
}

// directDir is a directory of a file system with direct I/O. Temporary files may be in memory.
func directDir(t *testing.T) string {
	t.Helper()
	dirs := []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/var/tmp", "loam"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		db := mustOpen(t, filepath.Join(dir, "probe"),
			small(Options{CompactionDirectIO: true, DisableCompaction: true}))
		for range 2 {
			putKeys(t, db, 100)
			mustFlush(t, db)
		}
		mustCompact(t, db)
		direct := db.Metrics().DirectTables
		mustClose(t, db)
		if direct > 0 {
			return dir
		}
	}
	t.Skipf("none of %q is on a file system with direct I/O: TMPDIR may name one", dirs)
	return ""
}

// TestDirectIO compacts past the page cache and reads what was written. Flushes do not.
func TestDirectIO(t *testing.T) {
	for _, format := range bothFormats {
		t.Run(format.String(), func(t *testing.T) {
			db := mustOpen(t, filepath.Join(directDir(t), "db"),
				small(Options{Format: format, CompactionDirectIO: true, DisableCompaction: true}))
			for range 3 {
				putKeys(t, db, 5000)
				mustFlush(t, db)
			}
			if m := db.Metrics(); m.DirectTables+m.NotDirectTables > 0 {
				t.Errorf("flushes wrote %d tables directly", m.DirectTables+m.NotDirectTables)
			}
			mustCompact(t, db)
			m := db.Metrics()
			if m.DirectTables < 4 || m.NotDirectTables > 0 {
				t.Errorf("%d tables by direct I/O, %d not", m.DirectTables, m.NotDirectTables)
			}
			wantValues(t, db, 5000)
			if err := db.Verify(t.Context(), nil); err != nil {
				t.Error(err)
			}
			mustClose(t, db)
		})
	}
}

// TestDirectIORefused: on other file systems compactions go on through the page cache, which
// is told once.
func TestDirectIORefused(t *testing.T) {
	var log strings.Builder
	o := small(Options{FS: vfs.NewMem(), CompactionDirectIO: true,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	db := mustOpen(t, "db", o)
	for range 2 {
		putKeys(t, db, 3000)
		mustFlush(t, db)
		mustCompact(t, db)
	}
	if m := db.Metrics(); m.DirectTables != 0 || m.NotDirectTables < 2 {
		t.Errorf("%d tables by direct I/O, %d not", m.DirectTables, m.NotDirectTables)
	}
	wantValues(t, db, 3000)
	mustClose(t, db)
	if n := strings.Count(log.String(), "direct I/O"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
}

// TestDirectIOFaults: compactions whose direct writes or reads fail are tried again, and
// nothing is lost.
func TestDirectIOFaults(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpRead, vfs.OpSync} {
		for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EINVAL} {
			if kind == vfs.OpRead && errno == syscall.ENOSPC || kind == vfs.OpSync &&
				errno != syscall.ENOSPC {
				continue
			}
			t.Run(kind.String()+" "+errno.Error(), func(t *testing.T) {
				var calls, fail atomic.Int64
				fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
					if op.Kind == kind && fstest.TypeOf(op.Name) == base.FileTable {
						if n := fail.Load(); n > 0 && calls.Add(1)%3 == n-1 {
							return vfs.Outcome{Err: errno, Short: int(op.N / 3)}
						}
					}
					return vfs.Outcome{}
				})
				db := mustOpen(t, filepath.Join(directDir(t), "db"),
					small(Options{FS: fsys, Format: FormatNative, CompactionDirectIO: true,
						DisableCompaction: true, Mmap: MmapOff}))
				for range 3 {
					putKeys(t, db, 20000)
					mustFlush(t, db)
				}
				failed := 0
				for n := range int64(3) { // a compaction makes three tables at least
					fail.Store(n + 1)
					if err := db.CompactRange(nil, nil); err != nil {
						failed++
						if !errors.Is(err, errno) {
							t.Errorf("compaction: %v", err)
						}
					}
				}
				fail.Store(0)
				if failed == 0 && errno != syscall.EINVAL {
					t.Error("no compaction failed")
				}
				_ = db.Resume()
				if err := db.CompactRange(nil, nil); err != nil {
					t.Errorf("another try: %v", err)
				}
				wantValues(t, db, 20000)
				if err := db.Verify(t.Context(), nil); err != nil {
					t.Error(err)
				}
				mustClose(t, db)
			})
		}
	}
}
