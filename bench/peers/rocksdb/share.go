//go:build cgo && rocksdb

package rocksdb

/*
#include "share.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/loamdb/loam/internal/workload/store"
)

// share is a cache, which memtables are charged to, of several databases.
type share struct {
	cache   *C.rocksdb_cache_t
	buffers unsafe.Pointer // a WriteBufferManager
	users   int
}

// OpenShared gives half of the memory to memtables, at most, and has indexes and filters in the
// cache, too. Writes are not stalled for it, as is the default.
func (Driver) OpenShared(dirs []string, memory int64, c store.Config) ([]store.Store, error) {
	if C.kv_can_share() == 0 {
		return nil, fmt.Errorf("this library gives C no WriteBufferManager: %w",
			errors.ErrUnsupported)
	}
	s := &share{cache: C.kv_cache_of(C.size_t(memory))}
	s.buffers = C.kv_buffers(C.size_t(memory/2), s.cache)
	s.users++
	defer s.leave()
	var all []store.Store
	for _, dir := range dirs {
		d, err := open(dir, c, s)
		if err != nil {
			return all, err
		}
		all = append(all, d)
	}
	return all, nil
}

// join comes before the table's options are taken over.
func (s *share) join(d *database) {
	s.users++
	d.share, d.cache = s, s.cache
	C.rocksdb_block_based_options_set_cache_index_and_filter_blocks(d.table, 1)
	C.kv_use_buffers(d.options, s.buffers)
}

// leave gives the memory back with the last database.
func (s *share) leave() {
	if s.users--; s.users > 0 {
		return
	}
	C.kv_free_buffers(s.buffers)
	C.rocksdb_cache_destroy(s.cache)
}
