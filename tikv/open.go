package tikv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/loamdb/loam/lsm"
	"github.com/tikv/client-go/v2/config"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv"
	pd "github.com/tikv/pd/client"
)

// Config says which cluster a DB is in, and which of its keys are the DB's.
type Config struct {
	// PD are addresses of the cluster's placement drivers, host:port. One that answers is enough.
	PD []string
	// Prefix begins every key of the DB in the cluster; default DefaultPrefix. Two stores share a
	// cluster if neither prefix begins with the other one. TiDB's keys begin with m and t.
	Prefix []byte
	// CA, Cert and Key are files in PEM: TLS with certificates on both sides; default: no TLS.
	CA, Cert, Key string
	// Timeout bounds how long Write and Update try again after conflicts; default 10 s.
	Timeout time.Duration
	// SafePointTTL is how long the cluster keeps the versions of a process that died with iterators
	// or snapshots open; default 5 min, at least 3 s. A living process tells PD every third of it.
	SafePointTTL time.Duration
}

// DefaultPrefix begins the keys of a DB whose Config has no Prefix.
const DefaultPrefix = "loam\x00"

// filled returns the configuration with its defaults.
func (c Config) filled() (Config, error) {
	if len(c.Prefix) == 0 {
		c.Prefix = []byte(DefaultPrefix)
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.SafePointTTL == 0 {
		c.SafePointTTL = 5 * time.Minute
	}
	switch {
	case c.Timeout < 0:
		return c, invalid("Timeout is negative")
	case c.SafePointTTL < 3*time.Second:
		return c, invalid("SafePointTTL is below 3 s")
	case after(c.Prefix) == nil:
		return c, invalid("Prefix has no byte below 255")
	case (c.Cert == "") != (c.Key == "") || c.CA == "" && c.Cert != "":
		return c, invalid("TLS needs CA, Cert and Key, or CA alone")
	}
	return c, nil
}

func invalid(what string) error {
	return fmt.Errorf("tikv: %s: %w", what, lsm.ErrInvalidArgument)
}

// Open connects to a cluster. It fails if no placement driver answers before the context is done.
func Open(ctx context.Context, c Config) (*DB, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	if len(c.PD) == 0 {
		return nil, invalid("PD is empty")
	}
	type opened struct {
		store *client.KVStore
		err   error
	}
	answer := make(chan opened, 1)
	go func() { // the client takes no context, and gives up by itself
		s, err := connect(c)
		answer <- opened{s, err}
	}()
	select {
	case o := <-answer:
		if o.err != nil {
			return nil, fmt.Errorf("tikv: connecting to %q: %w", c.PD, o.err)
		}
		return newDB(o.store, c), nil
	case <-ctx.Done():
		go func() {
			if o := <-answer; o.err == nil {
				_ = o.store.Close()
			}
		}()
		return nil, fmt.Errorf("tikv: connecting to %q: %w", c.PD, ctx.Err())
	}
}

// New makes a DB of a connection to a cluster that client-go opened, for what Config cannot say. PD
// and TLS are not used. Close closes the connection.
func New(s *client.KVStore, c Config) (*DB, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	return newDB(s, c), nil
}

// connect is txnkv.NewClient with the TLS of one DB instead of the process's.
func connect(c Config) (*client.KVStore, error) {
	driver, err := pd.NewClient(c.PD, pd.SecurityOption{CAPath: c.CA, CertPath: c.Cert,
		KeyPath: c.Key})
	if err != nil {
		return nil, err
	}
	security := config.NewSecurity(c.CA, c.Cert, c.Key, nil)
	tls, err := security.ToTLSConfig()
	if err != nil {
		driver.Close()
		return nil, err
	}
	points, err := client.NewEtcdSafePointKV(c.PD, tls)
	if err != nil {
		driver.Close()
		return nil, err
	}
	coded := client.NewCodecPDClient(client.ModeTxn, driver)
	rpc := client.NewRPCClient(client.WithSecurity(security), client.WithCodec(coded.GetCodec()))
	s, err := client.NewKVStore(uuid.NewString(), coded, points, rpc)
	if err != nil {
		driver.Close()
		return nil, errors.Join(err, points.Close(), rpc.Close())
	}
	return s, nil
}

// newDB makes a DB of a connection, which its Close closes.
func newDB(s *client.KVStore, c Config) *DB {
	db := &DB{client: &txnkv.Client{KVStore: s}, cfg: c, end: after(c.Prefix)}
	db.points = newKeeper(s.GetPDClient(), c.SafePointTTL)
	return db
}

// after is the first key behind all keys that begin with a prefix; nil: there is none.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			end := append([]byte{}, prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}
