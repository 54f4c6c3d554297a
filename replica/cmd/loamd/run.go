package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/internal/server"
)

// settings are the flags of run.
type settings struct {
	data, id, addr, listen, cluster, peers, join string
	tokenFile, tls, http, config, pidFile        string
	wait                                         bool
	election, lease, stop                        time.Duration
	maxClients                                   int
	snapshotEntries, logBytes                    uint64
	cache, memory                                int64
}

func (s *settings) define(f *flag.FlagSet) {
	host, err := os.Hostname()
	if err != nil {
		host = "a"
	}
	f.StringVar(&s.config, "config", "",
		"`file` with lines \"flag = value\"; flags of the command line win")
	f.StringVar(&s.data, "data", "data", "`directory` of the node")
	f.StringVar(&s.id, "id", host,
		"`name` of the node, which no other node of the cluster ever has")
	f.StringVar(&s.addr, "addr", "127.0.0.1:7070",
		"`host:port` at which clients and other nodes reach this one")
	f.StringVar(&s.listen, "listen", "", "`host:port` to listen at, if it is not that of addr")
	f.StringVar(&s.cluster, "cluster", "loam",
		"`name` of the cluster; nodes and clients of others are refused")
	f.StringVar(&s.peers, "peers", "", "the `nodes` of a new cluster, this one included: "+
		"a=host:port,b=host:port; none: this one alone")
	f.StringVar(&s.join, "join", "",
		"`addresses` of a cluster that this new node asks to add it as a voter")
	f.BoolVar(&s.wait, "wait", false,
		"wait until \"loamd add\" adds this new node to a cluster")
	f.StringVar(&s.tokenFile, "token-file", "",
		"`file` with the token that every caller has to know; or LOAM_TOKEN in the environment")
	f.StringVar(&s.tls, "tls", "", "`directory` with ca.pem, node.pem and node.key, as "+
		"\"loamd certs\" makes it: all connections are TLS ones")
	f.StringVar(&s.http, "http", "", "`host:port` of /health and /metrics; none: no such port")
	f.StringVar(&s.pidFile, "pid-file", "", "`file` for the number of the process")
	f.DurationVar(&s.election, "election-timeout", time.Second,
		"how long a node waits for its leader before it asks for votes")
	f.DurationVar(&s.lease, "lease", time.Minute,
		"how long a snapshot of a client stays that is not used")
	f.DurationVar(&s.stop, "stop-timeout", 20*time.Second,
		"how long calls may take that run when the node is stopped")
	f.Int64Var(&s.memory, "memory", 0, "`bytes` that calls and answers of all clients may have "+
		"while they wait; 0: a quarter of the memory, at most 1 GiB")
	f.IntVar(&s.maxClients, "max-clients", 4096, "how many clients may be connected")
	f.Uint64Var(&s.snapshotEntries, "snapshot-entries", 1<<16,
		"entries of the log before a snapshot is made")
	f.Uint64Var(&s.logBytes, "log-bytes", 1<<30, "`bytes` of the log from which on a snapshot is "+
		"made and entries are removed, unless the database is larger")
	f.Int64Var(&s.cache, "cache", 0,
		"`bytes` of the block cache; 0: the default of the engine")
}

// parse reads the command line, and the file of --config for what the command line does not name.
func (s *settings) parse(f *flag.FlagSet, args []string) error {
	s.define(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("run takes no arguments, and got %q", f.Args())
	}
	if s.config == "" {
		return nil
	}
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	file, err := os.Open(s.config)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it is only read
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "config" {
			return fmt.Errorf("%s:%d: %q is not \"flag = value\"", s.config, n, line)
		}
		if given[name] {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", s.config, n, name, err)
		}
	}
	return lines.Err()
}

