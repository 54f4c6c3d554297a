package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/top"
	"github.com/loamdb/loam/lsm"
)

func (a *app) topVerb() *cobra.Command {
	o := top.Options{Every: time.Second, In: a.in, Out: a.out, Width: a.screen.width}
	c := &cobra.Command{Use: "top DIR", Short: "Watch a database while a process uses it",
		Long: top.Help, Example: "  loam top db\n  loam top --json --interval 10s db",
		Args: cobra.ExactArgs(1), RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c)
			defer stop()
			o.Keyspace, o.JSON, o.Once = a.keyspace, a.json, o.Once || !a.screen.out && !a.json
			o.FS = a.files(args[0])
			o.Options = func() (*lsm.Options, error) { return a.options(args[0]) }
			return top.Run(ctx, args[0], o)
		}}
	a.keyspaceFlag(c)
	c.Flags().BoolVar(&o.Once, "once", false, "one view, without rates, then end")
	c.Flags().DurationVar(&o.Every, "interval", o.Every, "time between two views, 100ms or more")
	return c
}
