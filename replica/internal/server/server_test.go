package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/loamdtest"
	"github.com/loamdb/loam/replica/internal/server"
	"github.com/loamdb/loam/replica/internal/wire"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// caller is a connection without a client's care.
type caller struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func call(t testing.TB, addr string) *caller {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &caller{t, c, bufio.NewReader(c)}
}

// send sends bytes. A server that has closed the connection may not take them.
func (c *caller) send(b []byte) { _, _ = c.Write(b) }

// answer reads an answer.
func (c *caller) answer() (number uint32, result []byte, err error) {
	body, err := wire.ReadFrame(c.in, wire.MaxBody)
	if err != nil {
		return 0, nil, err
	}
	return wire.DecodeAnswer(body)
}

// closed wants the end of the connection, and returns what came before.
func (c *caller) closed() string {
	c.t.Helper()
	b, err := io.ReadAll(c.in)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Error(err)
	}
	return string(b)
}

func (c *caller) greet(g wire.Greeting) error {
	if g.Version == 0 {
		g.Version = wire.Version
	}
	c.send(wire.AppendGreeting(nil, &g))
	_, _, err := c.answer()
	return err
}

// greeted is a connection that may make calls.
func greeted(t testing.TB, addr string) *caller {
	t.Helper()
	c := call(t, addr)
	must(t, c.greet(wire.Greeting{}))
	return c
}

func (c *caller) call(number uint32, op wire.Operation, args ...byte) {
	c.send(wire.AppendCall(nil, &wire.Call{Number: number, Op: op, Args: args}, nil))
}

// lives wants an answer to a call.
func (c *caller) lives() {
	c.t.Helper()
	c.call(77, wire.OpStatus)
	if number, _, err := c.answer(); number != 77 || err != nil {
		c.t.Errorf("answer %d, %v", number, err)
	}
}

// dial makes a client of all nodes.
func dial(t testing.TB, c *loamdtest.Cluster, o client.Options) *client.Client {
	t.Helper()
	o.Timeout = time.Minute
	db, err := client.Dial(c.Addrs(), &o)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// TestToken: without the token nothing is answered, on no port.
func TestToken(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) { c.Token = "sesame" }, "a")
	for _, g := range []wire.Greeting{{}, {Token: "Sesame"}, {Token: "sesame "}, {Token: "sesam"},
		{Role: wire.Peer, Cluster: "loam"}, {Cluster: "other", Token: "guess"}} {
		x := call(t, c.Addr("a"))
		err := x.greet(g)
		if !errors.Is(err, wire.ErrUnauthorized) || !errors.Is(err, wire.ErrRefused) {
			t.Fatalf("%+v: %v", g, err)
		}
		x.call(1, wire.OpStatus)
		if said := x.closed(); said != "" {
			t.Errorf("%+v: a call gets %q", g, said)
		}
	}
	x := call(t, c.Addr("a"))
	x.call(1, wire.OpStatus)
	if said := x.closed(); said != "" {
		t.Errorf("a call without a greeting gets %q", said)
	}
	for _, path := range []string{"/health", "/metrics", "/metrics.json", "/", "/debug"} {
		for token, want := range map[string]bool{"": false, "Bearer Sesame": false, "sesame": true,
			"Bearer sesame": true} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", token)
			w := httptest.NewRecorder()
			c.Servers["a"].Handler().ServeHTTP(w, r)
			if (w.Code != http.StatusUnauthorized) != want {
				t.Errorf("%s with %q: %d", path, token, w.Code)
			}
		}
	}
	db := dial(t, c, client.Options{Token: "sesame", Cluster: "loam"})
	must(t, db.Put(t.Context(), []byte("a"), []byte("1")))
	wrong := dial(t, c, client.Options{Token: "simsim"})
	if err := wrong.Put(t.Context(), []byte("a"), nil); !errors.Is(err, client.ErrNotApplied) ||
		!errors.Is(err, client.ErrUnauthorized) {
		t.Error(err)
	}
}

// TestGreetings: callers of other clusters and versions are refused in a sentence.
func TestGreetings(t *testing.T) {
	c := loamdtest.Start(t, nil, "a")
	for _, g := range []struct {
		wire.Greeting
		want string
	}{
		{wire.Greeting{Version: 2}, "speaks version 2 of the protocol, and this node version 1"},
		{wire.Greeting{Cluster: "other"}, `of cluster "other", and this node of "loam"`},
		{wire.Greeting{Role: wire.Peer}, `of cluster "", and this node of "loam"`},
	} {
		err := call(t, c.Addr("a")).greet(g.Greeting)
		if !errors.Is(err, wire.ErrRefused) || !strings.Contains(err.Error(), g.want) {
			t.Errorf("%+v: %v", g.Greeting, err)
		}
	}
	for _, b := range []string{"GET / HTTP/1.1\r\n\r\n", "LOAM\x01\x01\x04loam",
		strings.Repeat("\xff", 99),
		strings.Repeat("\x00", 99)} {
		x := call(t, c.Addr("a"))
		x.send([]byte(b))
		if said := x.closed(); said != "" {
			t.Errorf("%q gets %q", b, said)
		}
	}
	dial(t, c, client.Options{Cluster: "loam"})
}

