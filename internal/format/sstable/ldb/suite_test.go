package ldb_test

import (
	"testing"

	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/ldb"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/tables"
)

var format = tables.Format{
	New: func(f vfs.WriteFile, o sstable.WriterOptions) sstable.Writer {
		return ldb.NewWriter(f, o)
	},
	Open: func(f vfs.ReadFile, e tables.Env) (sstable.Reader, error) {
		r, err := ldb.Open(f, ldb.Env{Name: e.Name, Cache: e.Cache, Comparer: e.Comparer,
			MaxDecoded: e.MaxDecoded})
		if err != nil {
			return nil, err // not a nil *ldb.Reader in an interface
		}
		return r, nil
	},
	Salvage: func(f vfs.ReadFile, e tables.Env, out sstable.Salvage) error {
		return ldb.Salvage(f, ldb.Env{Name: e.Name, Comparer: e.Comparer, MaxDecoded: e.MaxDecoded},
			out)
	},
}

func TestSuite(t *testing.T) { tables.Run(t, format) }

func Benchmark(b *testing.B) { tables.Benchmark(b, format) }
