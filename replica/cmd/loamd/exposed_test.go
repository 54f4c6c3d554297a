package main

import (
	"crypto/tls"
	"testing"

	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/internal/server"
)

// TestExposed: a node says at its start what guards a port that other machines reach, and what does
// not.
func TestExposed(t *testing.T) {
	for _, x := range []struct {
		addr, listen, token string
		tls                 *tls.Config
		silent              bool
	}{
		{addr: "127.0.0.1:7070", silent: true},
		{addr: "[::1]:7070", silent: true},
		{addr: "localhost:7070", silent: true},
		{addr: "a.example.org:7070", listen: "127.0.0.1:7070", silent: true},
		{addr: "127.0.0.1:7070", listen: ":7070"},
		{addr: "10.0.0.1:7070"},
		{addr: "a.example.org:7070", token: "sesame"},
		{addr: "a.example.org:7070", tls: &tls.Config{}},
		{addr: "a.example.org:7070", token: "sesame", tls: &tls.Config{}, silent: true},
	} {
		c := server.Config{Token: x.token, TLS: x.tls,
			Node: replica.Config{Addr: x.addr, Bind: x.listen}}
		if why := exposed(&c); (why == "") != x.silent {
			t.Errorf("%+v: %q", x, why)
		}
	}
}
