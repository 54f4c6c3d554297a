package lsm

import (
	"errors"
	"strings"

	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/base/options"
	"github.com/loamdb/loam/internal/store"
)

// MergeOperator makes a value of operands, see DB.Merge. Its functions must be pure and safe for
// concurrent use, and must not keep or change their arguments. A panic in them counts as an error.
//
// No lock is held while they run, but in the background flushes and compactions wait for them:
// they may read other keys, and calls that would wait for them fail with ErrInUse.
type MergeOperator struct {
	// Name is stored: a keyspace that has operands opens only with their operator. It is required.
	Name string
	// Full returns the value of key: existing, nil if there is none, with the operands applied in
	// their order, oldest first. It may append the value to dst, which is empty, to save an
	// allocation. Where it returns an error, reads of the key fail with ErrMergeFailed, and the
	// operands stay. It is required.
	Full func(dst, key, existing []byte, operands [][]byte) (value []byte, err error)
	// Partial returns one operand that does what left does and right after it, whatever the
	// existing value is; with ok false the two stay two operands. It must be associative. It may
	// append the operand to dst, which is empty. The default, nil, joins none.
	Partial func(dst, key, left, right []byte) (operand []byte, ok bool)
}

// MergeOperatorNamed finds one of the operators that are known by name, which Options.Set takes:
// uint64add, int64add, max, min, append, append:DELIMITER and json_merge. Other names return nil.
func MergeOperatorNamed(name string) *MergeOperator {
	op, _ := mergeop.Named(name)
	return (*MergeOperator)(op)
}

// usable reports why op cannot be an operator.
func (op *MergeOperator) usable() error { return (*mergeop.Operator)(op).Usable() }

// mergeOperatorField is an option that takes a merge operator by its name.
func mergeOperatorField(op **MergeOperator) options.Named {
	const none = "none"
	named := options.Pointer(op, none, func(op *MergeOperator) string { return op.Name },
		func(name string) (*MergeOperator, error) {
			found, names := mergeop.Named(name)
			if found == nil && name != none {
				return nil, errors.New("want none or one of " + strings.Join(names, ", ") +
					", or set Options.MergeOperator")
			}
			return (*MergeOperator)(found), nil
		})
	named.Check = func() error {
		if *op == nil {
			return nil
		}
		return (*op).usable()
	}
	return named
}

// Merge adds an operand to key: the key's new value is what the merge operator makes of the old one
// and the operand. It reads nothing and costs as much as a Put; reads, and later flushes and
// compactions, apply the operands. Both slices are copied.
//
// It fails as Put does, with ErrNeedsNative in LevelDB's format, and with ErrNoMergeOperator where
// the keyspace has no operator. The operator sees the operand when the key is read: where it fails,
// reads of the key fail with ErrMergeFailed, until a Put or Delete.
func (k *keyspace) Merge(key, operand []byte, mode WriteMode) error {
	if len(key) > maxBatchSize/2 || len(operand) > maxBatchSize-len(key)-64 {
		return store.TooLarge("key and operand", len(key)+len(operand))
	}
	return k.space.Merge(key, operand, mode.commit())
}
