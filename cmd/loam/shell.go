package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/loamdb/loam/cmd/loam/internal/shell"
)

func (a *app) shellVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "shell DIR",
		Short: "A prompt with the same verbs on one directory",
		Long: "Read lines with verbs, their flags and arguments, without the directory: \"get " +
			"ash\" is \"loam get\nDIR ash\". The arrow keys go through the history, which is " +
			"kept, and Tab completes verbs and flags.\nWords with blanks stand in '...' or " +
			"\"...\". \"exit\" or Ctrl-D ends it. From a pipe lines are run one\nafter the other.",
		Example: "  loam shell trees\n  printf 'count\\nget ash\\n' | loam shell trees",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := &prompt{a: a, dir: args[0], cmd: cmd}
			if strings.HasPrefix(s.dir, "-") {
				s.dir = "." + string(filepath.Separator) + s.dir // lines would take it for a flag
			}
			if f, ok := a.in.(*os.File); ok && a.screen.out && term.IsTerminal(int(f.Fd())) {
				return s.interactive(f)
			}
			return s.lines(a.in)
		},
	}
}

// prompt runs lines on one directory.
type prompt struct {
	a   *app
	dir string
	cmd *cobra.Command
}

// onFiles are the verbs whose first argument is a file of the directory.
var onFiles = []string{"sst", "wal", "manifest"}

// noDirectory are the verbs that take no directory of a database.
var noDirectory = []string{"help", "bench", "completion", "man", "restore", "backups",
	"replicas"}

// lines runs the lines of r, until one is interrupted by Ctrl-C. The exit code is 1 if one failed.
func (s *prompt) lines(r io.Reader) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 64<<20)
	failed := error(nil)
	for in.Scan() {
		last, code := s.run(in.Text(), nil)
		if last {
			break
		}
		switch code {
		case exitFine:
		case exitSignal: // the user does not want the lines behind it either
			return &ended{code}
		default:
			failed = &problem{}
		}
	}
	return errors.Join(in.Err(), failed)
}

// run runs a line. ended says that it ends the shell.
func (s *prompt) run(line string, in io.Reader) (ended bool, code int) {
	words, err := shell.Split(line)
	if err != nil {
		fmt.Fprintln(s.a.err, "loam:", err)
		return false, exitUsage
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return false, exitFine
	}
	if words[0] == "exit" || words[0] == "quit" {
		return true, exitFine
	}
	if in == nil {
		in = noInput{}
	}
	one := &app{in: in, out: s.a.out, err: s.a.err, screen: s.a.screen, inShell: true,
		outer: cmp.Or(s.a.encryption, s.a.outer)}
	return false, one.run(s.cmd.Context(), s.withDirectory(words))
}

// noInput is standard input of a line from a pipe, which the lines come from. Without it put would
// write an empty value.
type noInput struct{}

func (noInput) Read([]byte) (int, error) {
	return 0, usagef("standard input has the lines of the shell: name a value or a file")
}

// withDirectory puts the directory behind the verb.
func (s *prompt) withDirectory(words []string) []string {
	verb := words[0]
	if strings.HasPrefix(verb, "-") || slices.Contains(noDirectory, verb) {
		return words
	}
	if !slices.Contains(onFiles, verb) {
		return slices.Insert(words, 1, s.dir)
	}
	of := false // the word is the value of the flag before it
	for i, w := range words[1:] {
		switch {
		case of:
			of = false
		case strings.HasPrefix(w, "-"):
			of = s.takesNext(verb, w)
		case !strings.ContainsAny(w, `/\`):
			words[i+1] = filepath.Join(s.dir, w)
		}
	}
	return words
}

// takesNext reports whether the word behind a flag of a verb is its value.
func (s *prompt) takesNext(verb, flag string) bool {
	c, _, err := s.cmd.Root().Find([]string{verb})
	if err != nil {
		return false
	}
	f := c.Flag(strings.TrimLeft(flag, "-")) // nil: it has its value, as in --as=hex
	return f != nil && f.NoOptDefVal == ""
}

// terminal is the two ends of a terminal.
type terminal struct {
	io.Reader
	io.Writer
	interrupted bool // the last key was Ctrl-C, which term reports as the end
}

func (t *terminal) Read(p []byte) (int, error) {
	const ctrlC = 3
	n, err := t.Reader.Read(p)
	t.interrupted = n > 0 && p[n-1] == ctrlC
	return n, err
}

// interactive reads lines from a terminal.
func (s *prompt) interactive(f *os.File) error {
	fd := int(f.Fd())
	ends, history := &terminal{Reader: f, Writer: os.Stdout}, shell.OpenHistory()
	t := s.editor(ends, history)
	for {
		// The terminal is raw only while a line is edited: verbs print as ever.
		state, err := term.MakeRaw(fd)
		if err != nil {
			return err
		}
		line, err := t.ReadLine()
		err = errors.Join(err, term.Restore(fd, state))
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stdout)
			if !ends.interrupted {
				return nil
			}
			t = s.editor(ends, history) // without the line
			continue
		}
		if err != nil {
			return err
		}
		ended, _ := s.run(line, f)
		if ended {
			return nil
		}
		if err := s.a.out.Flush(); err != nil {
			return err
		}
	}
}

// editor edits one line after the other.
func (s *prompt) editor(ends io.ReadWriter, history term.History) *term.Terminal {
	t := term.NewTerminal(ends, filepath.Base(s.dir)+"> ")
	_ = t.SetSize(s.a.screen.width, 24)
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		return shell.Complete(s.cmd.Root(), line, pos, key)
	}
	t.History = history
	return t
}
