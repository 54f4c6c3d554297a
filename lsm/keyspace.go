package lsm

import (
	"cmp"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store"
)

// Keyspace is a part of a database with keys of its own: it has a memtable, a tree of tables and a
// comparer. RocksDB calls it a column family. All keyspaces of a database share its log, sequence
// numbers, snapshots, cache and background work, so a Batch over several is atomic, and a Snapshot
// is one state of all. The database itself is the keyspace "default".
//
// A Keyspace has the methods that DB has for data. It is safe for concurrent use, and
// needs no Close. After DropKeyspace its writes, and reads at present or at later
// snapshots, fail with ErrNoKeyspace; open iterators and older snapshots go on.
type Keyspace struct {
	keyspace
	reader
}

// KeyspaceOptions configures a keyspace. Nil and zero fields mean what the database has.
type KeyspaceOptions struct {
	// Comparer is the order of the keys. Its name is stored: a comparer of another name fails with
	// ErrComparerMismatch. It must be Options.Comparer, a built-in one, or among Options.Comparers,
	// so that later openings know it. The default is Options.Comparer for a new keyspace, and the
	// stored one for a keyspace that exists.
	Comparer *Comparer
	// Compression is how blocks of tables are packed that are written from now on. The
	// default is Options.Compression. It is not stored: later openings name it again.
	Compression Compression
	// BloomBits is the size of filters of tables that are written from now on, in bits per
	// key; negative: none. The default is Options.BloomBits. It is not stored.
	BloomBits int
	// PrefixLength is Options.PrefixLength of the keyspace, for tables that are written from now
	// on; negative: none. 0 is the database's. It is not stored.
	PrefixLength int
	// CompactionFilter decides in compactions which entries to keep, drop or change, from now on.
	// The default is none; that of the keyspace "default" is Options.CompactionFilter. It is not
	// stored: after another opening nothing is filtered until DB.Keyspace names it again.
	CompactionFilter *CompactionFilter
	// MergeOperator makes values of what Merge wrote. Its name is stored: another one is
	// ErrNoMergeOperator while there are operands. A read-only database stores nothing; a follower
	// uses the operator when the writer has stored its name, and refuses another one than the
	// writer's. The default is the stored one, if it is known by name or Options.MergeOperator has
	// the name.
	MergeOperator *MergeOperator
	// DefaultTTL is Options.DefaultTTL of the keyspace, from now on; negative: none. 0 changes
	// nothing. It is not stored: later openings name it again.
	DefaultTTL time.Duration
	// ErrorIfMissing fails with ErrNoKeyspace where there is no keyspace of that name. The
	// default, false, creates one.
	ErrorIfMissing bool
}

// Keyspace returns the keyspace of a name, which is created if there is none: from then on it
// exists, after a crash too. Names are UTF-8 of 1 to 255 bytes, without control characters. A nil o
// means the defaults.
//
// It fails with ErrNeedsNative in LevelDB's format, with ErrInvalidArgument (the name, an option,
// or a comparer that the options of Open do not know), with ErrComparerMismatch, with
// ErrNoMergeOperator (another operator than that of the operands), and as a write does.
func (db *DB) Keyspace(name string, o *KeyspaceOptions) (*Keyspace, error) {
	o = cmp.Or(o, &KeyspaceOptions{})
	if !o.Compression.perLevel().Valid() || o.BloomBits > maxBloomBits ||
		o.PrefixLength > sstable.MaxPrefixLength {
		return nil, base.Invalidf("compression, filter bits or prefixes of keyspace %q are out "+
			"of range", name)
	}
	if o.BloomBits < 0 && o.PrefixLength > 0 {
		return nil, base.Invalidf("prefixes of keyspace %q without filters to hold them", name)
	}
	if err := checkFilter(o.CompactionFilter); err != nil {
		return nil, err
	}
	k, err := db.engine.Keyspaces().Open(name, (*base.Comparer)(o.Comparer),
		(*mergeop.Operator)(o.MergeOperator), !o.ErrorIfMissing)
	if err != nil {
		return nil, err
	}
	if err := db.live.Change(uint32(k.ID()), o.own()); err != nil {
		return nil, err
	}
	return &Keyspace{keyspace{k, db}, reader{of: k}}, nil
}

