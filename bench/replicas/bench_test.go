package replicas

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/replica"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
)

// cluster is three nodes in this process, on the loopback interface and one disk. Clients are
// spread over them.
type cluster interface {
	put(ctx context.Context, client int, key, value []byte) error
	get(ctx context.Context, client int, key []byte) error // linearizable
}

// clusters are what is measured: each opens its nodes below a directory, for one benchmark.
var clusters = []struct {
	name string
	open func(b *testing.B, dir string) cluster
}{{"loam", openLoam}, {"dragonboat", openDragonboat}, {"etcd", openEtcd}}

func BenchmarkPut(b *testing.B) {
	value := make([]byte, 100)
	each(b, func(c cluster, client int, i int64) error {
		return c.put(b.Context(), client, fmt.Appendf(nil, "key%012d", i), value)
	})
}

func BenchmarkGet(b *testing.B) {
	each(b, func(c cluster, client int, _ int64) error {
		return c.get(b.Context(), client, []byte("key"))
	})
}

// each has 64 and 512 clients make b.N calls on each cluster.
func each(b *testing.B, call func(c cluster, client int, i int64) error) {
	for _, k := range clusters {
		for _, clients := range []int{64, 512} {
			b.Run(fmt.Sprint(k.name, "/", clients), func(b *testing.B) {
				c := k.open(b, b.TempDir())
				if err := c.put(b.Context(), 0, []byte("key"), make([]byte, 100)); err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				var all sync.WaitGroup
				b.ResetTimer()
				for id := range clients {
					all.Go(func() {
						for i := left.Add(-1); i >= 0; i = left.Add(-1) {
							if err := call(c, id, i); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}

// listeners are open ports by the names of the nodes, and their addresses.
func listeners(b *testing.B) (open map[string]net.Listener, addrs map[string]string) {
	open, addrs = map[string]net.Listener{}, map[string]string{}
	for _, id := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		open[id], addrs[id] = l, l.Addr().String()
	}
	return open, addrs
}

type loam []*replica.Node

func openLoam(b *testing.B, dir string) cluster {
	open, addrs := listeners(b)
	var c loam
	for id, addr := range addrs {
		n, err := replica.Open(filepath.Join(dir, id), replica.Config{ID: id, Addr: addr,
			Peers: addrs, Timeout: time.Minute,
			Listen: func(string) (net.Listener, error) { return open[id], nil }})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.Close() }) // the directory goes
		c = append(c, n)
	}
	return c
}

func (c loam) put(ctx context.Context, client int, key, value []byte) error {
	return c[client%3].Put(ctx, key, value)
}

func (c loam) get(ctx context.Context, client int, key []byte) error {
	_, err := c[client%3].Get(ctx, key)
	return err
}

// etcd has clients in the process, which call their member without a network.
type etcd []*clientv3.Client

func openEtcd(b *testing.B, dir string) cluster {
	open, addrs := listeners(b)
	initial := ""
	for id, addr := range addrs {
		initial += "," + id + "=http://" + addr
		_ = open[id].Close() // etcd opens it again
	}
	var c etcd
	var members []*embed.Etcd
	for id, addr := range addrs {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir, cfg.InitialCluster = id, filepath.Join(dir, id), initial[1:]
		peer := url.URL{Scheme: "http", Host: addr}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		cfg.QuotaBackendBytes = 8 << 30
		m, err := embed.StartEtcd(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(m.Close)
		members = append(members, m)
	}
	for _, m := range members {
		<-m.Server.ReadyNotify()
		c = append(c, v3client.New(m.Server))
	}
	return c
}

func (c etcd) put(ctx context.Context, client int, key, value []byte) error {
	_, err := c[client%3].Put(ctx, string(key), string(value))
	return err
}

func (c etcd) get(ctx context.Context, client int, key []byte) error {
	r, err := c[client%3].Get(ctx, string(key))
	if err == nil && len(r.Kvs) != 1 {
		err = errors.New("the key is missing")
	}
	return err
}
