package server

import (
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/replica/internal/wire"
)

// counts are the metrics of the port.
type counts struct {
	clients   atomic.Int64 // connected now
	refused   atomic.Int64
	malformed atomic.Int64
	shed      atomic.Int64
	calls     [wire.Operations]callCounts // at 0: unknown operations
}

type callCounts struct {
	answered, failed atomic.Int64
	nanoseconds      atomic.Int64
}

// note counts a call that is answered.
func (n *counts) note(x *call, err error) {
	op := x.Op
	if op >= wire.Operations {
		op = 0
	}
	of := &n.calls[op]
	of.answered.Add(1)
	of.nanoseconds.Add(int64(time.Since(x.began)))
	if err != nil {
		of.failed.Add(1)
	}
}
