//go:build linux || darwin || freebsd

package inspect

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// answerFunc is an Answerer.
type answerFunc func(ctx context.Context, r *Request, h *Held) (any, error)

func (f answerFunc) Answer(ctx context.Context, r *Request, h *Held) (any, error) {
	return f(ctx, r, h)
}

// started returns a directory and the Server in it.
func started(t *testing.T, a answerFunc) (string, *Server) {
	t.Helper()
	dir := t.TempDir()
	return dir, startedIn(t, dir, a)
}

func startedIn(t *testing.T, dir string, a answerFunc) *Server {
	t.Helper()
	s := New(true, false)
	if err := s.Listen(opened(t, dir)); err != nil {
		t.Fatal(err)
	}
	s.Serve(a)
	t.Cleanup(func() {
		s.Close()
		s.Wait(hang.Limit())
	})
	return s
}

func opened(t *testing.T, dir string) *vfs.Dir {
	t.Helper()
	d, err := vfs.OpenDir(vfs.Default, dir, vfs.DirOptions{Create: true, NoLock: true,
		ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func dialed(t *testing.T, dir string) *Client {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func echo(_ context.Context, r *Request, _ *Held) (any, error) { return r.Do, nil }

// within fails a test whose step hangs.
func within(t *testing.T, f func() error) {
	t.Helper()
	if err := hang.InTime(f); err != nil {
		t.Fatal(err)
	}
}

// TestGarbage: each line has an answer, and a connection goes on behind lines that are no requests.
func TestGarbage(t *testing.T) {
	dir, _ := started(t, func(ctx context.Context, r *Request, h *Held) (any, error) {
		if r.Do == "panic" {
			panic("of the database")
		}
		return echo(ctx, r, h)
	})
	c := dialed(t, dir)
	sent := "\n{\n\x00\xff\n" + strings.Repeat("[", 5000) + "\n" + `{"do":"panic"}` + "\n" +
		`{"do":"one"}` + "\n" + `{"do":"tw`
	if err := c.c.send([]byte(sent)); err != nil {
		t.Fatal(err)
	}
	if err := c.c.send([]byte(`o"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"invalid_argument", "invalid_argument", "invalid_argument",
		"invalid_argument", "panic: of the database", `{"result":"one"}`, `{"result":"two"}`} {
		line, err := c.readLine()
		if err != nil || !strings.Contains(string(line), want) {
			t.Errorf("answer %d: %q, %v; want %q", i, line, err, want)
		}
	}
	if err := c.c.send([]byte(strings.Repeat("x", MaxRequest))); err != nil {
		t.Fatal(err)
	}
	line, err := c.readLine()
	if err != nil || !strings.Contains(string(line), "a request has 65536 bytes at most") {
		t.Errorf("a request that is too long: %q, %v", line, err)
	}
	if _, err := c.readLine(); err == nil {
		t.Error("the connection goes on behind a request that is too long")
	}
}

// TestHalfClosed: the answers arrive although the client has ended its side of the connection.
func TestHalfClosed(t *testing.T) {
	dir, _ := started(t, echo)
	c := dialed(t, dir)
	sent := `{"do":"one"}` + "\n" + `{"do":"two"}` + "\n" + `{"do":"thr`
	if err := c.c.send([]byte(sent)); err != nil {
		t.Fatal(err)
	}
	err := c.c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	all, rerr := io.ReadAll(c.c)
	if want := `{"result":"one"}` + "\n" + `{"result":"two"}` + "\n"; err != nil || rerr != nil ||
		string(all) != want {
		t.Errorf("%q, %v, %v", all, err, rerr)
	}
}

// TestConnectionsAreBounded: of 100 connections 32 are served, the others are told so, and when one
// ends there is room for another.
func TestConnectionsAreBounded(t *testing.T) {
	ended := make(chan struct{}, 100)
	dir, _ := started(t, func(_ context.Context, r *Request, h *Held) (any, error) {
		h.End = func() { ended <- struct{}{} }
		return r.Do, nil
	})
	var served []*Client
	refused := 0
	for range 100 {
		c := dialed(t, dir)
		switch err := c.Ask(t.Context(), &Request{Do: "x"}, nil); {
		case err == nil:
			served = append(served, c)
		case errors.Is(err, base.ErrBusy):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if len(served) != maxConns || refused != 100-maxConns {
		t.Errorf("%d served, %d refused", len(served), refused)
	}
	for _, c := range served {
		_ = c.Close()
	}
	for range served {
		<-ended
	}
	if err := dialed(t, dir).Ask(t.Context(), &Request{Do: "x"}, nil); err != nil {
		t.Error(err)
	}
}

// TestCloseWaitsForNoClient: one that never reads its answer, one that sends half a request, and
// one whose request runs.
func TestCloseWaitsForNoClient(t *testing.T) {
	asked := make(chan string)
	dir, s := started(t, func(ctx context.Context, r *Request, _ *Held) (any, error) {
		asked <- r.Do
		if r.Do == "large" {
			return strings.Repeat("x", 8<<20), nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, sent := range []string{`{"do":"large"}` + "\n", `{"do":"long"}` + "\n", `{"do":"half`} {
		if err := dialed(t, dir).c.send([]byte(sent)); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(sent, "\n") {
			<-asked
		}
	}
	within(t, func() error {
		s.Close()
		s.Wait(hang.Limit())
		return nil
	})
	if _, err := os.Lstat(filepath.Join(dir, base.InspectName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	if c, err := Dial(dir); !errors.Is(err, base.ErrDoesNotExist) {
		t.Errorf("%v, %v", c, err)
	}
	s.Close() // again
}

// TestClientLeaves: a request ends with its connection, and a Client's wait with its context.
func TestClientLeaves(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	dir, _ := started(t, func(ctx context.Context, _ *Request, _ *Held) (any, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	c := dialed(t, dir)
	go func() {
		<-began
		cancel()
	}()
	if err := c.Ask(ctx, &Request{Do: "x"}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_ = c.Close()
	within(t, func() error {
		<-ended
		return nil
	})
}

// TestAnswersOfBefore: a request never gets the answer of an earlier one that was given up.
func TestAnswersOfBefore(t *testing.T) {
	for what, do := range map[string]string{"its context ended": "slow", "its time": "info"} {
		began, let := make(chan struct{}, 1), make(chan struct{})
		dir, _ := started(t, func(_ context.Context, r *Request, _ *Held) (any, error) {
			began <- struct{}{}
			<-let
			return r.Do, nil
		})
		c := dialed(t, dir)
		c.wait = time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			if do == "slow" {
				cancel()
			}
		}()
		if err := c.Ask(ctx, &Request{Do: do}, nil); err == nil {
			t.Errorf("%s: no error", what)
		}
		close(let)
		cancel()
		got := ""
		if err := c.Ask(t.Context(), &Request{Do: "x"}, &got); err == nil && got != "x" {
			t.Errorf("%s: the next request gets %q", what, got)
		}
		_ = c.Close()
	}
}

// unspeakable is an error that panics when it is asked for its text.
type unspeakable struct{ text string }

func (u *unspeakable) Error() string { return u.text }

// TestErrorWithoutText: a nil pointer that is an error, of a callback for instance, is one of the
// request.
func TestErrorWithoutText(t *testing.T) {
	dir, _ := started(t, func(context.Context, *Request, *Held) (any, error) {
		return nil, (*unspeakable)(nil)
	})
	c := dialed(t, dir)
	for range 2 {
		if err := c.Ask(t.Context(), &Request{Do: "x"}, nil); err == nil ||
			!strings.Contains(err.Error(), "panic") {
			t.Errorf("%v", err)
		}
	}
}

// TestStaleSocket: that of a process that was killed is replaced; another file of the name stays.
func TestStaleSocket(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, base.InspectName)
	stale, err := listen(name)
	if err != nil {
		t.Fatal(err)
	}
	stale.Close()
	if c, err := Dial(dir); !errors.Is(err, base.ErrDoesNotExist) ||
		!strings.Contains(err.Error(), "has ended") {
		t.Errorf("%v, %v", c, err)
	}
	s := startedIn(t, dir, echo)
	if err := dialed(t, dir).Ask(t.Context(), &Request{Do: "x"}, nil); err != nil {
		t.Error(err)
	}
	info, err := os.Lstat(name)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s.Close()
	for _, plant := range []func() error{
		func() error { return os.WriteFile(name, []byte("mine"), 0o600) },
		func() error { return os.Symlink(dir, name) },
		func() error { return os.Mkdir(name, 0o700) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if err := New(true, false).Listen(opened(t, dir)); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		if _, err := Dial(dir); !errors.Is(err, base.ErrNotADatabase) {
			t.Error(err)
		}
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// TestNoSocket: in memory there is none, and without a wish either.
func TestNoSocket(t *testing.T) {
	d, err := vfs.OpenDir(vfs.NewMem(), "db", vfs.DirOptions{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	s := New(true, false)
	if err := s.Listen(d); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	s.Serve(answerFunc(echo))
	s.Close()
	s.Wait(0)
	if New(false, false) != nil || New(true, true) != nil {
		t.Error("a Server that nobody asked for")
	}
	t.Setenv(environment, "1")
	if New(false, true) != nil || !New(false, false).Optional() || New(true, false).Optional() {
		t.Error("the environment")
	}
}

// TestServerThatIsNone: answers that are none are errors.
func TestServerThatIsNone(t *testing.T) {
	dir := t.TempDir()
	l, err := listen(filepath.Join(dir, base.InspectName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, said := range []string{"", "half", "loam\n", strings.Repeat("x", maxAnswer+1<<20)} {
		c := dialed(t, dir)
		other, err := l.accept()
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = bufio.NewReader(other).ReadString('\n')
			_ = other.send([]byte(said))
			other.Close()
		}()
		if err := c.Ask(t.Context(), &Request{Do: "x"}, nil); err == nil {
			t.Errorf("%.10q is an answer", said)
		}
		_ = c.Close()
		<-done
	}
}

// TestSilentServer: requests that need no disk fail with ErrBusy when the process does not answer.
func TestSilentServer(t *testing.T) {
	dir := t.TempDir()
	l, err := listen(filepath.Join(dir, base.InspectName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, do := range []string{"info", "metrics", "levels", "events"} {
		c := dialed(t, dir)
		c.wait = time.Millisecond
		if err := c.Ask(t.Context(), &Request{Do: do}, nil); !errors.Is(err, base.ErrBusy) {
			t.Errorf("%s: %v", do, err)
		}
		_ = c.Close()
	}
	c := dialed(t, dir)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c.wait = time.Millisecond
	go func() {
		defer cancel()
		for range 5 { // the last connection is this one
			if other, err := l.accept(); err == nil {
				_, _ = bufio.NewReader(other).ReadString('\n')
				defer other.Close()
			}
		}
		cancel() // before the connections end
	}()
	if err := c.Ask(ctx, &Request{Do: "compact"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("compact: %v", err)
	}
}
