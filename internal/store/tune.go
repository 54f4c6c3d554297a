package store

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/work"
)

// Tuning is what changes for a whole database while it is open.
type Tuning struct {
	Limits       work.Limits
	MaxOpenFiles int
	CacheSize    int64 // of its own cache; negative: it has none
}

// KeyspaceTuning is what changes for a keyspace.
type KeyspaceTuning struct {
	Tables       sstable.WriterOptions // Format and Comparer are those of the keyspace
	MemTableSize int64
	TTL          uint64 // seconds
	Filter       *base.CompactionFilter
}

// Tune changes limits and how what is written from now on looks. One call at a time. If it fails
// nothing has changed.
func (db *DB) Tune(t Tuning, of func(*Keyspace) KeyspaceTuning) error {
	if !db.cache.Ref() {
		return base.ErrDatabaseClosed
	}
	defer db.cache.Unref()
	spaces := db.spaces.live()
	tunings := make([]KeyspaceTuning, len(spaces))
	for i, k := range spaces {
		tunings[i] = of(k)
		if err := k.mayTune(&tunings[i]); err != nil {
			return err
		}
	}
	if t.CacheSize >= 0 && !db.cache.SetCapacity(t.CacheSize) {
		return base.Invalidf("option cache_size = %d: the cache was made for less, more needs a "+
			"reopen", t.CacheSize)
	}
	db.jobs.SetLimits(t.Limits)
	db.shared.Files.SetMaxOpenFiles(t.MaxOpenFiles)
	for i, k := range spaces {
		k.tune(tunings[i])
	}
	return nil
}

// TuneKeyspace changes how what is written from now on looks in one keyspace.
func (db *DB) TuneKeyspace(id base.KeyspaceID, of func(*Keyspace) KeyspaceTuning) error {
	k := db.keyspaceByID(id)
	if k == nil {
		return fmt.Errorf("%w: number %d", base.ErrNoKeyspace, id)
	}
	t := of(k)
	if err := k.mayTune(&t); err != nil {
		return err
	}
	k.tune(t)
	return nil
}

func (k *Keyspace) mayTune(t *KeyspaceTuning) error {
	if t.TTL > 0 && !k.db.Native() {
		return base.NeedsNative("a time to live")
	}
	return nil
}

func (k *Keyspace) tune(t KeyspaceTuning) {
	t.Tables.Format, t.Tables.Comparer = k.db.opts.Format, k.Comparer()
	k.Tree.SetTables(t.Tables)
	k.Tree.SetMemTableSize(t.MemTableSize)
	k.Tree.SetFilter(t.Filter)
	_ = k.SetTTL(t.TTL) // the format was checked
}
