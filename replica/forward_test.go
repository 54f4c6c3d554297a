package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/replica/internal/meeting"
	"github.com/loamdb/loam/replica/internal/stream"
)

// caller makes the peers of a node whose other nodes are functions.
func caller(t *testing.T, other func(n int64, c net.Conn)) *peers {
	var dialed atomic.Int64
	c := Config{ID: "a", Addr: "a:1", Cluster: "loam", Timeout: 10 * time.Second,
		Listen: func(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		Dial: func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			go other(dialed.Add(1), far)
			return near, nil
		}}
	y, err := listen(&c, nil)
	must(t, err)
	t.Cleanup(func() { must(t, y.Close()) })
	return newPeers(y)
}

// greeted answers the greeting of a caller, and returns the connection behind it.
func greeted(c net.Conn) net.Conn {
	_, _ = io.ReadFull(c, make([]byte, len(greeting)+3+len("loam"))) // the caller may be gone
	_, _ = c.Write([]byte{0})
	_, _ = meeting.Listen(c)
	_, _ = c.Write([]byte("\x00\x01b\x01m")) // the node b, whose directory has the mark m
	return stream.NewSum(c)
}

// echo answers all calls, by their operations.
func echo(c net.Conn) {
	for {
		b, err := stream.ReadFrame(c, maxFrame)
		if err != nil {
			return
		}
		out := append([]byte{11, 0, 0, 0}, b[:8]...)
		_, _ = c.Write(append(out, 0, 0, b[12])) // the caller may be gone
	}
}

// TestSilentPeer: a connection to another node on which nothing comes is lost when the time of a
// call is over, and the next call makes another one.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := caller(t, func(n int64, c net.Conn) {
			c = greeted(c)
			if n == 1 {
				_, _ = io.Copy(io.Discard, c)
			}
			echo(c)
		})
		change := make(chan error)
		go func() {
			_, sent, err := p.call(t.Context(), "b:1", opChange, nil)
			if !sent {
				t.Error("the change was not sent")
			}
			change <- err
		}()
		synctest.Wait()
		for n := 0; ; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			b, sent, err := p.call(ctx, "b:1", opIndex, nil)
			cancel()
			if err == nil && sent && string(b) == string(byte(opIndex)) {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) || n == 3 {
				t.Fatalf("call %d: %q, %v", n, b, err)
			}
		}
		if err := <-change; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the change: %v", err)
		}
	})
}

// TestSlowPeer: a node that answers a ping keeps its connection.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialed atomic.Int64
		p := caller(t, func(n int64, c net.Conn) {
			dialed.Store(n)
			c = greeted(c)
			for {
				b, err := stream.ReadFrame(c, maxFrame)
				if err != nil {
					return
				}
				if operation(b[12]) == opPing {
					_, _ = c.Write(append([]byte{10, 0, 0, 0}, append(b[:8], 0, 0)...))
				}
			}
		})
		for range 4 {
			_, sent, err := p.call(t.Context(), "b:1", opChange, nil)
			if !sent || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("sent %v, %v", sent, err)
			}
		}
		if n := dialed.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestPeerThatReadsNothing: calls end with their time, while other calls are written to a node that
// takes nothing, and while it is dialed.
func TestPeerThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := caller(t, func(_ int64, c net.Conn) { greeted(c) })
		silent := caller(t, func(_ int64, c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() { _, _, _ = p.call(t.Context(), "b:1", opChange, make([]byte, 1<<20)) })
			calls.Go(func() { _, _, _ = silent.call(t.Context(), "b:1", opChange, nil) })
		}
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, p := range []*peers{p, silent} {
			_, sent, err := p.call(ctx, "b:1", opChange, nil)
			if d := time.Since(began); sent || !errors.Is(err, context.DeadlineExceeded) ||
				d != time.Second {
				t.Errorf("after %v: sent %v, %v", d, sent, err)
			}
		}
		calls.Wait()
	})
}

// flips changes a byte of the first writes that have mark.
type flips struct {
	net.Conn
	left *atomic.Int64
}

const mark = "loam between nodes"

func (f *flips) Write(p []byte) (int, error) {
	if at := bytes.Index(p, []byte(mark)); at >= 0 && f.left.Add(-1) >= 0 {
		p = bytes.Clone(p)
		p[at] ^= 1
	}
	return f.Conn.Write(p)
}

// TestDamagedOnTheWay: bytes that change between nodes, in a forwarded change or in an entry, reach
// no database.
func TestDamagedOnTheWay(t *testing.T) {
	var left atomic.Int64
	c := newCluster(t, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, to string) (net.Conn, error) {
			conn, err := dial(ctx, to)
			if err != nil {
				return nil, err
			}
			return &flips{conn, &left}, nil
		}
	}, "a", "b", "c")
	for round := range 4 {
		left.Store(4)
		key, by := fmt.Sprint("k", round), c.leader()
		if round%2 == 0 {
			by = c.follower(by)
		}
		put(t, c.nodes[by], key, mark)
		led := c.leader()
		for id, n := range c.nodes {
			c.caughtUp(id, led)
			has(t, n, key, mark)
		}
	}
	if n := left.Load(); n > 0 {
		t.Errorf("%d writes were not changed", n)
	}
}

// TestLongTimeout: a call whose time the field of a frame cannot hold has the longest one.
func TestLongTimeout(t *testing.T) {
	for _, left := range []time.Duration{math.MinInt64, 1, time.Millisecond, time.Hour,
		math.MaxUint32 * time.Millisecond, (math.MaxUint32 + 1) * time.Millisecond,
		math.MaxInt64} {
		call := appendCall(nil, 7, left, opPing, nil)[4:]
		got := time.Duration(binary.LittleEndian.Uint32(call[8:])) * time.Millisecond
		want := min(max(left.Truncate(time.Millisecond), time.Millisecond),
			math.MaxUint32*time.Millisecond)
		if got != want {
			t.Errorf("%v: %v; want %v", left, got, want)
		}
	}
}
