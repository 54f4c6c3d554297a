package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/top"
	"github.com/loamdb/loam/lsm"
)

// topVerb shows a running database.
func (a *app) topVerb() *cobra.Command {
	once, every := false, time.Second
	c := &cobra.Command{
		Use:   "top DIR",
		Short: "Watch a database while a process uses it",
		Long: "Top shows throughput, levels, stalls, the cache and the last events of a database " +
			"that a\nprocess has open with Options.Inspect or LOAM_INSPECT=1. Of others it shows " +
			"what a\nfollower can read. q ends it. Where output is no terminal, it prints one " +
			"view.\n\ndocs/observe.md explains what it shows.",
		Example: "  loam top db\n  loam top --once db\n  loam top --json --interval 10s db",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if every < 100*time.Millisecond {
				return usagef("--interval must be 100ms or more")
			}
			ctx, stop := interruptible(c)
			defer stop()
			return top.Run(ctx, args[0], top.Options{Keyspace: a.keyspace, Every: every,
				Once: once || !a.screen.out && !a.json, JSON: a.json, In: a.in, Out: a.out,
				Width:   a.screen.width,
				Options: func() (*lsm.Options, error) { return a.options(args[0]) }})
		},
	}
	a.keyspaceFlag(c)
	c.Flags().BoolVar(&once, "once", false, "one view, without rates, then end")
	c.Flags().DurationVar(&every, "interval", every, "time between two views")
	return c
}
