package preview

import (
	"context"
	"iter"
	"time"
)

// TableWriter writes a table outside of a database; see ingest.TableWriter.
type TableWriter interface {
	Put(key, value []byte) error
	PutTTL(key, value []byte, ttl time.Duration) error
	Delete(key []byte) error
	DeleteRange(start, limit []byte) error
	EstimatedSize() uint64
	Finish() error
	Close() error
}

// Loader loads entries in any order; see ingest.Loader.
type Loader interface {
	Put(key, value []byte) error
	Finish(ctx context.Context) error
	Close() error
}

// How are the options of Ingest; see ingest.Options.
type How struct {
	Move         bool
	Replace      bool
	Start, Limit []byte
}

// These are set by package lsm. in is a *lsm.DB or a *lsm.Keyspace.
var (
	// NewTableWriter creates a table; o is a *lsm.Options.
	NewTableWriter func(path string, o any) (TableWriter, error)
	// Ingest takes tables into a keyspace.
	Ingest func(ctx context.Context, in any, how How, paths ...string) error
	// NewLoader begins a load.
	NewLoader func(in any) (Loader, error)
	// Load loads a sequence.
	Load func(ctx context.Context, in any, entries iter.Seq2[[]byte, []byte]) error
	// IngestCounts are how many ingests and loads have ended, how many of them failed, tables that they brought, entries
	// that loads brought, and sorted runs that loads wrote.
	IngestCounts func(in any) (ended, failed int64, tables, loaded, runs uint64)
)