// own are the options that a keyspace gets of its own.
func (o *KeyspaceOptions) own() map[string]func(*Options) {
	own := map[string]func(*Options){}
	if o.CompactionFilter != nil {
		own["compaction_filter"] = func(to *Options) { to.CompactionFilter = o.CompactionFilter }
	}
	if o.DefaultTTL != 0 {
		own["default_ttl"] = func(to *Options) { to.DefaultTTL = max(o.DefaultTTL, 0) }
	}
	if o.Compression != DefaultCompression {
		own["compression"] = func(to *Options) { to.Compression = o.Compression }
	}
	if o.PrefixLength != 0 {
		own["prefix_length"] = func(to *Options) { to.PrefixLength = max(o.PrefixLength, 0) }
	}
	if o.BloomBits != 0 {
		own["bloom_bits"] = func(to *Options) { to.BloomBits = max(o.BloomBits, -1) }
	}
	return own
}

// Keyspaces lists the names of all keyspaces, "default" first, the others in the order in
// which they were created. It is answered after Close too.
func (db *DB) Keyspaces() []string { return db.engine.Keyspaces().Names() }

// DropKeyspace drops a keyspace with all that is in it, at once, however large it is. Its tables
// are deleted in the background, when the last iterator and snapshot that uses them is closed. A
// new keyspace of that name is empty.
//
// It fails with ErrNoKeyspace if there is none, with ErrInvalidArgument for "default", and as a
// write does. After a failure the only use of the keyspace is another DropKeyspace.
func (db *DB) DropKeyspace(name string) error {
	gone, err := db.engine.Keyspaces().Drop(name)
	if gone != base.DefaultKeyspace {
		db.live.Forget(uint32(gone))
	}
	return err
}

// Name is the name of the keyspace.
func (k *Keyspace) Name() string { return k.space.Tree.Name() }

// ID is the number of the keyspace in the database, by which batches in wire form name it. No two
// keyspaces of a database ever have the same number; "default" has 0.
func (k *Keyspace) ID() uint32 { return uint32(k.space.Tree.ID()) }

// Comparer is the order of the keyspace's keys.
func (k *Keyspace) Comparer() *Comparer { return (*Comparer)(k.space.Tree.Comparer()) }

// Close does nothing, and returns nil: the database owns its keyspaces. It makes a
// Keyspace a Store.
func (k *Keyspace) Close() error { return nil }

// NewBatch returns an empty batch whose operations are on this keyspace, whichever it is
// written to, unless Batch.In says otherwise.
func (k *keyspace) NewBatch() *Batch {
	b := NewBatch()
	b.b.Home = k.space
	return b
}

// BatchIn adds operations on one keyspace to a batch; see Batch.In.
type BatchIn struct {
	b     *Batch
	space *store.Keyspace // nil: the default one
}

// In returns a BatchIn, which adds operations on k to the batch. k must be a keyspace of the
// database that the batch is written to; nil: the default keyspace, whichever the batch is written
// to.
func (b *Batch) In(k *Keyspace) BatchIn {
	if k == nil {
		return BatchIn{b, nil}
	}
	return BatchIn{b, k.space}
}

// Put is Batch.Put in the keyspace.
func (i BatchIn) Put(key, value []byte) { i.b.b.AddIn(i.space, base.KindSet, key, value) }

// Merge is Batch.Merge in the keyspace.
func (i BatchIn) Merge(key, operand []byte) { i.b.b.AddIn(i.space, base.KindMerge, key, operand) }

// Delete is Batch.Delete in the keyspace.
func (i BatchIn) Delete(key []byte) { i.b.b.AddIn(i.space, base.KindDelete, key, nil) }

// In returns the snapshot as it is in another keyspace of its database; nil is the default one. It
// is the same snapshot: Close of either closes both. In a keyspace that was created after the
// snapshot there is nothing; reads in one of another database fail with ErrInvalidArgument.
func (s *Snapshot) In(k *Keyspace) *Snapshot {
	space := s.root.Default()
	if k != nil {
		space = k.space
	}
	return &Snapshot{reader: reader{space, s.at}, moment: s.moment, root: s.root}
}
