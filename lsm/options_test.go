package lsm

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestOptionsPage keeps docs/options.md what the options table says.
func TestOptionsPage(t *testing.T) {
	if os.Getenv(formatEnv) != "" || arena.RaceDetector {
		t.Skip("the default format or write buffer is another one")
	}
	var b strings.Builder
	b.WriteString("# Options\n\nOptions by name: for `Options.Set` in Go, for C, C++, " +
		"Python and Java, in camel case for Node\n(`cacheSize`), and as flags of kvbench. " +
		"Sizes take KiB, MiB or GiB after the number. Options with an\nentry in the last " +
		"column can be changed on an open database, see\n[SetOption](resources.md" +
		"#options-that-change). `go doc lsm.Options` gives the reasons of defaults.\n\n")
	b.WriteString("| name | meaning | default | unit | from | to | dynamic: set for " +
		"|\n|---|---|---|---|---|---|---|\n")
	for _, d := range OptionDocs() {
		from, to := fmt.Sprint(d.Min), fmt.Sprint(d.Max)
		if d.Max == 0 {
			from, to = "", ""
		}
		if d.Name == "max_background_jobs" || d.Name == "max_subcompactions" {
			d.Default = "processors, at least 2" // whatever this machine has
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", d.Name, d.Doc, d.Default, d.Unit,
			from, to, d.Dynamic)
	}
	script.Golden(t, "../docs/options.md", b.String())
}

// TestNumbersBelowNone: by name, 0 alone means "none"; -1 is what the field of
// Options calls it, and no size.
func TestNumbersBelowNone(t *testing.T) {
	for _, d := range OptionDocs() {
		if d.Max == 0 {
			continue
		}
		var o Options
		err := o.Set(d.Name, fmt.Sprint(d.Min-1))
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), d.Name) ||
			!strings.Contains(err.Error(), fmt.Sprintf("want %d to %d", d.Min, d.Max)) {
			t.Errorf("%s = %d: %v", d.Name, d.Min-1, err)
		}
		if err := o.Set(d.Name, fmt.Sprint(d.Min)); err != nil {
			t.Error(err)
		}
		if _, err := o.resolve(); err != nil {
			t.Errorf("%s = %d: %v", d.Name, d.Min, err)
		}
	}
}

func TestOptionsAreSetByName(t *testing.T) {
	var o Options
	for _, c := range []struct{ name, value, want string }{
		{"cache_size", "1 GiB", ""}, {"write_buffer_size", "1048576", ""},
		{"compression", "ZSTD", ""}, {"bloom_bits", "0", ""}, {"read_only", "true", ""},
		{"comparator", "idb_cmp1", ""}, {"block_size", "16k", ""}, {"mmap", "OFF", ""},
		{"format", "Native", ""}, {"format", "rocksdb", "leveldb or native"},
		{"blok_size", "1", `"block_size"`}, {"block_size", "x", "number"},
		{"block_size", "1", "256 to"}, {"compression", "lz4", "snappy"},
		{"comparator", "mine", "idb_cmp1"}, {"mmap", "yes", "auto"},
		{"read_only", "2", "true or false"}, {"block_size", "9000000000G", "number"},
	} {
		err := o.Set(c.name, c.value)
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrInvalidArgument) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s = %s: %v; want %q", c.name, c.value, err, c.want)
		}
	}
	want := Options{CacheSize: 1 << 30, WriteBufferSize: 1 << 20, Compression: ZstdCompression,
		BloomBits: -1, ReadOnly: true, Comparer: IndexedDBComparer, BlockSize: 16 << 10,
		Format: FormatNative, Mmap: MmapOff}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v\nwant %+v", o, want)
	}
	for _, d := range OptionDocs() {
		if d.Doc == "" || d.Default == "" {
			t.Errorf("%+v is not documented", d)
		}
		if err := new(Options).Set(d.Name, d.Default); err != nil {
			t.Errorf("its own default: %v", err)
		}
	}
}

// TestProperty asks for each of LevelDB's properties under its name, under "loam." and without
// a prefix.
func TestProperty(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	mustPut(t, db, 1)
	mustFlush(t, db)
	levels := 0
	for name, want := range map[string]string{
		"stats": "Compactions", "sstables": "key", "approximate-memory-usage": "",
		"num-files-at-level0": "", "num-files-at-level6": "", "num-files-at-level7": "-",
		"num-files-at-level-1": "-", "num-files-at-level": "-", "": "-", "Stats": "-",
		"leveldb": "-", "loam.stats": "-",
	} {
		for _, prefix := range []string{"leveldb.", "loam.", ""} {
			v, ok := db.Property(prefix + name)
			want := want
			if prefix == "" && name == "loam.stats" {
				want = "Compactions"
			}
			if ok != (want != "-") || ok && !strings.Contains(v, want) {
				t.Errorf("%q: %q, %v", prefix+name, v, ok)
			}
		}
	}
	for level := range 7 {
		v, _ := db.Property(fmt.Sprint("num-files-at-level", level))
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Error(err)
		}
		levels += n
	}
	if levels != 1 {
		t.Errorf("%d files", levels)
	}
	mustClose(t, db)
	if v, ok := db.Property("stats"); ok {
		t.Errorf("after Close: %q", v)
	}
}
