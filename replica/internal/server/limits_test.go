package server_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/loamdtest"
	"github.com/loamdb/loam/replica/internal/server"
	"github.com/loamdb/loam/replica/internal/wire"
)

// pipes is a listener of connections without buffers.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) listen(string) (net.Listener, error) { return p, nil }

func (p *pipes) call(t testing.TB) *caller {
	near, far := net.Pipe()
	p.conns <- far
	t.Cleanup(func() { _ = near.Close() }) // before the server stops
	return &caller{t, near, bufio.NewReader(near)}
}

func (p *pipes) greeted(t testing.TB) *caller {
	t.Helper()
	x := p.call(t)
	must(t, x.greet(wire.Greeting{}))
	return x
}

// TestDisplaced: a silent caller is displaced by a newer caller after a twentieth of the time-out,
// a caller in its greeting after a quarter.
func TestDisplaced(t *testing.T) {
	for _, x := range []struct {
		ages []time.Duration // negative: it speaks
		gone int             // -1: none
		wait time.Duration
	}{
		{[]time.Duration{4}, -1, 1}, {[]time.Duration{5}, 0, 0}, {[]time.Duration{-24}, -1, 1},
		{[]time.Duration{-25}, 0, 0}, {[]time.Duration{-24, -3, 5, 2}, 2, 0},
		{[]time.Duration{-24, -3, 3, 2}, -1, 1}, {[]time.Duration{-20, 3}, -1, 2},
		{[]time.Duration{-26, 5}, 0, 0},
	} {
		if gone, wait := server.Displaced(100, x.ages...); gone != x.gone || wait != x.wait {
			t.Errorf("%v: %d goes after %d", x.ages, gone, wait)
		}
	}
}

// TestStrangers: callers that have begun to speak wait for each other: else clients that come all
// at once over TLS would displace each other.
func TestStrangers(t *testing.T) {
	p := newPipes()
	loamdtest.Start(t, func(c *server.Config) {
		c.Listen, c.MaxStrangers, c.Timeout = p.listen, 2, time.Hour
	}, "a")
	greeting := wire.AppendGreeting(nil, &wire.Greeting{Version: wire.Version})
	half := func() *caller {
		x := p.call(t)
		x.send(greeting[:3])
		x.send(greeting[3:5]) // which the server reads behind the others
		return x
	}
	end := func(x *caller) {
		t.Helper()
		x.send(greeting[5:])
		if _, _, err := x.answer(); err != nil {
			t.Fatal(err)
		}
		x.lives()
	}
	first, second := half(), half()
	third, greeted := p.call(t), make(chan error, 1)
	go func() { greeted <- third.greet(wire.Greeting{}) }()
	end(first) // which makes room for the third one
	if err := <-greeted; err != nil {
		t.Fatal(err)
	}
	third.lives()
	end(second)
	for _, x := range []*caller{first, second, third} {
		must(t, x.Close())
	}
}

// TestCrowd: many clients that come at once all get through, in turn.
func TestCrowd(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) {
		c.MaxStrangers, c.Timeout = 4, time.Hour
	}, "a")
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			conn, err := net.Dial("tcp", c.Addr("a"))
			if err != nil {
				t.Error(err)
				return
			}
			x := &caller{t, conn, bufio.NewReader(conn)}
			if err := x.greet(wire.Greeting{}); err != nil {
				t.Error(err)
			}
			_ = x.Close() // the server closes its side, too
		})
	}
	all.Wait()
}

// TestNodes: callers that say that they are nodes are bounded, too.
func TestNodes(t *testing.T) {
	p := newPipes()
	c := loamdtest.Start(t, func(c *server.Config) { c.Listen, c.MaxNodes = p.listen, 2 }, "a")
	node := wire.Greeting{Role: wire.Peer, Cluster: "loam"}
	first, second := p.call(t), p.call(t)
	must(t, first.greet(node), second.greet(node))
	if err := p.call(t).greet(node); !errors.Is(err, wire.ErrRefused) {
		t.Errorf("a third one: %v", err)
	}
	must(t, first.Close())
	for { // until the server has seen that
		x := p.call(t)
		err := x.greet(node)
		must(t, x.Close())
		if err == nil {
			break
		}
	}
	must(t, second.Close())
	c.Stop("a")
}

// TestNothingIsKept: callers that are refused, and nodes, leave nothing behind. There is no end of
// them: what looks whether the port is open is refused, too.
func TestNothingIsKept(t *testing.T) {
	for what, said := range map[string][]byte{
		"nothing":     nil,
		"no greeting": []byte("GET / HTTP/1.1\r\n\r\n"),
		"a wrong one": wire.AppendGreeting(nil, &wire.Greeting{Version: wire.Version, Token: "x"}),
		"that of node": wire.AppendGreeting(nil, &wire.Greeting{Version: wire.Version,
			Role: wire.Peer, Cluster: "loam"}),
	} {
		if n := server.KeptOf(said); n != 0 {
			t.Errorf("%s: %d contexts are kept", what, n)
		}
	}
}

// write is a frame of a change whose value has a size.
func write(t testing.TB, number uint32, size int) []byte {
	b := lsm.NewBatch()
	b.Put([]byte("large"), make([]byte, size))
	change := wire.Change{Batch: b.Bytes()}
	args, err := change.Encode()
	must(t, err)
	return wire.AppendCall(nil, &wire.Call{Number: number, Op: wire.OpWrite, Args: args}, nil)
}

