//go:build linux || darwin || freebsd

package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loamdb/loam/lsm"
)

// viewOf returns one view of a directory.
func viewOf(t *testing.T, dir string, asJSON bool) (string, error) {
	t.Helper()
	var b bytes.Buffer
	out := bufio.NewWriter(&b)
	err := Run(t.Context(), dir, Options{Keyspace: "default", Every: time.Hour, Once: true,
		JSON: asJSON, Out: out, Width: 100, FS: lsm.OSFS(),
		Options: func() (*lsm.Options, error) { return nil, nil }})
	return b.String(), err
}

// TestTop asks a database of this process, and reads one whose process does not answer.
func TestTop(t *testing.T) {
	for _, answers := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "db")
		db, err := lsm.Open(dir, &lsm.Options{Inspect: answers})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Put([]byte("a"), []byte("b"), lsm.Sync); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(); err != nil {
			t.Fatal(err)
		}
		out, err := viewOf(t, dir, false)
		from := map[bool]string{true: "process ", false: "as a follower"}[answers]
		if err != nil || !strings.Contains(out, from) ||
			!strings.Contains(out, "1 operations written") ||
			strings.Contains(out, "flush end") != answers {
			t.Errorf("%v\n%s", err, out)
		}
		out, failed := viewOf(t, dir, true)
		var got struct {
			Source  string
			Metrics struct {
				LastSequence int `json:"last_sequence"`
			}
			Levels *struct{ Levels []any }
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || failed != nil ||
			got.Metrics.LastSequence != 1 || (got.Levels != nil) != answers {
			t.Errorf("%v, %v: %s", err, failed, out)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := viewOf(t, filepath.Join(t.TempDir(), "none"), false); err == nil {
		t.Error("a view of nothing")
	}
}

// fixed is a source of moments.
type fixed struct {
	moments []string
	end     context.CancelFunc
}

func (f *fixed) look(context.Context, string) (*moment, error) {
	m := &moment{Directory: "db", Source: "process", PID: 7, Format: "native",
		Metrics: json.RawMessage(f.moments[0])}
	if f.moments = f.moments[1:]; len(f.moments) == 0 {
		f.end()
	}
	return m, m.parse()
}

func (f *fixed) close() {}

// TestTopRates: rates are between two moments; the first view has none.
func TestTopRates(t *testing.T) {
	then := &moment{At: time.Unix(100, 0), Metrics: json.RawMessage(`{"last_sequence":1000,
		"wal_bytes_written":0,"cache":{"hits":10,"misses":10},"stalls":{},
		"gets":{"count":10},"multi_get_keys":5,"seeks":{"count":1},"commits":{"count":2}}`)}
	now := &moment{At: time.Unix(102, 0), Directory: "db", PID: 7, Format: "native",
		Metrics: json.RawMessage(`{"last_sequence":5000,"wal_bytes_written":4096,
		"cache":{"hits":40,"misses":20,"used":1,"capacity":2},"read_only":"disk gone\nstack",
		"gets":{"count":3010,"latency":{"count":9,"p50":300,"p99":2000,"max":3000000}},
		"multi_get_keys":65,"seeks":{"count":3},"commits":{"count":2002},
		"stalls":{"level0":{"duration_ns":1000000000}},
		"wal_sync":{"count":5,"p50":1500,"max":2000000000},
		"levels":[{"files":1,"bytes":10},{"files":3,"bytes":1048576}]}`)}
	for _, m := range []*moment{then, now} {
		if err := m.parse(); err != nil {
			t.Fatal(err)
		}
	}
	if then.since(nil) != nil || now.since(now) != nil {
		t.Error("rates of one moment")
	}
	now.Rates = now.since(then)
	view := now.render(80, "\n")
	for _, want := range []string{"writes  2k/s   log 2.00 KiB/s", "stalls  500 ms/s for level0",
		"75.0 % of 20/s",
		"reads   1.5k gets/s   30 keys/s by MultiGet   1 seeks/s", "commits 1k/s",
		"gets    3010, median 300 ns, 99% within 2 us, longest 3 ms", "median 1.5 us",
		"longest 2 s", "READ-ONLY  disk gone\n",
		"    1       3   1.00 MiB"} {
		if !strings.Contains(strings.ReplaceAll(view, " lookups", ""), want) {
			t.Errorf("there is no %q in\n%s", want, view)
		}
	}
	deep := *now
	deep.Directory, deep.PID = strings.Repeat("/dir", 50)+"/db", 77
	title, _, _ := strings.Cut(deep.render(60, "\n"), "\n")
	if utf8.RuneCountInString(title) != 60 || !strings.HasPrefix(title, "loam top  ...") ||
		!strings.Contains(title, "/db  process 77, format ") {
		t.Errorf("a long path: %q", title)
	}
	for _, width := range []int{0, 1, 20, 40} {
		for _, l := range strings.Split(now.render(width, "\n"), "\n") {
			if n := utf8.RuneCountInString(l); n > width {
				t.Errorf("%d columns of %d: %q", n, width, l)
			}
		}
	}
}

// TestTopFullScreen: the terminal is as it was at the end.
func TestTopFullScreen(t *testing.T) {
	var b bytes.Buffer
	o := &Options{Every: time.Nanosecond, Out: bufio.NewWriter(&b), Width: 80}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &fixed{moments: []string{"{}", `{"last_sequence":5}`}, end: cancel}
	if err := o.top(ctx, s); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	if !strings.HasPrefix(out, "\x1b[?1049h\x1b[?25l\x1b[Hloam top") ||
		!strings.HasSuffix(out, "\x1b[?25h\x1b[?1049l") || strings.Count(out, "\x1b[H") != 1 {
		t.Errorf("%q", out)
	}
	if got := clip("a\x1b[31mb\tc", 80); strings.ContainsAny(got, "\x1b\t") {
		t.Errorf("%q", got)
	}
}
