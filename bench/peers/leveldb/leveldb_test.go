//go:build cgo && leveldb

package leveldb

import (
	"testing"

	"github.com/loamdb/loam/internal/workload/store/storetest"
)

func TestDriver(t *testing.T) { storetest.Run(t, Driver{}) }

func TestFlushIsNoCompaction(t *testing.T) { storetest.FlushKeepsTables(t, Driver{}) }
