//go:build !linux && !darwin && !freebsd

package inspect

import (
	"errors"
	"fmt"
	"os"
)

var errNone = fmt.Errorf("%w: inspection of running databases needs Linux, macOS or FreeBSD",
	errors.ErrUnsupported)

type listener struct{}

func listen(string) (*listener, error) { return nil, errNone }

func (l *listener) accept() (*conn, error) { return nil, errNone }

func (l *listener) Close() {}

type conn struct{ *os.File }

func (c *conn) mayAsk() error { return errNone }

func (c *conn) send([]byte) error { return errNone }

func (c *conn) sendNow([]byte) {}

func connect(string) (*conn, error) { return nil, errNone }
