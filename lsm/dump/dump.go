// Package dump writes all that is in a database as a stream of bytes, and loads such a stream
// into a database: for moves between machines, formats and versions.
//
// A dump is one state of all keyspaces: keys and values as reads see them, the times at which
// values expire, names of comparers and merge operators. It has checksums and an end record, so
// that one that was cut or damaged is an error. docs/dump.md tells how to use it,
// docs/format-dump.md is its format.
package dump

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/transfer"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/lsm"
)

const (
	// blockBytes is the size of a block of a dump from which on it takes no further entry.
	blockBytes = 256 << 10
	// syncBytes is how much is loaded between two syncs: what a crash makes the next Load do again.
	syncBytes = 64 << 20
)

// Progress says how far Write, Load or Verify has come.
type Progress struct {
	// Entries is the number of entries written or read so far.
	Entries uint64
	// Bytes is the sum of the lengths of their keys and values.
	Bytes uint64
	// Offset is the place in the dump, in bytes from its start.
	Offset int64
}

// Info describes a dump.
type Info struct {
	// ID is random, another one for each dump.
	ID [16]byte
	// Created is the time when the dump was begun.
	Created time.Time
	// Sequence is the sequence number of the dumped state in its database.
	Sequence uint64
	// Keyspaces describes the keyspaces: "default" first, the others in the order of their
	// creation.
	Keyspaces []Keyspace
	// Bytes is the sum of the lengths of all keys and values.
	Bytes uint64
	// Size is the length of the dump in bytes.
	Size int64
}

// Keyspace describes a keyspace of a dump.
type Keyspace struct {
	// Name is the name of the keyspace, unique in its database.
	Name string
	// Comparer is the name of the order of its keys.
	Comparer string
	// MergeOperator is the name of its merge operator; empty if it has none. The values in a dump
	// are merged.
	MergeOperator string
	// Expires reports that values of the keyspace may expire.
	Expires bool
	// Entries is the number of keys, each with one value.
	Entries uint64
}

// Options configures Write. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Snapshot is the state to write, of the same database. The default is the present one, in
	// which writes that begin later are not. The keyspaces are those that there are at the call.
	Snapshot *lsm.Snapshot
	// Compression is how blocks are packed. The default is lsm.SnappyCompression.
	Compression lsm.Compression
	// Continue completes a dump that was cut off: w, an *os.File that is open for reading and
	// writing, has what there is of it. It is read, cut behind its last whole block, and goes on
	// from there. The state must be that of its beginning: the same Snapshot, or a database that
	// was not written since; otherwise Write fails with lsm.ErrInvalidArgument and leaves the file
	// as it is. One that is whole stays so; an empty file gets a new dump. The default, false,
	// writes from the beginning, wherever w is.
	Continue bool
	// AllowClear writes the dump of an encrypted database in clear. The default, false, encrypts it
	// with the database's keys; Continue does not work then.
	AllowClear bool
	// Progress is called after each block, about a quarter of a MiB of keys and values. The
	// default is nil.
	Progress func(Progress)
}

