package main

import (
	"errors"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

// scanFlags are the flags of scan.
type scanFlags struct {
	encode.Flags
	bounds
	limit    int64
	reverse  bool
	keysOnly bool
	raw      bool
	null     bool
}

func (a *app) scanVerb() *cobra.Command {
	var f scanFlags
	c := &cobra.Command{
		Use:   "scan DIR",
		Short: "Print keys and values in order",
		Long: "Print keys and values in their order. A terminal gets two columns, cut to its " +
			"width; a pipe\ngets lines of key, tab and value, whole, with escapes; --raw writes " +
			"the bytes as they are.",
		Example: "  loam scan trees\n  loam scan --prefix user: --limit 10 app\n  loam scan " +
			"--from b --to d --reverse trees\n  loam scan --json --as hex " +
			"'Default/IndexedDB/https_example.org_0.indexeddb.leveldb'\n  loam scan --keys " +
			"--null trees | xargs -0 -n1 echo",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.Parse(); err != nil {
				return err
			}
			return a.inKeyspace(args[0], func(_ *database, k *lsm.Keyspace) error {
				return a.scan(k, &f)
			})
		},
	}
	f.Flags.Register(c.Flags())
	f.bounds.flags(c)
	a.keyspaceFlag(c)
	a.snapshotFlag(c)
	c.Flags().Int64Var(&f.limit, "limit", 0, "entries at most; 0: all")
	c.Flags().BoolVar(&f.reverse, "reverse", false, "from the last key to the first")
	c.Flags().BoolVar(&f.keysOnly, "keys", false, "keys without values")
	c.Flags().BoolVar(&f.raw, "raw", false, "bytes as they are, without escapes")
	c.Flags().BoolVar(&f.null, "null", false, "raw, with a zero byte behind each key and value")
	return c
}

func (a *app) scan(k *lsm.Keyspace, f *scanFlags) error {
	o, err := f.iter(f.Key)
	if err != nil {
		return err
	}
	o.KeysOnly = f.keysOnly
	print, end := a.printer(f)
	it := k.Iter(&o)
	defer it.Close()
	move, ok := it.Next, false
	if f.reverse {
		move, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	for n := int64(0); ok && (f.limit <= 0 || n < f.limit); n++ {
		if err := print(it.Key(), it.Value()); err != nil {
			return err
		}
		ok = move()
	}
	return errors.Join(it.Err(), end())
}

// printer returns what prints an entry, and what prints the rest at the end.
func (a *app) printer(f *scanFlags) (print func(key, value []byte) error, end func() error) {
	end = func() error { return nil }
	switch {
	case a.json:
		return func(key, value []byte) error {
			if f.keysOnly {
				b := f.Key.AppendField([]byte{'{'}, "key", key)
				_, err := a.out.Write(append(b, '}', '\n'))
				return err
			}
			return a.printEntry(&f.Flags, key, value)
		}, end
	case f.raw || f.null:
		return func(key, value []byte) error { return a.printRaw(f, key, value) }, end
	case a.screen.out:
		c := &columns{a: a, f: f}
		return c.print, c.end
	}
	return func(key, value []byte) error {
		if f.keysOnly {
			return a.printf("%s\n", f.Key.Format(key))
		}
		return a.printf("%s\t%s\n", f.Key.Format(key), f.Value.Format(value))
	}, end
}

func (a *app) printRaw(f *scanFlags, key, value []byte) error {
	between, end := byte('\t'), byte('\n')
	if f.null {
		between, end = 0, 0
	}
	b := append([]byte{}, key...)
	if !f.keysOnly {
		b = append(append(b, between), value...)
	}
	_, err := a.out.Write(append(b, end))
	return err
}

// columns prints entries in two columns on a terminal. The first rows decide how wide the keys are.
type columns struct {
	a     *app
	f     *scanFlags
	rows  [][2]string
	width int // of the keys, once it is decided
}

const (
	firstRows = 200
	// narrow is a terminal in which keys and values have lines of their own.
	narrow = 30
)

func (c *columns) print(key, value []byte) error {
	row := [2]string{c.f.Key.Format(key)}
	if !c.f.keysOnly {
		row[1] = c.f.Value.Format(value)
	}
	if c.width > 0 {
		return c.line(row)
	}
	if c.rows = append(c.rows, row); len(c.rows) < firstRows {
		return nil
	}
	return c.end()
}

// end decides how wide the keys are and prints the rows so far.
func (c *columns) end() error {
	for _, r := range c.rows {
		c.width = max(c.width, utf8.RuneCountInString(r[0]))
	}
	c.width = max(min(c.width, c.a.screen.width/2), 1)
	for _, r := range c.rows {
		if err := c.line(r); err != nil {
			return err
		}
	}
	c.rows = nil
	return nil
}

func (c *columns) line(r [2]string) error {
	a, width := c.a, c.a.screen.width
	switch {
	case c.f.keysOnly:
		return a.printf("%s\n", a.cut(r[0], width))
	case width < narrow:
		return a.printf("%s\n  %s\n", a.cut(r[0], width), a.cut(r[1], width-2))
	}
	key := a.cut(r[0], c.width)
	for range c.width - utf8.RuneCountInString(key) {
		key += " "
	}
	return a.printf("%s  %s\n", key, a.cut(r[1], width-c.width-text.Gap))
}

func (a *app) countVerb() *cobra.Command {
	var e encode.Flags
	var b bounds
	c := &cobra.Command{
		Use:   "count DIR",
		Short: "Count keys and their bytes",
		Long: "Count the keys that reads see, and the bytes of keys and values. All tables of " +
			"the range are read;\n\"loam info\" has the number of entries without that.",
		Example: "  loam count trees\n  loam count --prefix user: app\n" +
			"  loam count --json trees\n  loam count --snapshot 3 /backups",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.Parse(); err != nil {
				return err
			}
			return a.inKeyspace(args[0], func(_ *database, k *lsm.Keyspace) error {
				return a.count(cmd, k, &e, &b)
			})
		},
	}
	e.Register(c.Flags())
	b.flags(c)
	a.keyspaceFlag(c)
	a.snapshotFlag(c)
	return c
}

// counted is the result of count.
type counted struct {
	Keys       uint64 `json:"keys"`
	KeyBytes   uint64 `json:"key_bytes"`
	ValueBytes uint64 `json:"value_bytes"`
}

func (a *app) count(cmd *cobra.Command, k *lsm.Keyspace, e *encode.Flags, b *bounds) error {
	o, err := b.iter(e.Key)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	var n counted
	it := k.Iter(&o)
	defer it.Close()
	p := a.progress("counting", 0)
	defer p.end()
	for ok := it.First(); ok; ok = it.Next() {
		const often = 1 << 12
		if n.Keys%often == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p.at(n.KeyBytes + n.ValueBytes)
		}
		n.Keys++
		n.KeyBytes += uint64(len(it.Key()))
		n.ValueBytes += uint64(len(it.Value()))
	}
	p.end()
	if err := it.Err(); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(n)
	}
	return a.printf("%s, %s of keys, %s of values\n", text.Plural(n.Keys, "key"),
		text.Bytes(n.KeyBytes), text.Bytes(n.ValueBytes))
}
