package client_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/client"
)

// TestAddresses: Dial refuses what no call could reach, and names it.
func TestAddresses(t *testing.T) {
	for _, a := range []string{"", "a", "a:", ":1", "[]:1", "a:x", "a:-1", "a:+1", "a:0", "a:65536",
		"a:000001", "::1:7070", "[::1]", "[::1:7070", "[::1]x:1", "a b:1", "a:1:1", "a:http",
		"loam://a:1"} {
		db, err := client.Dial("b:1,"+a, nil)
		named := strconv.Quote(a) + " is"
		if !errors.Is(err, lsm.ErrInvalidArgument) || !strings.HasPrefix(err.Error(), named) {
			t.Errorf("%q: %v, %v", a, db, err)
		}
	}
	db, err := client.Dial("a:1, [::1]:65535,127.0.0.1:7070,[fe80::1%eth0]:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