// TestMemory: large calls of many clients wait for each other before they are read, small ones of
// others do not wait for them, and what they had is free again when they are gone.
func TestMemory(t *testing.T) {
	p := newPipes()
	c := loamdtest.Start(t, func(c *server.Config) {
		leaderless(c)
		c.Listen, c.Timeout, c.Memory = p.listen, time.Hour, 1
	}, "a")
	quick := p.greeted(t)
	const clients, calls, size = 6, 3, 4 << 20
	send := func(x *caller) {
		for i := range uint32(calls) {
			if _, err := x.Write(write(t, i+1, size)); err != nil {
				return
			}
		}
	}
	// The calls of the first client are all read: the server sees that the client is gone, and
	// gives their room to connections that wait, which see it then. Else all of them might wait
	// for each other, for a quarter of Timeout.
	all := []*caller{p.greeted(t)}
	send(all[0])
	var senders sync.WaitGroup
	for range clients - 1 {
		x := p.greeted(t)
		all = append(all, x)
		senders.Go(func() { send(x) })
	}
	read := make(chan struct{})
	go func() {
		senders.Wait()
		close(read)
	}()
	for full := false; !full; {
		quick.lives()
		calls, _, _ := c.Servers["a"].Room()
		full = calls < size
		select {
		case <-read:
			t.Fatal("the server has read all calls")
		default:
		}
	}
	most := clients*(size+server.FreeCalls) + 2*server.MaxHeld
	if held, _ := c.Servers["a"].Waiting(); held > most {
		t.Errorf("calls have %d bytes", held)
	}
	quick.lives()
	for _, x := range all {
		must(t, x.Close())
	}
	<-read
	for {
		quick.lives()
		if calls, answers, each := c.Servers["a"].Room(); calls == each && answers == each {
			break
		}
	}
	must(t, quick.Close())
}

// sized is a state in which every value has the same size. It counts the bytes that were read.
type sized struct {
	kv.Reader
	size, read int
}

func (s *sized) Get(context.Context, []byte) ([]byte, error) {
	s.read += s.size
	return make([]byte, s.size), nil
}

func (s *sized) MultiGet(_ context.Context, keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i := range values {
		values[i] = make([]byte, s.size)
	}
	s.read += len(keys) * s.size
	return values, nil
}

// TestManyLargeValues: an answer that would be too large takes not much more memory than the
// largest one.
func TestManyLargeValues(t *testing.T) {
	from := &sized{size: 3 << 20}
	_, err := server.MultiGet(t.Context(), from, make([]string, 50)...)
	if !errors.Is(err, lsm.ErrTooLarge) || from.read > 3*from.size {
		t.Errorf("%v; %d bytes were read", err, from.read)
	}
}

// TestFull: where there is no memory for large calls and answers they are refused after a while,
// such that clients ask another node, and small ones are answered.
func TestFull(t *testing.T) {
	c := loamdtest.Start(t, func(c *server.Config) { c.Timeout = 8 * time.Second }, "a")
	x := greeted(t, c.Addr("a"))
	get := []byte{byte(wire.Linearizable), 5, 'l', 'a', 'r', 'g', 'e'}
	scan := wire.AppendScan(wire.AppendView(nil, wire.View{}), &wire.Scan{Keep: true, Entries: 1})
	ask := func() (change, read error) {
		t.Helper()
		x.send(write(t, 1, 1<<20))
		number, _, change := x.answer()
		x.lives()
		x.call(2, wire.OpGet, get...)
		second, result, read := x.answer()
		if number != 1 || second != 2 || read == nil && len(result) != 1<<20+1 {
			t.Errorf("answers %d and %d, %d bytes", number, second, len(result))
		}
		x.lives()
		x.call(3, wire.OpScan, scan...)
		third, result, err := x.answer()
		kept := c.Servers["a"].Snapshots()
		if third != 3 || (read == nil) != (err == nil) || err != nil && kept != 0 ||
			err == nil && (kept != 1 || result[0] != 1 || result[1] == 0) {
			t.Errorf("a scan: answer %d, %v, %d snapshots are open", third, err, kept)
		}
		if err == nil {
			x.call(4, wire.OpRelease, result[1])
			_, _, err = x.answer()
			must(t, err)
		}
		x.lives()
		return change, read
	}
	must(t, dial(t, c, client.Options{}).Put(t.Context(), []byte("next"), nil))
	change, read := ask()
	must(t, change, read)
	free := c.Servers["a"].Fill()
	change, read = ask()
	if !errors.Is(change, wire.ErrNotApplied) || !errors.Is(change, wire.ErrUnavailable) ||
		!errors.Is(read, wire.ErrUnavailable) {
		t.Errorf("without memory: %v, %v", change, read)
	}
	free()
	change, read = ask()
	must(t, change, read)
	calls, answers, each := c.Servers["a"].Room()
	for n := 0; n < 1e5 && (calls < each || answers < each); n++ {
		x.lives() // until the server knows that all is sent
		calls, answers, _ = c.Servers["a"].Room()
	}
	if calls != each || answers != each {
		t.Errorf("of %d bytes %d are left for calls, and %d for answers", each, calls, answers)
	}
}
