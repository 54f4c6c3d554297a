package lsm

import (
	"context"
	"iter"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/engine"
	"github.com/loamdb/loam/internal/ingest"
	"github.com/loamdb/loam/internal/options"
	"github.com/loamdb/loam/internal/preview"
	"github.com/loamdb/loam/internal/tree"
)

func init() {
	preview.SetDefaultFormat = setDefaultFormat
	preview.NewTableWriter = func(path string, o any) (preview.TableWriter, error) {
		opts, err := o.(*Options).resolve()
		if err != nil {
			return nil, err
		}
		w, err := ingest.NewTableWriter(opts.FS, path, opts.tables(opts.Comparer), opts.Clock)
		if err != nil {
			return nil, err
		}
		return w, nil
	}
	preview.Ingest = func(ctx context.Context, in any, how preview.How, paths ...string) error {
		return ingest.Ingest(ctx, spaceOf(in), paths, ingest.Options(how))
	}
	preview.NewLoader = func(in any) (preview.Loader, error) {
		l, err := ingest.NewLoader(spaceOf(in), ingest.Memory(spaceOf(in).DB))
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	preview.Load = func(ctx context.Context, in any, entries iter.Seq2[[]byte, []byte]) error {
		return ingest.Load(ctx, spaceOf(in), entries, ingest.Memory(spaceOf(in).DB))
	}
	preview.IngestCounts = func(in any) (ended, failed int64, tables, loaded, runs uint64) {
		s := spaceOf(in).DB.IngestStats()
		return s.Count, s.Failed, s.Tables, s.Loaded, s.Runs
	}
	engine.Of = func(db any) *engine.DB { return db.(*DB).engine }
	engine.SnapshotOf = func(s any) *tree.Snapshot { return s.(*Snapshot).at }
}

// setDefaultFormat changes the row of the options table.
func setDefaultFormat(f base.Format) base.Format {
	row := &optionTable[slices.IndexFunc(optionTable, func(o options.Row[Options]) bool { return o.Name == "format" })]
	before := Format(row.Default)
	row.Default = int64(FormatLevelDB)
	if f == base.Native {
		row.Default = int64(FormatNative)
	}
	return before.dir()
}

// spaceOf is the keyspace of a *DB or a *Keyspace.
func spaceOf(in any) *engine.Keyspace {
	if db, ok := in.(*DB); ok {
		return db.space
	}
	return in.(*Keyspace).space
}
