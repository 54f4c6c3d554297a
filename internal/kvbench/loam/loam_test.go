package loam

import (
	"testing"

	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) {
	for _, d := range Drivers() {
		t.Run(d.Name(), func(t *testing.T) { storetest.Run(t, d) })
	}
}
