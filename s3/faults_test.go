package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"

	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/replicate"
)

// fault is how a request fails. before makes an answer, or an error, without asking the store;
// after gets the store's answer.
type fault struct {
	name    string
	before  func(*http.Request) (*http.Response, error)
	after   func(*http.Response) (*http.Response, error)
	cancels bool // the context of the replicator, too
	// silent faults need not be told: the answer is as good as the right one, or no sender of it
	// knows that it is wrong
	silent bool
}

// answer makes an answer.
func answer(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), ProtoMajor: 1,
		ProtoMinor: 1, Header: http.Header{"Content-Length": {fmt.Sprint(len(body))}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}, nil
}

func always(status int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return answer(status, body) }
}

func instead(status int, body string) func(*http.Response) (*http.Response, error) {
	return func(*http.Response) (*http.Response, error) { return answer(status, body) }
}

// half cuts the body of an answer. length says whether the answer tells how long it was.
func half(length bool) func(*http.Response) (*http.Response, error) {
	return func(r *http.Response) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		end := io.Reader(failing{io.ErrUnexpectedEOF})
		if !length {
			r.Header.Del("Content-Length")
			r.ContentLength = -1
			end = strings.NewReader("")
		}
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(b[:len(b)/2]), end))
		return r, nil
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

const (
	slowDown = "<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>"
	page     = "<html><body><h1>Sign in</h1></body></html>"
	// pageOfGateway is taken for the answer to a Delete, which has no contents.
	pageOfGateway = "the page of a gateway"
)

var faults = []fault{
	{name: "refused", before: func(*http.Request) (*http.Response, error) {
		return nil, syscall.ECONNREFUSED
	}},
	{name: "500", before: always(500, slowDown)},
	{name: "503", before: always(503, slowDown)},
	{name: "502 of a gateway", before: always(502, page)},
	{name: "403", before: always(403, slowDown)},
	{name: "404 of a gateway", before: always(404, page), silent: true},
	{name: pageOfGateway, before: always(200, page), silent: true},
	{name: "200 with an error", before: always(200, slowDown), silent: true},
	{name: "lost answer", after: func(*http.Response) (*http.Response, error) {
		return nil, syscall.ECONNRESET
	}},
	{name: "500 with effect", after: instead(500, slowDown)},
	{name: "cut answer", after: half(true)},
	{name: "cut answer without a length", after: half(false), silent: true},
	{name: "empty answer", after: instead(200, ""), silent: true},
	{name: "wrong ETag", silent: true, after: func(r *http.Response) (*http.Response, error) {
		r.Header.Set("ETag", `"00000000000000000000000000000000"`)
		return r, nil
	}},
}

// canceled is the end of a replicator while it waits for an answer.
var canceled = []fault{
	{name: "cancel", cancels: true, before: func(*http.Request) (*http.Response, error) {
		return nil, context.Canceled
	}},
	{name: "cancel with effect", cancels: true,
		after: func(*http.Response) (*http.Response, error) { return nil, context.Canceled }},
}

// network is the way to a store in this process. The request at, counted from 0, and then as many
// more as lasts says, fail.
type network struct {
	store http.Handler

	mu     sync.Mutex
	fault  fault
	at     int
	lasts  int
	calls  int
	failed []string // requests that failed
	tell   bool     // one of them failed so that somebody has to be told
	cancel func()   // of faults that cancel
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	store := s3mem.New()
	must(t, store.CreateBucket("bucket"))
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	unit := minio.DefaultRetryUnit
	minio.DefaultRetryUnit = time.Microsecond
	t.Cleanup(func() { minio.DefaultRetryUnit = unit })
	return &network{store: gofakes3.New(store).Server(), at: -1}
}

// fail has requests fail from now on.
func (n *network) fail(f fault, at, lasts int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault, n.at, n.lasts, n.calls, n.failed, n.tell = f, at, lasts, 0, nil, false
}

// failures are the requests that failed, and whether somebody has to be told.
func (n *network) failures() (failed []string, tell bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.failed), n.tell
}

func (n *network) fails(r *http.Request) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	if n.at < 0 || n.calls <= n.at || n.calls > n.at+n.lasts {
		return false
	}
	n.failed = append(n.failed, r.Method+" "+r.URL.String())
	harmless := n.fault.silent ||
		r.Method != http.MethodGet && strings.HasPrefix(n.fault.name, "cut")
	if n.fault.cancels {
		defer n.cancel()
	}
	n.tell = n.tell || !harmless && !strings.HasSuffix(r.URL.Path, "/verified")
	return true
}

