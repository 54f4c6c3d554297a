package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/loamdb/loam/bench/oltp/rows"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/tikv"
	"github.com/tikv/client-go/v2/testutils"
	client "github.com/tikv/client-go/v2/tikv"
)

// reading is a kv.Reader as package rows reads.
type reading struct{ r kv.Reader }

func (r reading) Get(ctx context.Context, key []byte) ([]byte, error) {
	return found(r.r.Get(ctx, key))
}

func (r reading) Scan(ctx context.Context, lower, upper []byte,
	f func(key, value []byte) error) error {
	it, err := r.r.Iter(ctx, &kv.IterOptions{Lower: lower, Upper: upper})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

// openReplicas opens three nodes on free ports.
func openReplicas(dir string) (rows.Table, error) {
	c := &cluster{}
	peers, listeners := map[string]string{}, map[string]net.Listener{}
	for _, id := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		peers[id], listeners[id] = l.Addr().String(), l
	}
	for id, addr := range peers {
		n, err := replica.Open(filepath.Join(dir, id), replica.Config{ID: id, Addr: addr,
			Peers:    peers,
			Database: &lsm.Options{CacheSize: cacheBytes},
			Listen:   func(string) (net.Listener, error) { return listeners[id], nil }})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.nodes = append(c.nodes, n)
	}
	return rows.OnKeys(c), nil
}

type cluster struct{ nodes []*replica.Node }

func (c *cluster) Close() (err error) {
	for _, n := range c.nodes {
		err = errors.Join(err, n.Close())
	}
	return err
}

func (c *cluster) node(worker int) *replica.Node { return c.nodes[worker%len(c.nodes)] }

func (c *cluster) Get(ctx context.Context, worker int, key []byte) ([]byte, error) {
	return found(c.node(worker).Get(ctx, key))
}

func (c *cluster) View(ctx context.Context, worker int, f func(rows.Reader) error) error {
	return c.node(worker).View(ctx, func(v *replica.View) error { return f(reading{v}) })
}

func (c *cluster) Update(ctx context.Context, worker int, f func(rows.Txn) error) error {
	return c.node(worker).Update(ctx, func(tx *replica.Txn) error { return f(replicaTxn{tx}) })
}

type replicaTxn struct{ tx *replica.Txn }

func (t replicaTxn) Get(ctx context.Context, key []byte) ([]byte, error) {
	return found(t.tx.Get(ctx, key))
}
func (t replicaTxn) Put(key, value []byte) error { t.tx.Put(key, value); return nil }
func (t replicaTxn) Delete(key []byte) error     { t.tx.Delete(key); return nil }

// openMock opens client-go's mock of TiKV, in memory, with three regions.
func openMock(string) (rows.Table, error) {
	rpc, mock, pd, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		return nil, err
	}
	testutils.BootstrapWithMultiRegions(mock, []byte(tikv.DefaultPrefix+"i"),
		[]byte(tikv.DefaultPrefix+"r"))
	s, err := client.NewTestTiKVStore(rpc, pd, nil, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("the mock: %w", err)
	}
	db, err := tikv.New(s, tikv.Config{})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return rows.OnKeys(mocked{db}), nil
}

type mocked struct{ db *tikv.DB }

func (m mocked) Close() error { return m.db.Close() }

func (m mocked) Get(ctx context.Context, _ int, key []byte) ([]byte, error) {
	return found(m.db.Get(ctx, key))
}

func (m mocked) View(ctx context.Context, _ int, f func(rows.Reader) error) error {
	s, err := m.db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return f(reading{s})
}

func (m mocked) Update(ctx context.Context, _ int, f func(rows.Txn) error) error {
	return m.db.Update(ctx, func(tx *tikv.Txn) error { return f(tikvTxn{tx}) })
}

type tikvTxn struct{ tx *tikv.Txn }

func (t tikvTxn) Get(ctx context.Context, key []byte) ([]byte, error) {
	return found(t.tx.Get(ctx, key))
}
func (t tikvTxn) Put(key, value []byte) error { t.tx.Put(key, value); return nil }
func (t tikvTxn) Delete(key []byte) error     { t.tx.Delete(key); return nil }