// TestBadFrames: a bad frame ends its own connection, and no other.
func TestBadFrames(t *testing.T) {
	c := loamdtest.Start(t, nil, "a")
	other := greeted(t, c.Addr("a"))
	good := wire.AppendCall(nil, &wire.Call{Number: 1, Op: wire.OpStatus}, nil)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	long := binary.LittleEndian.AppendUint32(nil, wire.MaxBody+1)
	short := wire.BeginFrame(nil)
	short = append(short, 1, 2, 3)
	wire.EndFrame(short, 0)
	empty := wire.BeginFrame(nil)
	wire.EndFrame(empty, 0)
	for what, b := range map[string][]byte{"checksum": flipped, "length": append(long, 0, 0, 0, 0),
		"short": short, "empty": empty} {
		x := greeted(t, c.Addr("a"))
		x.lives()
		x.send(b)
		if number, _, err := x.answer(); number != 0 || err == nil {
			t.Fatalf("%s: answer %d, %v", what, number, err)
		}
		if said := x.closed(); said != "" {
			t.Errorf("%s: %q", what, said)
		}
		other.lives()
	}
}

// TestStatusAtOnce: a call for the status is answered while reads before it wait for a leader.
func TestStatusAtOnce(t *testing.T) {
	c := loamdtest.Start(t, leaderless, "a")
	x := greeted(t, c.Addr("a"))
	x.call(1, wire.OpGet, byte(wire.Local), 1, 1, 'a')
	x.call(2, wire.OpGet, byte(wire.Linearizable), 1, 'a')
	x.lives()
	must(t, x.Close())
}

// TestTimeBeginsWithACall: a call that has waited for others until its time was over is not begun.
func TestTimeBeginsWithACall(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Millisecond, 24 * time.Hour} {
		if !server.Over(time.Unix(1, 0), limit) || server.Over(time.Unix(1<<34, 0), limit) {
			t.Error(limit)
		}
	}
}

// TestStopWithoutALeader: calls that wait for a leader when the node is stopped get answers: a
// change was not applied, and other nodes may do better.
func TestStopWithoutALeader(t *testing.T) {
	c := loamdtest.Start(t, leaderless, "a")
	x := greeted(t, c.Addr("a"))
	change := wire.Change{Batch: lsm.NewBatch().Bytes()}
	b, err := change.Encode()
	must(t, err)
	x.call(1, wire.OpWrite, b...)
	x.call(2, wire.OpGet, byte(wire.Linearizable), 1, 'a')
	x.call(3, wire.OpGet, byte(wire.Local), 1, 1, 'a')
	x.lives() // so that the server has the others
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, c.Servers["a"].Close(ended))
	delete(c.Servers, "a")
	for range 3 {
		number, _, err := x.answer()
		if !errors.Is(err, wire.ErrUnavailable) || errors.Is(err, wire.ErrUnknown) ||
			errors.Is(err, wire.ErrNotApplied) != (number == 1) {
			t.Errorf("answer %d: %v", number, err)
		}
	}
	if said := x.closed(); said != "" {
		t.Errorf("then %q", said)
	}
}

// leaderless makes a node one of a cluster whose other nodes do not run.
func leaderless(c *server.Config) {
	c.LastAnswers = time.Hour
	c.Node.Peers = map[string]string{"a": c.Node.Addr, "b": "127.0.0.1:1", "c": "127.0.0.1:2"}
}