// RoundTrip asks the store. Lists have pages of seven objects.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	fails := n.fails(r)
	if fails && n.fault.before != nil {
		return n.fault.before(r)
	}
	to := r.Clone(r.Context())
	if q := to.URL.Query(); q.Has("list-type") {
		q.Set("max-keys", "7")
		to.URL.RawQuery = q.Encode()
	}
	to.RequestURI = to.URL.RequestURI()
	to.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
	if to.Body == nil {
		to.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	n.store.ServeHTTP(w, to)
	a := w.Result()
	a.Request = r
	if a.Header.Get("Content-Length") == "" {
		a.Header.Set("Content-Length", fmt.Sprint(w.Body.Len()))
		a.ContentLength = int64(w.Body.Len())
	}
	if fails {
		return n.fault.after(a)
	}
	return a, nil
}

func (n *network) target(t *testing.T, tries int) replicate.Target {
	t.Helper()
	target, err := open("s3://bucket/below?region=us-east-1&endpoint=store", n, tries)
	must(t, err)
	return target
}

// TestFaultyCalls fails each request of each call in each way: a Put that returns nil has stored
// its object, and after an error it is there whole or as before; a Get returns the object or an
// error; a List that returns nil lists all; a Delete that returns nil has deleted.
func TestFaultyCalls(t *testing.T) {
	old, now := bytes.Repeat([]byte("old"), 1000), bytes.Repeat([]byte("new"), 2000)
	for _, f := range faults {
		for at := 0; ; at++ {
			n := newNetwork(t)
			sound, target := n.target(t, 1), n.target(t, 1)
			var want []string
			for i := range 20 {
				want = append(want, fmt.Sprintf("g/%02d", i))
				must(t, sound.Put(ctx, want[i], old))
			}
			say := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s of request %d: %s", f.name, at, fmt.Sprintf(format, args...))
			}
			any := false
			try := func(call func() error) error {
				n.fail(f, at, 1)
				err := call()
				failed, tell := n.failures()
				n.fail(f, -1, 0)
				any = any || len(failed) > 0
				if tell && err == nil {
					say("nobody was told")
				}
				return err
			}

			err := try(func() error { return target.Put(ctx, want[0], now) })
			got, gerr := sound.Get(ctx, want[0])
			if must(t, gerr); !bytes.Equal(got, now) && (err == nil || !bytes.Equal(got, old)) {
				say("after a Put with the error %v it has %d bytes", err, len(got))
			}
			err = try(func() error { got, gerr = target.Get(ctx, want[1]); return gerr })
			if err == nil && !bytes.Equal(got, old) && !f.silent {
				say("Get returned %d bytes", len(got))
			}
			if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(f.name, "404") {
				say("Get: %v", err)
			}
			var names []string
			err = try(func() error { names, gerr = target.List(ctx, "g/"); return gerr })
			if slices.Sort(names); err == nil && !slices.Equal(names, want) {
				say("List returned %q", names)
			}
			err = try(func() error { return target.Delete(ctx, want[2]) })
			_, gerr = sound.Get(ctx, want[2])
			if err == nil && !errors.Is(gerr, fs.ErrNotExist) && f.name != pageOfGateway {
				say("Delete returned nil, and the object is there, %v", gerr)
			}
			if !any {
				break
			}
		}
	}
}

// TestFaultyParts fails each request of a Put in several parts.
func TestFaultyParts(t *testing.T) {
	data := make([]byte, 5<<20+1) // the smallest part, and another one
	for i, f := range faults {
		if i%seed.Scale(8, 4, 1) != 0 && f.name != "200 with an error" {
			continue
		}
		for at := 0; ; at++ {
			n := newNetwork(t)
			parts := n.target(t, 1).(*target)
			parts.partSize = 5 << 20
			data[at]++
			n.fail(f, at, 1)
			err := parts.Put(ctx, "a", data)
			failed, tell := n.failures()
			n.fail(f, -1, 0)
			got, gerr := parts.Get(ctx, "a")
			there := gerr == nil && bytes.Equal(got, data)
			absent := err != nil && errors.Is(gerr, fs.ErrNotExist)
			if !there && !absent || err == nil && tell {
				t.Errorf("%s of %s: %v, then %d bytes, %v", f.name, failed, err, len(got), gerr)
			}
			if len(failed) == 0 {
				if must(t, err); at < 4 {
					t.Errorf("%d requests", at)
				}
				break
			}
		}
	}
}

