//go:build linux || darwin || freebsd

package lsm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// inspected opens a database with a socket, and connects to it.
func inspected(t *testing.T, o Options) (string, *DB, *inspect.Client) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	o.Inspect = true
	db := mustOpen(t, dir, &o)
	t.Cleanup(func() { _ = db.Close() })
	return dir, db, asking(t, dir)
}

func asking(t *testing.T, dir string) *inspect.Client {
	t.Helper()
	c, err := inspect.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask asks for a result of type T.
func ask[T any](t *testing.T, c *inspect.Client, r inspect.Request) (result T) {
	t.Helper()
	if err := c.Ask(t.Context(), &r, &result); err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return result
}

type scanAnswer struct {
	Entries []struct {
		Key, Value []byte
		ValueSize  int `json:"value_size"`
	}
	More     bool
	Sequence uint64
}

func (s scanAnswer) keys() string {
	var keys []string
	for _, e := range s.Entries {
		keys = append(keys, string(e.Key))
	}
	return strings.Join(keys, " ")
}

// TestInspectAnswers every request as the database does.
func TestInspectAnswers(t *testing.T) {
	dir, db, c := inspected(t, Options{Format: FormatNative})
	space := mustSpace(t, db, "space")
	for _, k := range []string{"a", "b", "b2", "c", "d"} {
		mustAll(t, db.Put([]byte(k), []byte("of "+k), NoSync))
	}
	mustAll(t, space.Put([]byte("s"), bytes.Repeat([]byte("x"), 100_000), NoSync))

	info := ask[map[string]any](t, c, inspect.Request{Do: "info"})
	if info["directory"] != dir || info["format"] != "native" || info["protocol"] != 1.0 ||
		info["pid"] != float64(os.Getpid()) || len(info["keyspaces"].([]any)) != 2 {
		t.Errorf("%v", info)
	}
	text, err := json.Marshal(db.Metrics())
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	mustAll(t, json.Unmarshal(text, &want))
	got := ask[map[string]any](t, c, inspect.Request{Do: "metrics"})
	for _, name := range []string{"go_heap_bytes", "off_heap_bytes"} {
		if n, _ := got[name].(float64); n <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
		delete(got, name) // the whole process moves it, also between the two questions
		delete(want, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics differ (- want, + got):\n%s", diff)
	}
	ask[any](t, c, inspect.Request{Do: "flush"})
	events := ask[struct {
		Events []inspect.Event
		Last   uint64
	}](t, c, inspect.Request{Do: "events"})
	if len(events.Events) != 2 || events.Events[1].Kind != "flush_end" || events.Last != 2 {
		t.Errorf("%+v", events)
	}
	ask[any](t, c, inspect.Request{Do: "compact", From: []byte("a"), To: []byte("z")})
	levels := ask[struct {
		Levels []struct {
			Files  int
			Tables []struct {
				Smallest, Largest []byte
				Number, Bytes     uint64
			}
		}
		Memtables []struct{ Entries int }
	}](t, c, inspect.Request{Do: "levels"})
	bottom := levels.Levels[6]
	if len(levels.Levels) != 7 || len(levels.Memtables) != 1 || levels.Memtables[0].Entries != 0 ||
		bottom.Files != 1 || string(bottom.Tables[0].Smallest) != "a" ||
		string(bottom.Tables[0].Largest) != "d" {
		t.Errorf("%+v", levels)
	}
	testScans(t, db, c)
	copied := dir + ".copy"
	ask[any](t, c, inspect.Request{Do: "checkpoint", Dir: copied})
	names, err := os.ReadDir(copied)
	if err != nil || slices.ContainsFunc(names, func(e fs.DirEntry) bool {
		return e.Name() == base.InspectName
	}) {
		t.Errorf("the checkpoint has %v, %v", names, err)
	}
	mustClose(t, mustOpen(t, copied, &Options{ErrorIfMissing: true}))
	backup := ask[map[string]any](t, c, inspect.Request{Do: "backup", Dir: dir + ".backups"})
	if backup["id"] != 1.0 || db.Metrics().Backups.Count != 1 {
		t.Errorf("%v", backup)
	}
	for _, r := range []struct {
		inspect.Request
		want error
	}{
		{inspect.Request{Do: "loam"}, ErrInvalidArgument},
		{inspect.Request{Do: "flush", Keyspace: "none"}, ErrNoKeyspace},
		{inspect.Request{Do: "checkpoint", Dir: "relative"}, ErrInvalidArgument},
		{inspect.Request{Do: "backup"}, ErrInvalidArgument},
		{inspect.Request{Do: "checkpoint", Dir: copied}, ErrExists},
		{inspect.Request{Do: "compact", From: []byte("b"), To: []byte("a")}, ErrInvalidArgument},
	} {
		if err := c.Ask(t.Context(), &r.Request, nil); !errors.Is(err, r.want) {
			t.Errorf("%+v: %v", r.Request, err)
		}
	}
}

// testScans: bounds, limits and states.
func testScans(t *testing.T, db *DB, c *inspect.Client) {
	t.Helper()
	from, to := []byte("b"), []byte("c")
	for _, s := range []struct {
		inspect.Request
		keys string
		more bool
	}{
		{inspect.Request{}, "a b b2 c d", false},
		{inspect.Request{Reverse: true}, "d c b2 b a", false},
		{inspect.Request{From: from, To: to}, "b b2", false},
		{inspect.Request{From: from, Past: true}, "b2 c d", false},
		{inspect.Request{From: []byte("aa"), Past: true, To: to}, "b b2", false},
		{inspect.Request{Prefix: from}, "b b2", false},
		{inspect.Request{Limit: 2}, "a b", true},
		{inspect.Request{Limit: 5}, "a b b2 c d", false},
		{inspect.Request{Limit: 2, Reverse: true, To: to, KeysOnly: true}, "b2 b", true},
		{inspect.Request{From: []byte("x")}, "", false},
	} {
		s.Do = "scan"
		got := ask[scanAnswer](t, c, s.Request)
		if got.keys() != s.keys || got.More != s.more || got.Sequence != 6 {
			t.Errorf("%+v: %s, %v", s.Request, got.keys(), got)
		}
		for _, e := range got.Entries {
			if want := "of " + string(e.Key); string(e.Value) != want && !s.KeysOnly {
				t.Errorf("%s has %q", e.Key, e.Value)
			}
		}
	}
	cut := ask[scanAnswer](t, c, inspect.Request{Do: "scan", Keyspace: "space"})
	if e := cut.Entries[0]; len(e.Value) != 64<<10 || e.ValueSize != 100_000 {
		t.Errorf("%d bytes of %d", len(e.Value), e.ValueSize)
	}
	whole := ask[scanAnswer](t, c,
		inspect.Request{Do: "scan", Keyspace: "space", MaxValue: 1 << 20})
	if e := whole.Entries[0]; len(e.Value) != 100_000 || e.ValueSize != 0 {
		t.Errorf("%d bytes of %d", len(e.Value), e.ValueSize)
	}

	hold := inspect.Request{Do: "scan", Hold: true}
	ask[scanAnswer](t, c, hold)
	mustAll(t, db.Put([]byte("e"), nil, NoSync))
	if got := ask[scanAnswer](t, c, hold); got.keys() != "a b b2 c d" ||
		db.Metrics().Snapshots != 1 {
		t.Errorf("the state that is held has %s", got.keys())
	}
	if got := ask[scanAnswer](t, c, inspect.Request{Do: "scan"}); got.keys() != "a b b2 c d e" {
		t.Errorf("the present is %s", got.keys())
	}
	ask[any](t, c, inspect.Request{Do: "release"})
	if n := db.Metrics().Snapshots; n != 0 {
		t.Errorf("%d snapshots", n)
	}
}

// TestInspectScanIsBounded: by bytes, and a client goes on behind the last key.
func TestInspectScanIsBounded(t *testing.T) {
	_, db, c := inspected(t, Options{})
	value := bytes.Repeat([]byte("v"), 50_000)
	for i := range 100 {
		mustAll(t, db.Put(fmt.Appendf(nil, "%03d", i), value, NoSync))
	}
	r, seen := inspect.Request{Do: "scan", Hold: true, Past: true}, 0
	for more := true; more; {
		got := ask[scanAnswer](t, c, r)
		if n := len(got.Entries); n > inspect.MaxScan/50_000+1 {
			t.Fatalf("%d entries at once", n)
		}
		for _, e := range got.Entries {
			if string(e.Key) != fmt.Sprintf("%03d", seen) {
				t.Fatalf("%s behind %d entries", e.Key, seen)
			}
			seen++
		}
		more, r.From = got.More, got.Entries[len(got.Entries)-1].Key
	}
	if seen != 100 {
		t.Errorf("%d entries", seen)
	}
}

// TestInspectAndClose: neither a connection that holds a state nor one that waits for a
// compaction delays Close; a second opening has a socket of its own.
func TestInspectAndClose(t *testing.T) {
	filtering, goOn := make(chan struct{}), make(chan struct{})
	dir, db, c := inspected(t, Options{CompactionFilter: &CompactionFilter{Name: "slow",
		Filter: func(int, []byte, []byte) (FilterDecision, error) {
			close(filtering)
			<-goOn
			return FilterKeep, nil
		}}})
	ask[scanAnswer](t, c, inspect.Request{Do: "scan", Hold: true})
	mustAll(t, db.Put([]byte("a"), nil, NoSync)) // which the state does not see, so the filter does
	compacting := make(chan error)
	other := asking(t, dir)
	go func() {
		compacting <- other.Ask(context.Background(), &inspect.Request{Do: "compact"}, nil)
	}()
	<-filtering
	err := hang.InTime(func() error {
		closed := make(chan error)
		go func() { closed <- db.Close() }()
		if err := <-compacting; err == nil {
			t.Error("the compaction is done")
		}
		close(goOn)
		return <-closed
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.Dial(dir); !errors.Is(err, ErrDoesNotExist) {
		t.Error(err)
	}
	mustClose(t, mustOpen(t, dir, &Options{Inspect: true}))
	db = mustOpen(t, dir, &Options{Inspect: true})
	if ask[scanAnswer](t, asking(t, dir), inspect.Request{Do: "scan"}).keys() != "a" {
		t.Error("another opening does not answer")
	}
	mustClose(t, db)
}

// TestInspectIsOffUnlessAsked: no socket without a wish, nor where nothing is written.
func TestInspectIsOffUnlessAsked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	none := func(when string) {
		t.Helper()
		_, err := os.Lstat(filepath.Join(dir, base.InspectName))
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", when, err)
		}
	}
	db := mustOpen(t, dir, nil)
	none("not asked")
	mustPut(t, db, 1)
	mustClose(t, db)
	t.Setenv("LOAM_INSPECT", "1")
	mustClose(t, mustOpen(t, dir, &Options{ReadOnly: true, Inspect: true}))
	none("after a read-only opening")
	db = mustOpen(t, dir, nil)
	f, err := OpenFollower(dir, &Options{Inspect: true})
	if err != nil {
		t.Fatal(err)
	}
	ask[any](t, asking(t, dir), inspect.Request{Do: "flush"}) // of the writer
	mustAll(t, f.CatchUp(t.Context()), f.Close())
	mustClose(t, db)
	none("after Close")
	var said bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&said, nil))
	db = mustOpen(t, "db", &Options{FS: vfs.NewMem(), Logger: logger})
	mustClose(t, db)
	if !strings.Contains(said.String(), "no process can inspect the database") {
		t.Errorf("logged: %s", said.String())
	}
	if _, err := Open("db", &Options{FS: vfs.NewMem(), Inspect: true}); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
}

