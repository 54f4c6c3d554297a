package lsm_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestOptionsInForce reads every option of a database that was opened with defaults, and sets it to
// the same value: those that are fixed are refused.
func TestOptionsInForce(t *testing.T) {
	lsm.NeedsNative(t)
	db, err := lsm.Open("db", &lsm.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	k, err := db.Keyspace("k", nil)
	if err != nil {
		t.Fatal(err)
	}
	var buffer int
	for _, d := range lsm.OptionDocs() {
		if d.Name == "write_buffer_size" {
			buffer, err = strconv.Atoi(d.Default)
		}
	}
	if err != nil || buffer == 0 {
		t.Fatal(buffer, err)
	}
	derived := map[string]string{"max_wal_size": fmt.Sprint(4 * buffer),
		"max_memtable_bytes": fmt.Sprint(3 * buffer)}
	dynamic := 0
	for _, d := range lsm.OptionDocs() {
		want := d.Default
		if v := derived[d.Name]; v != "" {
			want = v
		}
		got, err := db.Option(d.Name)
		if err != nil || got != want {
			t.Errorf("option %s is %q, %v; want %q", d.Name, got, err, want)
		}
		if of, err := k.Option(d.Name); err != nil || of != want {
			t.Errorf("option %s of the keyspace is %q, %v; want %q", d.Name, of, err, want)
		}
		err = db.SetOption(d.Name, d.Default)
		if (err == nil) != (d.Dynamic != "") || err != nil &&
			!errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("option %s, dynamic %q, is set: %v", d.Name, d.Dynamic, err)
		}
		err = k.SetOption(d.Name, d.Default)
		if (err == nil) != (d.Dynamic == "keyspace") || err != nil &&
			!errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("option %s, dynamic %q, is set for a keyspace: %v", d.Name, d.Dynamic, err)
		}
		if d.Dynamic != "" {
			dynamic++
		}
	}
	if dynamic < 20 {
		t.Errorf("%d options change", dynamic)
	}
	for _, d := range lsm.OptionDocs() {
		if d.Unit == "seconds" {
			if err := new(lsm.Options).Set(d.Name, fmt.Sprint(d.Max)); err != nil {
				t.Errorf("the largest value: %v", err)
			}
		}
	}
	for name, value := range map[string]string{"block_size": "1", "compression": "lz4",
		"cache_size": "128MiB", "blocksize": "4096", "default_ttl": "-1"} {
		before, _ := db.Option(name)
		if err := db.SetOption(name, value); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%s = %s: %v", name, value, err)
		}
		if after, _ := db.Option(name); after != before {
			t.Errorf("%s is %s after a failure, was %s", name, after, before)
		}
	}
	if err := db.DropKeyspace("k"); err != nil {
		t.Fatal(err)
	}
	if err := k.SetOption("block_size", "8192"); !errors.Is(err, lsm.ErrNoKeyspace) {
		t.Errorf("an option of a dropped keyspace: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.SetOption("block_size", "8192"); !errors.Is(err, lsm.ErrClosed) {
		t.Errorf("an option of a closed database: %v", err)
	}
}

// TestSetOptionWorks sets options and checks their effects.
func TestSetOptionWorks(t *testing.T) {
	lsm.NeedsNative(t)
	db, err := lsm.Open("db", &lsm.Options{FS: vfs.NewMem(), Compression: lsm.NoCompression,
		BloomBits: -1, CompactionFilter: lsm.PrefixFilter([]byte("x"))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	set := func(name, value string) {
		t.Helper()
		if err := db.SetOption(name, value); err != nil {
			t.Fatal(err)
		}
		if name == "compression" {
			if got, _ := db.Option(name); got != value {
				t.Errorf("%s is %s", name, got)
			}
		}
	}
	own, err := db.Keyspace("own", &lsm.KeyspaceOptions{Compression: lsm.NoCompression})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(s sharedStore, n int) {
		t.Helper()
		for i := range n {
			if err := s.Put(fmt.Appendf(nil, "key%06d", i), make([]byte, 500),
				lsm.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := func(s interface {
		sharedStore
		Flush() error
		CompactRange(start, limit []byte) error
		Metrics() lsm.Metrics
	}) uint64 {
		t.Helper()
		fill(s, 1000)
		if err := errors.Join(s.Flush(), s.CompactRange(nil, nil)); err != nil {
			t.Fatal(err)
		}
		return s.Metrics().DiskBytes
	}
	plain := size(db)
	set("compression", "zstd")
	if packed := size(db); packed > plain/5 {
		t.Errorf("%d bytes are packed to %d", plain, packed)
	}
	if same := size(own); same < plain*9/10 {
		t.Errorf("a keyspace that has its own compression is packed to %d bytes", same)
	}
	later, err := db.Keyspace("later", nil)
	if err != nil {
		t.Fatal(err)
	}
	if packed := size(later); packed > plain/5 {
		t.Errorf("a keyspace that was made later is packed to %d bytes of %d", packed, plain)
	}
	if got, err := later.Option("compaction_filter"); got != "none" || err != nil {
		t.Errorf("its filter is %s, %v", got, err)
	}
	// The next memtable is small.
	set("write_buffer_size", "64KiB")
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	fill(db, 1)
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	before := db.Metrics().Flush.Count
	fill(db, 1000)
	if err := db.Flush(); err != nil { // waits for those before
		t.Fatal(err)
	}
	if n := db.Metrics().Flush.Count - before; n < 3 {
		t.Errorf("500 KB in memtables of 64 KiB: %d flushes", n)
	}
	// Values expire.
	set("default_ttl", "100")
	if err := db.Put([]byte("k"), nil, lsm.NoSync); err != nil {
		t.Fatal(err)
	}
	if left, expires, err := db.TTL([]byte("k")); !expires || left.Seconds() > 101 || err != nil {
		t.Errorf("it has %v left, %v", left, err)
	}
	if err := later.Put([]byte("k"), nil, lsm.NoSync); err != nil {
		t.Fatal(err)
	}
	if _, expires, err := later.TTL([]byte("k")); expires || err != nil {
		t.Errorf("the time of the default keyspace is another one's: %v", err)
	}
	set("cache_size", "1MiB")
	if c := db.Metrics().Cache; c.Capacity != 1<<20 || c.Used > 1<<20 {
		t.Errorf("the cache has %d of %d bytes", c.Used, c.Capacity)
	}
}

// TestSetOptionBeside sets options beside writers, readers, flushes and keyspaces that come and go.
func TestSetOptionBeside(t *testing.T) {
	lsm.NeedsNative(t)
	db, err := lsm.Open("db", &lsm.Options{FS: vfs.NewMem(), WriteBufferSize: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			name := fmt.Sprint("k", g)
			for i := range 300 {
				k, err := db.Keyspace(name, nil)
				if err == nil {
					err = errors.Join(k.Put(fmt.Append(nil, i), make([]byte, 2000), lsm.NoSync),
						k.SetOption("compression", []string{"none", "zstd"}[i%2]))
				}
				if err == nil && i%50 == 49 {
					err = db.DropKeyspace(name)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 500 {
			for name, values := range map[string][]string{"block_size": {"256", "4096"},
				"write_buffer_size": {"64KiB", "1MiB"}, "cache_size": {"64KiB", "64MiB"},
				"max_background_jobs": {"1", "4"}, "compaction_rate": {"0", "1GiB"}} {
				if err := db.SetOption(name, values[i%2]); err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