// life is a database, its replicator, and the states that were sent.
type life struct {
	t      *testing.T
	n      *network
	fs     *crashfs.FS
	db     *lsm.DB
	o      replicate.Options
	mu     sync.Mutex
	now    time.Time
	states []sent
	told   []error
}

type sent struct {
	at   time.Time
	want map[string]string
}

const keep = 4 * time.Second

func newLife(t *testing.T, n *network) *life {
	t.Helper()
	l := &life{t: t, n: n, fs: crashfs.New(), now: time.Unix(1_700_000_000, 0)}
	db, err := lsm.Open("/db", &lsm.Options{FS: l.fs, WALRetentionBytes: 1 << 20})
	must(t, err)
	l.db = db
	l.o = replicate.Options{Interval: time.Microsecond, SnapshotEvery: 2 * time.Second,
		Keep: keep, SegmentBytes: 100, Clock: l.clock}
	return l
}

func (l *life) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// write makes a step of the database's life.
func (l *life) write(step int) {
	l.mu.Lock()
	l.now = l.now.Add(time.Second)
	l.mu.Unlock()
	for i := range 3 {
		must(l.t, l.db.Put(fmt.Appendf(nil, "k%d", (step*5+i)%7), fmt.Appendf(nil, "%d.%d", step,
			i), lsm.NoSync))
	}
	switch step {
	case 1:
		k, err := l.db.Keyspace("trees", nil)
		must(l.t, err)
		must(l.t, k.Put([]byte("ash"), bytes.Repeat([]byte("Fraxinus"), 50), lsm.NoSync))
	case 3:
		must(l.t, l.db.DropKeyspace("trees"))
	case 4:
		must(l.t, l.db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			yield([]byte("loaded"), []byte("x"))
		}, nil))
	}
}

// send sends everything, in a Run of its own. With patience it goes on after errors, and otherwise
// a cancel ends it at the first one.
func (l *life) send(target replicate.Target, patience bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.n.mu.Lock()
	l.n.cancel = cancel
	l.n.mu.Unlock()
	o := l.o
	ended := make(chan struct{})
	close(ended)
	o.Until = ended
	o.Status = func(s replicate.Status) {
		if s.Err != nil {
			l.told = append(l.told, s.Err)
			if !patience {
				cancel()
			}
		}
	}
	err := replicate.Run(ctx, l.db, target, &o)
	if err == nil {
		l.states = append(l.states, sent{l.clock().Add(time.Second / 2), contents(l.t, l.db)})
	}
	return err
}

// contents are all entries, by keyspace and key.
func contents(t *testing.T, db *lsm.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range db.Keyspaces() {
		k, err := db.Keyspace(name, &lsm.KeyspaceOptions{ErrorIfMissing: true})
		must(t, err)
		all[name] = "a keyspace"
		it := k.Iter(nil)
		for ok := it.First(); ok; ok = it.Next() {
			all[name+"/"+string(it.Key())] = string(it.Value())
		}
		must(t, it.Close())
	}
	return all
}

// restore restores a moment, and returns what the database has.
func restore(t *testing.T, target replicate.Target, at time.Time) (map[string]string, error) {
	t.Helper()
	o := &lsm.Options{FS: crashfs.New()}
	_, err := replicate.Restore(ctx, target, "/new", &replicate.RestoreOptions{At: at, Open: o})
	if err != nil {
		if names, _ := o.FS.List("/"); len(names) > 0 {
			t.Errorf("%q is left of a restore that failed: %v", names, err)
		}
		return nil, err
	}
	db, err := lsm.Open("/new", o)
	must(t, err)
	defer db.Close()
	return contents(t, db), nil
}

// check restores the states that are kept.
func (l *life) check(what string) {
	l.t.Helper()
	target := l.n.target(l.t, 1)
	for i, s := range l.states {
		if l.clock().Sub(s.at) > keep {
			continue
		}
		got, err := restore(l.t, target, s.at)
		if err != nil || !maps.Equal(got, s.want) {
			l.t.Fatalf("%s: state %d of %d: %v, %v, want %v", what, i, len(l.states), err, got,
				s.want)
		}
	}
}

const steps = 7

