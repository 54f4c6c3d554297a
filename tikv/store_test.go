package tikv

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/testkit/conform"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// TestStore runs the suite of all stores over one region, and over several.
func TestStore(t *testing.T) {
	for name, splits := range map[string][]string{
		"1": nil, "3": {"k10", "k40"}, "50": fifty(),
	} {
		t.Run(name, func(t *testing.T) {
			conform.Run(t, func(t *testing.T) kv.Store {
				_, db := newCluster(t, splits...)
				return db
			})
		})
	}
}

// TestSplits begins a region in front of every scan and every read of several keys: what the client
// knows of the regions is out of date.
func TestSplits(t *testing.T) {
	conform.Run(t, func(t *testing.T) kv.Store {
		c, db := newCluster(t)
		var n atomic.Int64
		c.on(func(r call) (*tikvrpc.Response, error) {
			switch r.req.Type {
			case tikvrpc.CmdScan, tikvrpc.CmdBatchGet, tikvrpc.CmdPrewrite:
				if at := n.Add(1); at < 200 {
					c.split(fmt.Sprintf("k%02d", at*37%60))
				}
			}
			return r.send()
		})
		return db
	})
}

// TestRefusals has every 7th request refused by its region.
func TestRefusals(t *testing.T) {
	conform.Run(t, func(t *testing.T) kv.Store {
		c, db := newCluster(t, "k10", "k40")
		var n atomic.Int64
		c.on(func(r call) (*tikvrpc.Response, error) {
			if at := int(n.Add(1)); at%7 == 0 {
				return r.refuse(at / 7)
			}
			return r.send()
		})
		return db
	})
}
