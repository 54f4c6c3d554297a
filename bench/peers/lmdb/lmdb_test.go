//go:build cgo && lmdb

package lmdb

import (
	"testing"

	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) { storetest.Run(t, Driver{}) }
