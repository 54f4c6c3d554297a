package importers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/lsm"
)

// Space is what Convert copied into one keyspace.
type Space struct {
	Name    string `json:"name"`
	Entries uint64 `json:"entries"`
	Bytes   uint64 `json:"bytes"` // of keys and values
	Digest  string `json:"digest"`
	// Expired counts entries of the source whose time was over.
	Expired uint64 `json:"expired,omitempty"`
}

// Report says what Convert copied.
type Report struct {
	Spaces []Space `json:"keyspaces"`
}

// ErrDiffers is wrapped by the error of Convert when the new database, read again, does not hold
// what the source gave.
var ErrDiffers = errors.New("the new database differs from what was read")

// batchSize is how many bytes Convert writes at once.
const batchSize = 1 << 20

// Convert copies all entries of the source into a new native database in the directory to, which
// must not exist, each space into the keyspace of its name. Times to live are kept; entries that
// have expired are left out. Then the new database is read again, and its counts and digests are
// compared with those of the source: a difference is ErrDiffers. progress, if it is not nil, is
// called with the bytes of keys and values that were written so far.
//
// The directory appears when all is well and on the disk: until then its name has the suffix
// ".importing", and a failure removes it. A directory with that name that a killed Convert left,
// which a file IMPORTING in it tells, is replaced.
//
// It fails with lsm.ErrExists when the directory to is there, or another one that has the name with
// the suffix, with lsm.ErrInvalidArgument when to is empty, with ErrUnsupported when the source has
// what Loam cannot hold, with the error of ctx, and with those of the source and of writes.
func Convert(ctx context.Context, from Source, to string, progress func(written uint64)) (
	r Report, err error) {
	if progress == nil {
		progress = func(uint64) {}
	}
	if to == "" {
		return r, fmt.Errorf("%w: the new database has no name", lsm.ErrInvalidArgument)
	}
	to = filepath.Clean(to) // nothing can be renamed to a/.
	if _, err := os.Lstat(to); err == nil {
		return r, fmt.Errorf("%w: %s", lsm.ErrExists, to)
	} else if !errors.Is(err, os.ErrNotExist) {
		return r, err
	}
	stage := to + ".importing"
	if err := destroyed(stage); err != nil {
		return r, err
	}
	if err := os.Mkdir(stage, 0o777); err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, destroyed(stage))
		}
	}()
	if err := os.WriteFile(filepath.Join(stage, mark), nil, 0o666); err != nil {
		return r, err
	}
	c := conversion{ctx: ctx, from: from, progress: progress}
	if err := c.write(stage); err != nil {
		return r, err
	}
	if err := c.verify(stage); err != nil {
		return r, err
	}
	// The lock of the database excludes a second Convert until here. An empty directory that
	// appeared meanwhile is replaced, any other one is an error.
	if err := os.Rename(stage, to); err != nil {
		return r, err
	}
	if err := os.Remove(filepath.Join(to, mark)); err != nil { // to is whole with it, too
		return r, err
	}
	r.Spaces = []Space{} // in JSON a list, also of a source without any
	for _, t := range c.totals {
		r.Spaces = append(r.Spaces, t.space())
	}
	return r, lsm.OSFS().SyncDir(filepath.Dir(to))
}

// mark is a file in the directory of a conversion until that has its name.
const mark = "IMPORTING"

// destroyed removes what an earlier conversion left in dir, and nothing but files of a database.
func destroyed(dir string) error {
	switch info, err := os.Lstat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir(): // a link may lead to somebody's database
		return fmt.Errorf("%w: %s is no directory", lsm.ErrExists, dir)
	}
	// A conversion that was killed at its beginning leaves an empty directory.
	if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
		if err := lsm.Destroy(dir, nil); err != nil {
			return fmt.Errorf("removing %s: %w", dir, err)
		}
		if err := os.Remove(filepath.Join(dir, mark)); err != nil {
			return err
		}
	} else if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		return errors.Join(err, fmt.Errorf("%w: %s is not what a conversion left; move it away, "+
			"or choose another name", lsm.ErrExists, dir))
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// conversion is one call of Convert.
type conversion struct {
	ctx      context.Context
	from     Source
	progress func(uint64)
	totals   []total // of the source, one for each space
	written  uint64
}

// write copies the source into a new database in dir.
func (c *conversion) write(dir string) error {
	db, err := lsm.Open(dir, loamOptions())
	if err != nil {
		return err
	}
	for _, name := range c.from.Spaces() {
		if err := c.copySpace(db, name); err != nil {
			return errors.Join(fmt.Errorf("keyspace %q: %w", name, err), db.Close())
		}
	}
	return db.Close() // which syncs what was written
}

func (c *conversion) copySpace(db *lsm.DB, name string) error {
	k, err := db.Keyspace(name, nil)
	if err != nil {
		return err
	}
	t := total{name: name}
	b := k.NewBatch()
	flush := func() error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		err := k.Write(b, lsm.NoSync)
		b.Clear()
		c.progress(c.written)
		return err
	}
	visit := func(e Entry) error {
		if e.Expires.IsZero() {
			b.Put(e.Key, e.Value)
		} else {
			left := time.Until(e.Expires)
			if left <= 0 {
				t.expired++
				return nil
			}
			b.PutTTL(e.Key, e.Value, left)
		}
		t.add(e)
		c.written += uint64(len(e.Key) + len(e.Value))
		if b.Size() < batchSize {
			return nil
		}
		return flush()
	}
	err = Guard(func() error { return c.from.Each(name, visit) })
	if err == nil {
		err = flush()
	}
	c.totals = append(c.totals, t)
	return err
}