// TestArguments: calls with malformed arguments fail, and their connection goes on.
func TestArguments(t *testing.T) {
	c := loamdtest.Start(t, nil, "a")
	x := greeted(t, c.Addr("a"))
	view := byte(wire.Linearizable)
	for i, args := range []struct {
		op   wire.Operation
		args []byte
	}{
		{0, nil}, {wire.Operations, nil}, {255, []byte("x")},
		{wire.OpGet, nil}, {wire.OpGet, []byte{9, 0}}, {wire.OpGet, []byte{view, 5, 'a'}},
		{wire.OpGet, []byte{view, 1, 'a', 'b'}}, {wire.OpHas, []byte{view}},
		{wire.OpGet, []byte{byte(wire.AtSnapshot), 200, 1, 0}},
		{wire.OpGet, []byte{byte(wire.Local)}},
		{wire.OpMultiGet, []byte{view, 2, 0}}, {wire.OpMultiGet, []byte{view, 0, 0}},
		{wire.OpMultiGet, append([]byte{view}, binary.AppendUvarint(nil, 1<<40)...)},
		{wire.OpScan, []byte{view}}, {wire.OpScan, []byte{view, 128, 0, 0}},
		{wire.OpScan, []byte{view, 4, 9, 0}}, {wire.OpSnapshot, nil},
		{wire.OpWrite, nil}, {wire.OpWrite, []byte{1, 0, 0}}, {wire.OpWrite, []byte{9}},
		{wire.OpWrite, append([]byte{1, 0}, binary.AppendUvarint(nil, 1<<60)...)},
		{wire.OpWrite, []byte{2, 0, 0, 1, 1, 'b', 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{wire.OpAddVoter, []byte{1, 'x'}}, {wire.OpAddVoter, []byte{1, 'x', 1, 'y'}},
		{wire.OpRemove, []byte{0}}, {wire.OpRemove, []byte{1, 'a', 0}},
		{wire.OpTransfer, []byte{1, 'x'}},
		{wire.OpCheckpoint, []byte{2, '.', '.'}}, {wire.OpCheckpoint, []byte{3, 'a', '/', 'b'}},
		{wire.OpCheckpoint, []byte{0}}, {wire.OpCheckpoint, []byte{1, '.'}},
	} {
		x.call(uint32(i+1), args.op, args.args...)
		number, _, err := x.answer()
		if number != uint32(i+1) || err == nil {
			t.Errorf("%v %v: answer %d, %v", args.op, args.args, number, err)
		}
		var remote *wire.RemoteError
		if !errors.As(err, &remote) {
			t.Fatalf("%v %v: %v", args.op, args.args, err)
		}
		change := args.op >= wire.OpWrite || args.op == 0
		if change && !errors.Is(err, wire.ErrNotApplied) {
			t.Errorf("%v %v: %v", args.op, args.args, err)
		}
	}
	x.lives()
}

// TestClosedNode: calls of a node that was closed fail such that a client asks another node, and
// changes as not applied besides.
func TestClosedNode(t *testing.T) {
	c := loamdtest.Start(t, nil, "a")
	x := greeted(t, c.Addr("a"))
	x.lives()
	s := c.Servers["a"]
	delete(c.Servers, "a")
	defer func() { _ = s.Close(t.Context()) }() // its node is closed
	must(t, s.Node().Close())
	change := wire.Change{Batch: lsm.NewBatch().Bytes()}
	b, err := change.Encode()
	must(t, err)
	for i, a := range []struct {
		op   wire.Operation
		args []byte
	}{
		{wire.OpWrite, b}, {wire.OpRemove, []byte{1, 'b'}}, {wire.OpTransfer, []byte{0}},
		{wire.OpCheckpoint, []byte{1, 'x'}}, {wire.OpGet, []byte{byte(wire.Linearizable), 1, 'a'}},
	} {
		x.call(uint32(i+1), a.op, a.args...)
		_, _, err := x.answer()
		if !errors.Is(err, wire.ErrUnavailable) ||
			a.op != wire.OpGet && !errors.Is(err, wire.ErrNotApplied) {
			t.Errorf("%v: %v", a.op, err)
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics.json", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("its metrics: %d %q", w.Code, w.Body)
	}
}

// TestLimits: what is too large fails in a sentence.
func TestLimits(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) { c.MaxClients, c.MaxSnapshots = 2, 3 }, "a")
	db := dial(t, c, client.Options{})
	large := make([]byte, 3<<20)
	for _, k := range []string{"a", "b", "c"} {
		must(t, db.Put(t.Context(), []byte(k), large))
	}
	if err := db.Put(t.Context(), []byte("d"), make([]byte, wire.MaxChange)); !errors.Is(err,
		lsm.ErrTooLarge) || !errors.Is(err, client.ErrNotApplied) {
		t.Error(err)
	}
	keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	if _, err := db.MultiGet(t.Context(), keys); !errors.Is(err, lsm.ErrTooLarge) {
		t.Error(err)
	}
	if v, err := db.MultiGet(t.Context(), keys[:2]); err != nil || len(v[1]) != len(large) {
		t.Error(len(v), err)
	}
	it, err := db.Iter(t.Context(), nil)
	must(t, err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n += len(it.Value())
	}
	if must(t, it.Close()); n != 3*len(large) {
		t.Error(n)
	}
	var snaps []kv.Snapshot
	for range 3 {
		s, err := db.Snapshot(t.Context())
		must(t, err)
		snaps = append(snaps, s)
	}
	if _, err := db.Snapshot(t.Context()); !errors.Is(err, lsm.ErrBusy) {
		t.Error(err)
	}
	must(t, snaps[0].Close())
	s, err := db.Snapshot(t.Context())
	must(t, err)
	must(t, s.Close())
	second := greeted(t, c.Addr("a"))
	if err := call(t, c.Addr("a")).greet(wire.Greeting{}); !errors.Is(err, wire.ErrRefused) {
		t.Error(err)
	}
	second.lives()
}

// TestLease: a snapshot that is not used goes, and its memory; one that is used stays.
func TestLease(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) { c.Lease = time.Hour }, "a")
	db := dial(t, c, client.Options{})
	must(t, db.Put(t.Context(), []byte("a"), []byte("1")))
	s, err := db.Snapshot(t.Context())
	must(t, err)
	it, err := s.Iter(t.Context(), nil)
	must(t, err)
	must(t, db.Put(t.Context(), []byte("a"), []byte("2")))
	now := time.Now()
	c.Servers["a"].Expire(now.Add(30 * time.Minute))
	if v, err := s.Get(t.Context(), []byte("a")); err != nil || string(v) != "1" {
		t.Error(string(v), err)
	}
	c.Servers["a"].Expire(now.Add(2 * time.Hour))
	if _, err := s.Get(t.Context(), []byte("a")); !errors.Is(err, client.ErrSnapshotGone) {
		t.Error(err)
	}
	if it.First() || !errors.Is(it.Err(), client.ErrSnapshotGone) {
		t.Error(it.Err())
	}
	_ = it.Close() // with the error that is known
	must(t, s.Close())
}

