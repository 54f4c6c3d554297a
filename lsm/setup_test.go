package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/options"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/os/vfs"
)

const formatEnv = "LOAM_FORMAT"

// TestMain runs the tests on the format that formatEnv names, where their options name
// none.
func TestMain(m *testing.M) {
	if name := os.Getenv(formatEnv); name != "" {
		var o Options
		if err := o.Set("format", name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		setDefaultFormat(o.Format.dir())
	}
	if arena.RaceDetector {
		// The Go heap has the whole write buffer of each memtable then.
		row := slices.IndexFunc(optionTable, func(o options.Row[Options]) bool {
			return o.Name == "write_buffer_size"
		})
		optionTable[row].Default = 4 << 20
	}
	if err := useCodecs(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// needsNative skips a test of what only the native format has, where the tests run on LevelDB's.
func needsNative(t testing.TB) {
	if os.Getenv(formatEnv) == FormatLevelDB.String() {
		t.Skip("of the native format")
	}
}

// useCodecs writes and reads a table with each effort of zstd. The encoders and decoders are made
// once in a process and have channels: one that a test in a bubble made could not be used outside.
func useCodecs() error {
	value := bytes.Repeat([]byte("value"), 2000)
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		for effort := 1; effort <= 4; effort++ {
			db, err := Open("db", &Options{FS: vfs.NewMem(), Format: format,
				Compression: ZstdCompression, ZstdLevel: effort})
			if err != nil {
				return err
			}
			err = errors.Join(db.Put([]byte("key"), value, NoSync), db.Flush())
			_, missing := db.Get([]byte("key"), nil)
			if err = errors.Join(err, missing, db.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// logName is the path of log num of a database in directory db.
func logName(db *DB, num uint64) string {
	return path.Join("db", db.engine.Parts().Manifest.Format().FileName(base.FileLog, num))
}

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

func key(i int) []byte { return fmt.Appendf(nil, "key%08d", i) }

func value(i int) []byte { return fmt.Appendf(nil, "value-%d-%s", i, strings.Repeat("x", i%97)) }

func mustPut(t testing.TB, db *DB, i int) {
	t.Helper()
	if err := db.Put(key(i), value(i), NoSync); err != nil {
		t.Fatal(err)
	}
}

// putKeys puts keys 0 to n-1.
func putKeys(t testing.TB, db *DB, n int) {
	t.Helper()
	for i := range n {
		mustPut(t, db, i)
	}
}

func mustFlush(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
}

func mustCompact(t testing.TB, db *DB) {
	t.Helper()
	if err := db.CompactRange(nil, nil); err != nil {
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

// wantValues reads what putKeys put.
func wantValues(t testing.TB, db *DB, n int) {
	t.Helper()
	for i := range n {
		wantValue(t, db, i)
	}
}

func wantMissing(t testing.TB, db *DB, i int) {
	t.Helper()
	if v, err := db.Get(key(i), nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("get %s: %q, %v; want not found", key(i), v, err)
	}
}
