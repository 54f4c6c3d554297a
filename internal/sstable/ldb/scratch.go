package ldb

import (
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/block"
)

// scratch is the memory that turning a stored block into a view takes: the
// bytes of the file, the decompressed rows, and, for views that do not go into
// the cache, the view.
type scratch struct {
	file, raw, view block.Buffer
}

// What a scratch keeps while nobody uses it.
const (
	keepFile = 2 * readAhead
	keepRaw  = 64 << 10
	maxIdle  = 16
)

// idle holds scratches between uses, as long as any Reader is open.
var idle struct {
	sync.Mutex
	list []*scratch
}

var openReaders atomic.Int64

func getScratch() *scratch {
	idle.Lock()
	defer idle.Unlock()
	if n := len(idle.list); n > 0 {
		s := idle.list[n-1]
		idle.list = idle.list[:n-1]
		return s
	}
	return new(scratch)
}

func putScratch(s *scratch) {
	s.file.Trim(keepFile)
	s.raw.Trim(keepRaw)
	s.view.Trim(keepRaw)
	idle.Lock()
	if len(idle.list) < maxIdle && openReaders.Load() > 0 {
		idle.list = append(idle.list, s)
		s = nil
	}
	idle.Unlock()
	if s != nil {
		s.free()
	}
}

func (s *scratch) free() {
	s.file.Free()
	s.raw.Free()
	s.view.Free()
}

// readerClosed frees the idle scratches with the last Reader.
func readerClosed() {
	idle.Lock()
	defer idle.Unlock()
	if openReaders.Add(-1) > 0 {
		return
	}
	for _, s := range idle.list {
		s.free()
	}
	idle.list = nil
}
