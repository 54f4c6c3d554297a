package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

func (a *app) getVerb() *cobra.Command {
	var e encode.Flags
	c := &cobra.Command{
		Use:   "get DIR KEY...",
		Short: "Print the values of keys",
		Long: "Print the values of keys. On a terminal a value is text; to a pipe one value goes " +
			"as it is,\nwithout a newline, and several go as lines of text. A key without a " +
			"value is exit code 1.\n\nText has backslash escapes: \\x00 is a zero byte, \\\\ a " +
			"backslash.",
		Example: "  loam get trees ash\n  loam get --as hex trees 6173 6174\n" +
			"  loam get --json trees ash elm\n  loam get photos cat.jpg > cat.jpg",
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := e.Parse(); err != nil {
				return err
			}
			return a.inKeyspace(args[0], func(_ *database, k *lsm.Keyspace) error {
				return a.get(k, &e, args[1:])
			})
		},
	}
	e.Register(c.Flags())
	a.keyspaceFlag(c)
	a.snapshotFlag(c)
	return c
}

func (a *app) get(k *lsm.Keyspace, e *encode.Flags, args []string) error {
	missing := 0
	for _, arg := range args {
		key, err := e.Key.Decode(arg)
		if err != nil {
			return err
		}
		value, err := k.Get(key, nil)
		switch {
		case errors.Is(err, lsm.ErrNotFound):
			missing++
			fmt.Fprintf(a.err, "loam: %s: no value\n", e.Key.Format(key))
			continue
		case err != nil:
			return err
		case a.json:
			err = a.printEntry(e, key, value)
		case len(args) > 1:
			err = a.printf("%s\t%s\n", e.Key.Format(key), e.Value.Format(value))
		case a.screen.out || a.inShell || e.Value != encode.Text:
			err = a.printf("%s\n", e.Value.Format(value))
		default:
			_, err = a.out.Write(value)
		}
		if err != nil {
			return err
		}
	}
	if missing > 0 {
		return &problem{}
	}
	return nil
}

// printEntry writes an entry as a line of JSON.
func (a *app) printEntry(e *encode.Flags, key, value []byte) error {
	b := e.Key.AppendField([]byte{'{'}, "key", key)
	b = e.Value.AppendField(append(b, ','), "value", value)
	_, err := a.out.Write(append(b, '}', '\n'))
	return err
}

func (a *app) putVerb() *cobra.Command {
	var e encode.Flags
	var create, leveldb bool
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "put DIR KEY [VALUE]",
		Short: "Write the value of a key",
		Long: "Write the value of a key, durably. Without VALUE the value is what standard input " +
			"has.",
		Example: "  loam put trees ash Fraxinus\n  loam put --create trees ash Fraxinus\n" +
			"  loam put photos cat.jpg < cat.jpg\n  loam put --ttl 24h sessions 17 open",
		Args: cobra.RangeArgs(2, 3),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := e.Parse(); err != nil {
				return err
			}
			key, err := e.Key.Decode(args[1])
			if err != nil {
				return err
			}
			var value []byte
			if len(args) == 3 {
				value, err = e.Value.Decode(args[2])
			} else {
				value, err = io.ReadAll(a.in)
			}
			if err != nil {
				return err
			}
			db, err := a.openOrCreate(args[0], create, leveldb)
			if err != nil {
				return err
			}
			k, err := a.spaceOf(db, create)
			switch {
			case err != nil:
			case ttl != 0:
				err = k.PutTTL(key, value, ttl, lsm.Sync)
			default:
				err = k.Put(key, value, lsm.Sync)
			}
			return errors.Join(err, db.Close())
		},
	}
	e.Register(c.Flags())
	a.keyspaceFlag(c)
	c.Flags().BoolVar(&create, "create", false, "make the database and the keyspace if missing")
	c.Flags().BoolVar(&leveldb, "leveldb", false, "with --create: in LevelDB's format")
	c.Flags().DurationVar(&ttl, "ttl", 0, "how long the value lives; 0: for ever")
	return c
}

