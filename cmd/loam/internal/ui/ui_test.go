package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/lsm"
)

// sockets says that a process can be asked.
var sockets = slices.Contains([]string{"linux", "darwin", "freebsd"}, runtime.GOOS)

const secret = "abcdefghijklmnopqrstuvwxyz012345"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve is a server of dir.
func serve(t *testing.T, dir string, write bool) *server {
	t.Helper()
	s := newServer(dir, secret, Options{Write: write, FS: lsm.OSFS(),
		Options: func() (*lsm.Options, error) {
			return &lsm.Options{ErrorIfMissing: true}, nil
		}, Hint: func(err error) string { return "hint" }})
	t.Cleanup(s.follower.close)
	return s
}

// made makes a database of n keys and a keyspace; open leaves it open, with a socket.
func made(t *testing.T, o lsm.Options, n int, open bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, &o)
	must(t, err)
	for i := range n {
		must(t, db.Put(fmt.Appendf(nil, "key%04d", i), fmt.Appendf(nil, `{"n":%d}`, i), lsm.NoSync))
	}
	must(t, db.Flush())
	must(t, db.Put([]byte("zz\x00"), bytes.Repeat([]byte("x"), 1000), lsm.NoSync))
	if o.Format != lsm.FormatLevelDB {
		k, err := db.Keyspace("other", nil)
		must(t, err)
		must(t, k.Put([]byte("only"), []byte("here"), lsm.NoSync))
	}
	if open {
		t.Cleanup(func() { _ = db.Close() })
	} else {
		must(t, db.Close())
	}
	return dir
}

// request is a request of the page.
func request(method, what string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:1234"+what, body)
	r.Header.Set("Authorization", "Bearer "+secret)
	return r
}

