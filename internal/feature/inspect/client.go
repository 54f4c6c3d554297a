package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// maxAnswer bounds what a Client reads: the largest scan or list of tables, in base64.
const maxAnswer = 16 << 20

// Client asks the process that has a database open. It is safe for concurrent use; requests are
// answered one after the other.
type Client struct {
	mu sync.Mutex // held during a request
	c  *conn
	r  *bufio.Reader
	// wait is how long an answer may take that needs no disk.
	wait time.Duration
}

// Dial connects to the process that has the database in dir open. It fails with
// base.ErrDoesNotExist where no process answers, with errors.ErrUnsupported where the system has no
// sockets, and with base.ErrBusy.
func Dial(dir string) (*Client, error) {
	c, err := connect(dir)
	if err != nil {
		return nil, err
	}
	return &Client{c: c, r: bufio.NewReaderSize(c, 64<<10), wait: patience}, nil
}

// Ask sends a request and decodes the result of the answer into result, unless that is nil. It
// waits until ctx is done. That ends the connection, as every failure does that leaves the answer
// unread: the next request would get it. Errors of the other process are told apart by errors.Is,
// as those of package lsm. A process that is stopped, or that is none of ours, is base.ErrBusy to
// requests that need no disk.
func (c *Client) Ask(ctx context.Context, r *Request, result any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(line) >= MaxRequest {
		return base.Invalidf("a request has %d bytes at most", MaxRequest)
	}
	deadline := time.Time{}
	switch r.Do {
	case "info", "metrics", "levels", "events":
		deadline = time.Now().Add(c.wait)
	}
	_ = c.c.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = c.c.Close() })
	defer stop()
	err = c.c.send(append(line, '\n'))
	// A server that refuses a connection answers at once and closes it.
	answer, rerr := c.readLine()
	if rerr != nil {
		_ = c.c.Close() // it may be closed already
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(rerr, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: the process that has the database open did not answer for %v; is "+
			"it stopped?", base.ErrBusy, c.wait)
	case rerr == nil:
		return decode(answer, result)
	case err != nil:
		return fmt.Errorf("asking the process: %w", err)
	}
	return fmt.Errorf("waiting for the answer: %w", rerr)
}

func (c *Client) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxAnswer:
			return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
		}
	}
}

// Close ends the connection.
func (c *Client) Close() error { return c.c.Close() }
