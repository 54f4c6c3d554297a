package main

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDeploy: the configurations of ../../deploy have flags and values that run takes.
func TestDeploy(t *testing.T) {
	compose, err := os.ReadFile("../../deploy/docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	nodes := strings.Split(string(compose), "      - run\n")[1:]
	for _, node := range nodes {
		var args []string
		argument := regexp.MustCompile(`(?m)^      - (--\S+)$`)
		for _, a := range argument.FindAllStringSubmatch(node, -1) {
			args = append(args, a[1])
		}
		valid(t, args)
	}
	if len(nodes) != 3 {
		t.Errorf("%d nodes", len(nodes))
	}
	valid(t, []string{"--config", "../../deploy/loamd.conf"})
	unit, err := os.ReadFile("../../deploy/loamd.service")
	if err != nil || !strings.Contains(string(unit), "loamd run --config /etc/loamd.conf") {
		t.Error(err)
	}
}

// valid parses the arguments of run, and checks the configuration.
func valid(t *testing.T, args []string) {
	t.Helper()
	var s settings
	err := s.parse(flag.NewFlagSet("run", flag.ContinueOnError), args)
	if err != nil {
		t.Errorf("%q: %v", args, err)
		return
	}
	c, err := s.server(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err == nil {
		err = c.Node.Validate()
	}
	if err != nil || len(c.Node.Peers) != 3 {
		t.Errorf("%q: %v, %v", args, c.Node.Peers, err)
	}
}

// TestConfig: the command line wins over the file, and mistakes are told with their place.
func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"id = x\n# a comment\n\naddr=h:1\ntls =": "", "id x": ":1: \"id x\" is not",
		"id = x\nwho = y": ":2: who: ", "cache = many": ":1: cache: ", "config = x": ":1: ",
	} {
		file := filepath.Join(t.TempDir(), "loamd.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		f := flag.NewFlagSet("run", flag.ContinueOnError)
		err := s.parse(f, []string{"--config", file, "--addr", "line:2"})
		if want == "" && (err != nil || s.id != "x" || s.addr != "line:2") {
			t.Errorf("%+v, %v", s, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, args := range [][]string{{"--peers", "a=h:1", "--join", "h:2"},
		{"--wait", "--join", "h:2"},
		{"--peers", "a"}, {"--token-file", "/dev/null"}, {"--tls", "/nonexistent"}} {
		var s settings
		err := s.parse(flag.NewFlagSet("run", flag.ContinueOnError), args)
		if err == nil {
			_, err = s.server(nil)
		}
		if err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
