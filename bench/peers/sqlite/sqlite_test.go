//go:build cgo && sqlite

package sqlite

import (
	"testing"

	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) { storetest.Run(t, Driver{}) }
