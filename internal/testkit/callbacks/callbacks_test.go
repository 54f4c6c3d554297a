package callbacks

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit"
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
