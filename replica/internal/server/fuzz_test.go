package server_test

import (
	"io"
	"testing"
	"time"

	"github.com/loamdb/loam/replica/internal/loamdtest"
	"github.com/loamdb/loam/replica/internal/server"
	"github.com/loamdb/loam/replica/internal/wire"
)

// FuzzPort sends bytes to a server, as they are and behind a greeting. Whatever they are, they end
// no other connection, and theirs ends when the caller has closed it.
func FuzzPort(f *testing.F) {
	p := newPipes()
	loamdtest.Start(f, func(c *server.Config) {
		c.Listen, c.Timeout = p.listen, 5*time.Second
	}, "a")
	lives := p.greeted(f)
	f.Cleanup(func() { _ = lives.Close() })
	call := func(op wire.Operation, args string) []byte {
		return wire.AppendCall(nil, &wire.Call{Number: 1, Op: op, Args: []byte(args)}, nil)
	}
	f.Add(call(wire.OpGet, "\x00\x01a"))
	f.Add(append(call(wire.OpSnapshot, "\x00"), call(wire.OpScan, "\x02\x01\x00\x00\x00")...))
	f.Add(call(wire.OpWrite, "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(call(wire.OpMultiGet, "\x00\x02\x01a\x01b"))
	f.Add(call(wire.OpScan, "\x00\x13\x00\x00"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(wire.AppendGreeting(nil, &wire.Greeting{Version: 1, Role: wire.Peer, Cluster: "loam"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, greeted := range []bool{false, true} {
			x := p.call(t)
			if greeted {
				if err := x.greet(wire.Greeting{}); err != nil {
					t.Fatal(err)
				}
			}
			read := make(chan struct{})
			go func() { // pipes have no buffer
				defer close(read)
				_, _ = io.Copy(io.Discard, x.in) // up to the end
			}()
			x.send(b)
			_ = x.Close()
			<-read
		}
		lives.t = t
		lives.lives()
	})
}
