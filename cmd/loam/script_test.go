package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/testkit/script"
)

// session runs the steps of a script.
type session struct {
	t    *testing.T
	root string // @ in scripts
	// width is that of the terminal; 0: output goes to a pipe.
	width int
}

// TestScripts runs testdata/*.txt. A step is a verb with its arguments; @ is a directory of the
// script's own, ~ an empty argument, and input is standard input. Its output is what the verb wrote
// to standard output and standard error, and its exit code unless that is 0. Times are TIME. Other
// commands:
//
//	fixture   copies testdata/FROM of the module to TO
//	terminal  says that output goes to a terminal of width=N columns; 0: to a pipe
//	flip      changes the byte at=N of a file; from its end if N is negative
//	cut       takes bytes=N off the end of a file
//	remove    deletes a file
//	rename    renames a file
//	join      writes two files, one behind the other, into a third one
//	zeros     writes a file of bytes=N zeros
//	save      writes the input into a file
//	files     lists a directory
//	unchanged runs a verb and fails if it changed anything below @
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts, %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := &session{t: t, root: t.TempDir()}
			script.Run(t, path, s.step)
		})
	}
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z`)

// words are the arguments of a step as they were written.
func (s *session) words(c *script.Command) (words []string) {
	for _, a := range c.Args() {
		w := a.Key
		if len(a.Values) > 0 {
			w += "=" + strings.Join(a.Values, " ")
		}
		if w == "~" {
			w = ""
		}
		if w == "@" { // elsewhere one without a slash is the number of a backup
			w = s.root
		}
		words = append(words, strings.ReplaceAll(w, "@/", s.root+"/"))
	}
	return words
}

func (s *session) step(c *script.Command) string {
	t := s.t
	t.Helper()
	switch c.Name {
	case "fixture":
		words := s.words(c)
		must(t, os.CopyFS(words[1], os.DirFS(filepath.Join("../../testdata", words[0]))))
		return ""
	case "terminal":
		s.width = c.Int("width", 0)
		return ""
	case "flip", "cut":
		path := strings.ReplaceAll(c.Args()[0].Key, "@", s.root)
		b, err := os.ReadFile(path)
		must(t, err)
		if c.Name == "cut" {
			b = b[:len(b)-c.Int("bytes", 1)]
		} else {
			at := c.Int("at", 0)
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 0x55
		}
		must(t, os.WriteFile(path, b, 0o600))
		return ""
	case "remove":
		must(t, os.RemoveAll(s.words(c)[0]))
		return ""
	case "rename":
		words := s.words(c)
		must(t, os.Rename(words[0], words[1]))
		return ""
	case "join":
		words := s.words(c)
		a, err := os.ReadFile(words[0])
		must(t, err)
		b, err := os.ReadFile(words[1])
		must(t, err)
		must(t, os.WriteFile(words[2], append(a, b...), 0o600))
		return ""
	case "zeros":
		path := strings.ReplaceAll(c.Args()[0].Key, "@", s.root)
		must(t, os.WriteFile(path, make([]byte, c.Int("bytes", 1)), 0o600))
		return ""
	case "save":
		must(t, os.WriteFile(s.words(c)[0], []byte(c.Input+"\n"), 0o600))
		return ""
	case "files":
		return files(t, s.words(c)[0])
	case "unchanged":
		before := contents(t, s.root)
		words := s.words(c)
		out := s.run(words, c.Input)
		if after := contents(t, s.root); after != before {
			c.Fail("before:\n%s\nafter:\n%s", before, after)
		}
		return out
	}
	return s.run(append([]string{c.Name}, s.words(c)...), c.Input)
}

// run runs a verb as a process would.
func (s *session) run(args []string, input string) string {
	var out, errs bytes.Buffer
	code := s.call(args, input, &out, &errs)
	text := out.String() + errs.String()
	text = times.ReplaceAllString(strings.ReplaceAll(text, s.root, "@"), "TIME")
	if code != exitFine {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "exit " + strconv.Itoa(code) + "\n"
	}
	return text
}

func (s *session) call(args []string, input string, out, errs *bytes.Buffer) int {
	a := newApp(strings.NewReader(input), out, errs)
	if s.width > 0 {
		a.screen = screen{width: s.width, out: true}
	}
	return a.run(context.Background(), args)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files lists a directory, without what numbers its files have.
func files(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return "none\n"
	}
	must(t, err)
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintln(&b, e.Name())
	}
	return b.String()
}

// contents describes every file below root: name, length, bytes and time of change.
func contents(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v\n", path, info.Mode(), info.ModTime())
		if !info.Mode().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%x\n", text)
		return err
	}))
	return b.String()
}
