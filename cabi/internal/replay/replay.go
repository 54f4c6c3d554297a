// Package replay puts the operations of batches into tables and loads.
package replay

import (
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/lsm"
)

// IntoTable adds the operations of a batch in wire form to a table.
func IntoTable(w *lsm.TableWriter, batch []byte) error {
	return each(batch, func(kind base.Kind, key, value []byte) error {
		switch kind {
		case base.KindSet:
			return w.Put(key, value)
		case base.KindDelete:
			return w.Delete(key)
		case base.KindRangeDelete:
			return w.DeleteRange(key, value)
		case base.KindSetExpiring:
			if user, deadline, ok := base.CutDeadline(value); ok && deadline&base.Relative != 0 {
				return w.PutTTL(key, user, time.Duration(deadline&^base.Relative)*time.Second)
			}
		}
		return fmt.Errorf("%w: a %v cannot be in a table that is ingested", lsm.ErrInvalidArgument,
			kind)
	})
}

// IntoBulkLoad adds the puts of a batch in wire form, which has nothing else, to a load.
func IntoBulkLoad(l *lsm.BulkLoader, batch []byte) error {
	return each(batch, func(kind base.Kind, key, value []byte) error {
		if kind != base.KindSet {
			return fmt.Errorf("%w: a %v cannot be loaded, only values can", lsm.ErrInvalidArgument,
				kind)
		}
		return l.Put(key, value)
	})
}

// each calls f with the operations of a batch in wire form, which name no keyspace.
func each(repr []byte, f func(kind base.Kind, key, value []byte) error) error {
	none := func(base.KeyspaceID) bool { return false }
	if err := batchrepr.Validate(repr, none); err != nil {
		return fmt.Errorf("%w: batch: %w", lsm.ErrInvalidArgument, err)
	}
	for it := batchrepr.Read(repr); ; {
		_, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		if err := f(kind, key, value); err != nil {
			return err
		}
	}
}
