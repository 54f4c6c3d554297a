// Package script runs data-driven tests: text files of commands with the output
// that each must have. A test gives Run what executes one command; the flag
// -rewrite writes the real outputs into the file, to be read before they are
// committed.
//
// A script is a text file of steps:
//
//	# a comment
//	name word key=value key=(several words)
//	input lines
//	----
//	expected output
//
// A step ends at the first empty line of its output. An output that has empty
// lines itself stands between two lines of dashes more:
//
//	name
//	----
//	----
//	output
//
//	with an empty line
//	----
//	----
//
// An argument that its command never asks for fails the test, as does a command
// that is unknown: a misspelled script tests nothing.
package script

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

var rewrite = flag.Bool("rewrite", false, "write the output of data-driven tests into their files")

// Command is one step of a script.
type Command struct {
	Name  string
	Input string // without the final newline
	Line  int    // of the file, from 1

	// Expected is the output in the file, for steps that wait until it comes.
	Expected string

	args []Arg
	used map[string]bool // arguments that were asked for
	fail func(format string, args ...any)
}

// Arg is a word of a command's line: "key", "key=value" or "key=(v1 v2)".
type Arg struct {
	Key    string
	Values []string
}

// Args returns all arguments in their order.
func (c *Command) Args() []Arg {
	for _, a := range c.args {
		c.used[a.Key] = true
	}
	return c.args
}

// List returns the values of the argument key.
func (c *Command) List(key string) []string {
	c.used[key] = true
	for _, a := range c.args {
		if a.Key == key {
			return a.Values
		}
	}
	return nil
}

// Arg returns the first value of the argument key, or otherwise.
func (c *Command) Arg(key, otherwise string) string {
	if v := c.List(key); len(v) > 0 {
		return v[0]
	}
	return otherwise
}

// Int returns the argument key as a number, or otherwise.
func (c *Command) Int(key string, otherwise int) int {
	s := c.Arg(key, "")
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		c.Fail("%s: %v", key, err)
	}
	return n
}

// Bytes returns the argument key, nil if it is not given.
func (c *Command) Bytes(key string) []byte {
	if c.Has(key) {
		return []byte(c.Arg(key, ""))
	}
	return nil
}

// Has reports whether the argument key is given, with or without a value.
func (c *Command) Has(key string) bool {
	c.used[key] = true
	for _, a := range c.args {
		if a.Key == key {
			return true
		}
	}
	return false
}

// Lines returns the input's lines.
func (c *Command) Lines() []string {
	if c.Input == "" {
		return nil
	}
	return strings.Split(c.Input, "\n")
}

// Fail ends the test with the command's place in the script.
func (c *Command) Fail(format string, args ...any) { c.fail(format, args...) }

// Unknown ends the test because no command has this name.
func (c *Command) Unknown() string {
	c.Fail("there is no such command")
	return ""
}

// step is a command with what surrounds it in the file.
type step struct {
	before string // comments and empty lines, verbatim
	head   string // command line and input, verbatim
	cmd    Command
}

const (
	dashes = "----\n"
	fence  = dashes + dashes
)

// RunDir runs every script of a directory as a subtest. start begins each with a
// state of its own and returns what executes its commands.
func RunDir(t *testing.T, dir string, start func(t *testing.T) (do func(c *Command) string)) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		t.Fatalf("%s: no scripts", dir)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { Run(t, filepath.Join(dir, e.Name()), start(t)) })
		})
	}
}

// Run runs every step of the file through do and compares the output. With the
// flag -rewrite the file's outputs are replaced by the real ones.
func Run(t *testing.T, path string, do func(c *Command) string) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	steps, rest, err := parseScript(string(src))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(steps) == 0 {
		t.Fatalf("%s: no steps", path)
	}
	var out bytes.Buffer
	for i := range steps {
		s := &steps[i]
		got := execute(t, path, &s.cmd, do)
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if got != s.cmd.Expected && !*rewrite {
			t.Errorf("%s:%d: %s\nwant:\n%sgot:\n%s", path, s.cmd.Line, s.cmd.Name, s.cmd.Expected,
				got)
		}
		writeStep(&out, s, got)
	}
	out.WriteString(rest)
	if *rewrite && !bytes.Equal(out.Bytes(), src) {
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func execute(t *testing.T, path string, c *Command, do func(c *Command) string) string {
	t.Helper()
	c.used = map[string]bool{}
	c.fail = func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s:%d: %s: %s", path, c.Line, c.Name, fmt.Sprintf(format, args...))
	}
	got := do(c)
	if key, ok := c.ignored(); ok {
		t.Errorf("%s:%d: %s: the argument %q means nothing", path, c.Line, c.Name, key)
	}
	return got
}