// TestSlowClient: a client that reads no answers costs bounded memory, and holds nobody up.
func TestSlowClient(t *testing.T) {
	p := newPipes()
	c := loamdtest.Start(t, func(c *server.Config) {
		c.Listen, c.Timeout = p.listen, time.Hour
	}, "a")
	quick, slow := p.greeted(t), p.greeted(t)
	defer func() { _ = slow.Close() }() // of a failed test
	must(t, c.Servers["a"].Node().Put(t.Context(), []byte("a"), make([]byte, 1<<20)))
	sent := make(chan int)
	go func() { // until the server reads no further
		n := 0
		b := wire.AppendCall(nil, &wire.Call{Number: 1, Op: wire.OpGet,
			Args: []byte{0, 1, 'a'}}, nil)
		for ; ; n++ {
			if _, err := slow.Write(b); err != nil {
				sent <- n
				return
			}
		}
	}()
	for {
		quick.lives()
		calls, answers := c.Servers["a"].Waiting()
		if calls > server.MaxHeld+2*server.CallCost || answers > 3<<19 {
			t.Fatalf("%d bytes of calls and %d of answers wait", calls, answers)
		}
		if calls > server.MaxHeld-server.CallCost {
			break
		}
	}
	must(t, slow.Close())
	if n := <-sent; n > server.MaxHeld/server.CallCost+1 {
		t.Errorf("%d calls were read", n)
	}
	quick.lives()
	must(t, quick.Close())
}

// hasty is a connection on which the time for reads is over at once, when a read has one.
type hasty struct{ net.Conn }

func (h hasty) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = time.Unix(1, 0)
	}
	return h.Conn.SetReadDeadline(t)
}

type hastyListener struct{ net.Listener }

func (l hastyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return hasty{c}, err
}

// TestHalfACall: a client may be quiet for as long as it likes between calls. Within one it may
// not: the connection ends, and with it the memory that the beginning takes.
func TestHalfACall(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) {
		c.Timeout = time.Hour
		listen := c.Listen
		c.Listen = func(addr string) (net.Listener, error) {
			l, err := listen(addr)
			return hastyListener{l}, err
		}
	}, "a")
	whole := wire.AppendCall(nil, &wire.Call{Number: 1, Op: wire.OpStatus}, nil)
	large := wire.AppendCall(nil, &wire.Call{Number: 1, Op: wire.OpWrite,
		Args: make([]byte, 1<<20)}, nil)
	for what, part := range map[string][]byte{"a byte": whole[:1], "a length": whole[:7],
		"half": whole[:len(whole)-1], "two and a half": slices.Concat(whole, whole, whole[:9]),
		"a large one": large[:len(large)-1]} {
		x := greeted(t, c.Addr("a"))
		x.lives()
		x.lives()
		x.send(part)
		for ; len(part) > len(whole) && len(part) < len(large)/2; part = part[len(whole):] {
			if number, _, err := x.answer(); number != 1 || err != nil {
				t.Errorf("%s: answer %d, %v", what, number, err)
			}
		}
		if said := x.closed(); said != "" {
			t.Errorf("%s: %q", what, said)
		}
	}
}

