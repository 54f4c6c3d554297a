package callbacks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// Call is a call that a callback makes.
type Call struct {
	Name string
	// for background work or for other writes: a callback that these wait for must not make it
	Waits bool
	run   func(db *lsm.DB) error
}

// Calls are those of a database that its callbacks try. They leave the database open, save the
// last.
var Calls = []Call{
	{"Get", false, func(db *lsm.DB) error { _, err := db.Get([]byte("other"), nil); return err }},
	{"Has", false, func(db *lsm.DB) error { _, err := db.Has([]byte("other")); return err }},
	{"Iter", false, func(db *lsm.DB) error {
		it := db.Iter(nil)
		it.SeekGE([]byte("k"))
		return errors.Join(it.Err(), it.Close())
	}},
	{"Snapshot", false, func(db *lsm.DB) error { return db.Snapshot().Close() }},
	{"Metrics", false, func(db *lsm.DB) error { db.Metrics(); return nil }},
	{"PauseCompaction", false, func(db *lsm.DB) error {
		db.PauseCompaction()
		db.ResumeCompaction()
		return nil
	}},
	{"Flush", true, (*lsm.DB).Flush},
	{"CompactRange", true, func(db *lsm.DB) error { return db.CompactRange(nil, nil) }},
	{"Checkpoint", true, func(db *lsm.DB) error {
		return db.Checkpoint(context.Background(), "checkpoint")
	}},
	{"Keyspace", true, func(db *lsm.DB) error { _, err := db.Keyspace("made", nil); return err }},
	{"DropKeyspace", true, func(db *lsm.DB) error {
		if err := db.DropKeyspace("made"); !errors.Is(err, lsm.ErrNoKeyspace) {
			return err
		}
		return nil
	}},
	{"BulkLoad", true, func(db *lsm.DB) error {
		return db.BulkLoad(context.Background(), func(func(k, v []byte) bool) {}, nil)
	}},
	{"Close", true, (*lsm.DB).Close},
}

// Asked are the callbacks that make calls: those that the database waits for, and those that it
// does not wait for.
var Asked = []Plug{Merge, Filter, Listener, Logger}

// Try has a callback of a database make a call once, and returns what it answered, and whether it
// was made.
func Try(p Plug, c Call) (answer error, made bool, err error) {
	var db atomic.Pointer[lsm.DB]
	var once atomic.Bool
	answered := make(chan error, 1)
	call := func(of Plug) {
		if d := db.Load(); of == p && d != nil && !once.Swap(true) {
			answered <- c.run(d)
		}
	}
	operator := last(func() { call(Merge) })
	full := operator.Full
	operator.Full = func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
		if string(key) == "bad" {
			return nil, errors.New("for the logger to be told")
		}
		return full(dst, key, existing, operands)
	}
	o := &lsm.Options{
		FS: vfs.NewMem(), MergeOperator: operator,
		CompactionFilter: &lsm.CompactionFilter{Name: "calls",
			Filter: func(int, []byte, []byte) (lsm.FilterDecision, error) {
				call(Filter)
				return lsm.FilterKeep, nil
			}},
		Events: &lsm.EventListener{FlushEnd: func(lsm.FlushInfo) { call(Listener) }},
		Logger: slog.New(logger{slog.DiscardHandler, func() { call(Logger) }}),
	}
	d, err := lsm.Open(dir, o)
	if err != nil {
		return nil, false, err
	}
	err = errors.Join(d.Put([]byte("other"), nil, lsm.NoSync), d.Put([]byte("k"), nil, lsm.NoSync))
	db.Store(d)
	for i := range 3 {
		if err := errors.Join(d.Merge([]byte("k"), fmt.Append(nil, i), lsm.NoSync),
			d.Merge([]byte("bad"), nil, lsm.NoSync)); err != nil {
			return nil, false, err
		}
	}
	_, gerr := d.Get([]byte("k"), nil)
	for _, e := range []error{err, gerr, d.Flush(), d.CompactRange(nil, nil)} {
		if e != nil && !errors.Is(e, lsm.ErrClosed) {
			return nil, false, e
		}
	}
	if err := d.Close(); err != nil && !errors.Is(err, lsm.ErrClosed) {
		return nil, false, err
	}
	if !once.Load() { // none is called after Close
		return nil, false, nil
	}
	return <-answered, true, nil
}

// logger calls before it discards a record.
type logger struct {
	slog.Handler
	call func()
}

func (l logger) Enabled(context.Context, slog.Level) bool { return true }

func (l logger) Handle(context.Context, slog.Record) error {
	l.call()
	return nil
}
