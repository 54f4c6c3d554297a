package native_test

import (
	"testing"

	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/format/sstable/native"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/internal/testkit/tables"
)

func env(e tables.Env) blocktable.Env {
	return blocktable.Env{Name: e.Name, Cache: e.Cache, Comparer: e.Comparer,
		MaxDecoded: e.MaxDecoded}
}

var format = tables.Format{
	New: func(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer {
		return native.NewWriter(f, o)
	},
	Open: func(f vfs.ReadFile, e tables.Env) (sstable.Reader, error) {
		r, err := native.Open(f, env(e))
		if err != nil {
			return nil, err // not a nil *native.Reader in an interface
		}
		return r, nil
	},
	Salvage: func(f vfs.ReadFile, e tables.Env, out sstable.Salvage) error {
		return native.Salvage(f, env(e), out)
	},
}

func TestSuite(t *testing.T) { tables.Run(t, format) }

// runVariant reads tables in place in long runs only: TestSuite does so in all.
func runVariant(t *testing.T, f tables.Format) {
	if seed.Full() {
		tables.Run(t, f)
	} else {
		tables.RunRead(t, f)
	}
}

// TestPartitionedSuite cuts every index of a few blocks into parts.
func TestPartitionedSuite(t *testing.T) {
	parted := format
	parted.New = func(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer {
		return native.NewPartitioned(f, o, 400, 400)
	}
	runVariant(t, parted)
}

// TestEvictableSuite has the cache load and evict every index and filter.
func TestEvictableSuite(t *testing.T) {
	evictable := format
	evictable.Open = func(f vfs.ReadFile, e tables.Env) (sstable.Reader, error) {
		env := env(e)
		env.EvictFrom = 1
		r, err := native.Open(f, env)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	runVariant(t, evictable)
}

func Benchmark(b *testing.B) { tables.Benchmark(b, format) }