// TestFaultyReplicas fails each request of a replicator in each way, once, and for all requests
// until the replicator is ended and another one goes on. Whatever Run said is sent is restored as
// it was, and a failure is told.
func TestFaultyReplicas(t *testing.T) {
	every := seed.Scale(61, 41, 3)
	lives := 0
	for i, f := range append(faults[:len(faults):len(faults)], canceled...) {
		for _, ended := range []bool{false, true} {
			if ended && f.silent || !ended && f.cancels {
				continue
			}
			for at := i % every; ; at += every {
				n := newNetwork(t)
				l := newLife(t, n)
				what := fmt.Sprintf("%s of request %d, ended %t", f.name, at, ended)
				lasts := 1
				if ended {
					lasts = 1 << 30
				}
				n.fail(f, at, lasts)
				faulty, any := n.target(t, 1+at%3), false
				for step := range steps {
					l.write(step)
					err := l.send(faulty, !ended)
					if err != nil && (!ended || !errors.Is(err, context.Canceled)) {
						t.Fatalf("%s: %v", what, err)
					}
					requests, _ := n.failures()
					any = any || len(requests) > 0
					if err != nil {
						n.fail(f, -1, 0)
						must(t, l.send(faulty, true))
					}
				}
				n.fail(f, -1, 0)
				l.check(what)
				must(t, l.db.Close())
				if lives++; !any {
					if at < 20 {
						t.Fatalf("%s: %d requests, expected more", what, at)
					}
					break
				}
			}
		}
	}
	t.Logf("%d lives", lives)
}

// TestFaultyRestores fails each request of a list and of restores in each way: the state is the one
// that was sent, or there is an error.
func TestFaultyRestores(t *testing.T) {
	n := newNetwork(t)
	l := newLife(t, n)
	l.o.Keep = 0
	sound := n.target(t, 1)
	for step := range steps {
		l.write(step)
		must(t, l.send(sound, true))
	}
	must(t, l.db.Close())
	want, err := replicate.List(ctx, sound)
	must(t, err)
	restores, failed := 0, 0
	for _, f := range faults {
		for i, s := range l.states {
			for at := 0; ; at++ {
				what := fmt.Sprintf("%s of request %d, state %d", f.name, at, i)
				n.fail(f, at, 1)
				got, err := restore(t, sound, s.at)
				restores++
				requests, tell := n.failures()
				if err == nil && !maps.Equal(got, s.want) {
					t.Errorf("%s: restored %v, want %v", what, got, s.want)
				}
				if err == nil && tell {
					t.Errorf("%s: nobody was told of %s", what, requests)
				}
				if len(requests) == 0 {
					must(t, err)
					break
				}
				failed++
			}
		}
		for at := 0; ; at++ {
			n.fail(f, at, 1)
			got, err := replicate.List(ctx, sound)
			if requests, _ := n.failures(); len(requests) == 0 {
				must(t, err)
				break
			}
			if err == nil && !same(got, want) {
				t.Errorf("%s of request %d: listed %+v, want %+v", f.name, at, got, want)
			}
		}
	}
	t.Logf("%d restores, %d failures", restores, failed)
}

// same compares what replicate.List returned. An object begin that could not be read is told.
func same(got, want []replicate.Info) bool {
	return slices.EqualFunc(got, want, func(a, b replicate.Info) bool {
		return a.Generation == b.Generation && a.Last.Equal(b.Last) && a.Sequence == b.Sequence &&
			a.Objects == b.Objects && (a.Directory == b.Directory || a.Err != nil)
	})
}

// TestPartOfSnapshot: the largest object that a snapshot has is stored by one request.
func TestPartOfSnapshot(t *testing.T) {
	n := newNetwork(t)
	target := n.target(t, 1)
	n.fail(fault{}, -1, 0)
	must(t, target.Put(ctx, "a", make([]byte, 16<<20+1<<18)))
	if n.calls != 1 {
		t.Errorf("%d requests", n.calls)
	}
}

// TestCutAnswers: an object whose bytes do not all arrive is read again, as often as requests are.
func TestCutAnswers(t *testing.T) {
	cut := faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == "cut answer" })]
	for lasts := range 5 {
		n := newNetwork(t)
		target := n.target(t, 4)
		must(t, target.Put(ctx, "a", []byte("an object")))
		n.fail(cut, 0, lasts)
		got, err := target.Get(ctx, "a")
		if lasts < 4 && (err != nil || string(got) != "an object") ||
			lasts == 4 && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d cuts: %q, %v", lasts, got, err)
		}
		n.fail(faults[0], 0, 100)
		if _, err := target.Get(ctx, "a"); err == nil || n.calls != 4 {
			t.Errorf("refused %d times: %v", n.calls, err)
		}
		n.fail(fault{}, -1, 0)
		if _, err := target.Get(ctx, "b"); !errors.Is(err, fs.ErrNotExist) || n.calls != 1 {
			t.Errorf("asked %d times for nothing: %v", n.calls, err)
		}
	}
}
