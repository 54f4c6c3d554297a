// Loamd is a server of databases: one node, or the nodes of a cluster that keep one data set.
//
//	loamd run --data DIR      starts a node
//	loamd status, get, put    and so on ask one
//
// docs/loamd.md is its page.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// command is one verb.
type command struct {
	name, args, help string
	run              func(f *flag.FlagSet, args []string, out io.Writer) error
}

// commands are the verbs, in the order of the help.
var commands = slices.Concat([]command{
	{"run", "", "start a node", runNode},
	{"certs", "DIR HOST...", "make certificates for --tls: an authority, one for the hosts", certs},
}, clientCommands, []command{{"version", "", "print the version of the program", printVersion}})

func main() {
	err := execute(os.Args[1:], os.Stdout)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "loamd:", err)
		os.Exit(1)
	}
}

func execute(args []string, out io.Writer) error {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-h" && args[0] != "--help" {
		args = append([]string{"run"}, args...)
	}
	if len(args) > 0 {
		for _, c := range commands {
			if c.name != args[0] {
				continue
			}
			f := flag.NewFlagSet("loamd "+c.name, flag.ContinueOnError)
			return c.execute(f, args[1:], out)
		}
	}
	fmt.Fprintln(os.Stderr, "loamd VERB [FLAGS] ARGS; loamd VERB --help has the flags")
	for _, c := range commands {
		fmt.Fprintf(os.Stderr, "  %-11s %-18s %s\n", c.name, c.args, c.help)
	}
	return flag.ErrHelp
}

// execute runs a verb. The flags are printed for --help and for a wrong number of arguments.
func (c *command) execute(f *flag.FlagSet, args []string, out io.Writer) error {
	var usage bytes.Buffer
	f.SetOutput(&usage)
	f.Usage = func() {
		usage.Reset()
		fmt.Fprintf(&usage, "loamd %s [FLAGS] %s\n%s\n", c.name, c.args, c.help)
		f.PrintDefaults()
	}
	err := c.run(f, args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = usage.WriteTo(os.Stderr) // there is nobody else to tell
	case usage.Len() > 0:
		err = fmt.Errorf("%w; see loamd %s --help", err, c.name)
	}
	return err
}

// printVersion is the verb version.
func printVersion(_ *flag.FlagSet, _ []string, out io.Writer) error {
	_, err := fmt.Fprintln(out, version())
	return err
}

// version is that of the module, or of the commit that was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
