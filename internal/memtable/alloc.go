//go:build !race

package memtable

import "github.com/loamdb/loam/internal/offheap"

func allocate(n int) ([]byte, error) { return offheap.TryAlloc(n) }

func release(b []byte) { offheap.Free(b) }
