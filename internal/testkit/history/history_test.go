package history

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

func TestLinearizable(t *testing.T) {
	w := func(v string, call, ret int64) Event {
		return Event{Write: true, Value: v, Call: call, Return: ret}
	}
	r := func(v string, call, ret int64) Event { return Event{Value: v, Call: call, Return: ret} }
	for _, c := range []struct {
		name   string
		events []Event
		want   bool
	}{
		{"empty", nil, true},
		{"missing at first", []Event{r("", 1, 2)}, true},
		{"read of nothing written", []Event{r("a", 1, 2)}, false},
		{"read after write", []Event{w("a", 1, 2), r("a", 3, 4)}, true},
		{"stale read", []Event{w("a", 1, 2), w("b", 3, 4), r("a", 5, 6)}, false},
		{"missing after write", []Event{w("a", 1, 2), r("", 3, 4)}, false},
		{"overlapping write, old or new", []Event{w("a", 1, 2), w("b", 3, 8), r("a", 4, 5),
			r("b", 6, 7)}, true},
		{"new, then old again", []Event{w("a", 1, 2), w("b", 3, 8), r("b", 4, 5), r("a", 6, 7)},
			false},
		{"two writers, either order", []Event{w("a", 1, 10), w("b", 2, 9), r("b", 11, 12)}, true},
		{"two readers disagree on the order", []Event{w("a", 1, 10), w("b", 2, 9), r("a", 11, 12),
			r("b", 13, 14)}, false},
		{"delete", []Event{w("a", 1, 2), w("", 3, 4), r("", 5, 6)}, true},
		{"read before its write", []Event{r("a", 1, 2), w("a", 3, 4)}, false},
		{"needs backtracking", []Event{w("a", 1, 20), w("b", 2, 19), w("c", 3, 18), r("c", 4, 5),
			r("a", 6, 7), r("b", 8, 9)}, true},
	} {
		if got := Linearizable(c.events); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestHistories is 8 clients on 64 keys, many times over.
func TestHistories(t *testing.T) { testkit.EachFormat(t, testHistories) }

func testHistories(t *testing.T, share int) {
	seed := testkit.Seed(t)
	for i := range testkit.Scale(testkit.Brief(5, 10), 60/share, 3000) {
		if err := Run(seed+int64(i), Shape{Clients: 8, Keys: 64, Ops: 400}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHotKeys has the same clients meet on three keys only.
func TestHotKeys(t *testing.T) {
	seed := testkit.Seed(t)
	for i := range testkit.Scale(5, 50, 1000) {
		if err := Run(seed+int64(i), Shape{Clients: 6, Keys: 3, Ops: 60}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBank(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		sums := int64(testkit.Scale(1000, 10_000/share, 500_000))
		if err := Bank(testkit.Seed(t), 100, sums); err != nil {
			t.Fatal(err)
		}
	})
}
