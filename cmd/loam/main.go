package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loamdb/loam/cmd/loam/internal/man"
	"github.com/loamdb/loam/cmd/loam/internal/text"
	"github.com/loamdb/loam/lsm"
)

// Exit codes.
const (
	exitFine     = 0
	exitProblems = 1 // what was looked for is missing, damaged or different
	exitUsage    = 2
	exitFailed   = 3   // something could not be read or written
	exitSignal   = 130 // interrupted, as of a shell's 128 + SIGINT
)

func main() {
	// A write to a closed pipe is an error that ends the verb, instead of the process.
	signal.Ignore(syscall.SIGPIPE)
	a := newApp(os.Stdin, os.Stdout, os.Stderr)
	a.readTerminal()
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// app is one call of the program, or one line of its shell.
type app struct {
	in     io.Reader
	out    *output
	err    io.Writer
	screen screen
	// parsed is true once flags and arguments are right.
	parsed bool
	// lacks is true if an opening left out parts of logs, see tell.
	lacks bool
	// inShell is true for a line of the verb shell.
	inShell bool
	// outer is the value of --encryption of the shell that the line is of.
	outer string
	// keys has the keys of --encryption; nil without the flag.
	keys lsm.KeyProvider
	// clock is the time of progress; nil: the system's.
	clock func() time.Time

	// Flags that many verbs have.
	json       bool
	comparer   string
	encryption string // "": that of outer, or of the environment
	keyspace   string
	snapshot   uint64 // number of a backup; 0: none
}

func newApp(in io.Reader, out, err io.Writer) *app {
	return &app{in: in, out: newOutput(out), err: err, screen: screen{width: 80}}
}

// readTerminal finds out what standard output and standard error are.
func (a *app) readTerminal() {
	out, errs := int(os.Stdout.Fd()), int(os.Stderr.Fd())
	a.screen = screen{width: 80, out: term.IsTerminal(out), err: term.IsTerminal(errs)}
	for _, fd := range []int{out, errs} {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			a.screen.width = width
			return
		}
	}
}

// group is a family of verbs in the help.
type group struct {
	id, title string
	verbs     []func(*app) *cobra.Command
}

// table has all verbs, in the order of the help.
func table() []group {
	return []group{
		{"data", "Data:", []func(*app) *cobra.Command{(*app).getVerb, (*app).putVerb,
			(*app).delVerb, (*app).scanVerb, (*app).countVerb}},
		{"look", "Looking:", []func(*app) *cobra.Command{(*app).infoVerb, (*app).levelsVerb,
			(*app).tablesVerb, (*app).propsVerb, (*app).sstVerb, (*app).walVerb,
			(*app).manifestVerb, (*app).topVerb, (*app).uiVerb}},
		{"care", "Care:", []func(*app) *cobra.Command{(*app).checkVerb, (*app).repairVerb,
			(*app).backupVerb, (*app).backupsVerb, (*app).restoreVerb, (*app).replicateVerb,
			(*app).replicasVerb, (*app).checkpointVerb, (*app).compactVerb, (*app).flushVerb,
			(*app).rekeyVerb, (*app).destroyVerb}},
		{"move", "Moving:", []func(*app) *cobra.Command{(*app).dumpVerb, (*app).loadVerb,
			(*app).exportVerb, (*app).convertVerb, (*app).upgradeVerb, (*app).diffVerb}},
		{"more", "More:", []func(*app) *cobra.Command{(*app).shellVerb, (*app).benchVerb,
			(*app).manVerb}},
	}
}

// root makes the command with all verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "loam",
		Short: "Look at databases, take care of them, and move their data",
		Long: "Loam looks at databases, takes care of them and moves their data: directories of " +
			"Loam\nand of any LevelDB (LevelDB, goleveldb, plyvel, classic-level, Chrome, " +
			"Minecraft).\n\nVerbs that read change nothing, and work while another process has " +
			"the database open.\n\nExit codes: 0 fine, 1 problems found (damage, a missing key, " +
			"a difference), 2 usage,\n3 could not read or write, 130 interrupted.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		Version:           version(),
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "JSON, see docs/loam.md for the schemas")
	root.PersistentFlags().StringVar(&a.comparer, "comparer", "",
		"order of keys where the stored name is unknown: bytewise, reverse or idb_cmp1")
	root.PersistentFlags().StringVar(&a.encryption, "encryption", "",
		"keys of an encrypted database, as file:PATH; the environment's "+encryptionEnv+
			" serves all calls")
	for _, g := range table() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, make := range g.verbs {
			c := make(a)
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	a.markParsed(root)
	return root
}

// markParsed has every verb note that its arguments are right, before it runs.
func (a *app) markParsed(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			a.parsed = true
			if err := a.readKeys(); err != nil {
				return err
			}
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		a.markParsed(sub)
	}
}

