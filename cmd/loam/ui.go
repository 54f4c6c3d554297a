package main

import (
	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/ui"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

func (a *app) uiVerb() *cobra.Command {
	o := ui.Options{Out: a.out, Hint: hint}
	c := &cobra.Command{Use: "ui DIR", Short: "Show a database in a browser, live", Long: ui.Help,
		Example: "  loam ui db\n  loam ui --port 8080 db\n  loam ui --write db",
		Args:    cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c)
			defer stop()
			forced, err := a.forcedComparer()
			if err != nil {
				return err
			}
			o.Comparer = (*base.Comparer)(forced)
			o.FS = a.files(args[0])
			o.Options = func() (*lsm.Options, error) { return a.options(args[0]) }
			return ui.Run(ctx, args[0], o)
		}}
	c.Flags().IntVar(&o.Port, "port", 0, "port of 127.0.0.1; 0: any that is free")
	c.Flags().BoolVar(&o.Write, "write", false, "offer flush, compact and checkpoint")
	return c
}
