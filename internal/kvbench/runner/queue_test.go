package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/workload"
)

// TestQueues: the rows of queues leave the messages that they should, find each that they look for,
// and have figures by tenths.
func TestQueues(t *testing.T) {
	for _, tt := range []struct {
		name        string
		from, to    int   // the messages that are left
		found, asks int64 // looks
		note        string
	}{
		{"queue", num / 10, num/10 + 1000, num / 10, num / 10, ""},
		{"queuetxn", num / 10, num/10 + 1000, num / 10, num / 10, ""},
		{"stack", 0, 1000, num / 10, num / 10, ""},
		{"windowed", num, num + num/10, num / 1000 * 10, num / 1000 * 10, "; oldest ten"},
		{"emptied", 0, 0, 0, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, m := newRunner(t)
			res := run(t, r, tt.name)
			if res.Found != tt.found || res.Asked != tt.asks || !strings.Contains(res.Message,
				fmt.Sprintf("(%d of %d found", tt.found, tt.asks)) ||
				!strings.Contains(res.Message, tt.note) {
				t.Error(res.Line())
			}
			if n := len(res.Tenths); n != 10 && res.Ops >= 10 || (n == 10) != (res.Flat > 0) {
				t.Errorf("tenths %v, flat %v", res.Tenths, res.Flat)
			}
			var want []string
			for i := tt.from; i < tt.to; i++ {
				want = append(want, fmt.Sprintf("%016d", i))
			}
			var left []string
			for k := range m.Table(r.Dir).Contents() {
				left = append(left, k)
			}
			slices.Sort(left)
			if !slices.Equal(left, want) {
				t.Errorf("%d messages left, want %d", len(left), len(want))
			}
			if needs := m.Table(r.Dir).Config.Transactions; needs != (tt.name == "queuetxn") {
				t.Errorf("opened for transactions: %v", needs)
			}
		})
	}
}

// TestEmptiedRests: half of the looks at an emptied database come after a rest, which is no
// operation's time.
func TestEmptiedRests(t *testing.T) {
	r, _ := newRunner(t)
	r.Params.Num = 20_000
	var now time.Duration
	r.Clock = func() time.Duration { return now }
	rests := 0
	r.Sleep = func(d time.Duration) { now += d; rests++ }
	res := run(t, r, "emptied")
	if rests != 1 || now != emptyRest || res.Busy != 0 || res.Ops != 2 {
		t.Errorf("%d rests, %v in all: %s", rests, now, res.Line())
	}
}

// TestQueueWithoutTransactions: an engine without transactions leaves queuetxn out.
func TestQueueWithoutTransactions(t *testing.T) {
	r, m := newRunner(t)
	r.Driver = plainDriver{m}
	if res := run(t, r, "queuetxn"); res.Skipped != "Model has no such transactions" {
		t.Errorf("%+v", res)
	}
}

// TestQueueOracle: a message that is lost is found out.
func TestQueueOracle(t *testing.T) {
	r, m := newRunner(t)
	lost := 0
	m.Fail = func(op string) error {
		if op == "delete" {
			if lost++; lost == 5 {
				m.Table(r.Dir).Empty()
			}
		}
		return nil
	}
	spec, _ := workload.Find("queue")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
		t.Errorf("a queue that lost its messages: %v", err)
	}
}
