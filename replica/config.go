package replica

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/raftlog"
	"github.com/loamdb/loam/replica/internal/records"
	"github.com/loamdb/loam/replica/internal/wire"
)

// MaxChange is the largest change in bytes, keys and conditions included. A larger one delays
// heartbeats: cut it.
const MaxChange = wire.MaxChange

// Config configures a Node. ID and Addr are needed; a zero field means the default.
type Config struct {
	// ID is the name of the node, which no other node of the cluster ever has.
	ID string
	// Addr is host and port at which the other nodes reach this one. It is also the address at
	// which the node listens, unless Bind is set.
	Addr string
	// Bind is the address at which the node listens. The default is Addr.
	Bind string
	// Cluster is the name of the cluster, which nodes of other clusters are refused by. The default
	// is "loam".
	Cluster string
	// Peers are the nodes of a new cluster, this one included: addresses by ID. Each of them gets
	// the same. It has no effect where the directory has a node.
	Peers map[string]string
	// Join are addresses of nodes of a cluster that this new node asks to add it as a voter. It has
	// no effect where the directory has a node that is a member.
	Join []string

	// TLS makes all connections between nodes TLS ones, in both directions; set Certificates and
	// RootCAs. A caller needs a certificate of ClientCAs, or of RootCAs where these are nil, unless
	// ClientAuth says otherwise. The default, nil, is none: then the network has to be trusted.
	TLS *tls.Config
	// ElectionTimeout is how long a follower waits for its leader before it asks for votes. The
	// default is a second. Three nodes go on after about three of it without their leader.
	ElectionTimeout time.Duration
	// Timeout bounds calls whose context has no deadline. The default is ten times ElectionTimeout.
	Timeout time.Duration
	// RejoinInterval is the pause before a halted node tries Rejoin by itself, and between such
	// tries. The default is 5 seconds; negative: never.
	RejoinInterval time.Duration

	// SnapshotEntries is how many entries the log gets before a snapshot is made, which takes hard
	// links and no copy of the data. The default is 65,536.
	SnapshotEntries uint64
	// SnapshotInterval is how often SnapshotEntries is looked at. The default is 30 seconds.
	SnapshotInterval time.Duration
	// TrailingEntries is how many entries stay in the log behind a snapshot, so that a follower
	// that was away shortly needs no snapshot. The default is 65,536.
	TrailingEntries uint64
	// LogBytes is the size of the log from which on a snapshot is made and entries are removed,
	// however few they are, unless the database is larger. The default is 1 GiB.
	LogBytes uint64

	// Database is the options of the database; see refused for what replicas cannot have. The
	// default is that of lsm.Open. Nodes send each other files of snapshots as they are: with
	// Encryption, each node needs the keys of all.
	Database *lsm.Options
	// Log is the options of the Raft log. The default is that of raftlog.Open, with the Encryption
	// and AllowClear of Database, as the log has keys and values too.
	Log *raftlog.Options
	// Logger takes messages of the node and of Raft. The default, nil, discards them.
	Logger *slog.Logger
	// Events takes events. It is called on goroutines of the node, one event at a time, and must
	// not wait for the node; a panic goes to the Logger. The default is none.
	Events func(Event)

	// Dial and Listen replace the network below TLS, for tests with faults. The defaults are TCP.
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Listen func(addr string) (net.Listener, error)

	// sent is called before each AppendEntries; an error takes the place of the call.
	sent func(to raft.ServerAddress, r *raft.AppendEntriesRequest) error
	// commitTimeout is after how long a follower that gets no entries hears of the commit index,
	// unless it asks. The default is 10 ms, and at most a tenth of ElectionTimeout.
	commitTimeout time.Duration
}

// Validate reports what Open would refuse, as lsm.ErrInvalidArgument.
func (c *Config) Validate() error {
	switch {
	case c.ID == "" || len(c.ID) > 255:
		return invalid("ID has to have 1 to 255 bytes")
	case !hasPort(c.Addr):
		return invalid("Addr is %q, and has to be host:port as other nodes reach it", c.Addr)
	case len(c.Cluster) > 255:
		return invalid("Cluster is above 255 bytes")
	case len(c.Peers) > 0 && c.Peers[c.ID] != c.Addr:
		return invalid("Peers has to have this node's own ID %q with its Addr %q", c.ID, c.Addr)
	case len(c.Peers) > 0 && len(c.Join) > 0:
		return invalid("Peers begins a cluster and Join enters one: set one of them")
	case c.ElectionTimeout < 0 || c.Timeout < 0 || c.SnapshotInterval < 0:
		return invalid("times must not be negative")
	case c.ElectionTimeout > 0 && c.ElectionTimeout < 20*time.Millisecond:
		return invalid("ElectionTimeout is %v, and has to be 20ms at least", c.ElectionTimeout)
	}
	if i := slices.IndexFunc(c.Join, func(a string) bool { return !hasPort(a) }); i >= 0 {
		return invalid("Join: %q has to be host:port", c.Join[i])
	}
	seen := map[string]string{}
	for id, addr := range c.Peers {
		if other, twice := seen[addr]; id == "" || !hasPort(addr) || twice {
			return invalid("Peers: %q has the address %q, which has to be host:port and its own "+
				"(%q)", id, addr, other)
		}
		seen[addr] = id
	}
	return c.refused()
}