// openOrCreate is openWrite. With create it makes a missing database, with leveldb in LevelDB's
// format; one that is there must have that format then.
func (a *app) openOrCreate(dir string, create, leveldb bool) (*lsm.DB, error) {
	if d, err := a.examined(dir); err == nil && leveldb && d.Format != base.LevelDB {
		return nil, usagef("the database in %s has the native format, and --leveldb asks for "+
			"LevelDB's: loam convert makes a copy in it", dir)
	}
	db, err := a.openWrite(dir)
	if err == nil || !create || !errors.Is(err, lsm.ErrDoesNotExist) {
		return db, err
	}
	o := &lsm.Options{Encryption: a.keys}
	if leveldb {
		o.Format = lsm.FormatLevelDB
	}
	if c, err := a.forcedComparer(); c != nil || err != nil {
		if err != nil {
			return nil, err
		}
		o.Comparer = c
	}
	return lsm.Open(dir, o)
}

// bounds are the flags that choose a range of keys.
type bounds struct {
	from, to, prefix string
	changed          func(flag string) bool // whether it was given
}

func (b *bounds) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.from, "from", "", "first key")
	f.StringVar(&b.to, "to", "", "end of the range: the first key that is not in it")
	f.StringVar(&b.prefix, "prefix", "", "keys that begin with this")
	b.changed = f.Changed
}

func (b *bounds) any() bool { return b.from != "" || b.to != "" || b.prefix != "" }

// iter are the bounds of an iterator; nil for none.
func (b *bounds) iter(as encode.Encoding) (o lsm.IterOptions, err error) {
	for _, x := range []struct {
		given bool
		flag  string
		to    *[]byte
	}{{b.from != "", b.from, &o.Lower}, {b.changed("to"), b.to, &o.Upper},
		{b.prefix != "", b.prefix, &o.Prefix}} { // no key is before an empty end
		if x.given {
			if *x.to, err = as.Decode(x.flag); err != nil {
				return o, err
			}
		}
	}
	o.NoFillCache = true
	return o, nil
}

func (a *app) delVerb() *cobra.Command {
	var e encode.Flags
	var b bounds
	c := &cobra.Command{
		Use:   "del DIR [KEY...]",
		Short: "Delete keys, or a range of keys",
		Long: "Delete keys, or the keys of a range, durably: each key of a range gets a " +
			"tombstone.",
		Example: "  loam del trees ash elm\n  loam del --prefix tmp/ trees\n" +
			"  loam del --from 2019 --to 2020 events",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) > 1) == b.any() {
				return usagef("del needs keys, or a range: --from, --to or --prefix")
			}
			if err := e.Parse(); err != nil {
				return err
			}
			db, err := a.openWrite(args[0])
			if err != nil {
				return err
			}
			k, err := a.spaceOf(db, false)
			if err == nil {
				err = a.del(cmd, k, &e, &b, args[1:])
			}
			return errors.Join(err, db.Close())
		},
	}
	e.Register(c.Flags())
	b.flags(c)
	a.keyspaceFlag(c)
	return c
}

func (a *app) del(cmd *cobra.Command, k *lsm.Keyspace, e *encode.Flags, b *bounds,
	keys []string) error {
	batch := k.NewBatch()
	for _, arg := range keys {
		key, err := e.Key.Decode(arg)
		if err != nil {
			return err
		}
		batch.Delete(key)
	}
	if len(keys) > 0 {
		return k.Write(batch, lsm.Sync)
	}
	o, err := b.iter(e.Key)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	o.KeysOnly = true
	it := k.Iter(&o)
	n := 0
	const batchBytes = 1 << 20
	for ok := it.First(); ok; ok = it.Next() {
		batch.Delete(it.Key())
		n++
		if batch.Size() >= batchBytes {
			if err := errors.Join(ctx.Err(), k.Write(batch, lsm.NoSync)); err != nil {
				return errors.Join(err, it.Close())
			}
			batch.Clear()
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	if err := k.Write(batch, lsm.Sync); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]int{"deleted": n})
	}
	return a.printf("%s deleted\n", text.Plural(n, "key"))
}