const inspectedChild = "LOAM_TEST_INSPECTED"

// TestInspectAfterKill: what a killed process leaves hinders nothing, and an opening replaces it.
func TestInspectAfterKill(t *testing.T) {
	if dir := os.Getenv(inspectedChild); dir != "" {
		db := mustOpen(t, dir, &Options{Inspect: true})
		mustPut(t, db, 1)
		fmt.Println("open")
		select {}
	}
	for name, next := range map[string]func(dir string) error{
		"open": func(dir string) error {
			db := mustOpen(t, dir, &Options{Inspect: true, ErrorIfMissing: true})
			ask[any](t, asking(t, dir), inspect.Request{Do: "info"})
			return db.Close()
		},
		"open without": func(dir string) error {
			return mustOpen(t, dir, &Options{ErrorIfMissing: true}).Close()
		},
		"read only": func(dir string) error {
			return mustOpen(t, dir, &Options{ReadOnly: true}).Close()
		},
		"follow": func(dir string) error {
			f, err := OpenFollower(dir, nil)
			return errors.Join(err, f.Close())
		},
		"repair": func(dir string) error {
			_, err := Repair(dir, nil)
			return err
		},
		"upgrade": func(dir string) error { return Upgrade(dir, nil) },
		"destroy": func(dir string) error {
			err := Destroy(dir, nil)
			if _, left := os.Lstat(dir); !errors.Is(left, fs.ErrNotExist) {
				t.Errorf("Destroy leaves the directory: %v", left)
			}
			return err
		},
		"destroy beside another file": func(dir string) error {
			name := filepath.Join(dir, base.InspectName)
			mustAll(t, os.Remove(name), os.WriteFile(name, []byte("mine"), 0o600))
			err := Destroy(dir, nil)
			if kept, rerr := os.ReadFile(name); string(kept) != "mine" {
				t.Errorf("Destroy removes a file that is no socket: %v", rerr)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			child := exec.Command(os.Args[0], "-test.run=^TestInspectAfterKill$")
			child.Env = append(os.Environ(), inspectedChild+"="+dir)
			out, err := child.StdoutPipe()
			mustAll(t, err, child.Start())
			line := make([]byte, 5)
			if _, err := out.Read(line); err != nil {
				t.Fatal(err)
			}
			ask[any](t, asking(t, dir), inspect.Request{Do: "info"})
			mustAll(t, child.Process.Kill())
			_ = child.Wait()
			if _, err := os.Lstat(filepath.Join(dir, base.InspectName)); err != nil {
				t.Fatal(err)
			}
			if err := next(dir); err != nil {
				t.Error(err)
			}
		})
	}
}
