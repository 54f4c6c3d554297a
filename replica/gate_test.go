package replica

import (
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/loamdb/loam/lsm"
)

// gate is a disk whose appends to logs in some directories fail or wait.
type gate struct {
	lsm.FS
	mu     sync.Mutex
	in     string        // the directory concerned; "" for none
	err    error         // what appends fail with
	closed chan struct{} // what appends wait for; nil: nothing
	met    chan struct{} // closed when the first append meets the gate
	once   *sync.Once
}

// fail has appends in directories with a part of a path fail, until open.
func (g *gate) fail(in string, err error) <-chan struct{} { return g.set(in, err, nil) }

// block has appends wait, until open.
func (g *gate) block(in string) <-chan struct{} { return g.set(in, nil, make(chan struct{})) }

func (g *gate) set(in string, err error, closed chan struct{}) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in, g.err, g.closed, g.met, g.once = in, err, closed, make(chan struct{}), new(sync.Once)
	return g.met
}

// open ends what fail or block did.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in = ""; g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) pass(name string) error {
	g.mu.Lock()
	concerned := g.in != "" && strings.Contains(name, g.in)
	err, closed := g.err, g.closed
	if concerned {
		g.once.Do(func() { close(g.met) })
	}
	g.mu.Unlock()
	if !concerned {
		return nil
	}
	if closed != nil {
		<-closed
	}
	return err
}

func (g *gate) CreateLog(name string, ahead int64) (lsm.LogFile, error) {
	f, err := g.FS.CreateLog(name, ahead)
	if err != nil {
		return nil, err
	}
	return &gatedLog{f, g, name}, nil
}

func (g *gate) Link(oldName, newName string) error {
	l, ok := g.FS.(interface {
		Link(oldName, newName string) error
	})
	if !ok {
		return errors.ErrUnsupported
	}
	return l.Link(oldName, newName)
}

func (g *gate) LockShared(name string) (io.Closer, error) {
	l, ok := g.FS.(interface {
		LockShared(name string) (io.Closer, error)
	})
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return l.LockShared(name)
}

type gatedLog struct {
	lsm.LogFile
	of   *gate
	name string
}

func (l *gatedLog) Append(p []byte) error {
	if err := l.of.pass(l.name); err != nil {
		return err
	}
	return l.LogFile.Append(p)
}
