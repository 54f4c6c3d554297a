package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `# first
echo a b=1 c=(x y)
in 1
in 2
----
out

# second
lines
----
----
one

two
----
----

none
----
# the end
`

func TestParseScript(t *testing.T) {
	steps, rest, err := parseScript(sample)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		got = append(got, fmt.Sprintf("%d %s %v in=%q out=%q", s.cmd.Line, s.cmd.Name, s.cmd.args,
			s.cmd.Input, s.cmd.Expected))
	}
	want := []string{
		`2 echo [{a []} {b [1]} {c [x y]}] in="in 1\nin 2" out="out\n"`,
		`9 lines [] in="" out="one\n\ntwo\n"`,
		`18 none [] in="" out="# the end\n"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if rest != "" {
		t.Errorf("rest %q", rest)
	}
	c := &steps[0].cmd
	c.used = map[string]bool{}
	if c.Arg("b", "") != "1" || c.Arg("z", "none") != "none" || !c.Has("a") || c.Has("z") ||
		len(c.Lines()) != 2 ||
		c.Int("b", 0) != 1 || c.Int("z", 7) != 7 || fmt.Sprint(c.List("c")) != "[x y]" ||
		string(c.Bytes("b")) != "1" || c.Bytes("z") != nil || len(c.Args()) != 3 {
		t.Error("arguments are not found by name")
	}
}

func TestParseScriptErrors(t *testing.T) {
	for _, src := range []string{"x\nno dashes\n", "x a=(b\n----\n", "x\n----\n----\nopen\n"} {
		if _, _, err := parseScript(src); err == nil {
			t.Errorf("%q: no error", src)
		}
	}
}

// TestRewrite runs a script whose outputs are wrong with -rewrite, then again.
func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	do := func(c *Command) string {
		c.Args() // none means anything
		if c.Name == "lines" {
			return "x\n\ny"
		}
		return c.Name + " " + c.Input
	}
	*rewrite = true
	Run(t, path, do)
	*rewrite = false
	Run(t, path, do)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "# second\nlines\n----\n----\nx\n\ny\n----\n----\n") {
		t.Errorf("rewritten to:\n%s", b)
	}
}

func TestIgnoredArgumentsAreFound(t *testing.T) {
	c, err := parseCommand("open read-only n=3")
	if err != nil {
		t.Fatal(err)
	}
	c.used = map[string]bool{}
	if key, ok := c.ignored(); !ok || key != "read-only" {
		t.Errorf("%q, %v", key, ok)
	}
	c.Has("read-only")
	if key, ok := c.ignored(); !ok || key != "n" {
		t.Errorf("%q, %v", key, ok)
	}
	c.Int("n", 0)
	if key, ok := c.ignored(); ok {
		t.Errorf("%q was asked for", key)
	}
}
