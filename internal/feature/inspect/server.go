package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Bounds of connections.
const (
	maxConns = 32
	// patience is how long a client may take to read an answer.
	patience = 10 * time.Second
	// maxIdle is how long a connection stays without a request.
	maxIdle = 5 * time.Minute
	// retry is when another connection is taken after the system had no descriptor for one.
	retry = 100 * time.Millisecond
)

// Answerer is the database.
type Answerer interface {
	// Answer does what a request asks and returns what JSON says of it. Its connection has h. ctx
	// ends with the connection.
	Answer(ctx context.Context, r *Request, h *Held) (any, error)
}

// Held is what the requests of one connection share.
type Held struct {
	State any    // that scans with Hold read; nil: none yet
	End   func() // gives State up
}

// Release gives the state up.
func (h *Held) Release() {
	if h.End != nil {
		h.End()
	}
	*h = Held{}
}

// Server is the socket of an open database. The zero Server is not usable.
type Server struct {
	events   Events // what "events" answers
	optional bool
	dir      *vfs.Dir
	listener *listener     // nil: there is no socket
	ended    chan struct{} // closed by Close

	mu     sync.Mutex // a leaf
	conns  map[*conn]context.CancelFunc
	closed bool

	running sync.WaitGroup // goroutines; Add is called with mu held, by Serve, and by one of them
}

// environment asks for a socket of every database that the process opens.
const environment = "LOAM_INSPECT"

// New returns a Server without a socket; nil if nobody asks for one, or if the database is opened
// to be read, which changes nothing in the directory. If only the environment asks, the database
// opens without a socket where none can be made.
func New(asked, readOnly bool) *Server {
	env, _ := strconv.ParseBool(os.Getenv(environment))
	if readOnly || !asked && !env {
		return nil
	}
	return &Server{optional: !asked, ended: make(chan struct{}),
		conns: make(map[*conn]context.CancelFunc)}
}

// Notes takes events; nil if s is.
func (s *Server) Notes() *Events {
	if s == nil {
		return nil
	}
	return &s.events
}

// Optional reports whether a failed Listen leaves the database without a socket.
func (s *Server) Optional() bool { return s.optional }

// Listen makes the socket in a directory. The caller holds the directory's lock, so a socket that
// is there is one of a process that has ended, and is replaced; any other file of that name is left
// and makes Listen fail.
func (s *Server) Listen(d *vfs.Dir) error {
	name := filepath.Join(d.Path, base.InspectName)
	switch info, err := d.FS.Stat(name); {
	case err == nil && info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("the socket for inspection: %w: %s is another file; move it away",
			fs.ErrExist, name)
	case err == nil:
		if err := d.FS.Remove(name); err != nil {
			return fmt.Errorf("the socket for inspection: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the socket for inspection: %w", err)
	}
	err := d.Reach(base.InspectName, func(path string) (err error) {
		s.listener, err = listen(path)
		return err
	})
	if err != nil {
		return fmt.Errorf("the socket for inspection: %w", err)
	}
	s.dir = d
	return nil
}

// Serve answers from now on. It is called once, at most, and not after Close.
func (s *Server) Serve(a Answerer) {
	if s.listener == nil {
		return
	}
	s.running.Add(1)
	go s.accept(a)
}

// Close removes the socket and ends the connections. It waits for nothing.
func (s *Server) Close() {
	if s.listener == nil {
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.ended)
	for c, cancel := range s.conns {
		cancel()
		c.Close()
	}
	s.mu.Unlock()
	_ = s.dir.FS.Remove(filepath.Join(s.dir.Path, base.InspectName))
	s.listener.Close()
}

// Wait returns when the requests under way have ended, and after limit at the latest.
func (s *Server) Wait(limit time.Duration) {
	if s.listener == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// accept takes connections until Close.
func (s *Server) accept(a Answerer) {
	defer s.running.Done()
	for {
		c, err := s.listener.accept()
		if err == nil {
			s.admit(c, a)
			continue
		}
		select {
		case <-s.ended:
			return
		case <-time.After(retry):
		}
	}
}

// admit serves a connection, or refuses it.
func (s *Server) admit(c *conn, a Answerer) {
	err := c.mayAsk()
	s.mu.Lock()
	switch {
	case err != nil:
	case s.closed:
		err = base.ErrDatabaseClosed
	case len(s.conns) >= maxConns:
		err = fmt.Errorf("%w: %d other connections inspect the database", base.ErrBusy, maxConns)
	default:
		ctx, cancel := context.WithCancel(context.Background())
		s.conns[c] = cancel
		s.running.Add(1)
		go s.serve(ctx, cancel, c, a)
	}
	s.mu.Unlock()
	if err != nil {
		c.sendNow(encode(nil, err))
		c.Close()
	}
}

// serve answers the requests of a connection.
func (s *Server) serve(ctx context.Context, cancel context.CancelFunc, c *conn, a Answerer) {
	lines, held := make(chan []byte), Held{}
	s.running.Add(1)
	defer func() {
		cancel()
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		held.Release()
		s.running.Done()
	}()
	go func() {
		defer s.running.Done()
		defer cancel() // the client is gone: nobody waits for the answer
		defer close(lines)
		readLines(ctx, c, lines)
	}()
	for {
		_ = c.SetReadDeadline(time.Now().Add(maxIdle))
		line, ok := <-lines
		if !ok {
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		reply := answer(ctx, a, line, &held)
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		if c.send(reply) != nil || line == nil {
			return
		}
	}
}

// readLines hands on the requests of a connection; nil stands for a request that is too
// long, which is the last.
func readLines(ctx context.Context, c *conn, lines chan<- []byte) {
	r := bufio.NewReaderSize(c, MaxRequest)
	for {
		line, err := r.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case long:
			line = nil
		case err != nil:
			return
		default:
			line = append([]byte{}, line...)
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return
		}
		if long {
			return
		}
	}
}

// answer is the line that answers a line. A panic is an error of this request, also one of an error
// of the program when it is asked for its text.
func answer(ctx context.Context, a Answerer, line []byte, h *Held) (reply []byte) {
	defer func() {
		if v := recover(); v != nil {
			reply = encode(nil, base.NewPanic(v))
		}
	}()
	if line == nil {
		return encode(nil, base.Invalidf("a request has %d bytes at most", MaxRequest))
	}
	r, err := ParseRequest(line)
	if err != nil {
		return encode(nil, err)
	}
	return encode(a.Answer(ctx, r, h))
}
