// Package faults runs nodes of loamd as processes, has clients outside of them read and write, and
// kills, stops and restarts nodes meanwhile. What every client was told has to fit one order of all
// operations; what was acknowledged has to be there; and all nodes have to end with the same.
package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/loamdb/loam/replica/client"
)

// cluster is the processes.
type cluster struct {
	program, dir string
	addrs        map[string]string
	running      map[string]*exec.Cmd
	spaces       spaces // nil: all nodes are on the loopback interface
}

func newCluster(o *Options, ids ...string) (c *cluster, err error) {
	dir := o.Dir
	c = &cluster{program: o.Program, dir: dir, addrs: map[string]string{},
		running: map[string]*exec.Cmd{}}
	if o.Spaces {
		if c.spaces, err = newSpaces(ids...); err != nil {
			return nil, err
		}
	}
	var peers []string
	for _, id := range ids {
		if o.Spaces {
			c.addrs[id] = c.spaces[id].addr + ":7070"
		} else {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer func() { _ = l.Close() }() // when all ports are known
			c.addrs[id] = l.Addr().String()
		}
		peers = append(peers, id+"="+c.addrs[id])
	}
	return c, os.WriteFile(filepath.Join(dir, "loamd.conf"), fmt.Appendf(nil,
		"peers = %s\nelection-timeout = 300ms\nsnapshot-entries = 500\n",
		strings.Join(peers, ",")), 0o600)
}

// start starts a node, and returns when its port is open.
func (c *cluster) start(id string) error {
	log, err := os.OpenFile(filepath.Join(c.dir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has it
	args := []string{c.program, "run", "--config", filepath.Join(c.dir, "loamd.conf"), "--id", id,
		"--addr", c.addrs[id], "--data", filepath.Join(c.dir, id)}
	if c.spaces != nil {
		args = c.spaces[id].within(args...)
	}
	run := exec.Command(args[0], args[1:]...)
	run.Stderr = log
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		said, _ := os.ReadFile(log.Name())
		return errors.Join(fmt.Errorf("node %s says %q, %w: %s", id, line, err, said), run.Wait())
	}
	c.running[id] = run
	return nil
}

// end ends a node by a signal.
func (c *cluster) end(id string, by syscall.Signal) error {
	run := c.running[id]
	delete(c.running, id)
	if err := run.Process.Signal(by); err != nil {
		return err
	}
	err := run.Wait()
	if by == syscall.SIGKILL {
		return nil // which is its error
	}
	return err
}

func (c *cluster) close() {
	for id := range c.running {
		_ = c.end(id, syscall.SIGKILL) // it may have ended
	}
	c.spaces.close()
}

// dial makes a client of some nodes, of all if none is named.
func (c *cluster) dial(o client.Options, ids ...string) (*client.Client, error) {
	var all []string
	for id, addr := range c.addrs {
		if len(ids) == 0 || ids[0] == id {
			all = append(all, addr)
		}
	}
	return client.Dial(strings.Join(all, ","), &o)
}

// leader asks until a node that runs leads.
func (c *cluster) leader(ctx context.Context) (string, error) {
	for ctx.Err() == nil {
		for id := range c.running {
			s, err := c.status(ctx, id)
			if err == nil && s.Leader == id {
				return id, nil
			}
		}
	}
	return "", fmt.Errorf("no leader: %w", ctx.Err())
}

func (c *cluster) status(ctx context.Context, id string) (*client.Status, error) {
	db, err := c.dial(client.Options{}, id)
	if err != nil {
		return nil, err
	}
	s, err := db.Status(ctx)
	return s, errors.Join(err, db.Close())
}
