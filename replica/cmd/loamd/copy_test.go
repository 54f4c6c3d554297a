package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestRestorable: what a cluster cannot hold is an error before anything is written, and not left
// out.
func TestRestorable(t *testing.T) {
	entry := func(db *lsm.DB, keyspace string, ttl time.Duration, size int) error {
		k, err := db.Keyspace(keyspace, nil)
		if err != nil || ttl < 0 {
			return err
		}
		if ttl > 0 {
			return k.PutTTL([]byte("b"), []byte("2"), ttl, lsm.NoSync)
		}
		return k.Put([]byte("b"), make([]byte, size), lsm.NoSync)
	}
	for what, x := range map[string]struct {
		keyspace string
		ttl      time.Duration
		size     int
		wrong    string
	}{
		"all of it":         {keyspace: "default"},
		"an empty keyspace": {keyspace: "other", ttl: -1},
		"a checkpoint":      {keyspace: nodeKeyspace},
		"a keyspace":        {keyspace: "other", wrong: `the keyspace "other"`},
		"the largest value": {keyspace: "default", size: largestEntry - 1},
		"a large value": {keyspace: "default", size: largestEntry,
			wrong: `the key "b" and its value have`},
		"an expiring value": {keyspace: "default", ttl: time.Hour, wrong: `the key "b" expires`},
	} {
		dir := t.TempDir()
		db, err := lsm.Open(dir, nil)
		must(t, err)
		must(t, db.Put([]byte("a"), []byte("1"), lsm.NoSync), entry(db, x.keyspace, x.ttl, x.size))
		must(t, db.Close())
		db, err = lsm.Open(dir, &lsm.Options{ReadOnly: true})
		must(t, err)
		err = restorable(db)
		must(t, db.Close())
		if x.wrong == "" && err != nil || x.wrong != "" && (!errors.Is(err,
			lsm.ErrInvalidArgument) || !strings.Contains(err.Error(), x.wrong)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCleared: what a backup left goes, and nothing else that has its name.
func TestCleared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x.partial")
	must(t, cleared(dir)) // there is none
	must(t, os.Mkdir(dir, 0o700), cleared(dir))
	db, err := lsm.Open(dir, nil)
	must(t, err)
	must(t, db.Put([]byte("a"), []byte("1"), lsm.NoSync))
	if err := cleared(dir); !errors.Is(err, lsm.ErrLocked) {
		t.Errorf("beside another backup: %v", err)
	}
	must(t, db.Close())
	link := dir + ".link"
	must(t, os.Symlink(dir, link))
	if err := cleared(link); !errors.Is(err, lsm.ErrExists) {
		t.Errorf("a link: %v", err)
	}
	must(t, cleared(dir), os.Mkdir(dir, 0o700))
	letter := filepath.Join(dir, "letter")
	must(t, os.WriteFile(letter, []byte("Dear"), 0o600))
	if err := cleared(dir); !errors.Is(err, lsm.ErrExists) {
		t.Errorf("another directory: %v", err)
	}
	if b, err := os.ReadFile(letter); string(b) != "Dear" {
		t.Errorf("its file: %q, %v", b, err)
	}
}

// TestCertsKeepAuthority: an authority without its key, which is kept elsewhere, stays.
func TestCertsKeepAuthority(t *testing.T) {
	for _, gone := range []string{caKeyFile, caFile} {
		dir, out := t.TempDir(), &strings.Builder{}
		must(t, execute([]string{"certs", dir, "localhost"}, out))
		must(t, execute([]string{"certs", dir, "localhost", "127.0.0.1"}, out)) // it is used again
		must(t, os.Remove(filepath.Join(dir, gone)))
		files := func() (all [][]byte) {
			for _, name := range []string{caFile, caKeyFile, nodeFile, nodeKeyFile} {
				b, _ := os.ReadFile(filepath.Join(dir, name)) // one is gone
				all = append(all, b)
			}
			return all
		}
		before := files()
		if err := execute([]string{"certs", dir, "b"}, out); err == nil {
			t.Errorf("without %s: no error", gone)
		}
		if !slices.EqualFunc(before, files(), slices.Equal[[]byte]) {
			t.Errorf("without %s files were changed", gone)
		}
	}
}

// TestCertsOfHosts: a host has no port, and a wrong one makes no file.
func TestCertsOfHosts(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "tls"), &strings.Builder{}
	for _, h := range []string{"", "localhost:7070", "127.0.0.1:7070", "[::1]:7070", "[::1]",
		"a,b"} {
		err := execute([]string{"certs", dir, "localhost", h}, out)
		if _, made := os.Stat(dir); err == nil || made == nil {
			t.Errorf("%q: %v", h, err)
		}
	}
	must(t, execute([]string{"certs", dir, "localhost", "::1", "*.example.org"}, out))
}

// TestNodesOfFlags: a name of a node that comes twice is no other node, blanks are no part of an
// address, and no limit is negative.
func TestNodesOfFlags(t *testing.T) {
	s := settings{id: "a", addr: "a:1", peers: "a=a:1,b=b:1,b=c:1"}
	if c, err := s.server(nil); err == nil {
		t.Errorf("peers %v", c.Node.Peers)
	}
	for _, s := range []settings{{maxClients: -1}, {lease: -1}, {stop: -1}, {memory: -1}} {
		if _, err := s.server(nil); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	s = settings{id: "a", addr: "a:1", join: "b:1, c:1"}
	if c, err := s.server(nil); err != nil || !slices.Equal(c.Node.Join, []string{"b:1", "c:1"}) {
		t.Errorf("join %q, %v", c.Node.Join, err)
	}
	s.join = "b:1,c" // it would be asked for ever
	if c, err := s.server(nil); err != nil ||
		!errors.Is(c.Node.Validate(), lsm.ErrInvalidArgument) {
		t.Errorf("join %q, %v", c.Node.Join, err)
	}
}