// do answers a request.
func do(s *server, r *http.Request) (status int, body string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// get asks and decodes the answer.
func get[T any](t *testing.T, s *server, what string, params ...string) (result T) {
	t.Helper()
	q := url.Values{}
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	status, body := do(s, request(http.MethodGet, "/api/"+what+"?"+q.Encode(), nil))
	if status != http.StatusOK {
		t.Fatalf("%s %v: %d %s", what, params, status, body)
	}
	must(t, json.Unmarshal([]byte(body), &result))
	return result
}

// TestRefusals: requests without the token, by another name of the host, from another page or with
// another method are refused.
func TestRefusals(t *testing.T) {
	set := func(name, value string) func(r *http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(r *http.Request) {
		return func(r *http.Request) { r.Host = name }
	}
	s := serve(t, made(t, lsm.Options{}, 3, false), false)
	for name, c := range map[string]struct {
		change func(r *http.Request)
		want   int
	}{
		"the page itself":        {set("Accept", "*/*"), 200},
		"no token":               {set("Authorization", ""), 403},
		"a wrong token":          {set("Authorization", "Bearer x"), 403},
		"a part of the token":    {set("Authorization", "Bearer "+secret[:9]), 403},
		"a name bound elsewhere": {host("evil.example:1234"), 403},
		"a name that begins so":  {host("127.0.0.1.evil.example"), 403},
		"localhost":              {host("localhost:1234"), 200},
		"no name":                {host(""), 403},
		"another page":           {set("Sec-Fetch-Site", "same-site"), 403},
		"its own page":           {set("Sec-Fetch-Site", "same-origin"), 200},
		"another method":         {func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"another address":        {func(r *http.Request) { r.URL.Path = "/api/../etc" }, 404},
	} {
		r := request(http.MethodGet, "/api/live", nil)
		c.change(r)
		if status, body := do(s, r); status != c.want ||
			status != 200 && (strings.Contains(body, "metrics") || !json.Valid([]byte(body))) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestPage: the page needs no token, has no data, and may ask its own server only.
func TestPage(t *testing.T) {
	s := serve(t, made(t, lsm.Options{}, 3, false), false)
	r := request(http.MethodGet, "/", nil)
	r.Header.Del("Authorization")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), page) {
		t.Fatal(w.Code)
	}
	csp := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "connect-src 'self'",
		"script-src 'sha256-", "style-src 'sha256-", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("no %q in %s", want, csp)
		}
	}
	// What a policy would refuse at run time.
	text := strings.ReplaceAll(string(page), "http://www.w3.org/2000/svg", "")
	for _, bad := range []string{"http://", "https://", "src=", "url(", "@import", " style=",
		" onclick=", "innerHTML", "eval("} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(text, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
}

// TestReadOnly: without Write no request changes anything.
func TestReadOnly(t *testing.T) {
	s := serve(t, made(t, lsm.Options{}, 3, false), false)
	for _, what := range []string{"flush", "compact", "checkpoint"} {
		body := strings.NewReader(`{"dir":"/nonexistent/x"}`)
		status, answer := do(s, request(http.MethodPost, "/api/"+what, body))
		if status != 403 || !strings.Contains(answer, "--write") {
			t.Errorf("%s: %d %s", what, status, answer)
		}
		if status, _ := do(s, request(http.MethodGet, "/api/"+what, nil)); status != 405 {
			t.Errorf("GET %s: %d", what, status)
		}
	}
}

// live is what a test looks at of a moment.
type live struct {
	Source    string
	Format    string
	Keyspaces []space
	State     string
	Picture   *picture
	Metrics   struct {
		LastSequence int `json:"last_sequence"`
		Levels       []struct{ Files int }
	}
	Events []struct{ Kind string }
	Last   uint64
}

// TestLive: the page sees a running database, one whose process does not answer, and a closed one,
// of both formats.
func TestLive(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		for _, c := range []struct {
			inspect, open bool
			source        string
		}{{true, true, "process"}, {false, true, "files"}, {false, false, "files"}} {
			if c.inspect && !sockets {
				continue
			}
			dir := made(t, lsm.Options{Format: format, Inspect: c.inspect}, 100, c.open)
			s := serve(t, dir, false)
			m := get[live](t, s, "live")
			tables := 0
			for _, l := range m.Metrics.Levels {
				tables += l.Files
			}
			drawn := 0
			if m.Picture != nil {
				for _, l := range m.Picture.Levels {
					drawn += len(l)
				}
			}
			if m.Source != c.source || m.Format != format.String() || drawn != tables ||
				tables == 0 || m.Metrics.LastSequence < 101 || m.Keyspaces[0].Name != "default" ||
				(m.Last > 0) != c.inspect {
				t.Errorf("%v %+v: %+v", format, c, m)
			}
			// The same state has no second picture.
			again := get[live](t, s, "live", "state", m.State, "after", fmt.Sprint(m.Last))
			if again.Picture != nil || len(again.Events) != 0 || again.State != m.State {
				t.Errorf("%v %+v: %+v", format, c, again)
			}
		}
	}
}

// list is a page of keys.
type list struct {
	Entries []entry
	More    bool
}

func (l list) keys() string {
	var keys []string
	for _, e := range l.Entries {
		keys = append(keys, e.Key)
	}
	return strings.Join(keys, " ")
}

// TestKeys reads pages both ways, ranges, prefixes, keyspaces and encodings, from a process and
// from files alike.
func TestKeys(t *testing.T) {
	for _, running := range []bool{true, false} {
		if running && !sockets {
			continue
		}
		s := serve(t, made(t, lsm.Options{Inspect: running}, 250, running), false)
		for _, reverse := range []string{"", "1"} {
			var all []string
			params := []string{"reverse", reverse, "past", ""}
			for pages := 0; ; pages++ {
				l := get[list](t, s, "scan", params[:len(params)-2*(1-min(pages, 1))]...)
				all = append(all, strings.Fields(l.keys())...)
				if !l.More {
					break
				}
				raw, err := json.Marshal(l.Entries[len(l.Entries)-1].Raw)
				must(t, err)
				params[3] = strings.Trim(string(raw), `"`)
			}
			first, last := all[0], all[len(all)-1]
			if reverse != "" {
				first, last = last, first
			}
			if len(all) != 251 || first != "key0000" || last != `zz\x00` {
				t.Errorf("running %v, reverse %q: %d keys, %s to %s", running, reverse, len(all),
					first, last)
			}
		}
		for want, params := range map[string][]string{
			"key0010 key0011":         {"from", "key0010", "to", "key0012"},
			"key0012 key0011":         {"to", "key0013", "reverse", "1", "limit", "2"},
			"key0240 key0241":         {"prefix", "key024", "limit", "2"},
			"6b657930303130":          {"from", "6b657930303130", "key_as", "hex", "limit", "1"},
			"only":                    {"keyspace", "other"},
			"a2V5MDAwMA==":            {"key_as", "base64", "limit", "1"},
			`zz\x00`:                  {"from", "zz"},
			"key0000 key0001 key0002": {"limit", "3", "value_as", "json"},
			"key0011 key0010":         {"from", "key0010", "to", "key0012", "reverse", "1"},
			"key0000":                 {"limit", "0"},
			"":                        {"from", "zzz"},
		} {
			if got := get[list](t, s, "scan", params...).keys(); got != want {
				t.Errorf("running %v, %v: %s", running, params, got)
			}
		}
		// The list has the beginning of a value, the value alone all of it.
		l := get[list](t, s, "scan", "prefix", "zz")
		if e := l.Entries[0]; e.Size != 1000 || !e.Cut || len(e.Value) != shortValue {
			t.Errorf("running %v: %d %v %d", running, e.Size, e.Cut, len(e.Value))
		}
		e := get[entry](t, s, "value", "key", "enoA")
		if e.Size != 1000 || e.Cut || len(e.Value) != 1000 {
			t.Errorf("running %v: %d %v %d", running, e.Size, e.Cut, len(e.Value))
		}
		for status, params := range map[int]string{400: "scan?limit=x", 404: "value?key=AAAA"} {
			if got, body := do(s, request("GET", "/api/"+params, nil)); got != status {
				t.Errorf("%s: %d %s", params, got, body)
			}
		}
		for _, bad := range []string{"scan?key_as=rot13", "scan?from=a%5C", "scan?past=%25",
			"table?file=../x", "table?file=LOCK", "log?file=%2Fetc%2Fpasswd",
			"log?file=000001.wal&offset=-1",
			"tables?offset=-1", "scan?a=%zz"} {
			if got, body := do(s, request("GET", "/api/"+bad, nil)); got != 400 ||
				!strings.Contains(body, `"hint":"hint"`) {
				t.Errorf("%s: %d %s", bad, got, body)
			}
		}
		if got, body := do(s, request("GET", "/api/scan?keyspace=none", nil)); got != 404 {
			t.Errorf("%d %s", got, body)
		}
	}
}

// TestFiles shows tables, logs and the MANIFEST of both formats.
func TestFiles(t *testing.T) {
	for _, format := range []lsm.Format{lsm.FormatNative, lsm.FormatLevelDB} {
		s := serve(t, made(t, lsm.Options{Format: format, BlockSize: 1 << 10}, 200, true), false)
		l := get[struct {
			Tables []tableLine
			Count  int
		}](t, s, "tables")
		if l.Count != 1 || l.Tables[0].Smallest != "key0000" || l.Tables[0].Largest != "key0199" {
			t.Fatalf("%+v", l)
		}
		file := l.Tables[0].File
		v := get[tableView](t, s, "table", "file", file, "check", "1", "block", "0")
		if !v.Checked || v.Damage != "" || v.Blocks < 2 || len(v.Pieces) <= v.Blocks ||
			len(v.Versions) == 0 || v.Versions[0].Key != "key0000" || v.Versions[0].Sequence != 1 {
			t.Errorf("%v: %+v", format, v)
		}
		next := get[tableView](t, s, "table", "file", file, "block", "1")
		if len(next.Versions) == 0 || next.Versions[0].Key == "key0000" || next.Checked {
			t.Errorf("%v: %+v", format, next)
		}
		files := get[struct {
			Logs     []logLine
			Manifest string
		}](t, s, "logs")
		if len(files.Logs) == 0 {
			t.Fatal("no logs")
		}
		type records struct {
			Records []record
			More    bool
		}
		for _, newest := range []string{"", "1"} {
			there := false
			for _, l := range files.Logs {
				for _, b := range get[records](t, s, "log", "file", l.File, "newest",
					newest).Records {
					for _, e := range b.Entries {
						there = there || e.Key == `zz\x00` && e.Size == 1000
					}
				}
			}
			if !there {
				t.Errorf("%v, newest %q: the entry of the log is missing", format, newest)
			}
		}
		m := get[struct {
			File  string
			Edits []edit
		}](t, s, "manifest")
		if m.File != files.Manifest || len(m.Edits) < 2 {
			t.Errorf("%v: %+v", format, m)
		}
		// A flipped byte of the table is damage, told as check does.
		file = l.Tables[0].File
		path := filepath.Join(s.dir, file)
		b, err := os.ReadFile(path)
		must(t, err)
		b[100] ^= 0x55
		must(t, os.WriteFile(path, b, 0o600))
		v = get[tableView](t, s, "table", "file", file, "check", "1")
		if !strings.Contains(v.Damage, file) {
			t.Errorf("%v: %q", format, v.Damage)
		}
	}
}

// TestExpiringValues: of values that expire, tables show what the user wrote.
func TestExpiringValues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, nil)
	must(t, err)
	must(t, db.PutTTL([]byte("key"), []byte("value"), time.Hour, lsm.NoSync))
	must(t, errors.Join(db.Flush(), db.Close()))
	tables, err := filepath.Glob(filepath.Join(dir, "*.loam"))
	must(t, err)
	v := get[tableView](t, serve(t, dir, false), "table", "file", filepath.Base(tables[0]), "block",
		"0")
	if len(v.Versions) != 1 || v.Versions[0].Value != "value" || v.Versions[0].Size != 5 {
		t.Errorf("%+v", v.Versions)
	}
}

