package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/cmd/loam/internal/encode"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/examine"
	"github.com/loamdb/loam/internal/feature/inspect"
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
			before, after, err := a.compact(cmd, args[0], o)
			if err != nil {
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

// compact compacts a database, or has the process do it that has it open. before and after are the
// bytes of its tables.
func (a *app) compact(c *cobra.Command, dir string, o lsm.IterOptions) (before, after uint64,
	err error) {
	ctx, stop := interruptible(c)
	defer stop()
	db, err := a.openWrite(dir)
	if err != nil {
		return a.compactThere(ctx, c, dir, o, err)
	}
	before, _ = bytesOf(db)
	written := func() uint64 { _, n := bytesOf(db); return n }
	err = a.watch("compacting", written, func() error {
		return a.eachKeyspace(c, db, func(k *lsm.Keyspace) error {
			return k.CompactRangeContext(ctx, o.Lower, o.Upper)
		})
	})
	after, _ = bytesOf(db)
	return before, after, errors.Join(err, db.Close())
}

// compactThere is compact by the process that has the database open; failed is why dir does not
// open here. Ctrl-C ends it there, too.
func (a *app) compactThere(ctx context.Context, c *cobra.Command, dir string, o lsm.IterOptions,
	failed error) (before, after uint64, err error) {
	p, err := processOf(ctx, dir, failed)
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	if before, _, err = p.bytes(); err != nil {
		return 0, 0, err
	}
	// A connection answers one request after the other: the figures come by another one.
	beside, err := processOf(ctx, dir, failed)
	if err != nil {
		return 0, 0, err
	}
	defer beside.Close()
	written := func() uint64 { _, n, _ := beside.bytes(); return n }
	err = a.watch(fmt.Sprintf("compacting in process %d", p.info.PID), written, func() error {
		return p.eachKeyspace(a, c, inspect.Request{Do: "compact", From: o.Lower, To: o.Upper})
	})
	if err == nil {
		after, _, err = p.bytes()
	}
	return before, after, err
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
				ctx, stop := interruptible(cmd)
				defer stop()
				p, err := processOf(ctx, args[0], err)
				if err != nil {
					return err
				}
				defer p.Close()
				return p.eachKeyspace(a, cmd, inspect.Request{Do: "flush"})
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
			isFile := func(name string) bool {
				t, _, _ := examine.Kind(name)
				return t != base.FileUnknown && t != base.FileLock && t != base.FileInfoLog
			}
			names, err := lsm.OSFS().List(args[0])
			if err == nil && !slices.ContainsFunc(names, isFile) &&
				!slices.Equal(names, []string{base.LockName}) { // as a crash leaves it
				return fmt.Errorf("%w: no file in %s has a database's name", lsm.ErrDoesNotExist,
					args[0])
			}
			return lsm.Destroy(args[0], nil) // which tells why there is no list
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}
