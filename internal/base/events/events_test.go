package events

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// forever is a patience that no test outlasts.
const forever = time.Hour

func TestCallsComeInOrder(t *testing.T) {
	q := New(nil)
	var got []int
	for i := range 500 {
		q.Post(func() { got = append(got, i) })
	}
	q.Close(forever)
	for i, n := range got {
		if i != n {
			t.Fatalf("call %d was number %d", i, n)
		}
	}
	if len(got) != 500 {
		t.Fatalf("%d calls of 500", len(got))
	}
	q.Post(func() { t.Error("a call after Close") })
	q.Close(forever)
}

func TestBlockedCallBlocksNobody(t *testing.T) {
	q := New(nil)
	gate, began := make(chan struct{}), make(chan struct{})
	q.Post(func() { close(began); <-gate })
	<-began
	const n = 3 * limit
	made, last := 0, false
	for range n {
		q.Post(func() { made++ })
	}
	q.PostLast(func() { last = true })
	if d := q.Dropped(); d != n-limit {
		t.Errorf("%d dropped, want %d", d, n-limit)
	}
	close(gate)
	q.Close(forever)
	if made != limit || !last {
		t.Errorf("%d calls made, the last one: %v; want %d and the last", made, last, limit)
	}
}

func TestCloseGivesUp(t *testing.T) {
	q := New(nil)
	gate, began := make(chan struct{}), make(chan struct{})
	q.Post(func() { close(began); <-gate })
	q.Post(func() { t.Error("a call began after Close") })
	<-began
	q.Close(0)
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	close(gate)
	<-idle
}

func TestCloseFromACall(t *testing.T) {
	q := New(nil)
	done := make(chan struct{})
	q.Post(func() { q.Close(forever); close(done) })
	<-done
}

func TestPanicAndGoexit(t *testing.T) {
	var mu sync.Mutex
	var told []string
	q := New(func(v any, stack []byte) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, v.(string)+" "+string(stack))
	})
	after := make(chan struct{})
	q.Post(func() { panic("listener") })
	q.Post(runtime.Goexit)
	q.Post(func() { close(after) })
	<-after
	q.Close(forever)
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !strings.HasPrefix(told[0], "listener") ||
		!strings.Contains(told[0], "TestPanicAndGoexit") {
		t.Errorf("told of %q", told)
	}
}

func TestLogger(t *testing.T) {
	q := New(nil)
	var out bytes.Buffer
	l := q.Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	l.With("a", 1).WithGroup("g").Warn("first", "b", 2)
	l.Info("below the level")
	q.Close(forever)
	if got := out.String(); !strings.Contains(got, "msg=first a=1 g.b=2") ||
		strings.Contains(got, "below") {
		t.Errorf("logged %q", got)
	}
	if l.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("debug records cost more than a call")
	}
}

func TestNoIdleGoroutine(t *testing.T) {
	q := New(nil)
	q.Post(func() {})
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle != nil {
		<-idle
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle != nil || q.calls != nil {
		t.Error("the goroutine is still there")
	}
}