// TestWrite: with Write a running database and a closed one are flushed, compacted and copied.
func TestWrite(t *testing.T) {
	for _, running := range []bool{true, false} {
		if running && !sockets {
			continue
		}
		dir := made(t, lsm.Options{Inspect: running}, 100, running)
		s := serve(t, dir, true)
		copied := filepath.Join(t.TempDir(), "copy")
		for _, r := range []struct{ what, body string }{{"flush", `{}`}, {"compact", `{}`},
			{"checkpoint", `{"dir":"` + copied + `"}`}} {
			status, body := do(s, request(http.MethodPost, "/api/"+r.what,
				strings.NewReader(r.body)))
			if status != 200 {
				t.Errorf("running %v, %s: %d %s", running, r.what, status, body)
			}
		}
		if l := get[list](t, serve(t, copied, false), "scan", "from", "zz"); l.keys() != `zz\x00` {
			t.Errorf("running %v: %s", running, l.keys())
		}
		for _, r := range []struct{ what, body string }{{"checkpoint", `{"dir":"relative"}`},
			{"flush", `[]`}, {"compact", strings.Repeat(" ", maxBody) + "{}"}} {
			status, body := do(s, request(http.MethodPost, "/api/"+r.what,
				strings.NewReader(r.body)))
			if status != 400 {
				t.Errorf("running %v, %s: %d %s", running, r.what, status, body)
			}
		}
		r := request(http.MethodPost, "/api/flush", strings.NewReader("{}"))
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if status, _ := do(s, r); status != 403 {
			t.Errorf("another page: %d", status)
		}
	}
	// A process without a socket keeps its database.
	s := serve(t, made(t, lsm.Options{}, 1, true), true)
	status, body := do(s, request(http.MethodPost, "/api/flush", strings.NewReader("{}")))
	if status != 500 || !strings.Contains(body, "hint") {
		t.Errorf("%d %s", status, body)
	}
}

