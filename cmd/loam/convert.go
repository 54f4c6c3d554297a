package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/loamdb/loam/lsm"
)

func (a *app) convertVerb() *cobra.Command {
	var to string
	var other importing
	c := &cobra.Command{
		Use:   "convert DIR NEW",
		Short: "Copy a database into a new one of either format, or of another engine",
		Long: "Write what the database in DIR holds into a new database NEW, in the native " +
			"format or in LevelDB's.\nDIR stays as it is. Nothing is left of a conversion that " +
			"failed or was interrupted.\n\nWith --from, DIR is a database of another engine, or " +
			"its file. The program loam-import, which lies\nbeside loam or in PATH, reads it: " +
			"column families, buckets, named databases and tables become\nkeyspaces; counts and " +
			"digests are compared afterwards.",
		Example: "  loam convert --format leveldb trees trees.leveldb\n" +
			"  loam convert --format native chrome.leveldb copy\n" +
			"  loam convert --from bbolt trees.db trees",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if other.from != "" {
				ctx, stop := interruptible(cmd)
				defer stop()
				return a.importFrom(ctx, &other, to, args)
			}
			if other.lossy || other.keyFile != "" {
				return usagef("--lossy and --key-file are for --from")
			}
			format, ok := map[string]lsm.Format{"native": lsm.FormatNative,
				"leveldb": lsm.FormatLevelDB}[to]
			if !ok {
				return usagef("%q is no format; want native or leveldb", to)
			}
			o, err := a.options(args[0])
			if err != nil {
				return err
			}
			if o.AllowClear = other.clear; a.keys != nil && format == lsm.FormatLevelDB &&
				!other.clear {
				return usagef("a copy in LevelDB's format cannot be encrypted: say --clear")
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			if err := a.tellOf(args[0]); err != nil {
				return err
			}
			p := a.progress("converting", 0)
			defer p.end()
			// The sum of keys and values is not known before.
			return lsm.Export(ctx, args[0], args[1], format, o, func(written, _ uint64) {
				p.at(written)
			})
		},
	}
	c.Flags().StringVar(&to, "format", "native", "native or leveldb")
	c.Flags().StringVar(&other.from, "from", "",
		"another engine: badger, bbolt, lmdb, pebble, rocksdb or sqlite")
	c.Flags().BoolVar(&other.lossy, "lossy", false,
		"with --from: leave out what has no equal in Loam, see docs/importers.md")
	c.Flags().StringVar(&other.keyFile, "key-file", "",
		"with --from: the key of an encrypted Badger, raw bytes")
	c.Flags().BoolVar(&other.clear, "clear", false, "of an encrypted database, make a clear copy")
	return c
}

// importing has the flags of a conversion from another engine.
type importing struct {
	from, keyFile string
	lossy, clear  bool
}

// ended is the exit code of a program that said itself what it is for.
type ended struct{ code int }

func (e *ended) Error() string { return "the program failed" }

// importFrom runs the program loam-import, whose exit codes are those of this one.
func (a *app) importFrom(ctx context.Context, i *importing, format string, args []string) error {
	if format != "native" {
		return usagef("--from writes the native format; convert that to LevelDB's afterwards")
	}
	if a.keys != nil && !i.clear {
		return usagef("--from makes no encrypted database: say --clear, and loam rekey afterwards")
	}
	program, err := findProgram("loam-import", "importers/loam-import")
	if err != nil {
		return err
	}
	flags := []string{"--from=" + i.from}
	if i.lossy {
		flags = append(flags, "--lossy")
	}
	if i.keyFile != "" {
		flags = append(flags, "--key-file="+i.keyFile)
	}
	if a.json {
		flags = append(flags, "--json")
	}
	c := exec.CommandContext(ctx, program, append(append(flags, "--"), args...)...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it removes its copy
	err = a.runProgram(c)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return &ended{exit.ExitCode()}
	}
	if err != nil { // it was killed, say
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}

func (a *app) upgradeVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "upgrade DIR",
		Short: "Make a LevelDB directory a native one, in place",
		Long: "Make the LevelDB database in DIR a native one. Tables stay as they are until a " +
			"compaction meets\nthem, so it takes about as long as opening. There is no way back " +
			"but \"loam convert\".",
		Example: "  loam upgrade leveldb\n  loam backup leveldb /backups && loam upgrade leveldb",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := a.options(args[0])
			if err != nil {
				return err
			}
			if err := a.tellOf(args[0]); err != nil {
				return err
			}
			return lsm.Upgrade(args[0], o)
		},
	}
}
