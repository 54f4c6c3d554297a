package alike

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// TestDamageIsSeenAlike damages each 21st byte of a database of each shape.
func TestDamageIsSeenAlike(t *testing.T) {
	for _, shape := range Shapes {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			seed, bad := testkit.Seed(t), 0
			n, err := Run(shape, seed, testkit.Scale(21, 21, 1), testkit.Full(),
				func(d Damage, why string) bool {
					t.Errorf("seed %d, %v: %s", seed, d, why)
					bad++
					return bad < 20
				})
			if err != nil || n < testkit.Scale(30, 30, 1000) {
				t.Error(n, err)
			}
			t.Logf("%d damages", n)
		})
	}
}
