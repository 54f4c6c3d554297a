package records

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestRecords: messages of raft have their level, and those that repeat come once in a while.
func TestRecords(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	r := &records{to: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})), now: func() time.Time { return now }, told: map[string]time.Time{}}
	r.Accept("raft", hclog.Info, "elected", "servers", hclog.Fmt("%d of %d", 1, 2))
	r.Accept("raft", hclog.Debug, "nobody reads that")
	for range 2 {
		r.Accept("raft", hclog.Error, "failed", "peer", "b", "backoff", 1)
		r.Accept("raft", hclog.Error, "failed", "peer", "c", "backoff", 2)
		r.Accept("raft", hclog.Error, "failed", "error", fmt.Errorf("read: %w", net.ErrClosed))
	}
	now = now.Add(repeatAfter)
	r.Accept("raft", hclog.Error, "failed", "peer", "b", "backoff", 3)
	for i := range 2 * maxTold {
		r.Accept("raft", hclog.Warn, "slow", "peer", i)
	}
	want := `level=INFO msg="raft: elected" servers="1 of 2"
level=ERROR msg="raft: failed" peer=b backoff=1
level=ERROR msg="raft: failed" peer=c backoff=2
level=ERROR msg="raft: failed" peer=b backoff=3
level=WARN msg="raft: slow" peer=0
`
	if !strings.HasPrefix(out.String(), want) || len(r.told) > maxTold {
		t.Errorf("%.600s, %d told", out.String(), len(r.told))
	}
}
