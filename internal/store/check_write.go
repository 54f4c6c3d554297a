package store

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
)

// CheckWrite says why the keyspace cannot hold a write: LevelDB's format has no such kind, a
// merge has no operator, or a range delete, from key up to value, starts behind its limit.
func (k *Keyspace) CheckWrite(kind base.Kind, key, value []byte) error {
	if kind == base.KindRangeDelete {
		if err := k.checkRange(key, value); err != nil {
			return err
		}
	}
	if !kind.InLevelDB() && !k.db.Native() {
		return base.NeedsNative("a " + kind.String())
	}
	if kind == base.KindMerge {
		return k.mergeable()
	}
	return nil
}

// checkRange fails if a range starts behind its limit.
func (k *Keyspace) checkRange(start, limit []byte) (err error) {
	defer k.db.health.CatchPanic(&err)
	if k.Tree.Comparer().Cmp(start, limit) > 0 {
		return base.Invalidf("a range delete starts behind its limit: %.40q, %.40q", start, limit)
	}
	return nil
}

// mergeable fails if the keyspace has no merge operator.
func (k *Keyspace) mergeable() error {
	if k.Tree.Merge() == nil {
		return fmt.Errorf("%w: keyspace %q needs one in its options before Merge",
			base.ErrNoMergeOperator, k.Tree.Name())
	}
	return nil
}
