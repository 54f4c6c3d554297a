package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loamdb/loam/lsm"
)

// Change is operations that take effect together, if all its conditions hold where it stands in the
// log. It is what a call to write has, and what an entry of the Raft log has:
//
//	version, 1 byte
//	length of the idempotency key, and the key
//	number of conditions; each: length of the key, key, kind, what the kind needs
//	version 2: number of ranges to delete; each: length of the first key, the key, length of the
//	    first key behind the range, the key
//	the batch, in the wire form of lsm.Batch, with puts and deletes only
//
// Numbers are unsigned varints. Ranges are deleted before the batch is written.
type Change struct {
	Once       []byte // the idempotency key; none: empty
	Conditions []Condition
	Ranges     []lsm.Range
	Batch      []byte
}

// A change without ranges has version 1, so that nodes of before apply it, too. An entry of the
// Raft log is a change, or a group of several.
const (
	changeVersion = 1
	rangesVersion = 2
	groupVersion  = 3
)

const (
	// MaxChange is the largest change in bytes.
	MaxChange = 8 << 20
	// MaxOnce is the longest idempotency key in bytes.
	MaxOnce = 255
	// MaxParts bounds the conditions of a change, and its ranges.
	MaxParts = 1 << 16
)

// Condition says what the value of a key has to be.
type Condition struct {
	Key  []byte
	Kind ConditionKind
	Want []byte // the value, or its SHA-256
}

// ConditionKind says how a condition compares.
type ConditionKind byte

// The kinds of conditions.
const (
	IsMissing ConditionKind = iota
	IsValue
	IsSum // for long values
)

// longValue is the length from which on a condition has the SHA-256 of a value.
const longValue = 64

// ConditionOf says that a key has a value; nil: none.
func ConditionOf(key, value []byte) Condition {
	c := Condition{Key: bytes.Clone(key)}
	switch {
	case value == nil:
	case len(value) < longValue:
		c.Kind, c.Want = IsValue, bytes.Clone(value)
	default:
		sum := sha256.Sum256(value)
		c.Kind, c.Want = IsSum, sum[:]
	}
	return c
}

// Holds compares a value with the condition; nil: there is none.
func (c *Condition) Holds(value []byte) bool {
	switch c.Kind {
	case IsMissing:
		return value == nil
	case IsValue:
		return value != nil && bytes.Equal(value, c.Want)
	default:
		sum := sha256.Sum256(value)
		return value != nil && bytes.Equal(sum[:], c.Want)
	}
}

// Encode returns the change as bytes. It fails with lsm.ErrTooLarge above MaxChange and MaxParts,
// and with lsm.ErrInvalidArgument for an idempotency key above MaxOnce and a range that ends before
// it begins.
func (c *Change) Encode() ([]byte, error) {
	switch {
	case len(c.Once) > MaxOnce:
		return nil, fmt.Errorf("an idempotency key has at most %d bytes: %w", MaxOnce,
			lsm.ErrInvalidArgument)
	case len(c.Conditions) > MaxParts || len(c.Ranges) > MaxParts:
		return nil, fmt.Errorf("a change of %d conditions and %d ranges, and at most %d go: %w",
			len(c.Conditions), len(c.Ranges), MaxParts, lsm.ErrTooLarge)
	}
	version := byte(changeVersion)
	if len(c.Ranges) > 0 {
		version = rangesVersion
	}
	b := make([]byte, 0, 16+len(c.Once)+len(c.Batch))
	b = AppendBytes(append(b, version), c.Once)
	b = binary.AppendUvarint(b, uint64(len(c.Conditions)))
	for _, d := range c.Conditions {
		b = append(AppendBytes(b, d.Key), byte(d.Kind))
		if d.Kind != IsMissing {
			b = AppendBytes(b, d.Want)
		}
	}
	if version == rangesVersion {
		b = binary.AppendUvarint(b, uint64(len(c.Ranges)))
		for _, r := range c.Ranges {
			if bytes.Compare(r.Start, r.Limit) > 0 {
				return nil, fmt.Errorf("a range that ends before it begins: %w",
					lsm.ErrInvalidArgument)
			}
			b = AppendBytes(AppendBytes(b, r.Start), r.Limit)
		}
	}
	if b = append(b, c.Batch...); len(b) > MaxChange {
		return nil, fmt.Errorf("a change of %d bytes, and at most %d go: cut it: %w", len(b),
			MaxChange, lsm.ErrTooLarge)
	}
	return b, nil
}

// ErrMalformed says that bytes are no change, or no frame.
var ErrMalformed = errors.New("malformed")

// DecodeChange reads a change, whose slices lie in b. It checks everything but the batch. A newer
// version is lsm.ErrNewerFormat.
func DecodeChange(b []byte) (*Change, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w change", ErrMalformed)
	}
	version := b[0]
	if version != changeVersion && version != rangesVersion {
		return nil, fmt.Errorf("change of version %d: upgrade this node: %w", version,
			lsm.ErrNewerFormat)
	}
	r, c := Fields{Rest: b[1:]}, &Change{}
	c.Once = r.Bytes()
	for n := r.parts(); n > 0 && !r.Bad; n-- {
		d := Condition{Key: r.Bytes(), Kind: ConditionKind(r.One())}
		if d.Kind > IsSum {
			r.Bad = true
		}
		if d.Kind != IsMissing {
			d.Want = r.Bytes()
		}
		c.Conditions = append(c.Conditions, d)
	}
	if version == rangesVersion {
		for n := r.parts(); n > 0 && !r.Bad; n-- {
			d := lsm.Range{Start: r.Bytes(), Limit: r.Bytes()}
			if bytes.Compare(d.Start, d.Limit) > 0 {
				r.Bad = true
			}
			c.Ranges = append(c.Ranges, d)
		}
	}
	if c.Batch = r.Rest; r.Bad || len(c.Once) > MaxOnce {
		return nil, fmt.Errorf("%w change", ErrMalformed)
	}
	return c, nil
}

// AppendGroup appends the entry of several changes, which take effect one after the other, by the
// index of the entry: version, 1 byte; number of changes; each: its length, and the change.
func AppendGroup(dst []byte, changes [][]byte) []byte {
	dst = binary.AppendUvarint(append(dst, groupVersion), uint64(len(changes)))
	for _, c := range changes {
		dst = AppendBytes(dst, c)
	}
	return dst
}

// DecodeEntry reads the changes of an entry of the Raft log, one at least, whose slices lie in b.
func DecodeEntry(b []byte) ([]*Change, error) {
	if len(b) == 0 || b[0] != groupVersion {
		c, err := DecodeChange(b)
		return []*Change{c}, err
	}
	f := Fields{Rest: b[1:]}
	n := f.parts()
	changes := make([]*Change, 0, min(n, uint64(len(b))))
	for ; n > 0 && !f.Bad; n-- {
		c, err := DecodeChange(f.Bytes())
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	if f.Bad || len(f.Rest) > 0 || len(changes) == 0 {
		return nil, fmt.Errorf("%w group of changes", ErrMalformed)
	}
	return changes, nil
}

// parts reads how many conditions or ranges follow.
func (f *Fields) parts() uint64 {
	n := f.Number()
	if n > MaxParts {
		f.Rest, f.Bad = nil, true
		return 0
	}
	return n
}
