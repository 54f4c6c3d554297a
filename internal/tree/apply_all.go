package tree

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// ApplyAll inserts a batch into the trees that it writes to, which find returns. If a
// keyspace was dropped after the batch was checked, find returns nil: the operations on it
// count as written before the drop, and are left out. Commit leader only.
func ApplyAll(find func(base.KeyspaceID) *Tree, batch []byte, seq base.SeqNum) error {
	if id, one := soleKeyspace(batch); one {
		if t := find(id); t != nil {
			return t.Apply(batch, seq)
		}
		return nil
	}
	for it := batchrepr.Read(batch); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if t := find(id); t != nil {
			if err := t.Add(seq, kind, key, value); err != nil {
				return err
			}
		}
	}
}

// soleKeyspace returns the keyspace that all entries of a batch name, if there is
// one.
func soleKeyspace(batch []byte) (sole base.KeyspaceID, one bool) {
	it := batchrepr.Read(batch)
	sole, _, _, _, _ = it.Next()
	for {
		id, _, _, _, ok := it.Next()
		if !ok {
			return sole, true
		}
		if id != sole {
			return 0, false
		}
	}
}