// timed is a connection that tells whether reads from it have a time-out, and when they get one.
type timed struct {
	net.Conn
	on  *atomic.Bool
	set chan<- struct{}
}

func (c timed) SetReadDeadline(t time.Time) error {
	if c.on.Store(!t.IsZero()); !t.IsZero() {
		c.set <- struct{}{}
	}
	return c.Conn.SetReadDeadline(t)
}

type timedListener struct {
	net.Listener
	on  *atomic.Bool
	set chan<- struct{}
}

func (l timedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return timed{c, l.on, l.set}, err
}

// TestQuietBehindASplitCall: a client may be quiet behind a call whose length came in two pieces,
// too.
func TestQuietBehindASplitCall(t *testing.T) {
	var on atomic.Bool
	set := make(chan struct{}, 1<<10)
	c := loamdtest.Start(t, func(c *server.Config) {
		listen := c.Listen
		c.Listen = func(addr string) (net.Listener, error) {
			l, err := listen(addr)
			return timedListener{l, &on, set}, err
		}
	}, "a")
	x := greeted(t, c.Addr("a"))
	x.lives()
	status := wire.AppendCall(nil, &wire.Call{Number: 77, Op: wire.OpStatus}, nil)
	for n := 1; n < len(status); n++ {
		x.send(status[:n])
		<-set // the server has read the first piece
		x.send(status[n:])
		if number, _, err := x.answer(); number != 77 || err != nil || on.Load() {
			t.Fatalf("%d bytes first: answer %d, %v; reads have a time-out: %v", n, number, err,
				on.Load())
		}
	}
}

// TestSnapshotsInABatch: a snapshot that is refused, or released by its client, leaves the state to
// the calls that read it with the snapshot.
func TestSnapshotsInABatch(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) { c.MaxSnapshots = 1 }, "a")
	x := greeted(t, c.Addr("a"))
	view := byte(wire.Linearizable)
	var batch []byte
	for i, call := range []wire.Call{{Op: wire.OpSnapshot, Args: []byte{view}},
		{Op: wire.OpSnapshot, Args: []byte{view}}, {Op: wire.OpHas, Args: []byte{view, 1, 'a'}}} {
		call.Number = uint32(i + 1)
		batch = wire.AppendCall(batch, &call, nil)
	}
	for round := range 2 { // the second time there is no room for any
		x.send(batch)
		for i, busy := range []bool{round > 0, true, false} {
			number, _, err := x.answer()
			if number != uint32(i+1) || errors.Is(err, lsm.ErrBusy) != busy || !busy && err != nil {
				t.Errorf("round %d: answer %d, %v", round, number, err)
			}
		}
	}
	x.call(1, wire.OpHas, byte(wire.AtSnapshot), 1, 1, 'a')
	if _, result, err := x.answer(); len(result) != 1 || err != nil {
		t.Errorf("the snapshot: %v, %v", result, err)
	}
}

// TestStop: calls that a server has when it is stopped are answered, and what was acknowledged
// stays.
func TestStop(t *testing.T) {
	c := loamdtest.Start(t, nil, "a", "b", "c")
	db := dial(t, c, client.Options{})
	must(t, db.Once("first").Put(t.Context(), []byte("first"), nil))
	s, err := db.Status(t.Context())
	must(t, err)
	stopped := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				k := fmt.Sprint(w, " ", i)
				if err := db.Once(k).Put(t.Context(), []byte(k), []byte(k)); err != nil {
					t.Error(err)
				}
				if v, err := db.Get(t.Context(), []byte(k)); err != nil || string(v) != k {
					t.Errorf("%q: %q, %v", k, v, err)
				}
				select {
				case <-stopped:
					return
				default:
				}
			}
		})
	}
	c.Stop(s.Leader)
	close(stopped)
	writers.Wait()
	c.Restart(s.Leader)
	must(t, db.Once("last").Put(t.Context(), []byte("last"), nil))
	w := httptest.NewRecorder()
	c.Servers[s.Leader].Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"\nloamd_members 3\n", "\nloamd_calls_total{operation=\"get\"} ",
		"\nloam_memtables{"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}
