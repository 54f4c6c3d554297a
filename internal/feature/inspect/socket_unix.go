//go:build linux || darwin || freebsd

package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// backlog is how many connections wait to be taken.
const backlog = 128

// listener is a socket that takes connections.
type listener struct {
	file *os.File
	raw  syscall.RawConn
}

// listen makes the socket path, which only its owner may connect to.
func listen(path string) (*listener, error) {
	if max := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > max {
		return nil, base.Invalidf("the path %s has %d bytes, and that of a socket may have %d: "+
			"move the database, or open it by a shorter link", path, len(path), max)
	}
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	if err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: path})); err == nil {
		// Nobody connects before unix.Listen.
		err = os.NewSyscallError("chmod", unix.Chmod(path, 0o600))
		if err == nil {
			err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
		}
		if err != nil {
			_ = unix.Unlink(path)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	l := &listener{file: os.NewFile(uintptr(fd), path)}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		_ = unix.Unlink(path)
		return nil, err
	}
	return l, nil
}

// accept waits for a connection.
func (l *listener) accept() (*conn, error) {
	fd, failure := -1, error(nil)
	err := l.raw.Read(func(on uintptr) bool {
		fd, failure = acceptSocket(int(on))
		return !again(failure)
	})
	if err = errors.Join(err, failure); err != nil {
		return nil, err
	}
	return newConn(fd)
}

func (l *listener) Close() { _ = l.file.Close() }

func again(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// conn is a connection, of either side.
type conn struct {
	*os.File
	raw syscall.RawConn
}

func newConn(fd int) (*conn, error) {
	c := &conn{File: os.NewFile(uintptr(fd), "connection")}
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	c.raw = raw
	return c, nil
}

// owner is the user of the process on the other side.
func (c *conn) owner() (uid int, err error) {
	failure := c.raw.Control(func(fd uintptr) { uid, err = peer(int(fd)) })
	return uid, errors.Join(failure, err)
}

// mayAsk refuses processes of other users; root is none of them.
func (c *conn) mayAsk() error {
	uid, err := c.owner()
	if err != nil {
		return fmt.Errorf("looking at the user of a connection: %w", err)
	}
	if own := unix.Geteuid(); uid != own && uid != 0 {
		return fmt.Errorf("%w: the database is open as user %d, the request is of user %d",
			fs.ErrPermission, own, uid)
	}
	return nil
}

// send writes all of b. A client that is gone raises no SIGPIPE.
func (c *conn) send(b []byte) error {
	for len(b) > 0 {
		var n int
		var failure error
		err := c.raw.Write(func(fd uintptr) bool {
			n, failure = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_NOSIGNAL)
			return !again(failure)
		})
		if err = errors.Join(err, failure); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sendNow writes what fits at once.
func (c *conn) sendNow(b []byte) {
	_ = c.raw.Control(func(fd uintptr) {
		_, _ = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_NOSIGNAL)
	})
}

// connect connects to the socket of the database in dir.
func connect(dir string) (*conn, error) {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0) // a FIFO would wait for a writer
	if err != nil {
		return nil, err
	}
	defer d.Close()
	name := filepath.Join(dir, base.InspectName)
	path := filepath.Join(vfs.DescriptorPath(int(d.Fd()), dir), base.InspectName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: no process answers for %s: open the database with "+
			"Options.Inspect, or with LOAM_INSPECT=1 in the environment", base.ErrDoesNotExist, dir)
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%w: %s is no socket", base.ErrNotADatabase, name)
	}
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		switch {
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT): // since Lstat
			return nil, fmt.Errorf("%w: the process that answered for %s has ended",
				base.ErrDoesNotExist, dir)
		case again(err):
			return nil, fmt.Errorf("%w: too many connections to %s wait", base.ErrBusy, name)
		}
		return nil, &os.PathError{Op: "connect", Path: name, Err: err}
	}
	c, err := newConn(fd)
	if err != nil {
		return nil, err
	}
	own := unix.Geteuid()
	if uid, err := c.owner(); err != nil || uid != own && uid != 0 && own != 0 {
		c.Close()
		return nil, errors.Join(err, fmt.Errorf("%w: the socket %s is of user %d",
			fs.ErrPermission, name, uid))
	}
	return c, nil
}
