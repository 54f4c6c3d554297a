package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/lsm"
)

func (a *app) manifestVerb() *cobra.Command {
	var e encode.Flags
	c := &cobra.Command{
		Use:   "manifest FILE",
		Short: "Show a MANIFEST: every edit by offset",
		Long: "Show every edit of a MANIFEST: what it adds to the levels, what it deletes, and " +
			"the numbers that\nit sets. A torn end is told and is no damage; damage is exit code " +
			"1.",
		Example: "  loam manifest trees/000008.manifest\n  loam manifest " +
			"leveldb/MANIFEST-000006\n" +
			"  loam manifest --json trees/000008.manifest",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.Parse(); err != nil {
				return err
			}
			format, _, err := a.kindOf(args[0], base.FileManifest)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			w := &walPrinter{a: a, ctx: ctx}
			err = examine.ReadManifest(lsm.OSFS(), args[0], format,
				func(x examine.ManifestEdit) error {
					if err := ctx.Err(); err != nil {
						return err
					}
					if c := x.Damage; c != nil {
						w.damaged(damage{File: c.File, Offset: c.Offset, Length: c.Length,
							Kind: c.Kind, Reason: c.Reason}, x.Tail)
						return nil
					}
					return a.printEdit(&x, e.Key)
				})
			if err != nil {
				return err
			}
			return w.end()
		},
	}
	e.Register(c.Flags())
	return c
}

func (a *app) printEdit(x *examine.ManifestEdit, as encode.Encoding) error {
	l := facts.EditOf(x, as)
	if a.json {
		return a.printJSON(l)
	}
	var parts []string
	add := func(format string, args ...any) {
		parts = append(parts, fmt.Sprintf(format, args...))
	}
	if l.FormatVersion > 0 {
		add("format version %d", l.FormatVersion)
	}
	if l.Keyspace > 0 {
		add("keyspace %d", l.Keyspace)
	}
	if l.NewKeyspace != "" {
		add("new keyspace %s", encode.Escape([]byte(l.NewKeyspace)))
	}
	if l.DropKeyspace {
		add("drop keyspace")
	}
	if l.Comparer != nil {
		add("comparer %s", encode.Escape([]byte(*l.Comparer)))
	}
	if l.DurableLog > 0 {
		add("durable up to %d of log %d", l.DurableEnd, l.DurableLog)
	}
	if l.Clock > 0 {
		add("clock %d", l.Clock)
	}
	if l.MergeOperator != "" {
		add("merge operator %s", encode.Escape([]byte(l.MergeOperator)))
	}
	for _, n := range []struct {
		name string
		of   *uint64
	}{{"log", l.Log}, {"first log", l.FirstLog}, {"next file", l.NextFile},
		{"last sequence", l.LastSequence}} {
		if n.of != nil {
			add("%s %d", n.name, *n.of)
		}
	}
	if err := a.printf("%d\t%s\n", l.Offset, strings.Join(parts, ", ")); err != nil {
		return err
	}
	for _, t := range l.Deleted {
		if err := a.printf("\t- L%d %06d\n", t.Level, t.Number); err != nil {
			return err
		}
	}
	for _, t := range l.Added {
		if err := a.printf("\t+ L%d %06d  %s  %s .. %s\n", t.Level, t.Number,
			text.Bytes(*t.Bytes), *t.Smallest, *t.Largest); err != nil {
			return err
		}
	}
	return nil
}
