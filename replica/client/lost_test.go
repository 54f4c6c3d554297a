package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/wire"
)

// serve answers calls, but for those in flight of the first connection: when there are three of
// them, it ends the connection as a node does where a frame arrived damaged.
func serve(l net.Listener) {
	for n := 0; ; n++ {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serveOne(c, n == 0)
	}
}

func serveOne(c net.Conn, first bool) {
	defer func() { _ = c.Close() }() // the client reads its end
	in := bufio.NewReader(c)
	say := func(frame []byte) { _, _ = c.Write(frame) } // the client may be gone
	if _, err := wire.ReadFrame(in, wire.MaxGreeting); err != nil {
		return
	}
	say(wire.AppendWelcome(nil, &wire.Welcome{}))
	for waiting := 0; ; {
		body, err := wire.ReadFrame(in, wire.MaxBody)
		if err != nil {
			return
		}
		call, err := wire.DecodeCall(body)
		result := []byte{1, 'A'} // a value, or the ID of a snapshot
		switch {
		case err != nil:
			return
		case call.Op == wire.OpStatus:
			result = []byte("{}")
		case call.Op == wire.OpWrite && !first:
			result = []byte{1}
		case call.Op != wire.OpSnapshot && first:
			if waiting++; waiting == 3 {
				say(wire.AppendError(nil, 0,
					fmt.Errorf("%w: wrong checksum of a frame", wire.ErrMalformed)))
				return
			}
			continue
		}
		say(wire.AppendAnswer(nil, call.Number,
			func(dst []byte) []byte { return append(dst, result...) }))
	}
}

// TestDamagedFrame: a node that reads a damaged frame ends the connection by an error of no call.
// To the calls that were in flight that is a lost connection: a read is made again, a change is
// ErrUnknown, and a snapshot is gone.
func TestDamagedFrame(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing is lost by it
	go serve(l)
	addr := l.Addr().String()
	db, err := client.Dial(addr, &client.Options{Timeout: time.Hour, TryTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // likewise
	ctx := t.Context()
	s, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		if v, err := db.Get(ctx, []byte("a")); string(v) != "A" {
			t.Errorf("the read: %q, %v", v, err)
		}
	})
	lost := addr + ": connection lost: the node ended it: malformed: wrong checksum of a frame"
	fails := func(what string, err, want error) {
		if !errors.Is(err, want) || !strings.HasSuffix(err.Error(), ": "+lost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	calls.Go(func() {
		fails("the change", db.Put(ctx, []byte("a"), []byte("A")), client.ErrUnknown)
	})
	calls.Go(func() {
		_, err := s.Get(ctx, []byte("a"))
		fails("the read of the snapshot", err, client.ErrSnapshotGone)
	})
	calls.Wait()
	if err := db.Put(ctx, []byte("a"), []byte("A")); err != nil {
		t.Errorf("on the next connection: %v", err)
	}
}
