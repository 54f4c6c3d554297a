package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

func (a *app) compactVerb() *cobra.Command {
	var e encode.Flags
	var b bounds
	c := &cobra.Command{
		Use:   "compact DIR",
		Short: "Merge tables and drop what no read sees",
		Long: "Merge the tables of a range, or of all keyspaces, into as few as possible, and " +
			"drop overwritten\nand deleted entries. Ctrl-C ends it at any time; nothing is lost.",
		Example: "  loam compact trees\n  loam compact --from a --to m trees",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.prefix != "" {
				return usagef("compact takes --from and --to")
			}
			if err := e.Parse(); err != nil {
				return err
			}
			o, err := b.iter(e.Key)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			db, err := a.openWrite(args[0])
			if err != nil {
				return err
			}
			before := db.Metrics().DiskBytes
			err = a.eachKeyspace(cmd, db, func(k *lsm.Keyspace) error {
				return k.CompactRangeContext(ctx, o.Lower, o.Upper)
			})
			after := db.Metrics().DiskBytes
			if err := errors.Join(err, db.Close()); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]uint64{"bytes_before": before, "bytes_after": after})
			}
			return a.printf("%s before, %s now\n", text.Bytes(before), text.Bytes(after))
		},
	}
	e.Register(c.Flags())
	b.flags(c)
	a.keyspaceFlag(c)
	return c
}

func (a *app) flushVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "flush DIR",
		Short: "Write what is in the logs into tables",
		Long: "Open the database, write what its logs have into tables, and close it: the next " +
			"opening replays\nnothing.",
		Example: "  loam flush trees",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := a.openWrite(args[0])
			if err != nil {
				return err
			}
			return errors.Join(a.eachKeyspace(cmd, db, (*lsm.Keyspace).Flush), db.Close())
		},
	}
}

func (a *app) destroyVerb() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "destroy DIR",
		Short: "Delete a database",
		Long: "Delete the database in DIR: its own files and no others, and the directory if it " +
			"is empty then.\nOn a terminal it asks before; elsewhere it needs --yes.",
		Example: "  loam destroy trees\n  loam destroy --yes trees",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if !yes {
				if !a.screen.out {
					return usagef("destroy needs --yes where nobody can be asked")
				}
				fmt.Fprintf(a.err, "Delete the database in %s? [y/N] ", args[0])
				answer, _ := bufio.NewReader(a.in).ReadString('\n')
				if !strings.EqualFold(strings.TrimSpace(answer), "y") {
					return &problem{"nothing was deleted"}
				}
			}
			if _, err := lsm.OSFS().Stat(args[0]); err != nil {
				return fmt.Errorf("%w: %w", lsm.ErrDoesNotExist, err)
			}
			return lsm.Destroy(args[0], nil)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}
