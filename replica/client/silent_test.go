package client_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/wire"
)

// mute is a node that goes silent: the first connections swallow what they get.
type mute struct {
	quiet   atomic.Int64 // how many of the first connections are silent
	took    atomic.Int64 // connections
	answers sync.Map     // by operation; other calls get none
	damage  atomic.Bool  // the length of the next answer

	hold     chan struct{} // closed: snapshots are made; nil: at once
	released atomic.Int64  // snapshots
}

// newMute returns a node, and a client of it.
func newMute(t *testing.T) (*mute, *client.Client) {
	m := &mute{}
	for op, result := range map[wire.Operation]string{wire.OpStatus: "{}", wire.OpSnapshot: "\x01A",
		wire.OpGet: "\x01A", wire.OpHas: "\x01", wire.OpWrite: "\x01", wire.OpRelease: ""} {
		m.answers.Store(op, []byte(result))
	}
	db, err := client.Dial("node:1", &client.Options{
		Dial: func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			go m.serve(far, m.took.Add(1))
			return near, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // nothing is lost by it
	return m, db
}

func (m *mute) serve(c net.Conn, n int64) {
	defer func() { _ = c.Close() }() // the client has closed it
	in := bufio.NewReader(c)
	say := func(frame []byte) { _, _ = c.Write(frame) } // the client may be gone
	if _, err := wire.ReadFrame(in, wire.MaxGreeting); err != nil {
		return
	}
	say(wire.AppendWelcome(nil, &wire.Welcome{}))
	for {
		body, err := wire.ReadFrame(in, wire.MaxBody)
		if err != nil {
			return
		}
		call, err := wire.DecodeCall(body)
		if err != nil {
			return
		}
		switch {
		case call.Op == wire.OpSnapshot && m.hold != nil:
			<-m.hold
		case call.Op == wire.OpRelease:
			m.released.Add(1)
		}
		if result, known := m.answers.Load(call.Op); known && n > m.quiet.Load() {
			frame := wire.AppendAnswer(nil, call.Number,
				func(dst []byte) []byte { return append(dst, result.([]byte)...) })
			if m.damage.Swap(false) {
				frame[2] ^= 1 // of the length: 64 KiB
			}
			say(frame)
		}
	}
}

// hush makes the connections silent.
func (m *mute) hush() {
	synctest.Wait() // for the answer to the client's look for the leader
	m.quiet.Store(m.took.Load())
}

// connections wants that many to have been made.
func (m *mute) connections(t *testing.T, want int64) {
	t.Helper()
	if n := m.took.Load(); n != want {
		t.Errorf("%d connections, and not %d", n, want)
	}
}

func snapshot(t *testing.T, db *client.Client) kv.Snapshot {
	t.Helper()
	s, err := db.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// get returns a read of a key that ends with a context.
func get(r kv.Reader) func(context.Context, context.CancelFunc) error {
	return func(ctx context.Context, cancel context.CancelFunc) error {
		defer cancel()
		_, err := r.Get(ctx, []byte("a"))
		return err
	}
}

// stays wants a snapshot to be there.
func stays(t *testing.T, s kv.Snapshot) {
	t.Helper()
	if has, err := s.Has(t.Context(), []byte("a")); !has || err != nil {
		t.Errorf("the snapshot: %v, %v", has, err)
	}
}

// TestSilentConnection: a connection that says nothing, and has no error, is lost when the time of
// a call on it is over: the read is made again, a change in flight is ErrUnknown, and a snapshot is
// gone.
func TestSilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMute(t)
		s := snapshot(t, db)
		m.hush()
		began := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() {
			err := db.Put(t.Context(), []byte("a"), []byte("A"))
			if !errors.Is(err, client.ErrUnknown) || errors.Is(err, client.ErrNotApplied) {
				t.Errorf("the change: %v", err)
			}
		})
		calls.Go(func() {
			if v, err := db.Get(t.Context(), []byte("a")); string(v) != "A" {
				t.Errorf("the read: %q, %v", v, err)
			}
		})
		calls.Wait()
		if d := time.Since(began); d > 4*time.Second { // TryTimeout is 3 s
			t.Errorf("after %v", d)
		}
		if _, err := s.Get(t.Context(), []byte("a")); !errors.Is(err, client.ErrSnapshotGone) {
			t.Errorf("the snapshot: %v", err)
		}
		if err := db.Put(t.Context(), []byte("a"), []byte("A")); err != nil {
			t.Errorf("on the next connection: %v", err)
		}
		m.connections(t, 2)
	})
}

