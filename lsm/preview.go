package lsm

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/options"
	"github.com/loamdb/loam/internal/preview"
)

func init() {
	preview.Keyspaces = previewKeyspaces{}
	preview.SetDefaultFormat = setDefaultFormat
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

// previewKeyspaces and previewKeyspace are keyspaces as package preview has them.
type (
	previewKeyspaces struct{}
	previewKeyspace  struct{ k *keyspace }
)

func (previewKeyspaces) Enable(options any, named func(name string) *base.Comparer) {
	o := options.(*Options)
	o.Format = FormatNative
	if named != nil {
		o.keyspaces = &comparers{named}
	}
}

func (previewKeyspaces) Open(db any, name string, c *base.Comparer) (preview.Keyspace, error) {
	k, err := db.(*DB).openKeyspace(name, c)
	if err != nil {
		return nil, err
	}
	return previewKeyspace{k}, nil
}

func (previewKeyspaces) Drop(db any, name string) error { return db.(*DB).engine.DropKeyspace(name) }

func (previewKeyspaces) List(db any) []string { return db.(*DB).engine.KeyspaceNames() }

// snapshotOf makes a nil interface a nil pointer.
func snapshotOf(snapshot any) *Snapshot {
	s, _ := snapshot.(*Snapshot)
	return s
}

func (p previewKeyspace) Put(batch any, key, value []byte) {
	batch.(*Batch).in(p.k.space, base.KindSet, key, value)
}

func (p previewKeyspace) Delete(batch any, key []byte) {
	batch.(*Batch).in(p.k.space, base.KindDelete, key, nil)
}

func (p previewKeyspace) Get(key, dst []byte, snapshot any) ([]byte, error) {
	return p.k.in(snapshotOf(snapshot)).Get(key, dst)
}

func (p previewKeyspace) TryGet(key, dst []byte, snapshot any) ([]byte, error) {
	return p.k.in(snapshotOf(snapshot)).TryGet(key, dst)
}

func (p previewKeyspace) Has(key []byte, snapshot any) (bool, error) {
	return p.k.in(snapshotOf(snapshot)).Has(key)
}

func (p previewKeyspace) MultiGet(keys [][]byte, snapshot, result any) error {
	return p.k.in(snapshotOf(snapshot)).MultiGet(keys, result.(*MultiResult))
}

func (p previewKeyspace) Iter(options any) any {
	o, _ := options.(*IterOptions)
	return p.k.Iter(o)
}

func (p previewKeyspace) Flush() error { return p.k.Flush() }

func (p previewKeyspace) CompactRange(start, limit []byte) error {
	return p.k.CompactRange(start, limit)
}
