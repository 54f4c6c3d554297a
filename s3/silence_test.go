package s3

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/loamdb/loam/lsm/replicate"
)

const head = "HTTP/1.1 200 OK\r\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT\r\nETag: \"x\"\r\n"

// served is a target whose store is serve, which gets each connection, and returns when it wants no
// more of it; the connection stays open until end.
func served(t *testing.T, serve func(r *bufio.Reader, c net.Conn)) (target replicate.Target,
	end func()) {
	t.Helper()
	transport, err := minio.DefaultTransport(false)
	must(t, err)
	var mu sync.Mutex
	var others []net.Conn
	transport.DialContext = impatient(func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		mu.Lock()
		others = append(others, there)
		mu.Unlock()
		go serve(bufio.NewReader(there), there)
		return here, nil
	})
	target, err = open("s3://bucket/below?insecure=true&region=us-east-1&endpoint=store",
		transport, 1)
	must(t, err)
	return target, func() {
		transport.CloseIdleConnections()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range others {
			must(t, c.Close())
		}
	}
}

// TestSilence: a store that reads or answers no further is an error after some time.
func TestSilence(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for name, serve := range map[string]func(r *bufio.Reader, c net.Conn){
		"reads nothing": func(*bufio.Reader, net.Conn) {},
		"reads half":    func(r *bufio.Reader, _ net.Conn) { _, _ = r.Discard(500_000) },
		"answers half": func(r *bufio.Reader, c net.Conn) {
			if _, err := http.ReadRequest(r); err == nil {
				fmt.Fprint(c, head+"Content-Length: 100\r\n\r\nhalf")
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			target, end := served(t, serve)
			defer end()
			begun := time.Now()
			err := target.Put(ctx, "a", make([]byte, 1<<20))
			if name == "answers half" {
				_, err = target.Get(ctx, "a")
			}
			if took := time.Since(begun); err == nil || took > 2*maxSilence {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}

// TestSlowStore: a store that reads a little now and then is waited for.
func TestSlowStore(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	synctest.Test(t, func(t *testing.T) {
		target, end := served(t, func(r *bufio.Reader, c net.Conn) {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			for range 1 << 20 / (32 << 10) {
				time.Sleep(maxSilence / 3)
				_, _ = r.Discard(32 << 10)
			}
			fmt.Fprint(c, head+"Content-Length: 0\r\n\r\n")
		})
		defer end()
		must(t, target.Put(ctx, "a", make([]byte, 1<<20)))
	})
}