// CheckPath fails with lsm.ErrInvalidArgument where a file of that name would lie in db's
// directory, also by way of links: a dump has no place there. It is for programs that open the file
// of a dump, and asked before. It fails with lsm.ErrClosed when the database is closed.
func CheckPath(db *lsm.DB, path string) error {
	if db == nil || path == "" {
		return base.Invalidf("the check of a path needs a database and a path")
	}
	place := db.Inside().Place()
	err := base.Protect(func() error {
		return db.Inside().WhileOpen(func(func() error) error {
			_, err := fileid.Outside(place.FS, path, place.Dir, "the database")
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

// checkFile fails as CheckPath does if w is a regular file that still has the name under which it
// was opened.
func checkFile(db *lsm.DB, w io.Writer) error {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	opened, err := f.Stat()
	if err != nil || !opened.Mode().IsRegular() {
		return nil // the first write reports the error
	}
	named, err := os.Stat(f.Name())
	if err != nil || !os.SameFile(opened, named) {
		return nil
	}
	return CheckPath(db, f.Name())
}

// Write writes a dump of db, which may be open for reading only, to w, and returns what it has.
// Writes to the database go on meanwhile. It fails as iterators do, with w's error, with ctx's when
// ctx is done, with lsm.ErrClosed when the database is closed, and with lsm.ErrInvalidArgument,
// also if w is an *os.File in the database's directory. What is in w then is not a dump: Load
// refuses it. Write does not sync or close w.
func Write(ctx context.Context, db *lsm.DB, w io.Writer, o *Options) (*Info, error) {
	o = cmp.Or(o, &Options{})
	in := transfer.DumpOptions{Codec: block.Snappy, BlockBytes: blockBytes, Continue: o.Continue,
		Progress: told(o.Progress)}
	switch {
	case ctx == nil || db == nil || w == nil:
		return nil, base.Invalidf("a dump needs a context, a database and a writer")
	case o.Compression > lsm.ZstdCompression:
		return nil, base.Invalidf("compression %d of a dump is not known", o.Compression)
	case o.Compression == lsm.NoCompression:
		in.Codec = block.None
	case o.Compression == lsm.ZstdCompression:
		in.Codec = block.Zstd
	}
	if o.Snapshot != nil {
		if in.Snapshot = o.Snapshot.Inside(); in.Snapshot == nil {
			return nil, base.Invalidf("the snapshot is not one of a database")
		}
	}
	if err := checkFile(db, w); err != nil {
		return nil, err
	}
	return result("dump", func() (transfer.Summary, error) {
		keys := seal.KeysOf(db.Inside().Place().FS)
		if keys == nil || o.AllowClear {
			return transfer.Dump(ctx, db.Inside(), w, in)
		}
		return sealed(ctx, db, w, keys, in)
	})
}

// sealed writes an encrypted dump.
func sealed(ctx context.Context, db *lsm.DB, w io.Writer, keys *seal.Keys,
	in transfer.DumpOptions) (s transfer.Summary, err error) {
	if in.Continue {
		return s, base.Invalidf("an encrypted dump cannot be continued: write it from the " +
			"beginning")
	}
	n := &counter{w: w}
	out, err := keys.Stream(n)
	if err != nil {
		return s, err
	}
	if s, err = transfer.Dump(ctx, db.Inside(), out, in); err == nil {
		err = out.Close()
	}
	s.Size = n.bytes
	return s, err
}

// counter counts what is written.
type counter struct {
	w     io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += int64(n)
	return n, err
}

// Decrypt returns the clear dump that the encrypted one in r has, for Verify for instance. A clear
// dump is returned as it is. A damaged or cut one is lsm.ErrCorruption where it is read. Decrypt
// fails with lsm.ErrEncryption if keys lacks the key, and with r's error.
func Decrypt(r io.Reader, keys lsm.KeyProvider) (io.Reader, error) {
	if r == nil || keys == nil {
		return nil, base.Invalidf("Decrypt needs a reader and keys")
	}
	var out io.Reader
	err := base.Protect(func() (err error) {
		out, err = seal.NewKeys(keys, true).OpenStream(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decrypting a dump: %w", err)
	}
	return out, nil
}

// LoadOptions configures Load. A nil *LoadOptions and zero fields mean the defaults.
type LoadOptions struct {
	// Overwrite allows keyspaces of the dump to have entries already: the dump's entries replace
	// present ones under the same keys, and other keys stay. The default, false, fails with
	// lsm.ErrExists.
	Overwrite bool
	// Progress is called after each block. The default is nil.
	Progress func(Progress)
}

// Load writes the entries of the dump that r has into db, and returns what the dump has. Keyspaces
// that are missing are created. When Load returns nil all of it is durable.
//
// Until then the file LOADING in the directory says how far the load came. Call Load again with the
// same dump from its beginning after a failure, a cancel or a crash: it goes on from there. An r
// that is an io.Seeker is sought to the place, else the part before is read. The database has a
// part of the dump meanwhile; do not write into it.
//
// Load fails with lsm.ErrCorruption, which tells the offset, where the dump is damaged or was cut;
// with lsm.ErrNewerFormat; with lsm.ErrEncryption if it is encrypted and db's keys do not open it;
// with lsm.ErrExists, also if the load of another dump was interrupted;
// with lsm.ErrNeedsNative if a database in LevelDB's format cannot hold it; with
// lsm.ErrComparerMismatch; with lsm.ErrBusy beside another Load; with r's error, with ctx's when
// ctx is done, and as writes do. It reads r up to the end of the dump.
func Load(ctx context.Context, db *lsm.DB, r io.Reader, o *LoadOptions) (*Info, error) {
	if ctx == nil || db == nil || r == nil {
		return nil, base.Invalidf("a load needs a context, a database and a reader")
	}
	o = cmp.Or(o, &LoadOptions{})
	in := transfer.LoadOptions{Overwrite: o.Overwrite, SyncBytes: syncBytes,
		Progress: told(o.Progress), Loading: &db.Inside().Loading,
		Open: seal.KeysOf(db.Inside().Place().FS).OpenStream}
	return result("loading a dump", func() (s transfer.Summary, err error) {
		return transfer.Load(ctx, db.Inside(), r, in)
	})
}

// Verify reads the dump that r has, checks all of it, and returns what it has. progress, unless
// nil, is called after each block. It fails as Load does where the dump is damaged or was cut, with
// r's error, and with ctx's when ctx is done. The order of keys is checked where the comparer is a
// built-in one. Decrypt gives it what an encrypted dump has.
func Verify(ctx context.Context, r io.Reader, progress func(Progress)) (*Info, error) {
	if ctx == nil || r == nil {
		return nil, base.Invalidf("a verification needs a context and a reader")
	}
	return result("verifying a dump", func() (s transfer.Summary, err error) {
		if r, err = (*seal.Keys)(nil).OpenStream(r); err != nil { // says that it is encrypted
			return s, err
		}
		return transfer.Verify(ctx, r, told(progress))
	})
}

// told makes the callback of package transfer.
func told(f func(Progress)) func(transfer.Progress) {
	if f == nil {
		return nil
	}
	return func(p transfer.Progress) { f(Progress(p)) }
}

// result runs do, whose panic, of a reader or a callback for instance, is an error.
func result(what string, do func() (transfer.Summary, error)) (*Info, error) {
	var s transfer.Summary
	err := base.Protect(func() (err error) {
		s, err = do()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	info := &Info{ID: s.Header.ID, Created: time.Unix(int64(s.Header.Created), 0),
		Sequence: s.Header.Seq, Bytes: s.Counts.Bytes, Size: s.Size}
	for i, k := range s.Header.Spaces {
		info.Keyspaces = append(info.Keyspaces, Keyspace{k.Name, k.Comparer, k.MergeOperator,
			k.Expires, s.Counts.Entries[i]})
	}
	return info, nil
}
