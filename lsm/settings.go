package lsm

import (
	"cmp"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/options"
	"github.com/loamdb/loam/internal/store"
)

// liveOptions are the options of an open database, and of its keyspaces.
type liveOptions = options.Live[Options]

// SetOption changes an option of the open database, by its name in the options table and from text,
// as Options.Set does. The change holds for all keyspaces without a value of their own, for
// memtables, tables and compactions that begin later. Nothing is stored: the next Open goes by its
// Options. docs/options.md lists the options that change. SetOption fails with ErrInvalidArgument
// and ErrClosed; then nothing has changed.
func (db *DB) SetOption(name, value string) error { return db.setOption(options.Root, name, value) }

// SetOption is DB.SetOption for this keyspace alone. OptionDoc.Dynamic of its options is
// "keyspace".
func (k *Keyspace) SetOption(name, value string) error {
	if err := k.space.Gone(); err != nil {
		return err
	}
	return k.root.setOption(k.ID(), name, value)
}

// Option returns the value of an option that is in force, as SetOption takes it. A comparer,
// operator or filter of the caller's own is given by its Name. It fails with ErrInvalidArgument for
// an unknown name, and with ErrClosed.
func (db *DB) Option(name string) (string, error) { return db.option(options.Root, name) }

// Option is DB.Option of this keyspace.
func (k *Keyspace) Option(name string) (string, error) {
	if err := k.space.Gone(); err != nil {
		return "", err
	}
	return k.root.option(k.ID(), name)
}

func (db *DB) option(part uint32, name string) (string, error) {
	if db.engine.Health().Closing.Load() {
		return "", base.ErrDatabaseClosed
	}
	return db.live.Get(part, name)
}

func (db *DB) setOption(part uint32, name, value string) error {
	if db.engine.Health().Closing.Load() {
		return base.ErrDatabaseClosed
	}
	return db.live.Set(part, name, value)
}

// initLive keeps the options of a database that was opened, as they were given.
func (db *DB) initLive(given *Options) {
	db.live = liveOptions{
		Table: optionTable, Complete: (*Options).complete,
		Inherit: func(o *Options, part uint32) {
			if part != 0 {
				o.DefaultTTL, o.CompactionFilter = 0, nil // of the default keyspace alone
			}
		},
		Apply: func(part uint32, of func(part uint32) *Options) error {
			tuning := func(k *store.Keyspace) store.KeyspaceTuning {
				return of(uint32(k.ID())).keyspaceTuning(k)
			}
			if part != options.Root {
				return db.engine.TuneKeyspace(base.KeyspaceID(part), tuning)
			}
			return db.engine.Tune(of(part).tuning(), tuning)
		},
	}
	db.live.Init(*cmp.Or(given, &Options{}))
}

// tuning is what changes for the whole database. o is resolved.
func (o *Options) tuning() store.Tuning {
	t := store.Tuning{Limits: o.limits(), MaxOpenFiles: o.MaxOpenFiles, CacheSize: -1}
	if o.Cache == nil && !o.Resources.inside().Bounded() {
		t.CacheSize = max(o.CacheSize, 0)
	}
	return t
}

// keyspaceTuning is what changes for a keyspace. o is resolved.
func (o *Options) keyspaceTuning(k *store.Keyspace) store.KeyspaceTuning {
	ttl, _ := store.Seconds(o.DefaultTTL)
	return store.KeyspaceTuning{Tables: o.tables(k.Comparer()), MemTableSize: o.WriteBufferSize,
		TTL: ttl, Filter: o.CompactionFilter.inside()}
}
