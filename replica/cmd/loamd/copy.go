package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
)

// backup copies one state of the cluster into a new database, which has its name when it is whole.
func backup(c *caller) (err error) {
	dir := filepath.Clean(c.args[0])
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, lsm.ErrExists)
	}
	partial := dir + ".partial"
	if err := cleared(partial); err != nil {
		return err
	}
	snap, err := c.db.Snapshot(c.ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	it, err := snap.Iter(c.ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	db, err := lsm.Open(partial, nil)
	if err != nil {
		return err
	}
	n := 0
	err = db.BulkLoad(c.ctx, all(it, &n), nil)
	if err = errors.Join(err, it.Err(), db.Close()); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s has %d keys\n", dir, n)
	return err
}

// cleared removes what a backup that was interrupted left, and nothing but files of a database. It
// fails with lsm.ErrLocked beside another backup of that name.
func cleared(partial string) error {
	info, err := os.Lstat(partial)
	if err == nil && info.IsDir() { // a link may lead to somebody's database
		if err := lsm.Destroy(partial, nil); err != nil {
			return err
		}
		_ = os.Remove(partial) // an empty one, in which there was no database yet
		_, err = os.Lstat(partial)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s is not what a backup left; move it away, or choose another name: %w",
		partial, lsm.ErrExists)
}

// all are the entries of an iterator, which it counts.
func all(it kv.Iterator, n *int) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok; ok = it.Next() {
			if *n++; !yield(it.Key(), it.Value()) {
				return
			}
		}
	}
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

const (
	// restoreBatch is the size of the batches of restore in bytes, and restoring how many are under
	// way at once.
	restoreBatch = 256 << 10
	restoring    = 4
	// largestEntry leaves room for what a change has beside a key and its value.
	largestEntry = client.MaxChange - 256
)

// nodeKeyspace is the keyspace of a checkpoint with what its node stored, which is not restored.
const nodeKeyspace = "loam.replica"

// restorable fails where a cluster cannot hold all that a database has.
func restorable(db *lsm.DB) (err error) {
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		if err != nil {
			return err
		}
		it := k.Iter(nil)
		for ok := it.First(); ok && err == nil && name != nodeKeyspace; ok = it.Next() {
			if name != "default" {
				err = fmt.Errorf("the keyspace %q has entries, and a cluster has no keyspaces: %w",
					name, lsm.ErrInvalidArgument)
				break
			}
			if n := len(it.Key()) + len(it.Value()); n > largestEntry {
				err = fmt.Errorf("the key %.40q and its value have %d bytes, and in a cluster at "+
					"most %d go: %w", it.Key(), n, largestEntry, lsm.ErrInvalidArgument)
				break
			}
			_, expires, failed := k.TTL(it.Key())
			if err = failed; expires || errors.Is(err, lsm.ErrNotFound) { // it has expired since
				err = fmt.Errorf("the value of the key %.40q expires, and in a cluster none does: "+
					"%w", it.Key(), lsm.ErrInvalidArgument)
			}
		}
		if err = errors.Join(err, it.Close()); err != nil {
			return err
		}
	}
	return nil
}

// restore writes what a database has into a cluster that has nothing. Batches have idempotency
// keys, so that the loss of a leader does not end it.
func restore(c *caller) (err error) {
	db, err := lsm.Open(c.args[0], &lsm.Options{ReadOnly: true, ErrorIfMissing: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := restorable(db); err != nil {
		return err
	}
	it, err := c.db.Iter(c.ctx, &kv.IterOptions{KeysOnly: true})
	if err != nil {
		return err
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("the cluster has keys already; restore into an empty one: %w",
			lsm.ErrExists)
	}
	from := db.Iter(nil)
	defer func() { err = errors.Join(err, from.Close()) }()
	n, err := c.write(from)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "restored %d keys\n", n)
	return err
}

// write writes all entries of an iterator.
func (c *caller) write(from *lsm.Iterator) (n int, err error) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	once := "restore " + hex.EncodeToString(id[:])
	var writers sync.WaitGroup
	free := make(chan struct{}, restoring)
	batch, number := kv.NewBatch(), 0
	send := func() {
		b, key := batch, fmt.Sprint(once, " ", number)
		batch = kv.NewBatch()
		number++
		free <- struct{}{}
		writers.Go(func() {
			if err := c.db.Once(key).Write(ctx, b); err != nil {
				cancel(err)
			}
			<-free
		})
	}
	for ok := from.First(); ok && ctx.Err() == nil; ok = from.Next() {
		if batch.Count() > 0 &&
			len(batch.Bytes())+len(from.Key())+len(from.Value()) > restoreBatch {
			send()
		}
		batch.Put(from.Key(), from.Value())
		n++
	}
	if batch.Count() > 0 {
		send()
	}
	writers.Wait()
	if err := context.Cause(ctx); err != nil {
		return n, fmt.Errorf("the cluster has a part of the keys: %w", err)
	}
	return n, from.Err()
}
