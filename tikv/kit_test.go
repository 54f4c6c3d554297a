package tikv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/log"
	"github.com/tikv/client-go/v2/testutils"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	pd "github.com/tikv/pd/client"
	"go.uber.org/zap"
)

func init() { // client-go tells of every refusal
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{})
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// cluster is client-go's mock of TiKV, in this process.
type cluster struct {
	t     testing.TB
	mock  *testutils.MockCluster
	store uint64
	pd    pd.Client // takes keys as they are

	mu  sync.Mutex
	say func(call) (*tikvrpc.Response, error) // nil: every request is sent on
}

// call is a request on its way to the mock.
type call struct {
	req  *tikvrpc.Request
	send func() (*tikvrpc.Response, error)
}

// newCluster makes a cluster whose regions begin at the keys of the DB that are given, and before
// the first of them.
func newCluster(t testing.TB, splits ...string) (*cluster, *DB) {
	rpc, mock, driver, err := testutils.NewMockTiKV("", nil)
	must(t, err)
	keys := make([][]byte, len(splits))
	for i, k := range splits {
		keys[i] = []byte(DefaultPrefix + k)
	}
	c := &cluster{t: t, mock: mock}
	c.store, _, _ = testutils.BootstrapWithMultiRegions(mock, keys...)
	s, err := client.NewTestTiKVStore(rpc, driver,
		func(to client.Client) client.Client { return &wire{to, c} }, nil, 0)
	must(t, err)
	c.pd = s.GetPDClient()
	db, err := New(s, Config{})
	must(t, err)
	return c, db
}

// wire hands requests to the cluster's say.
type wire struct {
	client.Client
	c *cluster
}

func (w *wire) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request,
	timeout time.Duration) (*tikvrpc.Response, error) {
	send := func() (*tikvrpc.Response, error) {
		return w.Client.SendRequest(ctx, addr, req, timeout)
	}
	w.c.mu.Lock()
	say := w.c.say
	w.c.mu.Unlock()
	if say == nil {
		return send()
	}
	return say(call{req, send})
}

// on has say answer all requests from now on.
func (c *cluster) on(say func(call) (*tikvrpc.Response, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say = say
}

// split begins a region at a key, if none begins there.
func (c *cluster) split(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := []byte(DefaultPrefix + key)
	r, err := c.pd.GetRegion(context.Background(), raw)
	if err != nil {
		c.t.Error(err)
		return
	}
	if string(r.Meta.StartKey) == string(raw) {
		return
	}
	id, peer := c.mock.AllocID(), c.mock.AllocID()
	c.mock.Split(r.Meta.Id, id, raw, []uint64{peer}, peer)
}

// refusals are what a store answers that a client has to try again.
var refusals = []func(region uint64) *errorpb.Error{
	func(r uint64) *errorpb.Error {
		return &errorpb.Error{NotLeader: &errorpb.NotLeader{RegionId: r}}
	},
	func(uint64) *errorpb.Error {
		return &errorpb.Error{EpochNotMatch: &errorpb.EpochNotMatch{
			CurrentRegions: []*metapb.Region{}}}
	},
	func(r uint64) *errorpb.Error {
		return &errorpb.Error{RegionNotFound: &errorpb.RegionNotFound{RegionId: r}}
	},
	func(uint64) *errorpb.Error {
		return &errorpb.Error{StaleCommand: &errorpb.StaleCommand{}}
	},
}

func (c call) refuse(n int) (*tikvrpc.Response, error) {
	return tikvrpc.GenRegionErrorResp(c.req, refusals[n%len(refusals)](c.req.RegionId))
}

// fifty are keys that cut those of the suite into 50 regions.
func fifty() (keys []string) {
	for i := range 49 {
		keys = append(keys, fmt.Sprintf("k%02d", i+1))
	}
	return keys
}