// TestEndOfProcess: when the process ends, the page reads the files, and again the process when it
// is back.
func TestEndOfProcess(t *testing.T) {
	if !sockets {
		t.Skip("the system has no Unix sockets")
	}
	dir := filepath.Join(t.TempDir(), "db")
	s := serve(t, dir, false)
	for i := range 3 {
		db, err := lsm.Open(dir, &lsm.Options{Inspect: true})
		must(t, err)
		must(t, db.Put([]byte{'a' + byte(i)}, nil, lsm.NoSync))
		for _, want := range []string{"process", "files"} {
			m := get[live](t, s, "live")
			if l := get[list](t, s, "scan"); m.Source != want || len(l.Entries) != i+1 {
				t.Errorf("%d: %s, %s", i, m.Source, l.keys())
			}
			_ = db.Close() // the second time it is closed already
		}
	}
	// A follower without readers is closed, and opened again by the next one.
	s.follower.close()
	if s.follower.db != nil || len(get[list](t, s, "scan").Entries) != 3 {
		t.Error("the follower is not opened again")
	}
	// A directory that is replaced is opened anew.
	must(t, lsm.Destroy(dir, nil))
	if status, _ := do(s, request("GET", "/api/live", nil)); status == 200 {
		t.Error("a database that is gone")
	}
	db, err := lsm.Open(dir, nil)
	must(t, err)
	must(t, db.Close())
	_, _ = do(s, request("GET", "/api/live", nil)) // tells that the directory changed
	if m := get[live](t, s, "live"); m.Metrics.LastSequence != 0 {
		t.Errorf("%+v", m)
	}
}

