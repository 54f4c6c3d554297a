package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var block = regexp.MustCompile("(?ms)^```console(?: (\\w+))?\n(.*?)^```$")

var kill = regexp.MustCompile(`^kill -9 \$\(cat (\w+)\.pid\)$`)

// TestPage runs the commands of docs/loamd.md. A block "```console NAME" is a terminal of that
// name, whose command goes on when it has printed its lines; the others run to their end, one after
// the other, in one shell's environment.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program, and elects leaders")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile("../../../docs/loamd.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &reader{t: t, dir: dir, ended: map[string]chan struct{}{},
		env: append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))}
	found := block.FindAllStringSubmatch(freePorts(t, string(text)), -1)
	for _, b := range found {
		for _, part := range strings.Split("\n"+b[2], "\n$ ")[1:] {
			command, want, _ := strings.Cut(strings.ReplaceAll(part, "\\\n", ""), "\n")
			if b[1] != "" {
				p.terminal(b[1], command, want)
			} else {
				p.command(command, want)
			}
		}
	}
	if len(found) < 15 {
		t.Errorf("%d blocks", len(found))
	}
}

// freePorts replaces the ports of the page, as another process may have them.
func freePorts(t *testing.T, page string) string {
	for port := 7071; port <= 7076; port++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // so that all are different
		page = strings.ReplaceAll(page, fmt.Sprint("127.0.0.1:", port), l.Addr().String())
	}
	return page
}

// reader does what the page says.
type reader struct {
	t     *testing.T
	dir   string
	env   []string
	ended map[string]chan struct{} // by terminal: when its command has ended
}

// terminal starts a command when the one before in that terminal has ended, and waits until it has
// printed what the page has.
func (p *reader) terminal(name, command, want string) {
	p.t.Helper()
	if before := p.ended[name]; before != nil {
		<-before
	}
	run := exec.Command("sh", "-c", "exec "+command)
	run.Dir, run.Env = p.dir, p.env
	log, err := os.Create(filepath.Join(p.t.TempDir(), "log"))
	if err != nil {
		p.t.Fatal(err)
	}
	run.Stderr = log
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for expected := range strings.Lines(want) {
		if line, err := lines.ReadString('\n'); line != expected {
			p.t.Errorf("%s prints %q, %v; the page has %q", command, line, err, expected)
		}
	}
	ended := make(chan struct{})
	p.ended[name] = ended
	go func() {
		defer close(ended)
		_ = run.Wait() // killed ones have an error
	}()
	p.t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
		if p.t.Failed() {
			said, _ := os.ReadFile(log.Name())
			p.t.Logf("%s:\n%s", command, said)
		}
		_ = log.Close()
	})
	if p.t.Failed() {
		p.t.FailNow()
	}
}

// command runs a command. What it exports stays.
func (p *reader) command(command, want string) {
	p.t.Helper()
	if name, ok := strings.CutPrefix(command, "export "); ok {
		p.env = append(p.env, name)
		return
	}
	run := exec.Command("sh", "-c", command)
	run.Dir, run.Env = p.dir, p.env
	got, err := run.CombinedOutput()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, ".*")
	if !regexp.MustCompile("^(?s:" + pattern + ")$").Match(bytes.TrimSpace(got)) {
		p.t.Fatalf("%s prints\n%s\nthe page has\n%s(%v)", command, got, want, err)
	}
	if killed := kill.FindStringSubmatch(command); killed != nil {
		<-p.ended[killed[1]] // the kernel ends it behind the command
	}
}