// run runs a verb and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := a.protected(func() error { return root.ExecuteContext(ctx) })
	var found *problem
	// A problem counts as told once the output is written, or its reader has closed the pipe.
	if failed := a.out.Flush(); err == nil || errors.As(err, &found) && failed != nil &&
		!a.out.closed() {
		err = failed
	}
	if a.lacks && (err == nil || a.out.closed() && errors.Is(err, a.out.fail)) {
		err = &problem{}
	}
	return a.finish(err)
}

// protected makes a panic an error.
func (a *app) protected(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("fault of the program, please report it: %v\n%s", v, debug.Stack())
		}
	}()
	return do()
}

// finish tells the error and returns the exit code.
func (a *app) finish(err error) int {
	var found *problem
	var child *ended
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &child):
		return child.code
	case a.out.closed() && errors.Is(err, a.out.fail):
		return exitFine // the reader has what it wanted
	case errors.As(err, &found):
		if found.text != "" {
			fmt.Fprintln(a.err, "loam:", text.PrintableLines(found.text))
		}
		return exitProblems
	case errors.Is(err, context.Canceled):
		if err = text.Besides(err, context.Canceled); err == nil {
			fmt.Fprintln(a.err, "loam: interrupted; nothing is broken, the verb can be run again")
			return exitSignal
		}
	}
	fmt.Fprintln(a.err, "loam:", firstLines(err.Error()))
	if !a.parsed && a.out.fail == nil {
		fmt.Fprintln(a.err, "Try: loam --help, or loam VERB --help")
		return exitUsage
	}
	if h := hint(err); h != "" {
		fmt.Fprintln(a.err, h)
	}
	var wrong *usageError
	if errors.As(err, &wrong) || errors.Is(err, lsm.ErrInvalidArgument) {
		return exitUsage
	}
	return exitFailed
}

// maxErrorLines is how many lines of an error are told; a directory that lost its tables has an
// error for each.
const maxErrorLines = 100

// firstLines cuts text after maxErrorLines, and makes the rest printable.
func firstLines(s string) string {
	lines := strings.SplitN(s, "\n", maxErrorLines+1)
	if len(lines) <= maxErrorLines {
		return text.PrintableLines(s)
	}
	more := 1 + strings.Count(lines[maxErrorLines], "\n")
	return fmt.Sprintf("%s\nand %d more lines",
		text.PrintableLines(strings.Join(lines[:maxErrorLines], "\n")), more)
}

// problem is a result that is no failure of the program: exit code 1. The text may be empty if the
// output says everything.
type problem struct{ text string }

func (p *problem) Error() string { return p.text }

// usageError is a wrong argument that only the verb can see.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// hint says what to do next after a failure.
func hint(err error) string {
	if e := (*lsm.EncryptionError)(nil); errors.As(err, &e) && e.KeyID == "" {
		return "Leave --encryption away for a database that is not encrypted; \"loam rekey\" " +
			"encrypts one."
	}
	if c := (*lsm.CorruptionError)(nil); errors.As(err, &c) && c.File == "the dump" {
		return "What was loaded of it before that place is right. JSON lines and CSV need --as."
	}
	for _, h := range []struct {
		of   error
		text string
	}{
		{lsm.ErrLocked, "End that process first. Verbs that read work meanwhile."},
		{lsm.ErrCorruption, "Next: \"loam check DIR\" says how far the damage goes, \"loam " +
			"repair --dry-run DIR\"\nwhat a repair would keep. Work on a copy of the directory, " +
			"on the machine that writes it:\ncaches of other machines may be behind."},
		{lsm.ErrEncryption, "Say --encryption file:PATH, or set " + encryptionEnv + "; see " +
			"docs/encryption.md."},
		{lsm.ErrNoMergeOperator, "The program that made the operands has the operator."},
		{lsm.ErrComparerMismatch, "If you know that the order is a built-in one, say --comparer."},
		{lsm.ErrNeedsNative, "Next: \"loam upgrade DIR\" makes the directory a native one."},
		{lsm.ErrDoesNotExist, "Look at the path."},
		{lsm.ErrNewerFormat, "Install the newest version of loam."},
		{lsm.ErrExists, "Choose a name that is free. A load of a dump may say --overwrite."},
		{lsm.ErrNoKeyspace, "\"loam info DIR\" lists the keyspaces."},
		{lsm.ErrTooManyFiles, "Raise the limit: ulimit -n."},
		{lsm.ErrNoSpace, "Make room on the disk and run it again."},
		{os.ErrPermission, "Run it as the user that owns the files."},
	} {
		if errors.Is(err, h.of) {
			return h.text
		}
	}
	return ""
}

// interruptible returns a context that the first Ctrl-C ends. The second one ends the process.
func interruptible(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// release is the version of the package that has the program, set by the linker; "" for others.
var release string

// version is what the build knows of itself.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += " " + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}

func (a *app) manVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "man",
		Short:   "Print the manual page",
		Long:    "Print the manual page of loam, made of the texts of --help, in roff.",
		Example: "  loam man | man -l -\n  loam man > /usr/local/share/man/man1/loam.1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := a.out.Write([]byte(man.Page(cmd.Root())))
			return err
		},
	}
}