// refused says which options of the database would make nodes differ, or change their order.
func (c *Config) refused() error {
	d := cmp.Or(c.Database, &lsm.Options{})
	switch {
	case d.Format == lsm.FormatLevelDB:
		return invalid("Database.Format: a replica needs the native format")
	case d.Comparer != nil && d.Comparer != lsm.BytewiseComparer:
		return invalid("Database.Comparer: keys are ordered bytewise")
	case d.CompactionFilter != nil, d.MergeOperator != nil, d.DefaultTTL != 0:
		return invalid("Database: a compaction filter, merge operator or time to live would " +
			"make nodes differ")
	case d.ReadOnly:
		return invalid("Database.ReadOnly: a replica writes")
	}
	return nil
}

func hasPort(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != "" && port != "0"
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("replica: "+format+": %w", append(args, lsm.ErrInvalidArgument)...)
}

// withDefaults returns a copy with every default filled in.
func (c Config) withDefaults() Config {
	if c.Bind == "" {
		c.Bind = c.Addr
	}
	orElse(&c.Cluster, "loam")
	orElse(&c.ElectionTimeout, time.Second)
	orElse(&c.Timeout, 10*c.ElectionTimeout)
	orElse(&c.RejoinInterval, 5*time.Second)
	orElse(&c.commitTimeout, min(10*time.Millisecond, c.ElectionTimeout/10))
	orElse(&c.SnapshotEntries, 1<<16)
	orElse(&c.SnapshotInterval, 30*time.Second)
	orElse(&c.TrailingEntries, 1<<16)
	orElse(&c.LogBytes, 1<<30)
	c.Logger = records.Safe(c.Logger)
	if c.TLS != nil && c.TLS.ClientAuth == tls.NoClientCert {
		c.TLS = c.TLS.Clone()
		c.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		if c.TLS.ClientCAs == nil {
			c.TLS.ClientCAs = c.TLS.RootCAs
		}
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	if c.Listen == nil {
		c.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	return c
}

func orElse[T comparable](v *T, d T) {
	*v = cmp.Or(*v, d)
}

// maxAppendEntries is how many entries of a follower that is behind are read at once, and one call
// of the FSM has. The largest are of MaxChange.
const maxAppendEntries = 64

// peerTimeout bounds a message between nodes and its answer: a follower that died without a word
// gets no entries for so long after it is back, since one message at a time is under way.
func (c *Config) peerTimeout() time.Duration { return 10 * c.ElectionTimeout }

func (c *Config) raft() *raft.Config {
	r := raft.DefaultConfig()
	r.LocalID = raft.ServerID(c.ID)
	r.HeartbeatTimeout, r.ElectionTimeout = c.ElectionTimeout, c.ElectionTimeout
	// No read depends on the lease: as long as followers wait for their leader, it waits for them.
	// A shorter lease ends terms on machines whose processors are busy.
	r.LeaderLeaseTimeout = c.ElectionTimeout
	r.CommitTimeout = c.commitTimeout
	r.MaxAppendEntries = maxAppendEntries
	r.SnapshotThreshold, r.SnapshotInterval = c.SnapshotEntries, c.SnapshotInterval
	r.TrailingLogs = c.TrailingEntries
	r.ShutdownOnRemove = false
	r.NoSnapshotRestoreOnStart = true
	r.NoLegacyTelemetry = true
	r.Logger = records.Logger(c.Logger, c.ID)
	return r
}

func (c *Config) log(what string, args ...any) {
	if c.Logger != nil {
		c.Logger.Info(what, append([]any{"node", c.ID}, args...)...)
	}
}

// database returns the options of the database.
func (c *Config) database() *lsm.Options {
	d := *cmp.Or(c.Database, &lsm.Options{})
	d.Format = lsm.FormatNative
	return &d
}

// raftLog returns the options of the Raft log. It has keys and values, so it is encrypted where the
// database is.
func (c *Config) raftLog() *raftlog.Options {
	o, of := *cmp.Or(c.Log, &raftlog.Options{}), cmp.Or(c.Database, &lsm.Options{})
	orElse(&o.MaxEntrySize, 2*MaxChange)
	d := *cmp.Or(o.Database, &lsm.Options{})
	if d.Encryption == nil {
		d.Encryption, d.AllowClear = of.Encryption, d.AllowClear || of.AllowClear
	}
	o.Database = &d
	return &o
}

// FS is the file system of the database: that of Database, or OSFS.
func (c *Config) FS() lsm.FS {
	if c.Database != nil && c.Database.FS != nil {
		return c.Database.FS
	}
	return lsm.OSFS()
}
