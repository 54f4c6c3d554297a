package txn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// A commit is checked in two steps, so that those of other transactions wait as little as possible:
//
//  1. On the caller's goroutine, beside other commits: is there a newer entry of what the
//     transaction wrote and read? This step may read tables. A range that it deleted counts
//     as one that it read.
//
//  2. By the commit leader, the only writer: did one come since the first step? That
//     takes a look at the memtable for each key, whose cache lines the first step has
//     just read, and for ranges one at each entry written in between. If nothing was
//     written in between, there is nothing to do.
//
// The second step does no I/O. If a flush or a compaction has taken away what it would
// look at, the first is repeated; from the fourth time on the leader waits for the disk.

// maxTries is how often the first step is repeated.
const maxTries = 3

// errAgain is the second step's wish for another first one.
var errAgain = errors.New("the check needs I/O")

// check is the condition of a commit.
type check struct {
	tx     *Txn
	unions []Union // the ranges that were read or deleted
	seen   base.SeqNum
	places []tree.Place // of unions, when the first step began
	wait   bool         // the second step may do I/O
}

// Commit makes the writes visible together, or none of them, and ends the transaction.
func (tx *Txn) Commit(mode write.Mode) (err error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.over != nil {
		return tx.over
	}
	defer tx.end()
	defer tx.catch(&err)
	err = tx.commit(mode)
	switch {
	case err == nil:
		tx.m.committed.Add(1)
	case errors.Is(err, ErrConflict):
		tx.m.conflicts.Add(1)
	}
	return err
}

func (tx *Txn) commit(mode write.Mode) error {
	written := tx.batch != nil && tx.batch.Count() > 0
	if !written && !tx.pinned {
		return nil // what it read is one state of the database
	}
	c := &tx.check
	c.tx = tx
	if written {
		tx.batch.eachRange(tx.reads.addRange)
	}
	c.unions = tx.reads.Union(func(id base.KeyspaceID) *base.Comparer {
		return tx.keyspace(id).Comparer()
	})
	if !written {
		return c.validate()
	}
	if err := tx.checkSpaces(); err != nil {
		return err
	}
	repr := tx.batch.Bytes()
	if tx.resolve {
		var err error
		if repr, err = tx.m.db.Resolve(repr, snapshotValues{tx}); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		if err := c.validate(); err != nil {
			return err
		}
		c.wait = try >= maxTries
		if err := tx.m.db.Commit(repr, mode, c); !errors.Is(err, errAgain) {
			if err == nil {
				tx.batch.eachRange(func(id base.KeyspaceID, start, limit []byte) {
					tx.keyspace(id).RangeDeleted(start, limit)
				})
			}
			return err
		}
	}
}

// keyspace is the noted keyspace with an ID.
func (tx *Txn) keyspace(id base.KeyspaceID) Keyspace {
	for _, k := range tx.spaces {
		if k.ID() == id {
			return k
		}
	}
	return nil
}

// checkSpaces says why the keyspaces that were written take no writes any more, or nil.
func (tx *Txn) checkSpaces() error {
	for _, s := range tx.batch.spaces[:tx.batch.used] {
		if s.empty() {
			continue // all was rolled back
		}
		if err := tx.keyspace(s.id).Writable(); err != nil {
			return err
		}
	}
	return nil
}

// checkDropped returns an error if a keyspace that was read has been dropped since: dropping one
// is no entry in it.
func (c *check) checkDropped() error {
	for _, k := range c.tx.spaces {
		if k.ID() == base.DefaultKeyspace || !c.hasRead(k.ID()) {
			continue
		}
		if _, err := k.Reads().Place(); err != nil {
			return err
		}
	}
	return nil
}

// hasRead reports whether the commit depends on what was read of a keyspace.
func (c *check) hasRead(id base.KeyspaceID) (found bool) {
	c.tx.reads.Keys(func(of base.KeyspaceID, _ []byte, _ base.SeqNum) bool {
		found = of == id
		return !found
	})
	return found || slices.ContainsFunc(c.unions, func(u Union) bool { return u.ID == id })
}

// validate is the first step.
func (c *check) validate() error {
	if err := c.checkDropped(); err != nil {
		return err
	}
	c.places = c.places[:0]
	for _, u := range c.unions {
		p, err := c.tx.keyspace(u.ID).Reads().Place()
		if err != nil {
			return err
		}
		c.places = append(c.places, p)
	}
	c.seen = c.tx.m.db.Sequences().Visible()
	if c.seen != c.tx.begin.Seq() {
		if err := c.checkKeys(0, 0); err != nil {
			return err
		}
	}
	for i := range c.unions {
		if err := c.checkRanges(&c.unions[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkKeys looks for newer entries of the keys, of which those up to seen are known.
func (c *check) checkKeys(seen base.SeqNum, flags sstable.ReadFlags) (err error) {
	tx := c.tx
	newer := func(id base.KeyspaceID, key []byte, since base.SeqNum) bool {
		k := tx.keyspace(id)
		var found bool
		if found, err = k.Reads().Newer(key, max(since, seen), flags); found {
			err = tx.conflict(k, key)
		}
		return err == nil
	}
	if !tx.o.Lock && !tx.blind && tx.batch != nil { // else they are among those that were read
		for it := batchrepr.Read(tx.batch.Bytes()); ; {
			id, kind, key, _, ok := it.Next()
			if !ok {
				break
			}
			if kind.IsPoint() && !newer(id, key, tx.begin.Seq()) {
				return err
			}
		}
	}
	tx.reads.Keys(newer)
	return err
}

// checkRanges looks for newer entries in ranges.
func (c *check) checkRanges(u *Union) error {
	k := c.tx.keyspace(u.ID)
	for i := range u.Ranges {
		r := &u.Ranges[i]
		key, err := k.Reads().NewerIn(r.Lower, r.Upper, r.Inclusive, c.tx.snap.Seq())
		if key != nil {
			err = c.tx.conflict(k, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Holds is the second step.
func (c *check) Holds(last base.SeqNum) error {
	if err := c.checkDropped(); err != nil {
		return err
	}
	if last == c.seen {
		return nil
	}
	flags := sstable.MemoryOnly
	if c.wait {
		flags = 0
	}
	if err := c.checkKeys(c.seen, flags); err != nil {
		return again(err)
	}
	for i := range c.unions {
		u := &c.unions[i]
		k := c.tx.keyspace(u.ID)
		var conflict error
		ok := k.Reads().WrittenSince(c.places[i], c.seen, func(key []byte) bool {
			if u.Holds(k.Comparer(), key) {
				conflict = c.tx.conflict(k, key)
			}
			return conflict == nil
		}, func(start, limit []byte) bool {
			if u.meets(k.Comparer(), start, limit) {
				conflict = c.tx.conflict(k, start)
			}
			return conflict == nil
		})
		if !ok && c.wait {
			conflict = c.checkRanges(u)
		} else if !ok {
			conflict = errAgain
		}
		if conflict != nil {
			return conflict
		}
	}
	return nil
}

func again(err error) error {
	if errors.Is(err, base.ErrWouldBlock) {
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}
