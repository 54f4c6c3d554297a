package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/client"
)

// clientCommands are the verbs that ask a node.
var clientCommands = []command{
	{"status", "", "the nodes, and which one leads", asking(0, status)},
	{"health", "", "succeeds if the node at --addr takes part and knows a leader",
		asking(0, health)},
	{"get", "KEY", "print a value", asking(1, get)},
	{"put", "KEY VALUE", "set a key", asking(2, put)},
	{"del", "KEY", "delete a key", asking(1, del)},
	{"scan", "[PREFIX]", "print keys and values", asking(-1, scan)},
	{"add", "ID HOST:PORT", "add a node that was started with --wait as a voter", asking(2, add)},
	{"add-reader", "ID HOST:PORT", "add one that gets all changes and has no vote",
		asking(2, addReader)},
	{"remove", "ID", "take a node out of the cluster", asking(1, remove)},
	{"transfer", "[ID]", "make another node the leader", asking(-1, transfer)},
	{"backup", "DIR", "copy what the cluster holds into a new database", asking(1, backup)},
	{"restore", "DIR", "write what a database holds into an empty cluster", asking(1, restore)},
	{"checkpoint", "NAME", "have one node copy its database by hard links", asking(1, checkpoint)},
}

// caller is what a verb has.
type caller struct {
	ctx  context.Context
	db   *client.Client
	dial func(addrs string) (*client.Client, error)
	args []string
	out  io.Writer
}

// asking makes a verb of a function that takes so many arguments; -1: one at most.
func asking(args int, f func(*caller) error) func(*flag.FlagSet, []string, io.Writer) error {
	return func(flags *flag.FlagSet, given []string, out io.Writer) error {
		addrs := os.Getenv("LOAM_ADDR")
		if addrs == "" {
			addrs = "127.0.0.1:7070"
		}
		addr := flags.String("addr", addrs, "`addresses` of nodes, host:port, separated by "+
			"commas; or LOAM_ADDR in the environment")
		file := flags.String("token-file", "",
			"`file` with the token; or LOAM_TOKEN in the environment")
		dir := flags.String("tls", "", "`directory` with ca.pem: connections are TLS ones")
		cluster := flags.String("cluster", "", "`name` of the cluster; none: any")
		limit := flags.Duration("timeout", 10*time.Second, "how long each call tries")
		if err := flags.Parse(given); err != nil {
			return err
		}
		if n := flags.NArg(); n != args && (args >= 0 || n > 1) {
			flags.Usage()
			return flag.ErrHelp
		}
		o := &client.Options{Timeout: *limit, Cluster: *cluster}
		var err error
		if o.Token, err = token(*file); err != nil {
			return err
		}
		if *dir != "" {
			if o.TLS, err = clientTLS(*dir); err != nil {
				return err
			}
		}
		dial := func(addrs string) (*client.Client, error) { return client.Dial(addrs, o) }
		db, err := dial(*addr)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }() // all answers are here
		return f(&caller{context.Background(), db, dial, flags.Args(), out})
	}
}

func (c *caller) key(i int) []byte { return []byte(c.args[i]) }

func (c *caller) optional() string {
	if len(c.args) == 0 {
		return ""
	}
	return c.args[0]
}

func status(c *caller) error {
	s, err := c.db.Status(c.ctx)
	if err != nil {
		return err
	}
	leader := s.Leader
	if leader == "" {
		leader = "unknown"
	}
	if _, err := fmt.Fprintf(c.out, "cluster %s, leader %s, term %d\n", s.Cluster, leader,
		s.Term); err != nil {
		return err
	}
	said := make([]string, len(s.Members))
	var asking sync.WaitGroup
	for i, m := range s.Members {
		asking.Go(func() { said[i] = c.one(m.Addr) })
	}
	asking.Wait()
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for i, m := range s.Members {
		role := "reader"
		if m.Voter {
			role = "voter"
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.ID, m.Addr, role, said[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}

// one is what a node says about itself.
func (c *caller) one(addr string) string {
	db, err := c.dial(addr)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = db.Close() }() // the answer is here
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	s, err := db.Status(ctx)
	switch {
	case err != nil:
		return "does not answer"
	case s.Halted != "":
		return "halted: " + s.Halted
	}
	return fmt.Sprintf("%s, applied %d", strings.ToLower(s.State), s.Applied)
}

func health(c *caller) error {
	s, err := c.db.Status(c.ctx)
	switch {
	case err != nil:
		return err
	case s.Halted != "":
		return errors.New(s.Halted)
	case s.Leader == "":
		return fmt.Errorf("node %s: %w", s.ID, client.ErrUnavailable)
	}
	_, err = fmt.Fprintln(c.out, "ok")
	return err
}

func get(c *caller) error {
	v, err := c.db.Get(c.ctx, c.key(0))
	if errors.Is(err, lsm.ErrNotFound) {
		return fmt.Errorf("%s has no value", printable(c.key(0)))
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "%s\n", v)
	return err
}

func put(c *caller) error { return c.db.Put(c.ctx, c.key(0), c.key(1)) }
func del(c *caller) error { return c.db.Delete(c.ctx, c.key(0)) }

func scan(c *caller) (err error) {
	o := &kv.IterOptions{}
	if p := c.optional(); p != "" {
		o.Lower, o.Upper = []byte(p), behind(p)
	}
	it, err := c.db.Iter(c.ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		_, err := fmt.Fprintf(c.out, "%s\t%s\n", printable(it.Key()), printable(it.Value()))
		if err != nil {
			return err
		}
	}
	return nil
}

// behind is the first key behind those with a prefix, nil if there is none.
func behind(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}

// printable is text as it is, and other bytes quoted.
func printable(b []byte) string {
	s := string(b)
	if utf8.Valid(b) && strconv.Quote(s) == `"`+s+`"` {
		return s
	}
	return strconv.Quote(s)
}

func add(c *caller) error       { return c.db.AddVoter(c.ctx, c.args[0], c.args[1]) }
func addReader(c *caller) error { return c.db.AddReader(c.ctx, c.args[0], c.args[1]) }
func remove(c *caller) error    { return c.db.Remove(c.ctx, c.args[0]) }
func transfer(c *caller) error  { return c.db.TransferLeader(c.ctx, c.optional()) }

func checkpoint(c *caller) error {
	dir, err := c.db.Checkpoint(c.ctx, c.args[0])
	if err == nil {
		_, err = fmt.Fprintln(c.out, dir)
	}
	return err
}