// TestConcurrentRequests asks from many goroutines while the database is written and closed.
func TestConcurrentRequests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, &lsm.Options{Inspect: sockets})
	must(t, err)
	s := serve(t, dir, false)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for _, what := range []string{"live", "scan", "tables", "logs", "manifest", "live"} {
				status, body := do(s, request("GET", "/api/"+what, nil))
				if status != 200 {
					t.Errorf("%s: %d %s", what, status, body)
				}
			}
		}()
		must(t, db.Put([]byte{byte(i)}, nil, lsm.NoSync))
		must(t, db.Flush())
	}
	must(t, db.Close())
	wg.Wait()
}

// TestRun serves the page at the address that it prints, until it is ended.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		done <- Run(ctx, made(t, lsm.Options{}, 1, false), Options{Out: flusher{w}, FS: lsm.OSFS(),
			Options: func() (*lsm.Options, error) { return nil, nil }})
	}()
	line := make([]byte, 256)
	n, err := r.Read(line)
	must(t, err)
	address, token, ok := strings.Cut(strings.TrimSpace(string(line[:n])), "/#")
	if !ok || !strings.HasPrefix(address, "http://127.0.0.1:") || len(token) != 32 {
		t.Fatalf("%q", line[:n])
	}
	for auth, want := range map[string]int{token: 200, token + "x": 403} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/live", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+auth)
		answer, err := http.DefaultClient.Do(req)
		must(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%d, want %d", answer.StatusCode, want)
		}
	}
	cancel()
	must(t, <-done)
	if err := Run(t.Context(), filepath.Join(t.TempDir(), "none"),
		Options{FS: lsm.OSFS()}); err == nil {
		t.Error("a page of nothing")
	}
}

type flusher struct{ io.Writer }

func (flusher) Flush() error { return nil }

// TestPictures: the place of a table is where its keys are, its width how many bytes.
func TestPictures(t *testing.T) {
	at := func(level int, number, bytes uint64, first, last string) shown {
		return shown{level: level, number: number, bytes: bytes, first: []byte(first),
			last: []byte(last)}
	}
	var p picture
	p.draw([]shown{at(1, 3, 300, "m", "z"), at(1, 2, 100, "a", "c"), at(2, 1, 400, "a", "z")},
		base.Bytewise.Name)
	left, right, all := p.Levels[1][0], p.Levels[1][1], p.Levels[2][0]
	if !p.Ordered || all[2] != 0 || all[3] < whole-1 || left[2] != 0 || left[3] > right[2] ||
		right[3] != all[3] || left[3] == 0 || right[2] == right[3] || left[0] != 2 {
		t.Errorf("%+v", p)
	}
	// Damaged ends and orders that are not known draw something within the bounds.
	for _, comparer := range []string{base.Bytewise.Name, base.IndexedDB.Name, "unknown"} {
		var p picture
		p.draw([]shown{at(0, 1, 1<<60, "z", "a"), at(6, 2, 0, "", ""), at(9, 3, 1, "b", "b")},
			comparer)
		for _, l := range p.Levels {
			for _, t1 := range l {
				if t1[2] > t1[3] || t1[3] > whole {
					t.Errorf("%s: %+v", comparer, p)
				}
			}
		}
	}
}
