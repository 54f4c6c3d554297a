package callbacks

import (
	"errors"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

// TestCallbacks plays a sample of the calls; in the full run many more.
func TestCallbacks(t *testing.T) { testkit.EachFormat(t, testCallbacks) }

func testCallbacks(t *testing.T, share int) {
	sites := int64(24 / share)
	if testkit.Full() {
		sites = 400
	}
	n, err := All(testkit.Seed(t), sites)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d lives", n)
}

// TestCalls has every callback make every call: those that wait for the callback fail with ErrInUse
// at once, and the others are answered.
func TestCalls(t *testing.T) {
	for _, p := range Asked {
		for _, c := range Calls {
			answer, made, err := Try(p, c)
			if err != nil || !made {
				t.Fatalf("%s in a %v: made %v, %v", c.Name, p, made, err)
			}
			switch refused := c.Waits && (p == Merge || p == Filter); {
			case refused != errors.Is(answer, lsm.ErrInUse):
				t.Errorf("%s in a %v answers %v", c.Name, p, answer)
			case !refused && answer != nil && !errors.Is(answer, lsm.ErrClosed):
				t.Errorf("%s in a %v: %v", c.Name, p, answer)
			}
		}
	}
}