// server makes the configuration of the server.
func (s *settings) server(log *slog.Logger) (c server.Config, err error) {
	c = server.Config{Dir: s.data, MaxClients: s.maxClients, Memory: s.memory, Lease: s.lease,
		Version: version(),
		Node: replica.Config{ID: s.id, Addr: s.addr, Bind: s.listen, Cluster: s.cluster,
			ElectionTimeout: s.election, SnapshotEntries: s.snapshotEntries,
			LogBytes: s.logBytes, Logger: log,
			Database: &lsm.Options{CacheSize: s.cache}}}
	if s.maxClients < 0 || s.lease < 0 || s.stop < 0 || s.memory < 0 {
		return c, errors.New("max-clients, lease, stop-timeout and memory must not be negative")
	}
	if c.Token, err = token(s.tokenFile); err != nil {
		return c, err
	}
	if s.tls != "" {
		if c.TLS, err = nodeTLS(s.tls); err != nil {
			return c, err
		}
	}
	switch {
	case s.peers != "" && s.join != "", s.wait && s.peers+s.join != "":
		return c, errors.New("peers begins a cluster, join enters one, wait leaves it to others: " +
			"set one of them")
	case s.join != "":
		for a := range strings.SplitSeq(s.join, ",") {
			c.Node.Join = append(c.Node.Join, strings.TrimSpace(a))
		}
	case s.peers != "":
		c.Node.Peers = map[string]string{}
		for p := range strings.SplitSeq(s.peers, ",") {
			id, addr, ok := strings.Cut(strings.TrimSpace(p), "=")
			if _, twice := c.Node.Peers[id]; !ok || twice {
				return c, fmt.Errorf("peers: %q is not name=host:port, with a name of its own", p)
			}
			c.Node.Peers[id] = addr
		}
	case !s.wait:
		c.Node.Peers = map[string]string{s.id: s.addr}
	}
	return c, nil
}

// exposed warns of callers that neither a token nor a certificate keeps from the port; "" means
// that there are none, or that only processes of this machine reach the port.
func exposed(c *server.Config) string {
	at := c.Node.Bind
	if at == "" {
		at = c.Node.Addr
	}
	host, _, _ := net.SplitHostPort(at) // replica.Open refuses others
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return ""
	}
	switch {
	case c.Token == "" && c.TLS == nil:
		return "without a token and TLS everybody who reaches the port may read and change all " +
			"data, and take part as a node"
	case c.Token == "":
		return "without a token everybody who reaches the port may read and change all data"
	case c.TLS == nil:
		return "without TLS everybody on the way reads and changes what is sent, the token included"
	}
	return ""
}

// token reads the token of a file, or of the environment.
func token(file string) (string, error) {
	if file == "" {
		return os.Getenv("LOAM_TOKEN"), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	t := strings.TrimSpace(string(b))
	if t == "" {
		return "", fmt.Errorf("%s has no token", file)
	}
	return t, nil
}

// runNode runs a node until SIGTERM or SIGINT.
func runNode(f *flag.FlagSet, args []string, out io.Writer) error {
	var s settings
	if err := s.parse(f, args); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := s.server(log)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	refused := make(chan error, 1)
	c.Node.Events = func(e replica.Event) {
		if e.Kind == replica.Refused {
			select {
			case refused <- e.Err:
			default: // one is enough
			}
		}
	}
	node, err := server.Open(c)
	if err != nil {
		return err
	}
	if why := exposed(&c); why != "" {
		log.Warn(why)
	}
	ended, err := serveHTTP(&s, &c, node)
	if err == nil && s.pidFile != "" {
		err = os.WriteFile(s.pidFile, fmt.Appendln(nil, os.Getpid()), 0o644)
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "loamd: node %s of cluster %s serves %s\n",
			s.id, s.cluster, s.addr)
	}
	if err == nil {
		select {
		case <-ctx.Done():
			log.Info("the node stops")
		case err = <-ended:
		case err = <-refused:
		}
	}
	stop() // a second signal ends the process at once
	closing, cancel := context.WithTimeout(context.Background(), s.stop)
	defer cancel()
	return errors.Join(err, node.Close(closing))
}

// serveHTTP serves health and metrics, if that is asked for. The channel gets an error.
func serveHTTP(s *settings, c *server.Config, node *server.Server) (<-chan error, error) {
	ended := make(chan error, 1)
	if s.http == "" {
		return ended, nil
	}
	l, err := net.Listen("tcp", s.http)
	if err != nil {
		return nil, err
	}
	h := &http.Server{Handler: node.Handler(), ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10,
		TLSConfig: c.TLS, ErrorLog: slog.NewLogLogger(c.Node.Logger.Handler(), slog.LevelInfo)}
	go func() {
		if c.TLS != nil {
			ended <- h.ServeTLS(l, "", "")
			return
		}
		ended <- h.Serve(l)
	}()
	return ended, nil
}
