package client_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/client"
	"github.com/loamdb/loam/replica/internal/server"
)

// onDisk starts three servers on the loopback interface and a real disk, with the defaults.
func onDisk(b *testing.B) (addrs map[string]string) {
	addrs = map[string]string{}
	listeners := map[string]net.Listener{}
	for _, id := range []string{"a", "b", "c"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		listeners[id], addrs[id] = l, l.Addr().String()
	}
	dir := b.TempDir()
	for id, addr := range addrs {
		s, err := server.Open(server.Config{Dir: filepath.Join(dir, id),
			Node:   replica.Config{ID: id, Addr: addr, Peers: addrs, Timeout: time.Minute},
			Listen: func(string) (net.Listener, error) { return listeners[id], nil }})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close(context.Background()) })
	}
	return addrs
}

// callers runs b.N calls of so many goroutines, with a client of its own for every eight of them,
// each at home at another node.
func callers(b *testing.B, addrs map[string]string, n int,
	call func(db *client.Client, i int64) error) {
	var dbs []*client.Client
	homes := []string{addrs["a"], addrs["b"], addrs["c"]}
	for i := range (n + 7) / 8 {
		db, err := client.Dial(homes[i%3], &client.Options{Timeout: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := db.Once(fmt.Sprint("first ", i)).Put(b.Context(), []byte("key"),
			make([]byte, 100)); err != nil {
			b.Fatal(err)
		}
		dbs = append(dbs, db)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for c := range n {
		db := dbs[c/8]
		all.Go(func() {
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				if err := call(db, i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkPut writes 100 bytes a key through three servers; BenchmarkGet reads them, linearizably,
// on all of them.
func BenchmarkPut(b *testing.B) {
	for _, n := range []int{64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			value := make([]byte, 100)
			callers(b, onDisk(b), n, func(db *client.Client, i int64) error {
				return db.Put(b.Context(), fmt.Appendf(nil, "key%012d", i), value)
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			callers(b, onDisk(b), n, func(db *client.Client, _ int64) error {
				_, err := db.Get(b.Context(), []byte("key"))
				return err
			})
		})
	}
}
