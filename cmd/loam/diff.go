package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

func (a *app) diffVerb() *cobra.Command {
	var e encode.Flags
	var b bounds
	var brief bool
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Print the keys that differ between two databases",
		Long: "Compare what reads see in two databases of either format, or backups " +
			"(FOLDER@ID): all keyspaces,\nor the one of --keyspace. Lines begin with - (only in " +
			"A), + (only in B) or ~ (another value).\nExit code 1: they differ.",
		Example: "  loam diff trees trees-before\n  loam diff --brief trees copy\n" +
			"  loam diff --json /backups@3 trees",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.Parse(); err != nil {
				return err
			}
			o, err := b.iter(e.Key)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			x, err := a.openRead(args[0])
			if err != nil {
				return err
			}
			defer x.Close()
			y, err := a.openRead(args[1])
			if err != nil {
				return err
			}
			defer y.Close()
			names := []string{a.keyspace}
			if !cmd.Flags().Changed("keyspace") {
				names = append(x.Keyspaces(), y.Keyspaces()...)
				slices.Sort(names)
				names = slices.Compact(names)
			}
			d := &differ{a: a, e: &e, ctx: ctx, brief: brief}
			for _, name := range names {
				if err := d.keyspace(name, x.DB, y.DB, o); err != nil {
					return err
				}
			}
			return d.end()
		},
	}
	e.Register(c.Flags())
	b.flags(c)
	a.keyspaceFlag(c)
	c.Flags().BoolVar(&brief, "brief", false, "only how many keys differ")
	return c
}

// differ prints and counts differences.
type differ struct {
	a     *app
	e     *encode.Flags
	ctx   context.Context
	brief bool

	Removed uint64 `json:"removed"`
	Added   uint64 `json:"added"`
	Changed uint64 `json:"changed"`
	Same    uint64 `json:"same"`
}

// open is an iterator over a keyspace; one that is missing is empty.
func (d *differ) open(db *lsm.DB, name string, o lsm.IterOptions) (it *lsm.Iterator,
	order *lsm.Comparer, err error) {
	k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
	if errors.Is(err, lsm.ErrNoKeyspace) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	it = k.Iter(&o)
	it.First()
	return it, k.Comparer(), it.Err()
}

func (d *differ) keyspace(name string, x, y *lsm.DB, o lsm.IterOptions) error {
	a, orderA, err := d.open(x, name, o)
	if a != nil {
		defer a.Close()
	}
	if err != nil {
		return err
	}
	b, orderB, err := d.open(y, name, o)
	if b != nil {
		defer b.Close()
	}
	if err != nil {
		return err
	}
	switch {
	case orderA == nil && orderB == nil:
		return fmt.Errorf("%w: %q", lsm.ErrNoKeyspace, name)
	case orderA == nil:
		orderA = orderB
	case orderB != nil && orderA.Name != orderB.Name:
		return fmt.Errorf("%w: keyspace %q has the order %q here and %q there",
			lsm.ErrComparerMismatch, name, orderA.Name, orderB.Name)
	}
	return d.merge(name, a, b, orderA)
}

func valid(it *lsm.Iterator) bool { return it != nil && it.Valid() }

// failed is the error of an iterator that ended early: it would have more entries, so that those of
// the other one are no differences.
func failed(it *lsm.Iterator) error {
	if it == nil || it.Valid() {
		return nil
	}
	return it.Err()
}

// merge walks over both sides in step.
func (d *differ) merge(name string, a, b *lsm.Iterator, order *lsm.Comparer) error {
	for n := 0; valid(a) || valid(b); n++ {
		if err := cmp.Or(failed(a), failed(b)); err != nil {
			return err
		}
		const often = 1 << 12
		if n%often == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		c := 0
		switch {
		case !valid(a):
			c = 1
		case !valid(b):
			c = -1
		default:
			c = order.Compare(a.Key(), b.Key())
		}
		var err error
		switch {
		case c < 0:
			d.Removed++
			err = d.print(name, "removed", a.Key(), a.Value(), nil)
			a.Next()
		case c > 0:
			d.Added++
			err = d.print(name, "added", b.Key(), nil, b.Value())
			b.Next()
		default:
			if bytes.Equal(a.Value(), b.Value()) {
				d.Same++
			} else {
				d.Changed++
				err = d.print(name, "changed", a.Key(), a.Value(), b.Value())
			}
			a.Next()
			b.Next()
		}
		if err != nil {
			return err
		}
	}
	return cmp.Or(failed(a), failed(b))
}

func (d *differ) print(name, change string, key, a, b []byte) error {
	if d.brief {
		return nil
	}
	e := d.e
	if d.a.json {
		line := []byte(fmt.Sprintf(`{"change":%q,"keyspace":%s,`, change, encode.Quote(name)))
		line = e.Key.AppendField(line, "key", key)
		if change != "added" {
			line = e.Value.AppendField(append(line, ','), "a_value", a)
		}
		if change != "removed" {
			line = e.Value.AppendField(append(line, ','), "b_value", b)
		}
		_, err := d.a.out.Write(append(line, '}', '\n'))
		return err
	}
	space := ""
	if name != "default" {
		space = encode.Escape([]byte(name)) + ": "
	}
	sign, value := "~", e.Value.Format(a)+" -> "+e.Value.Format(b)
	switch change {
	case "removed":
		sign, value = "-", e.Value.Format(a)
	case "added":
		sign, value = "+", e.Value.Format(b)
	}
	return d.a.printf("%s\n", d.a.cut(sign+" "+space+e.Key.Format(key)+"\t"+value,
		d.a.screen.width))
}

func (d *differ) end() error {
	var err error
	switch {
	case d.a.json && d.brief:
		err = d.a.printJSON(d)
	case d.brief:
		err = d.a.printf("%s only in A, %s only in B, %s changed, %s the same\n",
			text.Count(d.Removed), text.Count(d.Added), text.Count(d.Changed), text.Count(d.Same))
	}
	if err == nil && d.Removed+d.Added+d.Changed > 0 {
		return &problem{}
	}
	return err
}