// TestDamagedLength: a frame whose length is damaged swallows the answers that come. No call has
// one any more, and the connection is lost as a silent one.
func TestDamagedLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMute(t)
		s := snapshot(t, db)
		synctest.Wait() // for the answer to the client's look for the leader
		m.damage.Store(true)
		if v, err := db.Get(t.Context(), []byte("a")); string(v) != "A" {
			t.Errorf("%q, %v", v, err)
		}
		if _, err := s.Get(t.Context(), []byte("a")); !errors.Is(err, client.ErrSnapshotGone) {
			t.Errorf("the snapshot: %v", err)
		}
		m.connections(t, 2)
	})
}

// TestSilentToShortCalls: calls that have less time than a silence takes end it together, and the
// one that ends it has the error of a lost connection.
func TestSilentToShortCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMute(t)
		s := snapshot(t, db)
		m.hush()
		for n := 0; ; n++ {
			err := get(s)(context.WithTimeout(t.Context(), 400*time.Millisecond))
			if errors.Is(err, client.ErrSnapshotGone) {
				break
			}
			if !errors.Is(err, client.ErrUnavailable) || n == 5 {
				t.Fatalf("call %d: %v", n, err)
			}
		}
		if _, err := db.Get(t.Context(), []byte("a")); err != nil {
			t.Error(err)
		}
		m.connections(t, 2)
	})
}

// TestSlowAnswers: a node that says that it is there keeps its connection, and with it the calls of
// others and snapshots, however long its answers take.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMute(t)
		s := snapshot(t, db)
		m.answers.Delete(wire.OpGet)
		m.answers.Delete(wire.OpWrite)
		for _, d := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
			err := get(db)(context.WithTimeout(t.Context(), d))
			if !errors.Is(err, client.ErrUnavailable) {
				t.Errorf("a read of %v: %v", d, err)
			}
			err = get(s)(context.WithTimeout(t.Context(), d))
			if !errors.Is(err, client.ErrUnavailable) ||
				errors.Is(err, client.ErrSnapshotGone) {
				t.Errorf("a read of the snapshot of %v: %v", d, err)
			}
		}
		if err := db.Put(t.Context(), nil, nil); !errors.Is(err, client.ErrUnknown) {
			t.Errorf("a change: %v", err)
		}
		stays(t, s)
		m.connections(t, 1)
	})
}

// TestLeaderlessNode: a change that one node could not make within its time is not made, and the
// next one goes to another node.
func TestLeaderlessNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMute(t)
		leaderless, _ := newMute(t)
		leaderless.answers.Delete(wire.OpWrite)
		first := ""
		db, err := client.Dial("a:1,b:1", &client.Options{
			Dial: func(_ context.Context, addr string) (net.Conn, error) {
				if first == "" {
					first = addr
				}
				near, far := net.Pipe()
				if addr == first {
					go leaderless.serve(far, 1)
				} else {
					go m.serve(far, 1)
				}
				return near, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }() // nothing is lost by it
		for n, want := range []error{client.ErrUnknown, nil} {
			if err := db.Put(t.Context(), []byte("a"), nil); !errors.Is(err, want) {
				t.Errorf("change %d: %v", n, err)
			}
		}
	})
}

// TestCancelledCalls: a call that its caller gives up says nothing about the connection.
func TestCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMute(t)
		s := snapshot(t, db)
		m.hush()
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(9*time.Second, cancel)
			if _, err := s.Get(ctx, []byte("a")); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		m.quiet.Store(0)
		stays(t, s)
		m.connections(t, 1)
	})
}

// TestSnapshotsOfNobody: a snapshot that the node makes for a call that was given up is released.
func TestSnapshotsOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, db := newMute(t)
		m.hold = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				if _, err := db.Snapshot(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		calls.Wait()
		close(m.hold)
		synctest.Wait()
		if n := m.released.Load(); n != 3 {
			t.Errorf("%d of 3 snapshots are released", n)
		}
		stays(t, snapshot(t, db))
		m.connections(t, 1)
	})
}

// TestNodeThatReadsNothing: a call whose connection takes no bytes ends with its time, and was not
// made.
func TestNodeThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := client.Dial("node:1", &client.Options{Timeout: time.Hour,
			Dial: func(context.Context, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					_, _ = wire.ReadFrame(bufio.NewReaderSize(far, 16), wire.MaxGreeting)
					_, _ = far.Write(wire.AppendWelcome(nil, &wire.Welcome{}))
				}()
				return near, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }() // nothing is lost by it
		var calls sync.WaitGroup
		for range 4 { // more bytes than an Output keeps
			calls.Go(func() {
				_ = db.Put(t.Context(), []byte("a"), make([]byte, 1<<20))
			})
		}
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = db.Put(ctx, []byte("a"), []byte("A"))
		if d := time.Since(began); d != time.Second || !errors.Is(err, client.ErrNotApplied) {
			t.Errorf("after %v: %v", d, err)
		}
		_ = db.Close()
		calls.Wait()
	})
}
