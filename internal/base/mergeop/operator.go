// Package mergeop is merge operators: the type, the operators known by name, and Fold, which
// collects the operands of a key and lets an operator make a value of them.
//
// Operators are pure and safe for concurrent use. A Fold is used by one goroutine at a
// time.
package mergeop

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
)

// Operator makes values of operands. A database stores the Name and refuses to open with
// another operator while it has operands. The functions must be pure and safe for
// concurrent use; they may keep none of their arguments, nor change them. A panic counts
// as an error.
type Operator struct {
	// Name is written to the MANIFEST.
	Name string
	// Full returns the value of key: existing, nil if there is none, with the operands
	// applied in their order, oldest first. It may append the value to dst, which is
	// empty, to save an allocation. Where it fails, reads of the key fail with its error,
	// and the operands stay as they are.
	Full func(dst, key, existing []byte, operands [][]byte) (value []byte, err error)
	// Partial returns one operand that does what left does and right after it, whatever
	// the existing value is. ok is false where there is none: the two stay two operands.
	// It must be associative. It may append the operand to dst, which is empty. A nil
	// Partial joins none.
	Partial func(dst, key, left, right []byte) (operand []byte, ok bool)
}

// Usable reports why o cannot be an operator.
func (o *Operator) Usable() error {
	if o.Name == "" || o.Full == nil {
		return base.Invalidf("a MergeOperator needs Name and Full")
	}
	return nil
}

// full calls Full. A failure names operator and key, and so does a value that no table holds, for
// which a flush would fail again and again.
func (o *Operator) full(dst, key, existing []byte, operands [][]byte) (value []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
		if err != nil {
			err = fmt.Errorf("%w: %q, key %s: %w", base.ErrMergeFailed, o.Name, quote(key), err)
		}
	}()
	value, err = o.Full(dst[:0], key, existing, operands)
	if err == nil && !base.EntryFits(key, value) {
		return nil, fmt.Errorf("%w: a value of %d bytes", base.ErrTooLarge, len(value))
	}
	return value, err
}

// partial calls Partial. After a panic it returns the panic's error. An operand that is too large
// counts as none.
func (o *Operator) partial(dst, key, left, right []byte) (operand []byte, ok bool, err error) {
	if o.Partial == nil {
		return nil, false, nil
	}
	defer func() {
		if r := recover(); r != nil {
			ok, err = false, fmt.Errorf("%w: %q, key %s: %w", base.ErrMergeFailed, o.Name,
				quote(key), panicked(r))
		}
	}()
	operand, ok = o.Partial(dst[:0], key, left, right)
	return operand, ok && base.EntryFits(key, operand), nil
}

var (
	_ = base.Caller("merge operator", (*Operator).full)
	_ = base.Caller("merge operator", (*Operator).partial)
)

// panicked is the error of a recovered panic. It is no base.Panic, which would make the
// database read-only: nothing of the engine was interrupted.
func panicked(r any) error {
	var c *base.CallbackError
	if err, ok := r.(error); ok && errors.As(err, &c) {
		return c
	}
	return errors.New(base.NewPanic(r).Error())
}

// maxQuoted is how many bytes of a key an error shows.
const maxQuoted = 128

func quote(key []byte) string {
	if len(key) > maxQuoted {
		return fmt.Sprintf("%q... (%d bytes)", key[:maxQuoted], len(key))
	}
	return fmt.Sprintf("%q", key)
}

// Missing is the error for a key that has operands where no operator is known.
func Missing(key []byte) error {
	return fmt.Errorf("%w: key %s has operands", base.ErrNoMergeOperator, quote(key))
}
