package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/damage"
	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/facts"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
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
			format, _, err := a.kindOf(args[0], base.FileManifest, cmd.Name())
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			w := &walPrinter{a: a, ctx: ctx}
			err = examine.ReadManifest(a.files(filepath.Dir(args[0])), args[0], format,
				func(x examine.ManifestEdit) error {
					if err := ctx.Err(); err != nil {
						return err
					}
					if c := x.Damage; c != nil {
						w.damaged(damage.Part{File: c.File, Offset: c.Offset, Length: c.Length,
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
	return a.printf("%s", l.Text())
}