// ignored returns an argument that was not asked for.
func (c *Command) ignored() (key string, ok bool) {
	for _, a := range c.args {
		if !c.used[a.Key] {
			return a.Key, true
		}
	}
	return "", false
}

func writeStep(out *bytes.Buffer, s *step, got string) {
	out.WriteString(s.before)
	out.WriteString(s.head)
	if strings.Contains("\n"+got, "\n\n") || strings.HasPrefix(got, dashes) {
		out.WriteString(fence + got + fence)
		return
	}
	out.WriteString(dashes + got)
}

// Golden compares a whole file with its expected text. With the flag -rewrite it is
// written anew.
func Golden(t *testing.T, path, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	have, lines := strings.Split(string(b), "\n"), strings.Split(want, "\n")
	for i := range max(len(have), len(lines)) {
		if i >= len(have) || i >= len(lines) || have[i] != lines[i] {
			t.Errorf("%s:%d: %q; want %q. To write it anew: go test -run %s -rewrite", path, i+1,
				have[min(i, len(have)):min(i+1, len(have))],
				lines[min(i, len(lines)):min(i+1, len(lines))], t.Name())
			return
		}
	}
}

// parseScript splits a script into steps; rest is what follows the last one.
func parseScript(src string) (steps []step, rest string, err error) {
	lines := strings.SplitAfter(src, "\n")
	for i := 0; ; {
		var s step
		for i < len(lines) && (strings.TrimSpace(lines[i]) == "" ||
			strings.HasPrefix(lines[i], "#")) {
			s.before += lines[i]
			i++
		}
		if i >= len(lines) {
			return steps, s.before, nil
		}
		if s.cmd, err = parseCommand(lines[i]); err != nil {
			return nil, "", fmt.Errorf("line %d: %w", i+1, err)
		}
		s.cmd.Line = i + 1
		s.head = lines[i]
		var input strings.Builder
		for i++; i < len(lines) && lines[i] != dashes; i++ {
			s.head += lines[i]
			input.WriteString(lines[i])
		}
		if i >= len(lines) {
			return nil, "", fmt.Errorf("line %d: %s has no ----", s.cmd.Line, s.cmd.Name)
		}
		s.cmd.Input = strings.TrimSuffix(input.String(), "\n")
		i++
		if s.cmd.Expected, i, err = parseOutput(lines, i); err != nil {
			return nil, "", err
		}
		steps = append(steps, s)
	}
}

// parseOutput reads the expected output that starts at lines[i].
func parseOutput(lines []string, i int) (out string, next int, err error) {
	var b strings.Builder
	if i >= len(lines) || lines[i] != dashes {
		for ; i < len(lines) && lines[i] != "\n" && lines[i] != ""; i++ {
			b.WriteString(lines[i])
		}
		return b.String(), i, nil
	}
	start := i
	for i++; i+1 < len(lines); i++ {
		if lines[i] == dashes && lines[i+1] == dashes {
			return b.String(), i + 2, nil
		}
		b.WriteString(lines[i])
	}
	return "", 0, fmt.Errorf("line %d: the fence is not closed", start+1)
}

func parseCommand(line string) (Command, error) {
	var c Command
	rest := strings.TrimSpace(line)
	c.Name, rest, _ = strings.Cut(rest, " ")
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		end := strings.IndexAny(rest, " =")
		if end < 0 {
			end = len(rest)
		}
		a := Arg{Key: rest[:end]}
		rest = rest[end:]
		if strings.HasPrefix(rest, "=(") {
			inside, after, ok := strings.Cut(rest[2:], ")")
			if !ok {
				return c, fmt.Errorf("argument %s: no closing parenthesis", a.Key)
			}
			a.Values, rest = strings.Fields(inside), after
		} else if strings.HasPrefix(rest, "=") {
			v, after, _ := strings.Cut(rest[1:], " ")
			a.Values, rest = []string{v}, after
		}
		c.args = append(c.args, a)
	}
	return c, nil
}
