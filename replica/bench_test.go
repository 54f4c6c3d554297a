package replica

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm/kv"
)

// onDisk starts three nodes on the loopback interface and a real disk, with the defaults.
func onDisk(b *testing.B) *cluster {
	c := &cluster{t: b, net: newNetwork(), configs: map[string]*Config{}, nodes: map[string]*Node{},
		events: make(chan struct{}, 1)}
	peers := map[string]string{"a": addr("a"), "b": addr("b"), "c": addr("c")}
	dir := b.TempDir()
	for id := range peers {
		n, err := Open(filepath.Join(dir, id), Config{ID: id, Addr: addr(id), Peers: peers,
			Timeout: time.Minute, Listen: c.net.listen,
			Dial: func(ctx context.Context, to string) (net.Conn, error) {
				return c.net.dial(ctx, addr(id), to)
			}})
		must(b, err)
		c.nodes[id], c.configs[id] = n, &Config{}
	}
	b.Cleanup(c.close)
	return c
}

// BenchmarkPut writes 100 bytes a key with many clients on the leader; BenchmarkGet reads them,
// linearizably, on one node, and on all. One operation is one write or read.
func BenchmarkPut(b *testing.B) {
	for _, clients := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			c := onDisk(b)
			n := c.nodes[c.leader()]
			var i atomic.Int64
			value := make([]byte, 100)
			run(b, clients, func() error {
				return n.Put(b.Context(), fmt.Appendf(nil, "key%012d", i.Add(1)), value)
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, where := range []string{"leader", "follower", "all"} {
		for _, clients := range []int{64, 512} {
			b.Run(fmt.Sprint(where, "/", clients), func(b *testing.B) {
				c := onDisk(b)
				led := c.leader()
				must(b, c.nodes[led].Put(b.Context(), []byte("key"), make([]byte, 100)))
				nodes := []*Node{c.nodes[led]}
				switch where {
				case "follower":
					nodes[0] = c.nodes[c.follower(led)]
				case "all":
					nodes = []*Node{c.nodes["a"], c.nodes["b"], c.nodes["c"]}
				}
				var i atomic.Int64
				run(b, clients, func() error {
					_, err := nodes[int(i.Add(1))%len(nodes)].Get(b.Context(), []byte("key"))
					return err
				})
			})
		}
	}
}

// BenchmarkReadOwnWrite has one client write to a follower, and read there what it wrote.
func BenchmarkReadOwnWrite(b *testing.B) {
	c := onDisk(b)
	n := c.nodes[c.follower(c.leader())]
	key, value := []byte("key"), make([]byte, 100)
	must(b, n.Put(b.Context(), key, value))
	run(b, 1, func() error {
		if err := n.Put(b.Context(), key, value); err != nil {
			return err
		}
		_, err := n.Get(b.Context(), key)
		return err
	})
}

// BenchmarkUpdate reads and writes one of many rows in a transaction, on all nodes.
func BenchmarkUpdate(b *testing.B) {
	for _, clients := range []int{64, 512} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			c := onDisk(b)
			nodes := []*Node{c.nodes["a"], c.nodes["b"], c.nodes["c"]}
			const rows = 100_000
			key := func(i int64) []byte { return fmt.Appendf(nil, "row%09d", i) }
			for i := int64(0); i < rows; {
				batch := kv.NewBatch()
				for range 1000 {
					batch.Put(key(i), make([]byte, 188))
					i++
				}
				must(b, nodes[0].Write(b.Context(), batch))
			}
			var i atomic.Int64
			run(b, clients, func() error {
				n := i.Add(1)
				k := key(n * 7919 % rows)
				return nodes[int(n)%len(nodes)].Update(b.Context(), func(tx *Txn) error {
					v, err := tx.Get(b.Context(), k)
					if err == nil {
						v[0]++
						tx.Put(k, v)
					}
					return err
				})
			})
		})
	}
}

// run has clients make calls until there were b.N, and reports calls per second.
func run(b *testing.B, clients int, call func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	errs := make(chan error, clients)
	b.ResetTimer()
	for range clients {
		go func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			b.Error(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
