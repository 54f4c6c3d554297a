package lsm

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// panicCalls are calls on an open database, during which the file system panics.
var panicCalls = map[string]func(db *DB, o *Options) error{
	"create a keyspace": func(db *DB, _ *Options) error {
		_, err := db.Keyspace("new", nil)
		return err
	},
	"drop a keyspace": func(db *DB, _ *Options) error { return db.DropKeyspace("other") },
	"list keys": func(db *DB, _ *Options) error {
		_, err := db.KeysInUse()
		return err
	},
	"read changes": func(db *DB, _ *Options) error {
		c, err := db.Changes(1, nil)
		for ok := true; ok && err == nil; {
			_, ok, err = c.TryNext()
		}
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return err
	},
	"close beside a feed": func(db *DB, _ *Options) error {
		c, err := db.Changes(1, nil)
		if err == nil {
			_, _, err = c.TryNext()
		}
		return errors.Join(err, db.Flush(), db.Close())
	},
	"ingest": func(db *DB, _ *Options) error {
		return db.Ingest(context.Background(), nil, "table")
	},
	"follow": func(_ *DB, o *Options) error {
		f, err := OpenFollower("db", o)
		if err != nil {
			return err
		}
		_, err = f.Lag(context.Background())
		return errors.Join(err, f.CatchUp(context.Background()), f.Close())
	},
}

// TestPanicsInCalls has the file system panic at each of its calls in these: they return an error,
// Close returns, and the next opening finds everything.
func TestPanicsInCalls(t *testing.T) {
	needsNative(t)
	const n = 30
	mem := vfs.NewMem()
	o := &Options{FS: mem, WriteBufferSize: 64 << 10, WALRetentionBytes: 1 << 20}
	db := mustOpen(t, "db", o)
	other, err := db.Keyspace("other", nil)
	must(t, err)
	for i := range n {
		mustPut(t, db, i)
		must(t, other.Put(key(i), value(i), NoSync))
		if i == n/2 {
			mustFlush(t, db)
		}
	}
	mustClose(t, db)
	writeTable(t, "table", &Options{FS: mem}, string(key(n)), string(value(n)))
	for name, call := range panicCalls {
		for at, reached := int64(1), true; reached; at += int64(seed.Scale(3, 1, 1)) {
			o.FS, reached = panicsAt(t, mem, name, at, call)
			db := mustOpen(t, "db", o)
			wantValues(t, db, n)
			mustClose(t, db)
		}
	}
}

// panicsAt has the file system panic at its call at of a call on a copy of a database. It returns
// the copy, and whether there was such a call.
func panicsAt(t *testing.T, from *vfs.Mem, name string, at int64,
	call func(db *DB, o *Options) error) (disk *vfs.Mem, reached bool) {
	disk = from.Clone()
	var calls atomic.Int64
	var armed, planted atomic.Bool
	o := &Options{WriteBufferSize: 64 << 10, WALRetentionBytes: 1 << 20}
	o.FS = vfs.NewFault(disk, func(op vfs.Op) vfs.Outcome {
		if armed.Load() && calls.Add(1) == at {
			planted.Store(true)
			panic(fmt.Sprintf("planted in %s, call %d, %v", name, at, op))
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", o)
	armed.Store(true)
	err := call(db, o)
	armed.Store(false)
	if err != nil && !planted.Load() {
		t.Errorf("%s: %v", name, err)
	}
	_ = db.Close()
	return disk.Clone(), planted.Load() // without a lock that a panic kept
}
