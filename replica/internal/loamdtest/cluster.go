// Package loamdtest runs servers in the process of a test: a cluster on the loopback interface,
// with disks in memory.
package loamdtest

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/raftlog"
	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/internal/server"
)

// Cluster is the servers of a test, by ID.
type Cluster struct {
	t       testing.TB
	configs map[string]server.Config
	addrs   map[string]string
	Servers map[string]*server.Server
}

// Start starts nodes with these IDs, and stops them at the end of the test. change may change their
// configurations.
func Start(t testing.TB, change func(*server.Config), ids ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, configs: map[string]server.Config{}, addrs: map[string]string{},
		Servers: map[string]*server.Server{}}
	listeners := map[string]net.Listener{}
	for _, id := range ids {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		listeners[id], c.addrs[id] = l, l.Addr().String()
	}
	for _, id := range ids {
		cfg := c.config(id)
		cfg.Node.Peers = c.addrs
		cfg.Listen = func(addr string) (net.Listener, error) {
			if l := listeners[id]; l != nil {
				delete(listeners, id)
				return l, nil
			}
			return net.Listen("tcp", addr)
		}
		if change != nil {
			change(&cfg)
		}
		c.configs[id] = cfg
	}
	for _, id := range ids {
		c.Restart(id)
	}
	t.Cleanup(func() {
		for id := range c.Servers {
			c.Stop(id)
		}
	})
	return c
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) config(id string) server.Config {
	db := lsm.Options{FS: crashfs.New(), WriteBufferSize: 128 << 10, WALPreallocate: 64 << 10,
		CacheSize: 1 << 20}
	log := db
	log.CacheSize = -1
	return server.Config{Dir: "/" + id, Timeout: time.Minute, Node: replica.Config{ID: id,
		Addr: c.addrs[id], ElectionTimeout: 300 * time.Millisecond, Timeout: time.Minute,
		RejoinInterval: -1, Database: &db, Log: &raftlog.Options{Database: &log}}}
}

// Restart starts a server that is not running.
func (c *Cluster) Restart(id string) {
	c.t.Helper()
	s, err := server.Open(c.configs[id])
	must(c.t, err)
	c.Servers[id] = s
}

// Stop stops a server.
func (c *Cluster) Stop(id string) {
	c.t.Helper()
	must(c.t, c.Servers[id].Close(context.Background()))
	delete(c.Servers, id)
}

// Addrs are the addresses of all nodes, as a client takes them.
func (c *Cluster) Addrs() string {
	var all []string
	for _, a := range c.addrs {
		all = append(all, a)
	}
	return strings.Join(all, ",")
}

// Addr is the address of a node.
func (c *Cluster) Addr(id string) string { return c.addrs[id] }
