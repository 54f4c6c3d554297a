// Loam-import copies a database of another engine into a new Loam database. The command loam runs
// it for "loam convert --from".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loamdb/loam/importers"
	"github.com/loamdb/loam/importers/badger"
	"github.com/loamdb/loam/importers/bbolt"
	"github.com/loamdb/loam/importers/pebble"
	"github.com/loamdb/loam/lsm"
)

// Exit codes, those of loam.
const (
	exitFine     = 0
	exitProblems = 1 // the source has what Loam cannot hold, or the copy differs
	exitUsage    = 2
	exitFailed   = 3
	exitSignal   = 130
)

// engines has what this program can read. Files for some builds add theirs.
var engines = map[string]importers.Open{
	"badger": badger.Open,
	"bbolt":  bbolt.Open,
	"pebble": pebble.Open,
}

// elsewhere says how to build a program that can read an engine which this one cannot.
var elsewhere = map[string]string{
	"lmdb":    "CGO_ENABLED=1 and a C compiler",
	"sqlite":  "CGO_ENABLED=1 and a C compiler",
	"rocksdb": "CGO_ENABLED=1, the tag rocksdb, and librocksdb",
}

func main() {
	// A write to a closed pipe is an error instead of the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// call is one run of the program.
type call struct {
	from, keyFile string
	to            string // the new database
	lossy, json   bool
	out, errs     io.Writer
	parsed        bool
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	c := &call{out: out, errs: errs}
	root := &cobra.Command{
		Use:   "loam-import --from ENGINE PATH NEW",
		Short: "Copy a database of another engine into a new Loam database",
		Long: "Copy a database of another engine into a new Loam database NEW. Column families, " +
			"buckets,\nnamed databases and tables become keyspaces. PATH is opened read-only. " +
			"Afterwards NEW is\nread, and counts and digests are compared. Nothing is left of a " +
			"copy that failed.\n\nEngines: " + strings.Join(names(), ", ") + ".",
		Args:          cobra.ExactArgs(2),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.parsed, c.to = true, args[1]
			return c.convert(cmd.Context(), args[0])
		},
	}
	root.SetOut(out)
	root.SetErr(errs)
	root.SetArgs(args)
	root.Flags().StringVar(&c.from, "from", "", "the engine")
	root.Flags().BoolVar(&c.lossy, "lossy", false,
		"leave out what has no equal in Loam: Badger's bytes of metadata, orders of LMDB; or what "+
			"cannot be found, as RocksDB's logs in another directory")
	root.Flags().StringVar(&c.keyFile, "key-file", "", "the key of an encrypted Badger, raw bytes")
	root.Flags().BoolVar(&c.json, "json", false, "print the report as JSON")
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the process: a library may not look at ctx. SIGTERM does not: Ctrl-C
	// reaches loam, too, which sends it to this process then.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	return c.finish(root.ExecuteContext(ctx))
}

// names are those of the engines.
func names() (all []string) {
	for name := range engines {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// usageError is a wrong argument that only the program can see.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// opener finds the engine.
func (c *call) opener() (importers.Open, error) {
	open := engines[c.from]
	if open != nil {
		return open, nil
	}
	if needs := elsewhere[c.from]; needs != "" {
		return nil, &usageError{fmt.Sprintf("this program was built without %s, which needs %s",
			c.from, needs)}
	}
	return nil, &usageError{fmt.Sprintf("--from %q is no engine; want one of %s", c.from,
		strings.Join(names(), ", "))}
}

func (c *call) convert(ctx context.Context, path string) (err error) {
	open, err := c.opener()
	if err != nil {
		return err
	}
	o := importers.Options{Lossy: c.lossy}
	if c.keyFile != "" {
		if o.Key, err = os.ReadFile(c.keyFile); err != nil {
			return err
		}
	}
	source, err := open(path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	report, err := importers.Convert(ctx, source, c.to, c.progress())
	if err != nil {
		return err
	}
	if err := c.print(report); !errors.Is(err, syscall.EPIPE) { // its reader has what it wanted
		return err
	}
	return nil
}

// progress shows on a terminal how much is written.
func (c *call) progress() func(uint64) {
	f, ok := c.errs.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	began, shown := time.Now(), time.Time{}
	return func(written uint64) {
		if now := time.Now(); now.Sub(shown) >= 200*time.Millisecond {
			shown = now
			fmt.Fprintf(f, "\rconverting: %.1f MB, %.1f MB/s \r", float64(written)/1e6,
				float64(written)/1e6/now.Sub(began).Seconds())
		}
	}
}

func (c *call) print(r importers.Report) error {
	if c.json {
		return json.NewEncoder(c.out).Encode(r)
	}
	if len(r.Spaces) == 0 {
		_, err := fmt.Fprintln(c.out, "the source is empty")
		return err
	}
	for _, s := range r.Spaces {
		expired := ""
		if s.Expired > 0 {
			expired = fmt.Sprintf(", %d more had expired", s.Expired)
		}
		if _, err := fmt.Fprintf(c.out, "%s: %d entries, %d bytes, digest %s%s\n", s.Name,
			s.Entries, s.Bytes, s.Digest, expired); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// finish tells the error and returns the exit code.
func (c *call) finish(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, context.Canceled):
		left := "nothing is left of the copy"
		if stage := filepath.Clean(c.to) + ".importing"; exists(stage) {
			left = "what could not be removed of the copy is in " + stage
		}
		fmt.Fprintln(c.errs, "loam-import: interrupted;", left)
		return exitSignal
	}
	fmt.Fprintln(c.errs, "loam-import:", err)
	switch {
	case !c.parsed:
		fmt.Fprintln(c.errs, "Try: loam-import --help")
		return exitUsage
	case errors.As(err, &usage), errors.Is(err, lsm.ErrExists),
		errors.Is(err, lsm.ErrInvalidArgument):
		return exitUsage
	case errors.Is(err, importers.ErrUnsupported), errors.Is(err, importers.ErrDiffers):
		return exitProblems
	}
	return exitFailed
}
